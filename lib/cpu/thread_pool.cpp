#include "lib/cpu/thread_pool.h"

#include <pthread.h>
#include <signal.h>

namespace talus {
namespace {

constexpr uint32_t kOpen = 1u << 15, kJoined = kOpen - 1, kGeneration = 1u << 16;
// Pauses, about 20 us; longer spins starved the caller where cores were shared (450 us median).
constexpr int kSpins = 1000;

std::atomic<unsigned> g_fork_epoch{1};

void watch_forks() {
  static const int registered = pthread_atfork(
      nullptr, nullptr, [] { g_fork_epoch.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) : threads_(threads < 1 ? 1 : threads) { watch_forks(); }

ThreadPool::~ThreadPool() {
  if (!workers_) return;
  if (fork_epoch_ != g_fork_epoch.load(std::memory_order_relaxed)) {
    (void)workers_.release();  // a forked child has no workers to join
    return;
  }
  stop_.store(true);
  state_.fetch_add(kGeneration);
  state_.notify_all();
  for (std::thread& t : *workers_) t.join();
}

// In a forked child the handles name threads that do not exist: leak them and start afresh.
void ThreadPool::start() noexcept {
  (void)workers_.release();
  fork_epoch_ = g_fork_epoch.load(std::memory_order_relaxed);
  state_.store(0);
  // The host's signal handlers run on its own threads: workers inherit a mask that blocks all.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    workers_ = std::make_unique<std::vector<std::thread>>();
    for (int i = 1; i < threads_; ++i) workers_->emplace_back([this, i] { worker(i); });
  } catch (...) {  // no memory or no more threads: fewer workers do the same work
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool ThreadPool::join(uint32_t& seen) {
  uint32_t now = state_.load(std::memory_order_acquire);
  while ((now & kOpen) && now / kGeneration != seen)
    if (state_.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel)) {
      seen = now / kGeneration;
      return true;
    }
  return false;
}

void ThreadPool::leave() { state_.fetch_sub(1, std::memory_order_release); }

void ThreadPool::worker(int index) {
  uint32_t seen = 0;
  for (int spins = 0; !stop_.load(std::memory_order_relaxed);) {
    const uint32_t before = state_.load(std::memory_order_acquire);
    if (join(seen)) {
      body_(context_, index);
      leave();
      spins = 0;
    } else if (++spins < kSpins) {
      pause();
    } else {
      const bool may_join = (before & kOpen) && before / kGeneration != seen;
      if (!may_join) state_.wait(before, std::memory_order_acquire);
      spins = 0;
    }
  }
}

void ThreadPool::run(Body body, void* context) {
  if (threads_ == 1) return body(context, 0);
  if (!workers_ || fork_epoch_ != g_fork_epoch.load(std::memory_order_relaxed)) start();
  body_ = body;
  context_ = context;
  uint32_t generation = state_.load(std::memory_order_relaxed) / kGeneration + 1;
  if (generation % (1u << 16) == 0) generation = 1;  // 0 is what a new worker has seen
  state_.store(generation * kGeneration | kOpen, std::memory_order_release);
  state_.notify_all();
  body(context, 0);
  state_.fetch_and(~kOpen, std::memory_order_acq_rel);
  for (int spins = 0; state_.load(std::memory_order_acquire) & kJoined;)
    if (++spins < 4 * kSpins)
      pause();
    else
      std::this_thread::yield();
}

}  // namespace talus
