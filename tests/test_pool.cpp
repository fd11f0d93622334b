// The thread pool: its workers over many runs and after forks, and how many there may be.
#include <catch2/catch_test_macros.hpp>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "tests/chunk_tally.h"

#if defined(__SANITIZE_THREAD__)
#define TALUS_TESTS_UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TALUS_TESTS_UNDER_TSAN 1
#endif
#endif

using namespace talus::test;
using talus::ChunkRunner;
using talus::ThreadPool;

TEST_CASE("a pool that was never used is destroyed, of any size") {
  for (int threads : {-1, 0, 1, 2, 64}) {
    const ThreadPool pool(threads);
    CHECK(pool.threads() == std::max(1, threads));
  }
  ChunkRunner never;
  never.configure(7, nullptr, nullptr);
}

namespace {

struct Workers {
  std::vector<std::atomic<int>> calls;
  std::atomic<int> inside{0};
  std::thread::id zero;

  explicit Workers(int threads) : calls(size_t(threads)) {}
  static void body(void* context, int64_t worker) {
    Workers& w = *static_cast<Workers*>(context);
    ++w.inside;
    ++w.calls.at(size_t(worker));
    if (worker == 0) w.zero = std::this_thread::get_id();
    if (worker % 2) std::this_thread::yield();
    --w.inside;
  }
};

}  // namespace

TEST_CASE("a body runs on the caller as worker 0, on no worker twice, and on none after the run") {
  for (int threads : {1, 2, 3, 7, 64}) {  // more than there are cores
    ThreadPool pool(threads);
    for (int run = 0; run < 200; ++run) {
      Workers workers(threads);
      pool.run(Workers::body, &workers);
      INFO("threads " << threads << ", run " << run);
      REQUIRE(workers.inside == 0);
      REQUIRE(workers.zero == std::this_thread::get_id());
      REQUIRE(workers.calls[0] == 1);
      for (const std::atomic<int>& calls : workers.calls) REQUIRE(calls <= 1);
    }
  }
}

// Runs are numbered in 16 bits.
TEST_CASE("70,000 runs of one pool are each done once") {
  ChunkRunner runner;
  runner.configure(2, nullptr, nullptr);
  Tally tally(2);
  for (int run = 0; run < 70000; ++run) runner.run(2, 0, Tally::body, &tally);
  CHECK(tally.fault(70000) == "");
}

// ---- forks

namespace {

// A child that runs check() and must leave with status 0; hangs end by a signal.
template <class Check>
std::string child_fault(Check check) {
  const pid_t child = fork();
  if (child < 0) return "fork failed";
  if (child == 0) {
    alarm(60);
    const bool ok = check();
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  if (waitpid(child, &status, 0) != child) return "waitpid failed";
  if (WIFSIGNALED(status)) return "child ended by signal " + std::to_string(WTERMSIG(status));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return "child found a fault";
  return "";
}

void need_threads_after_fork() {
#if defined(TALUS_TESTS_UNDER_TSAN)
  SKIP("ThreadSanitizer ends a child that starts threads after a fork");
#endif
}

}  // namespace

TEST_CASE("after a fork the child's runs are done, and so are the parent's") {
  need_threads_after_fork();
  for (bool used : {false, true}) {
    auto runner = std::make_unique<ChunkRunner>();
    runner->configure(3, nullptr, nullptr);
    if (used) REQUIRE(run_fault(*runner, 100) == "");
    for (int generation = 0; generation < 3; ++generation) {
      INFO("used before " << used << ", fork " << generation);
      CHECK(child_fault([&] {
              for (int run = 0; run < 50; ++run)
                if (!run_fault(*runner, 100).empty()) return false;
              runner.reset();
              return true;
            }) == "");
      CHECK(run_fault(*runner, 100) == "");
    }
  }
}

TEST_CASE("after a fork the child's pool may be destroyed unused, and a child may fork") {
  need_threads_after_fork();
  auto runner = std::make_unique<ChunkRunner>();
  runner->configure(3, nullptr, nullptr);
  REQUIRE(run_fault(*runner, 100) == "");
  CHECK(child_fault([&] { return runner.reset(), true; }) == "");
  CHECK(child_fault([&] {
          if (!run_fault(*runner, 100).empty()) return false;
          return child_fault([&] { return run_fault(*runner, 100).empty(); }).empty();
        }) == "");
}

TEST_CASE("after a fork the child has workers, not only its caller") {
  need_threads_after_fork();
  ThreadPool pool(2);
  const talus::Body meet = [](void* p, int64_t) {  // waits until both are here
    auto& arrived = *static_cast<std::atomic<int>*>(p);
    ++arrived;
    for (int ms = 0; arrived < 2 && ms < 20000; ++ms)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  const auto both = [&] {
    std::atomic<int> arrived{0};
    pool.run(meet, &arrived);
    return arrived == 2;
  };
  REQUIRE(both());
  CHECK(child_fault(both) == "");
  CHECK(both());
}

// ---- processors

TEST_CASE("usable threads are at least 1 and no more than the affinity mask has") {
  cpu_set_t set;
  REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
  const int usable = talus::usable_threads();
  CHECK(usable >= 1);
  CHECK(usable <= talus::kMaxThreads);
  CHECK(usable <= CPU_COUNT(&set));
}

TEST_CASE("a thread that may use one processor has one usable thread") {
  int usable = -1;
  std::thread bound([&usable] {  // a mask is of one thread
    cpu_set_t set, one;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return;
    int first = 0;
    while (!CPU_ISSET(first, &set)) ++first;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    if (sched_setaffinity(0, sizeof one, &one) == 0) usable = talus::usable_threads();
  });
  bound.join();
  if (usable < 0) SKIP("this process may not change its affinity mask");
  CHECK(usable == 1);
}
