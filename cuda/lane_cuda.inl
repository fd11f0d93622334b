// The lane of a CUDA thread, V = float or double: IEEE division and roots under the flags of
// meson.build, which are the ones of the CPU. Compiles for the host too, where TALUS_FN is plain. No
// include guard: compiled in the namespace of the kernels.

TALUS_FN float sqrt(float x) { return __builtin_sqrtf(x); }
TALUS_FN double sqrt(double x) { return __builtin_sqrt(x); }
TALUS_FN float abs(float x) { return __builtin_fabsf(x); }
TALUS_FN double abs(double x) { return __builtin_fabs(x); }
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
