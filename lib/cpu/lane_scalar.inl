// The lane of one element, V = float or double: the reference arithmetic, and what a target without
// vectors runs. No include guard: compiled in the namespace of its target.

TALUS_FN float sqrt(float x) { return __builtin_sqrtf(x); }
TALUS_FN double sqrt(double x) { return __builtin_sqrt(x); }
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
};

// The vocabulary of a vector lane, with vectors of one element.
template <class T>
using Vec = T;
template <class T>
inline constexpr int64_t kLanes = 1;
template <class T>
using Whole = One<T>;
#define TALUS_MASKED_TAIL 0
