// Chunks on threads: each runs exactly once whatever the pool, the host's loop or a fork does, and
// no cut of the work changes a bit of a step.
#include <catch2/catch_test_macros.hpp>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "lib/cpu/chunk_runner.h"
#include "lib/optimizer/optimizer.h"
#include "tests/optimizer.h"

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

namespace {

// ---- hosts' loops

void run_forward(void*, int64_t count, talus_task task, void* context) {
  for (int64_t i = 0; i < count; ++i) task(context, i);
}
void run_reversed(void*, int64_t count, talus_task task, void* context) {
  for (int64_t i = count - 1; i >= 0; --i) task(context, i);
}
void run_on_threads(void*, int64_t count, talus_task task, void* context) {
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < count; ++i) threads.emplace_back(task, context, i);
  for (std::thread& t : threads) t.join();
}

struct Host {
  const char* name;
  talus_parallel_for loop;
};
constexpr Host kHosts[] = {{"own threads", nullptr},
                           {"host forward", run_forward},
                           {"host reversed", run_reversed},
                           {"host threads", run_on_threads}};

// ---- what ran

struct Tally {
  std::vector<std::atomic<int>> times;
  std::atomic<int> outside{0};

  explicit Tally(int64_t chunks) : times(size_t(chunks)) {}
  static void body(void* context, int64_t chunk) {
    Tally& t = *static_cast<Tally*>(context);
    if (chunk < 0 || chunk >= int64_t(t.times.size()))
      ++t.outside;
    else
      ++t.times[size_t(chunk)];
  }
  // "" if each chunk ran exactly `want` times.
  std::string fault(int want = 1) const {
    if (outside != 0) return "chunks outside ran " + std::to_string(outside) + " times";
    for (size_t c = 0; c < times.size(); ++c)
      if (times[c] != want)
        return "chunk " + std::to_string(c) + " ran " + std::to_string(times[c]) + " times, want " +
               std::to_string(want);
    return "";
  }
};

std::string run_fault(ChunkRunner& runner, int64_t chunks, int64_t serial_below = 0) {
  Tally tally(chunks);
  runner.run(chunks, serial_below, Tally::body, &tally);
  return tally.fault();
}

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

// ---- steps

struct Tensors {
  std::deque<TestTensor> list;

  Tensors& add(const Mix& mix, int64_t n) {
    const uint64_t seed = list.size() + 1;
    list.emplace_back(mix, n).fill(seed).fill_grad(seed, 1);
    return *this;
  }
};

// All mixes, tensors that share a chunk, that are cut, and that are empty, in changing order.
const Tensors& zoo() {
  static const Tensors tensors = [] {
    Tensors made;
    const int64_t kCut[] = {40001, 4096, 16385, 8193, 4097, 12288, 16384};
    for (size_t m = 0; m < all_mixes().size(); ++m)
      for (int64_t n : {int64_t{17}, kCut[m % std::size(kCut)], int64_t{0}, int64_t{63}})
        made.add(all_mixes()[m], n);
    return made;
  }();
  return tensors;
}

struct How {
  int threads;
  int64_t chunk;
  Host host;
};

struct Result {
  Tensors tensors;
  std::vector<std::pair<std::string, Buffer>> states;
  double norm;
};

std::unique_ptr<talus::Optimizer> optimizer_of(const HyperSet& set, const How& how) {
  std::unique_ptr<talus::Optimizer> made;
  REQUIRE(talus::Optimizer::create(talus::find_algorithm(set.algorithm), &made).ok());
  for (const auto& [name, value] : set.values) REQUIRE(made->set(TALUS_ALL, name, value).ok());
  REQUIRE(made->set_setting("threads", how.threads).ok());
  REQUIRE(made->set_setting("stats", 1).ok());
  REQUIRE(made->set_parallel_for(how.host.loop, nullptr).ok());
  made->set_chunk(how.chunk);
  return made;
}

constexpr int kSteps = 2;

Result train(const HyperSet& set, const How& how) {
  Result result{zoo(), {}, NAN};
  const std::unique_ptr<talus::Optimizer> optimizer = optimizer_of(set, how);
  std::vector<talus_param> descriptors;
  for (TestTensor& t : result.tensors.list) descriptors.push_back(t.descriptor());
  REQUIRE(optimizer->add_params(0, descriptors, nullptr).ok());
  for (int step = 0; step < kSteps; ++step) REQUIRE(optimizer->step(nullptr).ok());
  for (int64_t i = 0; i < optimizer->state_count(); ++i) {
    int64_t param = -1;
    talus::StateSlot slot{};
    optimizer->state_at(i, &param, &slot);
    Buffer copy(talus::info(slot.dtype).abi, slot.count);
    if (slot.count > 0) std::memcpy(copy.data(), optimizer->state_data(param, slot), copy.bytes());
    result.states.emplace_back(std::string(slot.name) + " of " + std::to_string(param), copy);
  }
  result.norm = optimizer->stats().grad_norm;
  return result;
}

std::string difference(const Result& a, const Result& b) {
  std::string text;
  for (size_t i = 0; i < a.tensors.list.size() && text.empty(); ++i) {
    const Buffer& param = a.tensors.list[i].param;
    text =
        talus::test::difference("parameter " + std::to_string(i), param, b.tensors.list[i].param);
    if (!param.guards_intact()) text = "guard bytes of parameter " + std::to_string(i);
  }
  for (size_t i = 0; i < a.states.size() && text.empty(); ++i)
    text = talus::test::difference(a.states[i].first, a.states[i].second, b.states[i].second);
  if (text.empty() && a.states.size() != b.states.size()) text = "counts of states differ";
  if (text.empty() && bits_of(a.norm) != bits_of(b.norm)) text = "norms differ";
  return text;
}

const HyperSet kSets[] = {
    hyper_set("sgd", "maximize, dampening, weight decay"),
    hyper_set("adam", "amsgrad, weight decay, maximize"),
    hyper_set("adamw", "defaults"),
};

}  // namespace

// ---- steps

TEST_CASE("any chunk, any number of threads and any loop of the host give the same bits") {
  for (const HyperSet& set : kSets) {
    const Result want = train(set, {1, talus::kChunk, kHosts[0]});
    REQUIRE(!want.tensors.list[1].param.same_bytes(zoo().list[1].param));
    for (int64_t chunk : {4096, 8192, 16384, 262144})
      for (int threads : {1, 2, 3, 7})
        for (const Host& host : kHosts) {
          if (threads == 1 && host.loop) continue;  // never called
          INFO(set.algorithm << ", chunk " << chunk << ", threads " << threads << ", "
                             << host.name);
          CHECK(difference(train(set, {threads, chunk, host}), want) == "");
        }
  }
}

// ---- the runner

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

// ---- the pool

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
