// Launch numbers by compute capability (major * 100 + minor * 10, as __CUDA_ARCH__). Results never
// depend on them. None has been measured on a device yet: they are what ptxas needs to spill nothing
// (nvcc 13.0, sm_80 to sm_120). With two blocks each thread of the widest instance has 100 bytes and
// more under way: twice what hides the latency of memory at 4.3 TB/s.
#pragma once

namespace talus::cuda {

inline constexpr int kThreads = 256;     // of an element pass
inline constexpr int kSumThreads = 128;  // of a pass with sums: a warp a tile, 4 tiles are a chunk
inline constexpr int kFoldThreads = 256;
inline constexpr int kRowThreads = 32;  // a row of an embedding is about as long

#if defined(__CUDA_ARCH__)
inline constexpr int kArch = __CUDA_ARCH__;
#else
inline constexpr int kArch = 900;
#endif

enum class Instance { direct, mixed, f64 };  // all operands f32; any mix; any mix, computed in f64

// Blocks of kThreads that must fit on a multiprocessor. 4 leave a thread 64 registers, 3: 80,
// 2: 128, 1: 255.
constexpr int resident_blocks(int arch, Instance instance, int operands) {
  if (arch < 800) return 1;
  if (instance == Instance::f64) return operands > 3 ? 1 : 2;
  if (instance == Instance::mixed) return operands > 2 ? 2 : 3;
  return operands > (arch < 900 ? 3 : 4) ? 3 : 4;
}

}  // namespace talus::cuda
