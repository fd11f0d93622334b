// The chunk runner: each chunk runs exactly once, whatever the threads or the host's loop do.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cfenv>
#include <chrono>
#include <mutex>
#include <set>

#include "tests/chunk_tally.h"

using namespace talus::test;
using talus::ChunkRunner;

namespace {

// The threads that bodies ran on.
struct Threads {
  std::mutex mutex;
  std::set<std::thread::id> ids;
  std::vector<int64_t> order;

  static void body(void* context, int64_t chunk) {
    Threads& t = *static_cast<Threads*>(context);
    const std::lock_guard lock(t.mutex);
    t.ids.insert(std::this_thread::get_id());
    t.order.push_back(chunk);
  }
  bool only_here() const { return ids == std::set{std::this_thread::get_id()}; }
};

}  // namespace

TEST_CASE("each chunk runs exactly once, for any count of chunks, threads and any host") {
  for (const Host& host : kHosts)
    for (int threads : {1, 2, 3, 7, 64}) {
      ChunkRunner runner;
      runner.configure(threads, host.loop, nullptr);
      for (int64_t chunks : {0, 1, 2, 3, 5, 7, 8, 63, 64, 65, 1000}) {
        INFO(host.name << ", threads " << threads << ", chunks " << chunks);
        CHECK(run_fault(runner, chunks) == "");
      }
    }
}

TEST_CASE("each chunk runs exactly once over many runs that follow each other at once") {
  for (int threads : {2, 3, 7}) {
    ChunkRunner runner;
    runner.configure(threads, nullptr, nullptr);
    Tally tally(37);
    for (int run = 0; run < 3000; ++run) runner.run(37, 0, Tally::body, &tally);
    INFO("threads " << threads);
    CHECK(tally.fault(3000) == "");
  }
}

TEST_CASE("each chunk runs exactly once over many runs of changing sizes") {
  for (int threads : {2, 3, 8}) {
    ChunkRunner runner;
    runner.configure(threads, nullptr, nullptr);
    for (int run = 0; run < 3000; ++run) {
      INFO("threads " << threads << ", run " << run);
      REQUIRE(run_fault(runner, run * 37 % 101) == "");
    }
  }
}

TEST_CASE("each chunk runs exactly once where runs are apart and workers have parked") {
  ChunkRunner runner;
  runner.configure(3, nullptr, nullptr);
  for (int run = 0; run < 30; ++run) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(run_fault(runner, 11) == "");
  }
}

TEST_CASE("a run is over when it returns: its last chunk's writes are seen") {
  ChunkRunner runner;
  runner.configure(7, nullptr, nullptr);
  for (int run = 1; run <= 500; ++run) {
    std::vector<int> plain(200, 0);  // not atomic: a race is the sanitizer's to find
    runner.run(
        200, 0, [](void* p, int64_t c) { (*static_cast<std::vector<int>*>(p))[size_t(c)] += 1; },
        &plain);
    CHECK(plain == std::vector<int>(200, 1));
  }
}

TEST_CASE("a chunk that takes long does not hold up the others' being done once") {
  ChunkRunner runner;
  runner.configure(4, nullptr, nullptr);
  for (int64_t slow : {0, 15, 16, 63}) {
    struct Work {
      Tally tally{64};
      int64_t slow;
    } work;
    work.slow = slow;
    runner.run(
        64, 0,
        [](void* p, int64_t c) {
          Work& w = *static_cast<Work*>(p);
          if (c == w.slow) std::this_thread::sleep_for(std::chrono::milliseconds(5));
          Tally::body(&w.tally, c);
        },
        &work);
    INFO("slow chunk " << slow);
    CHECK(work.tally.fault() == "");
  }
}

TEST_CASE("fewer chunks than serial_below run in order on the caller, as many on any thread") {
  ChunkRunner runner;
  runner.configure(4, nullptr, nullptr);
  for (int64_t chunks : {1, 2, 7}) {
    Threads threads;
    runner.run(chunks, 8, Threads::body, &threads);
    INFO("chunks " << chunks);
    CHECK(threads.only_here());
    CHECK(threads.order.size() == size_t(chunks));
    CHECK(std::is_sorted(threads.order.begin(), threads.order.end()));
  }
  // With 8 chunks a worker joins, if only the first chunk waits for it.
  struct Meeting {
    std::atomic<int> arrived{0};
  } meeting;
  runner.run(
      8, 8,
      [](void* p, int64_t) {
        Meeting& m = *static_cast<Meeting*>(p);
        ++m.arrived;
        for (int ms = 0; m.arrived < 2 && ms < 20000; ++ms)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (m.arrived < 2) m.arrived = -1000;
      },
      &meeting);
  CHECK(meeting.arrived == 8);
}

TEST_CASE("the host's loop gets all the work, however little, in tasks of at most the threads") {
  struct Seen {
    int64_t calls = 0, most = 0;
  } seen;
  const talus_parallel_for loop = [](void* user, int64_t count, talus_task task, void* context) {
    Seen& s = *static_cast<Seen*>(user);
    ++s.calls;
    s.most = std::max(s.most, count);
    run_reversed(nullptr, count, task, context);
  };
  ChunkRunner runner;
  runner.configure(5, loop, &seen);
  CHECK(run_fault(runner, 3, 8) == "");
  CHECK(seen.most == 3);
  CHECK(run_fault(runner, 300, 8) == "");
  CHECK(seen.most == 5);
  CHECK(seen.calls == 2);
}

TEST_CASE("a runner may be configured again between runs, from and to the host's loop") {
  ChunkRunner runner;
  for (int threads : {1, 4, 2, 7, 1, 3}) {
    for (const Host& host : kHosts) {
      runner.configure(threads, host.loop, nullptr);
      INFO("threads " << threads << ", " << host.name);
      CHECK(run_fault(runner, 50) == "");
    }
  }
}

TEST_CASE("more threads than are allowed, or fewer than one, are as many as there may be") {
  for (int threads : {-3, 0, 100000}) {
    ChunkRunner runner;
    runner.configure(threads, run_forward, nullptr);  // no 256 real threads in a test
    CHECK(run_fault(runner, 1000) == "");
  }
}

TEST_CASE("runners of several threads do not meet") {
  std::vector<std::thread> owners;
  std::atomic<int> faults{0};
  for (int i = 0; i < 4; ++i)
    owners.emplace_back([&faults] {
      ChunkRunner runner;
      runner.configure(3, nullptr, nullptr);
      for (int run = 0; run < 300; ++run)
        if (!run_fault(runner, 20).empty()) ++faults;
    });
  for (std::thread& t : owners) t.join();
  CHECK(faults == 0);
}

TEST_CASE("a runner may be used from one thread after the other") {
  ChunkRunner runner;
  runner.configure(3, nullptr, nullptr);
  std::string faults;
  for (int i = 0; i < 10; ++i) {
    std::thread user([&] { faults += run_fault(runner, 40); });
    user.join();
  }
  CHECK(faults == "");
}

TEST_CASE("chunks run rounding to nearest, and the thread's own mode is there again") {
  struct Modes {
    std::atomic<int> others{0};
  } modes;
  const talus::ChunkBody body = [](void* p, int64_t) {
    volatile double one = 1, tiny = 0x1p-60;
    if (one + tiny != 1 || one - tiny != 1) ++static_cast<Modes*>(p)->others;
  };
  for (const Host& host : kHosts)
    for (int64_t chunks : {1, 3, 100}) {
      ChunkRunner runner;
      runner.configure(3, host.loop, nullptr);
      std::fesetround(FE_UPWARD);
      runner.run(chunks, 2, body, &modes);
      const int after = std::fegetround();
      volatile double one = 1, tiny = 0x1p-60;
      const double sum = one + tiny;
      std::fesetround(FE_TONEAREST);
      INFO(host.name << ", chunks " << chunks);
      CHECK(after == FE_UPWARD);
      CHECK(sum > 1);
    }
  CHECK(modes.others == 0);
}
