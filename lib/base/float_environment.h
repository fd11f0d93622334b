// Scope in which this thread rounds to nearest, keeps subnormals and takes no floating-point traps,
// whatever its owner has set.
#pragma once
#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace talus {

// Every thread that takes part in a step holds one; the owner's control word comes back at the end.
// Results are to be stored within the scope: an operation whose result is only returned may be moved
// past the end by the compiler.
class FloatEnvironment {
 public:
  FloatEnvironment() : saved_(read()) {
    if (wanted() != saved_) write(wanted());
  }
  ~FloatEnvironment() {
    if (wanted() != saved_) write(saved_);
  }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
#if defined(__x86_64__)
  using Word = uint32_t;
  static constexpr Word kClear = 0x8000 | 0x6000 | 0x0040;  // FTZ, rounding mode, DAZ
  static constexpr Word kSet = 0x1f80;                      // all exceptions masked
  static Word read() { return _mm_getcsr(); }
  static void write(Word word) { _mm_setcsr(word); }
#elif defined(__aarch64__)
  using Word = uint64_t;
  // FZ, rounding mode, traps, and what FEAT_AFP adds: FIZ, AH, NEP.
  static constexpr Word kClear = Word{7} << 22 | Word{0x9f} << 8 | 7;
  static constexpr Word kSet = 0;
  static Word read() {
    Word word;
    asm volatile("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void write(Word word) { asm volatile("msr fpcr, %0" ::"r"(word) : "memory"); }
#else
#error "talus: how to read the floating-point control word of this CPU is not known"
#endif
  Word wanted() const { return (saved_ & ~kClear) | kSet; }
  Word saved_;
};

}  // namespace talus
