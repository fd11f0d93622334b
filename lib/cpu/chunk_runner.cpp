#include "lib/cpu/chunk_runner.h"

#include <algorithm>

#include "lib/base/float_environment.h"

namespace talus {
namespace {

// [first, last) in one word: the owner takes from the front, thieves from the back.
class alignas(64) Span {
 public:
  void reset(int64_t first, int64_t last) {
    range_.store(uint64_t(first) << 32 | uint64_t(last), std::memory_order_relaxed);
  }
  int64_t take_front() { return take(uint64_t{1} << 32, 0); }
  int64_t take_back() { return take(uint64_t(-1), 1); }

 private:
  // Returns the chunk taken, or -1. `change` moves one end; the chunk is first, or last - 1.
  int64_t take(uint64_t change, int back) {
    uint64_t range = range_.load(std::memory_order_relaxed);
    for (;;) {
      const uint32_t first = uint32_t(range >> 32), last = uint32_t(range);
      if (first >= last) return -1;
      if (range_.compare_exchange_weak(range, range + change, std::memory_order_relaxed))
        return back ? last - 1 : first;
    }
  }
  std::atomic<uint64_t> range_{0};
};

struct Job {
  ChunkBody body;
  void* context;
  int width;
  Span span[kMaxThreads];
};

// Ordering of the job itself is the pool's (or the host's) duty; spans only hand out numbers.
void work(void* context, int64_t worker) {
  Job& job = *static_cast<Job*>(context);
  if (worker < 0 || worker >= job.width) return;  // a host's loop that counts too far
  const FloatEnvironment ieee;
  for (int64_t c; (c = job.span[worker].take_front()) >= 0;) job.body(job.context, c);
  for (int k = 1; k < job.width; ++k) {
    Span& victim = job.span[(worker + k) % job.width];
    for (int64_t c; (c = victim.take_back()) >= 0;) job.body(job.context, c);
  }
}

void run_serial(int64_t chunks, ChunkBody body, void* context) {
  const FloatEnvironment ieee;
  for (int64_t c = 0; c < chunks; ++c) body(context, c);
}

}  // namespace

void ChunkRunner::configure(int threads, talus_parallel_for host, void* host_user) {
  threads = std::clamp(threads, 1, kMaxThreads);
  auto pool = host || threads == 1 ? nullptr : std::make_unique<ThreadPool>(threads);
  threads_ = threads;
  host_ = host;
  host_user_ = host_user;
  pool_ = std::move(pool);
}

void ChunkRunner::run(int64_t chunks, int64_t serial_below, ChunkBody body, void* context) {
  const int64_t width = std::min<int64_t>(threads_, chunks);
  if (width <= 1 || (!host_ && chunks < serial_below)) return run_serial(chunks, body, context);
  Job job;
  job.body = body;
  job.context = context;
  job.width = int(host_ ? width : threads_);
  for (int w = 0; w < job.width; ++w)
    job.span[w].reset(chunks * w / job.width, chunks * (w + 1) / job.width);
  if (!host_) return pool_->run(work, &job);
  host_(host_user_, job.width, work, &job);
  work(&job, 0);  // what a host's loop may have left out
}

}  // namespace talus
