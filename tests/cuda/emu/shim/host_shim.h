// Stand-ins for the words of CUDA that kernels use, so that g++ compiles their text and runs them block
// by block, one fiber a thread: __syncthreads and warp shuffles keep their meaning. Include this before
// the kernels, and nothing of CUDA.
//
// Finds wrong indexing, tails and alignment (with UBSan), writes outside of a tensor (with ASan or guard
// elements), missing or divergent barriers, shuffles in divergent code. Blocks run one after another,
// so races between them are invisible here. x86-64 only: the switch of stacks is twelve instructions.
#pragma once
#define TALUS_HOST_SHIM 1

#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <type_traits>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __grid_constant__
#define __forceinline__ inline

// Shared arrays lie in an arena that is NaN at the start of each block. A function's static array would
// not do: without a barrier a block would read what the block before it left, and a sum of such parts can
// still come out right.
#define TALUS_SHARED_ARRAY(T, name, N) T* name = ::host_shim::shared_array<T, N>([] {})
#define TALUS_ASSUME_GLOBAL(p) ((void)0)

namespace host_shim {

// Where a device would hang or read garbage.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Index {
  unsigned x = 0, y = 0, z = 0;
};
extern constinit thread_local Index thread_index, block_index, block_dim, grid_dim;

enum class Wait : uint8_t { running, block, warp, done };

struct Fiber {
  void* stack_pointer = nullptr;
  char* stack = nullptr;
  void* sanitizer_stack = nullptr;
  Wait wait = Wait::running;
  uint32_t mask = 0;       // of the lanes that it waits for
  uint64_t published = 0;  // what it offers to a shuffle
};

struct Scheduler {
  std::vector<Fiber> fibers;
  unsigned current = 0;
  uint64_t seed = 0;  // not 0: blocks and warps take turns in an order drawn from it
};
extern thread_local Scheduler scheduler;

void wait_for(Wait what, uint32_t mask = 0);
std::vector<unsigned> draw_order(unsigned count);
void run_block(unsigned threads, const std::function<void()>& body);  // throws Fault
void* shared_bytes(size_t bytes, uint64_t& epoch, size_t& offset);

template <class T, size_t N, class Tag>  // one Tag, the type of a lambda, for each declaration
T* shared_array(Tag) {
  static thread_local uint64_t epoch = 0;
  static thread_local size_t offset = 0;
  return static_cast<T*>(shared_bytes(N * sizeof(T), epoch, offset));
}

template <class T, class Source>
T shuffle(uint32_t mask, T value, Source source_of) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  const unsigned me = scheduler.current, warp = me & ~31u, lane = me & 31u;
  std::memcpy(&scheduler.fibers[me].published, &value, sizeof value);
  wait_for(Wait::warp, mask);  // every lane of the mask has published
  unsigned source = source_of(lane);
  if (source >= 32 || !((mask >> source) & 1)) source = lane;
  T result;
  std::memcpy(&result, &scheduler.fibers[warp + source].published, sizeof result);
  wait_for(Wait::warp, mask);  // every lane has read
  return result;
}

template <class Kernel, class... Args>
void launch(unsigned grid, unsigned block, Kernel kernel, Args... args) {
  grid_dim = {grid, 1, 1};
  block_dim = {block, 1, 1};
  const std::function<void()> body = [&] { kernel(args...); };
  for (const unsigned b : draw_order(grid)) {
    block_index = {b, 0, 0};
    run_block(block, body);
  }
}

}  // namespace host_shim

#define threadIdx (::host_shim::thread_index)
#define blockIdx (::host_shim::block_index)
#define blockDim (::host_shim::block_dim)
#define gridDim (::host_shim::grid_dim)

inline void __syncthreads() { ::host_shim::wait_for(::host_shim::Wait::block); }
inline void __syncwarp(unsigned mask = 0xffffffffu) {
  ::host_shim::wait_for(::host_shim::Wait::warp, mask);
}
template <class T>
T __shfl_down_sync(unsigned mask, T v, unsigned d) {
  return ::host_shim::shuffle(mask, v, [d](unsigned lane) { return lane + d; });
}
template <class T>
T __shfl_xor_sync(unsigned mask, T v, unsigned d) {
  return ::host_shim::shuffle(mask, v, [d](unsigned lane) { return lane ^ d; });
}
template <class T>
T __shfl_sync(unsigned mask, T v, unsigned s) {
  return ::host_shim::shuffle(mask, v, [s](unsigned) { return s & 31; });
}
