// Runs numbered chunks on a pool or on the host's own loop: one contiguous span per worker, then
// stealing from the far end of the others. Which worker runs a chunk never changes a result.
//
// Spans, not a shared counter: two cores that take neighbouring chunks in turn share every memory
// stream and defeat the prefetchers (25-45 % lost at 4Ki-parameter chunks, 2-core Zen 5,
// 2026-11-30). Stealing keeps the balance when a core is taken away.
#pragma once
#include <talus.h>

#include <cstdint>
#include <memory>

#include "lib/cpu/thread_pool.h"

namespace talus {

inline constexpr int kMaxThreads = 256;

using ChunkBody = void (*)(void* context, int64_t chunk);

class ChunkRunner {
 public:
  // host NULL: the library's own threads, started at the first run that is worth them.
  void configure(int threads, talus_parallel_for host, void* host_user);

  // Calls body(context, c) once for each 0 <= c < chunks, each thread in the library's
  // floating-point environment. Below `serial_below` chunks the library's own threads are not worth
  // waking.
  void run(int64_t chunks, int64_t serial_below, ChunkBody body, void* context);

 private:
  int threads_ = 1;
  talus_parallel_for host_ = nullptr;
  void* host_user_ = nullptr;
  std::unique_ptr<ThreadPool> pool_;
};

// Processors that this process may use: affinity mask and cgroup quota, 1 .. kMaxThreads.
int usable_threads();

}  // namespace talus
