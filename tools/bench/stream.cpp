#include "tools/bench/stream.h"

#include <algorithm>
#include <cstring>

#include "lib/table/chunk_plan.h"
#include "tools/bench/paired.h"

namespace bench {
namespace {

constexpr int kRounds = 4;
constexpr uint64_t kMostBytes = uint64_t{768} << 20;  // enough beside any cache below
constexpr int64_t kChunkBytes = talus::kChunk * int64_t(sizeof(float));

void copy(float* a, const float* b, int64_t n) { std::memcpy(a, b, size_t(n) * sizeof(float)); }

struct Pass {
  void (*function)(float* a, const float* b, int64_t n);
  float *a, *b;
};

}  // namespace

uint64_t stream_buffer_bytes(uint64_t case_bytes) {
  const uint64_t cache = cache_bytes();
  if (case_bytes < cache + cache / 4) return 0;
  return std::min(case_bytes, std::max(kMostBytes, 4 * cache));
}

Stream::Stream(const RoofTable& kernels, int threads, uint64_t bytes, Counted counted)
    : kernels_(kernels),
      chunks_(std::max<int64_t>(int64_t(bytes / 2) / kChunkBytes, 1)),
      a_(huge_memory(uint64_t(chunks_ * kChunkBytes))),
      b_(huge_memory(uint64_t(chunks_ * kChunkBytes))) {
  runner_.configure(threads, nullptr, nullptr);
  const double array = double(chunks_ * kChunkBytes);
  copy_bytes_ = counted == Counted::read ? array : 2 * array;
  triad_bytes_ = counted == Counted::read ? 2 * array : 3 * array;
  std::memset(a_.get(), 0, size_t(chunks_ * kChunkBytes));
  std::memset(b_.get(), 0, size_t(chunks_ * kChunkBytes));
}

void Stream::measure() {
  for (int i = 0; i < kRounds; ++i) {
    best_gb_per_s_ = std::max(best_gb_per_s_, copy_bytes_ * 1e-9 / time_pass(copy));
    best_gb_per_s_ = std::max(best_gb_per_s_, triad_bytes_ * 1e-9 / time_pass(kernels_.triad));
  }
}

double Stream::time_pass(void (*function)(float* a, const float* b, int64_t n)) {
  Pass pass{function, reinterpret_cast<float*>(a_.get()), reinterpret_cast<float*>(b_.get())};
  const double start = wall_seconds();
  runner_.run(
      chunks_, 0,
      [](void* context, int64_t chunk) {
        const Pass& p = *static_cast<const Pass*>(context);
        p.function(p.a + chunk * talus::kChunk, p.b + chunk * talus::kChunk, talus::kChunk);
      },
      &pass);
  return wall_seconds() - start;
}

}  // namespace bench
