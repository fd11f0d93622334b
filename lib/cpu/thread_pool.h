// A small pool that runs one body on several threads. It knows nothing of chunks; see
// chunk_runner.h.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace talus {

// body(context, worker): worker is 0 for the caller, 1.. for pool threads. Must not throw.
using Body = void (*)(void* context, int64_t worker);

// Workers spin about 20 us for the next run, then park. A parked wake costs 20-30 us, so the caller
// starts at once and waits only for workers that have joined: a body must finish the whole job
// alone if it is the only one to run.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // One caller at a time. Threads start at the first run, and again after a fork; a thread that the
  // system refuses is done without.
  void run(Body body, void* context);
  int threads() const { return threads_; }

 private:
  void start() noexcept;
  void worker(int index);
  bool join(uint32_t& seen);
  void leave();

  int threads_;
  unsigned fork_epoch_ = 0;
  Body body_ = nullptr;
  void* context_ = nullptr;
  std::unique_ptr<std::vector<std::thread>> workers_;
  // generation << 16 | open << 15 | joined workers. One word, so that joining a run that has just
  // closed is impossible and body_ can be rewritten as soon as nobody is joined.
  alignas(64) std::atomic<uint32_t> state_{0};
  alignas(64) std::atomic<bool> stop_{false};
};

}  // namespace talus
