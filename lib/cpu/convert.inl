// Loads and stores of blocks of any dtype as the compute type: the only code of a target that knows
// dtypes. No include guard: compiled in the namespace of its target.

template <class T>
TALUS_FN T* at(void* data, int64_t i) {
  return static_cast<T*>(data) + i;
}

TALUS_FN void store_one(float x, Bf16* p) { *p = to_bf16(x); }
TALUS_FN void store_one(float x, F16* p) { *p = to_f16(x); }
TALUS_FN void store_one(float x, float* p) { *p = x; }
TALUS_FN void store_one(double x, float* p) { *p = float(x); }
TALUS_FN void store_one(double x, double* p) { *p = x; }
TALUS_FN float load_one(Bf16 x) { return widen(x); }
TALUS_FN float load_one(F16 x) { return widen(x); }
TALUS_FN float load_one(float x) { return x; }
TALUS_FN double load_one(double x) { return x; }

// f16 where the target has the instructions; the rest the compiler vectorises by itself.
template <class Half, class T>
inline constexpr bool kHasVectorForm = sizeof(Half) == 2 && sizeof(T) == 4 &&
                                       (TALUS_F16C || kDtypeOf<Half> == Dtype::bf16);

template <class From, class T>
TALUS_FN void load_some(const From* from, int64_t n, T* to) {
  int64_t i = 0;
#if TALUS_BF16_SPANS
  if constexpr (kDtypeOf<From> == Dtype::bf16 && sizeof(T) == 4)
    for (; i + kSpan <= n; i += kSpan) widen_span(from + i, to + i);
#endif
  if constexpr (kHasVectorForm<From, T>)
    for (; i + kLanes<float> <= n; i += kLanes<float>)
      Whole<float>().store(widen_vector(from + i), to + i);
  for (; i < n; ++i) to[i] = T(load_one(from[i]));
}
template <class From, class T>
void load_elements(const From* from, int64_t n, int64_t left, T* to) {
  for (int64_t i = 0; i < n; i += kAsk) {
    prefetch(from + i, left - i);
    load_some(from + i, ask_end(i, n) - i, to + i);
  }
}
template <class T, class To>
TALUS_FN void store_some(const T* from, int64_t n, To* to) {
  int64_t i = 0;
#if TALUS_BF16_SPANS
  if constexpr (kDtypeOf<To> == Dtype::bf16 && sizeof(T) == 4)
    for (; i + kSpan <= n; i += kSpan) narrow_span(from + i, to + i);
#endif
  if constexpr (kHasVectorForm<To, T>)
    for (; i + kLanes<float> <= n; i += kLanes<float>)
      narrow_vector(Whole<float>().load(from + i), to + i);
  for (; i < n; ++i) store_one(from[i], to + i);
}
template <class T, class To>
void store_elements(const T* from, int64_t n, int64_t left, To* to) {
  for (int64_t i = 0; i < n; i += kAsk) {
    prefetch(to + i, left - i);
    store_some(from + i, ask_end(i, n) - i, to + i);
  }
}

// Elements [i, i + n) of a tensor as T = float or double; `left`: elements from i to its end.
template <class T>
[[gnu::noinline]] void load_block(void* data, Dtype dtype, int64_t i, int64_t n, int64_t left,
                                  T* to) {
  switch (dtype) {
    case Dtype::f32: return load_elements(at<float>(data, i), n, left, to);
    case Dtype::bf16: return load_elements(at<Bf16>(data, i), n, left, to);
    case Dtype::f16: return load_elements(at<F16>(data, i), n, left, to);
    case Dtype::f64: return load_elements(at<double>(data, i), n, left, to);
  }
}

// Rounds once. f32 is never stored as f64, and f64 as f64 or f32 only: 16 bits would be reached by
// rounding twice. Such mixes are refused when a parameter is added.
template <class T>
[[gnu::noinline]] void store_block(void* data, Dtype dtype, int64_t i, int64_t n, int64_t left,
                                   const T* from) {
  if constexpr (sizeof(T) == 8) {
    if (dtype == Dtype::f64) return store_elements(from, n, left, at<double>(data, i));
    return store_elements(from, n, left, at<float>(data, i));
  } else {
    switch (dtype) {
      case Dtype::f32: return store_elements(from, n, left, at<float>(data, i));
      case Dtype::bf16: return store_elements(from, n, left, at<Bf16>(data, i));
      case Dtype::f16: return store_elements(from, n, left, at<F16>(data, i));
      case Dtype::f64: return;
    }
  }
}

// What a gradient is as it enters a step. kMarks: one that is not finite stays as it is, for the sums
// that must not miss it behind the cut.
template <bool kMarks, class T>
[[gnu::noinline]] void enter_block(const GradientEntry& entry, int64_t n, T* x) {
  const T factor = T(entry.factor), limit = T(entry.limit);
  constexpr T kLargest = sizeof(T) == 8 ? T(0x1.fffffffffffffp+1023) : T(0x1.fffffep+127);
  for (int64_t i = 0; i < n; ++i) {
    const T whole = x[i] * factor;
    T cut = whole > limit ? limit : whole;
    cut = cut < -limit ? -limit : cut;
    const T magnitude = whole < 0 ? -whole : whole;
    x[i] = kMarks && !(magnitude <= kLargest) ? whole : cut;
  }
}
