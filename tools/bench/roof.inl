// Roof kernels of one CPU target. Operands of 16 bits are converted in registers, not staged as the
// library does it, so that staging cannot hide in the roof. No include guard: compiled in the
// namespace of its target.

// Loads and stores of whole vectors of T = float or double from elements of any dtype.
template <class T>
struct WholeLanes {
  using V = Vec<T>;
  template <class E>
  TALUS_FN V load(const E* p) const {
    if constexpr (kDtypeOf<E> == kDtypeOf<T>)
      return Whole<T>().load(p);
    else if constexpr (sizeof(T) == 8)
      return load_f64(p);
    else if constexpr (TALUS_SCALAR_TARGET)
      return load_one(*p);
    else
      return widen_vector(p);
  }
  template <class E>
  TALUS_FN void store(V x, E* p) const {
    if constexpr (kDtypeOf<E> == kDtypeOf<T>)
      Whole<T>().store(x, p);
    else if constexpr (TALUS_SCALAR_TARGET)
      store_one(x, p);
    else
      narrow_vector(x, p);
  }
};

template <class T>
struct OneLane {
  using V = T;
  template <class E>
  TALUS_FN T load(const E* p) const {
    return T(load_one(*p));
  }
  template <class E>
  TALUS_FN void store(T x, E* p) const {
    store_one(x, p);
  }
};

// What one roof is for: bit c of kReads and kWrites is column c of the table. T computes, P and G
// are the elements of parameter and gradient; with kMaster the value is T and P its rounded copy.
template <uint32_t kReads, uint32_t kWrites, class T, class P, class G, bool kMaster>
struct Roof {
  using Compute = T;
  using Param = P;
  using Value = std::conditional_t<kMaster, T, P>;
  using Grad = G;
  static constexpr bool kHasMaster = kMaster, kWritesNothing = kWrites == 0;
  static constexpr bool reads(int column) { return kReads >> column & 1; }
  static constexpr bool writes(int column) { return kWrites >> column & 1; }
  template <class E>
  static constexpr bool kVectorForm = !__is_same(E, F16) || TALUS_F16C || TALUS_SCALAR_TARGET;
  static constexpr bool kVectors = kVectorForm<P> && kVectorForm<G>;
  static constexpr bool kMaskedTail =
      TALUS_MASKED_TAIL && !kMaster && __is_same(T, P) && __is_same(T, G);

  Value* value;
  P* visible;
  const G* gradient;
  T* slot[kMaxSlots];
};

template <class V>
TALUS_FN V larger(V a, V b) {
  return select(a > b, a, b);
}

// max, not a sum: a second moment must stay non-negative, or the rule's sqrt is another test.
template <class R, class Access>
TALUS_FN void roof_lanes(const R& to, Access access, int64_t i, typename Access::V& seen) {
  using V = typename Access::V;
  using T = typename R::Compute;
  V x(T(0.001)), value(T(0));
  if constexpr (R::reads(kGradient)) x = access.load(to.gradient + i);
  if constexpr (R::reads(kValue)) value = access.load(to.value + i);
  if constexpr (R::reads(kValue) && !R::writes(kValue)) x = larger(x, value);
  for (int k = 0; k < kMaxSlots; ++k)
    if (R::reads(kFirstSlot + k) && !R::writes(kFirstSlot + k))
      x = larger(x, access.load(to.slot[k] + i));
  for (int k = 0; k < kMaxSlots; ++k) {
    if (!R::writes(kFirstSlot + k)) continue;
    const V next = R::reads(kFirstSlot + k) ? larger(access.load(to.slot[k] + i), x) : x;
    access.store(next, to.slot[k] + i);
  }
  if constexpr (R::writes(kValue)) {
    value = value + x;
    access.store(value, to.value + i);
    if constexpr (R::kHasMaster) access.store(value, to.visible + i);
  }
  if constexpr (R::kWritesNothing) seen = larger(seen, x);
}

// What helps the case helps its roof.
template <class R>
TALUS_FN void prefetch_streams(const R& to, int64_t i, int64_t left) {
  if constexpr (R::reads(kGradient)) prefetch(to.gradient + i, left);
  if constexpr (R::reads(kValue) || R::writes(kValue)) prefetch(to.value + i, left);
  if constexpr (R::writes(kValue) && R::kHasMaster) prefetch(to.visible + i, left);
  for (int k = 0; k < kMaxSlots; ++k)
    if (R::reads(kFirstSlot + k) || R::writes(kFirstSlot + k)) prefetch(to.slot[k] + i, left);
}

// Returns the largest value seen where nothing is stored, so that no read can be left out.
template <class R>
TALUS_FN typename R::Compute roof_span(const R to, int64_t n, int64_t left) {
  using T = typename R::Compute;
  Vec<T> seen(T(0));
  T last(0);
  int64_t i = 0;
  if constexpr (R::kVectors) {
    for (const int64_t whole = n / kLanes<T> * kLanes<T>; i < whole;) {
      prefetch_streams(to, i, left - i);
      for (const int64_t end = ask_end(i, whole); i < end; i += kLanes<T>)
        roof_lanes(to, WholeLanes<T>(), i, seen);
    }
  }
#if TALUS_MASKED_TAIL
  if constexpr (R::kMaskedTail)
    if (i < n) {
      roof_lanes(to, FirstN<T>(n - i), i, seen);
      i = n;
    }
#endif
  for (; i < n; ++i) roof_lanes(to, OneLane<T>(), i, last);
  if constexpr (R::kWritesNothing) {
    T lane[kLanes<T>];
    Whole<T>().store(seen, lane);
    for (const T x : lane) last = larger(last, x);
  }
  return last;
}

template <class R>
void roof_segments(const PassCall& call, const Segment* first, const Segment* last) {
  const TableView& table = call.plan->table;
  for (const Segment* g = first; g != last; ++g) {
    if (table.scalar_class[g->tensor] == kIdle) continue;
    const auto data = [&](int column) { return table.column[column].data[g->tensor]; };
    R to;
    to.value = at<typename R::Value>(data(R::kHasMaster ? kHidden : kValue), g->begin);
    to.visible = at<typename R::Param>(data(kValue), g->begin);
    to.gradient = at<typename R::Grad>(data(kGradient), g->begin);
    for (int k = 0; k < kMaxSlots; ++k)
      if (R::reads(kFirstSlot + k) || R::writes(kFirstSlot + k))
        to.slot[k] = at<typename R::Compute>(data(kFirstSlot + k), g->begin);
    const auto seen = roof_span(to, g->count, table.count[g->tensor] - g->begin);
    if constexpr (R::kWritesNothing) *call.partial(0, g->tensor, g->begin / kTile) = double(seen);
  }
}

// ---- the roof of the norm --------------------------------------------------------------------

// Adds up words: integers, because the bits of two bf16 or f32 may be a subnormal double.
TALUS_FN uint64_t read_bytes(const char* data, int64_t bytes) {
  constexpr int64_t kWord = sizeof(uint64_t), kGroup = TALUS_SCALAR_TARGET ? 32 : 8;
  constexpr int64_t kStep = kGroup * kLanes<uint64_t>;
  const uint64_t* word = reinterpret_cast<const uint64_t*>(data);
  const int64_t words = bytes / kWord;
  Vec<uint64_t> sum[kGroup];
  for (auto& x : sum) x = Vec<uint64_t>(uint64_t{0});
  int64_t i = 0;
  for (; i + kStep <= words; i += kStep)
    for (int64_t k = 0; k < kGroup; ++k)
      sum[k] = sum[k] + Whole<uint64_t>().load(word + i + k * kLanes<uint64_t>);
  uint64_t lane[kStep], total = 0;
  for (int64_t k = 0; k < kGroup; ++k) Whole<uint64_t>().store(sum[k], lane + k * kLanes<uint64_t>);
  for (const uint64_t x : lane) total += x;
  for (; i < words; ++i) total += word[i];
  for (int64_t b = words * kWord; b < bytes; ++b) total += uint8_t(data[b]);
  return total;
}

void read_gradients(const PassCall& call, const Segment* first, const Segment* last) {
  const ColumnView& gradient = call.plan->table.column[kGradient];
  for (const Segment* g = first; g != last; ++g) {
    if (call.plan->table.scalar_class[g->tensor] == kIdle) continue;
    const int64_t size = kDtypes[int(gradient.dtype[g->tensor])].bytes;
    const char* data = static_cast<const char*>(gradient.data[g->tensor]) + g->begin * size;
    *call.partial(0, g->tensor, g->begin / kTile) = double(read_bytes(data, g->count * size));
  }
}

void triad(float* a, const float* b, int64_t n) {
  const Vec<float> scale(1e-7f);
  int64_t i = 0;
  for (; i + kLanes<float> <= n; i += kLanes<float>)
    Whole<float>().store(Whole<float>().load(a + i) + scale * Whole<float>().load(b + i), a + i);
  for (; i < n; ++i) a[i] = a[i] + 1e-7f * b[i];
}

// ---- a roof for every pass of every rule -------------------------------------------------------

// The columns that a pass reads or writes, as bits. Not by index: clang 14 does not know the bound
// of an array in a class template that nothing has asked for before.
template <class Pass>
consteval uint32_t columns_of(bool Use::*which) {
  uint32_t columns = 0;
  int left = Pass::kUseCount;
  for (const Use& use : Pass::kUses)
    if (left-- > 0 && use.*which) columns |= 1u << use.column;
  return columns;
}

template <uint32_t kReads, uint32_t kWrites>
struct Mixes {
  template <class T, class P, class G, bool kMaster>
  static constexpr SegmentsFn kRoof = roof_segments<Roof<kReads, kWrites, T, P, G, kMaster>>;
};
template <>
struct Mixes<0, 0> {  // a fold alone: no streams
  template <class T, class P, class G, bool kMaster>
  static constexpr SegmentsFn kRoof = nullptr;
};

// In the order of mix_of. Passes with the same streams share their kernels.
template <class Pass, class M = Mixes<columns_of<Pass>(&Use::read), columns_of<Pass>(&Use::write)>>
struct PassRoofs {
  static constexpr SegmentsFn kTable[kMixCount] = {
      M::template kRoof<float, float, float, false>,
      nullptr,
      M::template kRoof<float, float, Bf16, false>,
      nullptr,
      M::template kRoof<float, float, F16, false>,
      nullptr,
      M::template kRoof<float, Bf16, float, false>,
      M::template kRoof<float, Bf16, float, true>,
      M::template kRoof<float, Bf16, Bf16, false>,
      M::template kRoof<float, Bf16, Bf16, true>,
      M::template kRoof<float, Bf16, F16, false>,
      M::template kRoof<float, Bf16, F16, true>,
      M::template kRoof<float, F16, float, false>,
      M::template kRoof<float, F16, float, true>,
      M::template kRoof<float, F16, Bf16, false>,
      M::template kRoof<float, F16, Bf16, true>,
      M::template kRoof<float, F16, F16, false>,
      M::template kRoof<float, F16, F16, true>,
      M::template kRoof<double, double, float, false>,
      M::template kRoof<double, double, double, false>};
};

template <class Passes>
struct VariantRoofs;
template <class... Pass>
struct VariantRoofs<List<Pass...>> {
  static constexpr PassRoof kTable[] = {PassRoofs<Pass>::kTable...};
};

template <class Variants>
struct RuleRoofs;
template <class... Passes>
struct RuleRoofs<List<Passes...>> {
  static constexpr VariantRoof kTable[] = {VariantRoofs<Passes>::kTable...};
};

template <class Indices>
struct AllRoofs;
template <int... kRule>
struct AllRoofs<std::integer_sequence<int, kRule...>> {
  static constexpr RuleRoof kTable[] = {
      RuleRoofs<typename RuleAt<kRule>::Type::Variants>::kTable...};
};

inline constexpr RoofTable kRoofs = {TALUS_TARGET_NAME,
                                     AllRoofs<std::make_integer_sequence<int, kRuleCount>>::kTable,
                                     read_gradients, triad};
