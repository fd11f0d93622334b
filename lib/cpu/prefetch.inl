// Asking for memory before it is used. Where the roots and quotients of a rule fill the processor's
// window, it runs too few loads ahead by itself, and its own prefetchers stop at each page; a sum
// does so little that it only waits. One step over 100M f32 parameters went from 0.86 of a roof
// without prefetching to 1.06 (the roof itself gains 0.08), the norm of f32 from 0.63 to 0.92; one
// distance alone gave 0.97 and 0.80 to 0.89 (1 thread, 2-core Intel Xeon with AVX-512, 2026-11-30).
// Asking for the next tensor too gained nothing at 1,000 elements each and doubled the time of 17.
// No include guard: compiled in the namespace of its target.
inline constexpr int64_t kAsk = 64;  // elements asked for at once: whole vectors of any target

// Where the elements end that are asked for with i, of n. Not a constant trip count: compilers unroll
// that whole, for each flag of a rule anew, and an object grows threefold.
TALUS_FN int64_t ask_end(int64_t i, int64_t n) { return n - i < kAsk ? n : i + kAsk; }

// Asks for kAsk elements some way behind p: into L1 near by, into the outer cache far ahead. `left`:
// elements from p to the end of the tensor; little is asked for behind it.
template <class T>
TALUS_FN void prefetch(const T* p, int64_t left) {
  constexpr int64_t kNear = 2048, kFar = 16384, kLine = 64, kBytes = kAsk * int64_t(sizeof(T));
  const char* const from = reinterpret_cast<const char*>(p);
  const int64_t bytes = left * int64_t(sizeof(T));
  if (bytes > kNear)
    for (int64_t b = 0; b < kBytes; b += kLine) __builtin_prefetch(from + kNear + b, 0, 3);
  if (bytes > kFar)
    for (int64_t b = 0; b < kBytes; b += kLine) __builtin_prefetch(from + kFar + b, 0, 1);
}
