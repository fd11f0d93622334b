// What checks the roof: a copy and a triad on as many threads in the same run. A roof that is slow
// itself would flatter every ratio.
#pragma once
#include <cstdint>

#include "lib/cpu/chunk_runner.h"
#include "tools/bench/memory.h"
#include "tools/bench/roof_kernels.h"

namespace bench {

inline constexpr double kLeastRoof = 0.9;  // of the stream; below, the roof is at fault

// Bytes of buffers for a case that touches `case_bytes`: about as many. 0: no check, because most
// of the case may lie in the cache. There short tensors and arithmetic bind roof and case, not the
// memory, and a copy is no measure of either.
uint64_t stream_buffer_bytes(uint64_t case_bytes);

// The better of two, each counted as what it reads and writes:
//   copy   memcpy of one chunk after the other, 2 bytes counted for each copied. Chunks are shorter
//          than what a C library moves past the cache: no kernel that reads what it writes can
//          be as fast as such a copy, and what nothing can reach says nothing of the roof.
//   triad  a = a + s * b, 12 bytes counted for each element. In place, as every optimizer step is:
//          then all that is counted is all that moves, as in the roof. In the usual form, a = b + s
//          * c, each line of a is fetched and not counted, and a roof slower by a quarter passes.
// For a roof that only reads, what the two read is counted alone: a core waits for the lines it
// fetches, and writes leave beside them (read 15.6 GB/s, triad 23.7, of which 15.8 are read;
// `talus bench --norm`, 1 thread, 400 MB, Intel Xeon with AVX-512, 2026-11-30).
class Stream {
 public:
  enum class Counted { read_and_written, read };
  Stream(const RoofTable& kernels, int threads, uint64_t bytes, Counted counted);

  void measure();  // some rounds of both
  double best_gb_per_s() const { return best_gb_per_s_; }

 private:
  double time_pass(void (*pass)(float* a, const float* b, int64_t n));

  const RoofTable& kernels_;
  talus::ChunkRunner runner_;
  int64_t chunks_;
  HugeMemory a_, b_;
  double copy_bytes_, triad_bytes_;  // of one round
  double best_gb_per_s_ = 0;
};

}  // namespace bench
