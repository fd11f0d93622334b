// The floating-point control word of a thread, for tests that play a host with flush-to-zero.
#pragma once
#include <cstdint>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace talus::test {

#if defined(__SSE2__)
inline constexpr uint64_t kFlushWays[] = {0x8000, 0x0040, 0x8040};  // FTZ, DAZ, both
inline constexpr uint64_t kFlush = 0x8040;
inline uint64_t float_control() { return _mm_getcsr(); }
inline void set_float_control(uint64_t word) { _mm_setcsr(unsigned(word)); }
#elif defined(__aarch64__)
inline constexpr uint64_t kFlushWays[] = {1 << 24};  // FZ
inline constexpr uint64_t kFlush = 1 << 24;
inline uint64_t float_control() {
  uint64_t word;
  asm volatile("mrs %0, fpcr" : "=r"(word)::"memory");
  return word;
}
inline void set_float_control(uint64_t word) {
  asm volatile("msr fpcr, %0" ::"r"(word) : "memory");
}
#endif

}  // namespace talus::test
