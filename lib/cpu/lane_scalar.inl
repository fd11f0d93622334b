// The lane of one element, V = float or double: the reference arithmetic, what a target without
// vectors runs, and the tails of one without masked access. No include guard: compiled in the namespace of its target.

TALUS_FN float sqrt(float x) { return __builtin_sqrtf(x); }
TALUS_FN double sqrt(double x) { return __builtin_sqrt(x); }
template <class T>
TALUS_FN T quotient(T a, T divisor) {
  return a / divisor;
}
template <class T>
TALUS_FN T quotient_of_any(T a, T divisor) {
  return a / divisor;
}
template <class T>
TALUS_FN T select(bool yes, T a, T b) {
  return yes ? a : b;
}

// One element at a pointer.
template <class T>
struct One {
  using V = T;
  TALUS_FN V load(const T* p) const { return *p; }
  TALUS_FN void store(V x, T* p) const { *p = x; }
  TALUS_FN V valid(V x) const { return x; }
};

#if TALUS_SCALAR_TARGET  // the vocabulary of lane_hwy.inl with vectors of one element
template <class T>
using Vec = T;
template <class T>
inline constexpr int64_t kLanes = 1;
template <class T>
using Whole = One<T>;
#define TALUS_MASKED_TAIL 0
#define TALUS_F16C 0
#define TALUS_BF16_SPANS 0
TALUS_FN float abs(float x) { return __builtin_fabsf(x); }
TALUS_FN double abs(double x) { return __builtin_fabs(x); }
TALUS_FN float widen_vector(const Bf16* p) { return widen(*p); }
TALUS_FN void narrow_vector(float x, Bf16* p) { *p = to_bf16(x); }
TALUS_FN double load_f64(const double* p) { return *p; }
TALUS_FN double load_f64(const float* p) { return *p; }
TALUS_FN double load_f64(const Bf16* p) { return widen(*p); }
template <class T, class Compute>
TALUS_FN double load_f64(const T* p, Compute factor) {
  return double(Compute(load_f64(p)) * factor);
}
#endif
