// Threads around the ABI: errors of two threads, optimizers on many, a child process, and the
// floating-point setting of the caller.
#include "tests/abi/fixture.h"

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <filesystem>
#include <iterator>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "tests/float_control.h"

using namespace talus::abi;
using namespace talus::test;

namespace {

// f32 and bf16 tensors with subnormal numbers, large enough for several threads.
struct Mixed {
  std::vector<float> a = std::vector<float>(70001), ga = a, gb = a;
  std::vector<uint16_t> b = std::vector<uint16_t>(70001);
  int64_t extent = int64_t(a.size());

  // Copies what was computed once, under the usual setting: tests change the thread's.
  Mixed() : Mixed(original()) {}

  // No assertion: Catch2's are for one thread.
  talus_status add_to(talus_optimizer* opt) {
    talus_param params[] = {describe(TALUS_F32, a.data(), ga.data(), &extent),
                            describe<uint16_t>(TALUS_BF16, b.data(), nullptr, &extent)};
    params[1].grad = gb.data();
    params[1].grad_dtype = TALUS_F32;
    return talus_add_params(opt, 0, 2, params, nullptr);
  }

 private:
  explicit Mixed(int) {
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] = i % 3 == 0 ? 1e-40f * float(i % 100) : float(i % 1009) / 64 - 7;
      ga[i] = i % 5 == 0 ? 1e-41f * float(i % 77) : float(i % 613) / 512 - 0.5f;
      gb[i] = i % 7 == 0 ? -1e-39f : float(i % 617) / 4096 - 0.05f;
      b[i] = uint16_t(i % 11 == 0 ? i % 100 : 0x3e00 + i % 512);
    }
  }
  static const Mixed& original() {
    static const Mixed made(0);
    return made;
  }
};

// The bytes of parameters and state after three steps.
struct Trained {
  std::vector<std::string> lines;
  talus_status status = TALUS_OK;
};

Trained train(const char* algorithm, int threads, talus_parallel_for loop = nullptr) {
  Trained result;
  Mixed mixed;
  talus_optimizer* opt = nullptr;
  result.status = talus_create(algorithm, TALUS_CPU, 0, &opt);
  if (result.status != TALUS_OK) return result;
  result.status = mixed.add_to(opt);
  talus_set(opt, TALUS_ALL, "lr", 1e-3);
  talus_set_setting(opt, "threads", threads);
  talus_set_parallel_for(opt, loop, nullptr);
  for (int i = 0; i < 3 && result.status == TALUS_OK; ++i) result.status = talus_step(opt, nullptr);
  result.lines.push_back(hex(mixed.a.data(), mixed.a.size() * 4));
  result.lines.push_back(hex(mixed.b.data(), mixed.b.size() * 2));
  for (int64_t i = 0; i < talus_state_count(opt); ++i) {
    talus_state state{};
    state.struct_size = sizeof state;
    talus_state_info(opt, i, &state);
    result.lines.push_back(state.slot + hex(state.data, state.bytes));
  }
  talus_destroy(opt);
  return result;
}

std::string difference(const Trained& expected, const Trained& got) {
  if (expected.status != got.status) return talus_status_name(got.status);
  if (expected.lines.size() != got.lines.size()) return "another count of tensors";
  for (size_t i = 0; i < expected.lines.size(); ++i) {
    const std::string &e = expected.lines[i], &g = got.lines[i];
    if (e == g) continue;
    const size_t at = size_t(std::mismatch(e.begin(), e.end(), g.begin()).first - e.begin());
    return "tensor " + std::to_string(i) + ", hex digit " + std::to_string(at) + ": expected " +
           e.substr(at, 16) + ", got " + g.substr(at, 16);
  }
  return "";
}

// Threads of this process, the caller's included.
int thread_count() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return int(std::distance(begin(tasks), end(tasks)));
}

// A thread that has been joined is listed by the kernel for a moment yet.
bool all_threads_end() {
  for (int i = 0; i < 1000 && thread_count() > 1; ++i) usleep(1000);
  return thread_count() == 1;
}

// Runs the tasks on threads that have what the caller has: a thread inherits its maker's setting.
void threaded_loop(void*, int64_t count, talus_task task, void* context) {
  std::vector<std::thread> workers;
  for (int64_t i = 0; i < count; ++i)
    workers.emplace_back([=] {
      set_float_control(float_control() | kFlush);
      task(context, i);
    });
  for (std::thread& worker : workers) worker.join();
}

}  // namespace

TEST_CASE("abi: two threads fail at once and each reads its own text and detail") {
  std::atomic<int> wrong{0};
  const auto fail = [&](const char* name, int32_t code) {
    talus_optimizer* opt = nullptr;
    talus_create("sgd", TALUS_CPU, 0, &opt);
    for (int i = 0; i < 2000; ++i) {
      double loss = 0;
      talus_step_closure(
          opt, [](void* user, double*) { return *static_cast<int32_t*>(user); }, &code, &loss,
          nullptr);
      if (talus_last_error_detail() != code) ++wrong;
      talus_set(opt, 0, name, 1);
      if (std::string(talus_last_error()).find(name) == std::string::npos) ++wrong;
      if (talus_last_error_detail() != 0) ++wrong;
    }
    talus_destroy(opt);
  };
  std::thread first([&] { fail("name_of_the_first_thread", 11); });
  std::thread second([&] { fail("name_of_the_second_thread", 22); });
  first.join();
  second.join();
  CHECK(wrong == 0);
  std::string fresh = "not read";
  std::thread([&] { fresh = talus_last_error(); }).join();
  CHECK(fresh == "");  // a thread without a failure
}

TEST_CASE("abi: success does not clear the last error") {
  const std::string stale = leave_stale_error();
  Handle opt("sgd");
  Model model;
  model.add_to(opt);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  CHECK(talus_last_error() == stale);
}

TEST_CASE("abi: optimizers on several threads at once, and one handed from thread to thread") {
  const Trained expected = train("adamw", 1);
  std::vector<Trained> got(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < got.size(); ++i)
    threads.emplace_back([&, i] { got[i] = train("adamw", int(i % 3) + 1); });
  for (std::thread& thread : threads) thread.join();
  for (const Trained& each : got) CHECK(difference(expected, each) == "");

  Mixed mixed, twin;
  Handle moved("adamw"), still("adamw");
  REQUIRE(mixed.add_to(moved) == TALUS_OK);
  REQUIRE(twin.add_to(still) == TALUS_OK);
  std::atomic<int> failed{0};
  for (int i = 0; i < 4; ++i) {
    std::thread([&] { failed += talus_step(moved, nullptr) != TALUS_OK; }).join();
    REQUIRE(talus_step(still, nullptr) == TALUS_OK);
  }
  CHECK(failed == 0);
  CHECK(mixed.a == twin.a);
}

TEST_CASE("abi: a child process steps on with the optimizer of its parent, same bits") {
#if defined(TALUS_TEST_TSAN)
  SKIP("the thread sanitizer ends a child that starts threads");
#endif
  const Trained expected = train("adamw", 3);
  Mixed mixed;
  Handle opt("adamw");
  REQUIRE(mixed.add_to(opt) == TALUS_OK);
  REQUIRE(talus_set(opt, TALUS_ALL, "lr", 1e-3) == TALUS_OK);
  REQUIRE(talus_set_setting(opt, "threads", 3) == TALUS_OK);
  for (int i = 0; i < 2; ++i) REQUIRE(talus_step(opt, nullptr) == TALUS_OK);  // threads run now
  CHECK(thread_count() > 1);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(20);  // a step or a destroy that waits for threads that are not there
    bool right = thread_count() == 1 && talus_step(opt, nullptr) == TALUS_OK;
    right = right && thread_count() > 1;  // the pool has been made again
    right = right && hex(mixed.a.data(), mixed.a.size() * 4) == expected.lines[0];
    right = right && difference(expected, train("adamw", 2)) == "";
    talus_optimizer* other = nullptr;
    right = right && talus_create("sgd", TALUS_CPU, 0, &other) == TALUS_OK;
    talus_destroy(other);
    talus_destroy(opt);
    _exit(right && all_threads_end() ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);  // the parent goes on as well
  CHECK(hex(mixed.a.data(), mixed.a.size() * 4) == expected.lines[0]);
}

TEST_CASE("abi: the caller's rounding mode changes no bit and is restored") {
  for (const char* algorithm : {"adamw", "sgd"}) {
    const Trained expected = train(algorithm, 1);
    REQUIRE(expected.status == TALUS_OK);
    for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
      for (const int threads : {1, 3}) {
        CAPTURE(algorithm, mode, threads);
        REQUIRE(std::fesetround(mode) == 0);
        const Trained got = train(algorithm, threads);
        const int after = std::fegetround();
        std::fesetround(FE_TONEAREST);
        CHECK(after == mode);
        CHECK(difference(expected, got) == "");
      }
    }
  }
}

TEST_CASE("abi: a refused call and a closure see the caller's rounding mode") {
  Handle opt("sgd");
  Model model;
  model.add_to(opt);
  REQUIRE(talus_set(opt, 0, "nesterov", 1) == TALUS_OK);
  std::fesetround(FE_UPWARD);
  int seen = -1;
  const talus_closure closure = [](void* user, double*) -> int32_t {
    *static_cast<int*>(user) = std::fegetround();
    return 0;
  };
  double loss = 0;
  const talus_status status = talus_step_closure(opt, closure, &seen, &loss, nullptr);
  const int after = std::fegetround();
  std::fesetround(FE_TONEAREST);
  CHECK(status == TALUS_E_RANGE);
  CHECK(seen == FE_UPWARD);
  CHECK(after == FE_UPWARD);
}

TEST_CASE("abi: flush-to-zero and denormals-are-zero of the caller change no bit, and stay") {
  const uint64_t usual = float_control();
  const Trained expected = train("adamw", 1);
  for (const uint64_t bits : kFlushWays) {
    for (const int threads : {1, 3}) {
      CAPTURE(bits, threads);
      set_float_control(usual | bits);
      const Trained got = train("adamw", threads);
      const uint64_t after = float_control();
      set_float_control(usual);
      CHECK((after & kFlush) == bits);
      CHECK(difference(expected, got) == "");
    }
  }
}

TEST_CASE("abi: a host's own threads, whatever their setting, give the same bits") {
  CHECK(difference(train("adamw", 1), train("adamw", 4, threaded_loop)) == "");
}

TEST_CASE("abi: the log is called by one thread at a time") {
  struct State {
    std::atomic<int> inside{0}, overlaps{0}, lines{0};
  } state;
  talus_set_log(
      [](void* user, int32_t, const char*) {
        State& s = *static_cast<State*>(user);
        if (++s.inside != 1) ++s.overlaps;
        std::this_thread::yield();
        ++s.lines;
        --s.inside;
      },
      TALUS_LOG_DEBUG, &state);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] {
      for (int k = 0; k < 50; ++k) {
        float data = 1, grad = 1;
        const int64_t one = 1;
        talus_param param = describe(TALUS_F32, &data, &grad, &one);
        talus_optimizer* opt = nullptr;
        talus_create("adamw", TALUS_CPU, 0, &opt);
        talus_add_params(opt, 0, 1, &param, nullptr);
        talus_step(opt, nullptr);
        talus_destroy(opt);
      }
    });
  for (std::thread& thread : threads) thread.join();
  talus_set_log(nullptr, 0, nullptr);
  CHECK(state.overlaps == 0);
  CHECK(state.lines >= 200);
}
