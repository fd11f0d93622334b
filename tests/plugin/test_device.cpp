// Every call of the ABI on a device. The device is the fake plugin's: its memory cannot be touched
// from outside a backend's call, so a core that reads or writes it on the host ends by a signal.
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <deque>

#include "tests/checkpoint/memory_file.h"
#include "tests/plugin/device.h"

using namespace talus;
using namespace talus::abi;

namespace {

constexpr int32_t kHost = -1;

void step(const Run& run, void* stream = nullptr) {
  INFO(talus_last_error());
  REQUIRE(talus_step(run.opt, run.memory.device() == kHost ? nullptr : stream) == TALUS_OK);
}

void set(const Run& run, const char* name, double value) {
  REQUIRE(talus_set(run.opt, TALUS_ALL, name, value) == TALUS_OK);
}

void* const kStream = reinterpret_cast<void*>(0x57e4);

// The calls of a life, in both memories.
template <class Call>
void both(Run& a, Run& b, Call call) {
  call(a);
  call(b);
}

}  // namespace

TEST_CASE("device: steps give the CPU's bits, for every kind of kernel and changing values") {
  for (const char* algorithm : {"sgd", "adam", "adamw"}) {
    CAPTURE(algorithm);
    Run device(algorithm, 1), host(algorithm, kHost);
    both(device, host, [&](Run& run) {
      if (std::string(algorithm) == "sgd") set(run, "momentum", 0.9);
      REQUIRE(talus_set_setting(run.opt, "stats", 1) == TALUS_OK);
      step(run);
      set(run, "lr", 0.25);
      step(run);
      run.add(TALUS_F32, TALUS_BF16, 33);  // a late one begins alone
      step(run);
    });
    CHECK(first_difference(device.bytes(), host.bytes()) == "");
    CHECK(device.stats().grad_norm > 0);
    CHECK(exact(device.stats().grad_norm) == exact(host.stats().grad_norm));
  }
}

TEST_CASE("device: a stream goes to the backend as it is; the CPU takes none") {
  Run device("adamw", 0), host("adamw", kHost);
  const auto went_to = [&](auto call) {
    step(device);
    REQUIRE(call(device.opt, kStream) == TALUS_OK);
    CHECK(fake().log().stream == kStream);
    refused(host.opt, TALUS_E_ARGUMENT, {"stream", "CPU"}, [&] { return call(host.opt, kStream); });
  };
  went_to([](auto* opt, void* stream) { return talus_step(opt, stream); });
  went_to([](auto* opt, void* s) { return talus_zero_grad(opt, TALUS_ZERO_FILL, s); });
  went_to([](auto* opt, void* stream) {
    return talus_step_closure(
        opt, [](void*, double*) { return int32_t{0}; }, nullptr, nullptr, stream);
  });
  REQUIRE(talus_set_setting(device.opt, "chunk_tiles", 1) == TALUS_OK);  // another plan
  REQUIRE(talus_prepare(device.opt, kStream) == TALUS_OK);
  CHECK(fake().log().stream == kStream);
}

TEST_CASE("device: zero_grad fills device memory, or forgets the pointers") {
  Run device("sgd", 0), host("sgd", kHost);
  both(device, host, [](Run& run) {
    REQUIRE(talus_zero_grad(run.opt, TALUS_ZERO_FILL, nullptr) == TALUS_OK);
    step(run);
  });
  CHECK(first_difference(device.bytes(), host.bytes()) == "");
  const std::vector<unsigned char> grad = device.memory.read(device.tensors[0].grad, 5001 * 4);
  CHECK(grad == std::vector<unsigned char>(5001 * 4, 0));
  REQUIRE(talus_zero_grad(device.opt, TALUS_ZERO_UNBIND, nullptr) == TALUS_OK);
  CHECK(talus_step(device.opt, nullptr) == TALUS_E_STATE);
}

TEST_CASE("device: prepare allocates all state there, and a step then allocates nothing") {
  Run device("adamw", 0);
  REQUIRE(talus_prepare(device.opt, nullptr) == TALUS_OK);
  uint64_t bytes = 0;
  for (const talus_state& state : states(device.opt)) {
    if (state.count == 0) continue;
    CHECK(fake().table().check_pointer(nullptr, state.data, state.bytes) != TALUS_OK);
    bytes += state.bytes;
  }
  CHECK(device.stats().state_bytes >= bytes);
  const Failing none("allocate", 1, TALUS_E_MEMORY, 2);
  step(device);
  step(device);
}

TEST_CASE("device: state, data and gradients are bound to other device memory, and states resume") {
  Run device("adamw", 0), host("adamw", kHost);
  both(device, host, [](Run& run) {
    for (const talus_state& state : states(run.opt)) {
      const std::vector<unsigned char> filler(state.bytes, 7);
      REQUIRE(talus_bind_state(run.opt, state.param, state.slot,
                               run.memory.put(filler.data(), state.bytes),
                               state.bytes) == TALUS_OK);
    }
    for (int64_t p = 0; p < 3; ++p) REQUIRE(talus_set_steps(run.opt, p, 41) == TALUS_OK);
    step(run);
    for (int64_t p = 0; p < 3; ++p) {
      Run::Tensor& t = run.tensors[size_t(p)];
      const uint64_t bytes = Run::size_of(t.dtype, t.count);
      const uint64_t grad_bytes = Run::size_of(t.grad_dtype, t.count);
      t.data = run.memory.put(Run::bytes_of(t.dtype, t.count, 5).data(), bytes);
      t.grad = run.memory.put(Run::bytes_of(t.grad_dtype, t.count, 6).data(), grad_bytes);
      REQUIRE(talus_bind_data(run.opt, p, t.data) == TALUS_OK);
      REQUIRE(talus_bind_grads(run.opt, p, 1, &t.grad) == TALUS_OK);
    }
    step(run);
    REQUIRE(talus_set_steps(run.opt, 0, 7) == TALUS_OK);
    step(run);
  });
  CHECK(first_difference(device.bytes(), host.bytes()) == "");
  CHECK((steps(device.opt, 0) == 8 && steps(device.opt, 1) == 44));
  CHECK(device.stats().state_bytes == 0);
}

TEST_CASE("trap 51: memory of the host or of another device is refused, and the reverse") {
  Run device("adamw", 1), host("adamw", kHost);
  Memory other(0);
  std::vector<float> values(5001, 1);
  float* const host_data = values.data();
  void* const device_data = device.memory.put(host_data, 5001 * 4);
  void* const other_data = other.put(host_data, 5001 * 4);
  const int64_t extent = 5001;

  struct Case {
    const Run& run;
    void* data;
    const char *got, *expected;
  };
  for (const Case& c : {Case{device, host_data, "memory of the host", "memory of CUDA device 1"},
                        Case{device, other_data, "CUDA device 0", "memory of CUDA device 1"},
                        Case{host, device_data, "CUDA device 1", "memory of the host"}}) {
    CAPTURE(c.got, c.expected);
    talus_optimizer* const opt = c.run.opt;
    const auto is_refused = [&](const char* what, auto call) {
      refused_on(c.run, TALUS_E_ARGUMENT, {what, c.got, c.expected}, call);
    };
    REQUIRE(talus_set_setting(opt, "check_pointers", 1) == TALUS_OK);
    void* const good = c.run.memory.device() == kHost ? host_data : device_data;
    const int64_t count = talus_param_count(opt);
    is_refused("data", [&] {
      const talus_param p = describe(TALUS_F32, c.data, static_cast<void*>(nullptr), &extent);
      return talus_add_params(opt, 0, 1, &p, nullptr);
    });
    is_refused("grad", [&] {
      const talus_param p = describe(TALUS_F32, good, c.data, &extent);
      return talus_add_params(opt, 0, 1, &p, nullptr);
    });
    CHECK(talus_param_count(opt) == count);
    is_refused("data", [&] { return talus_bind_data(opt, 0, c.data); });
    is_refused("grad", [&] { return talus_bind_grads(opt, 0, 1, &c.data); });
    is_refused("exp_avg", [&] { return talus_bind_state(opt, 0, "exp_avg", c.data, 5001 * 4); });

    const int64_t asked = fake().log().pointers;
    REQUIRE(talus_set_setting(opt, "check_pointers", 0) == TALUS_OK);
    CHECK(talus_bind_grads(opt, 0, 1, &c.data) == TALUS_OK);
    CHECK(fake().log().pointers == asked);
    REQUIRE(talus_bind_grads(opt, 0, 1, &c.run.tensors[0].grad) == TALUS_OK);
  }
}

TEST_CASE(
    "device: a call that fails says which, why and the device's number, and changes nothing") {
  struct Case {
    const char* function;
    talus_status status;
  };
  for (const Case& c : {Case{"allocate", TALUS_E_MEMORY}, Case{"set_plan", TALUS_E_DEVICE},
                        Case{"set_rows", TALUS_E_DEVICE}, Case{"begin", TALUS_E_DEVICE},
                        Case{"measure", TALUS_E_DEVICE}, Case{"run", TALUS_E_DEVICE}}) {
    CAPTURE(c.function);
    Run device("adamw", 0), host("adamw", kHost);
    both(device, host,
         [](Run& run) { REQUIRE(talus_set_setting(run.opt, "stats", 1) == TALUS_OK); });
    const std::string call = std::string("fakeCall(") + c.function + ")";
    const Failing plan(c.function, 1, c.status, 700);
    refused_on(device, c.status, {call.c_str(), "error 700"},
               [&] { return talus_step(device.opt, nullptr); });
    CHECK(talus_last_error_detail() == 700);
    both(device, host, [](Run& run) { step(run); });
    CHECK(first_difference(device.bytes(), host.bytes()) == "");
  }
}

TEST_CASE("device: after a sticky error every call that needs the device answers with its text") {
  Run device("adamw", 0), other("adamw", 0);
  step(device);
  const Failing plan("set_rows", 1, TALUS_E_DEVICE_LOST, 719);
  REQUIRE(talus_step(device.opt, nullptr) == TALUS_E_DEVICE_LOST);
  const std::string first = talus_last_error();
  CHECK(first.find("fakeCall(set_rows)") != std::string::npos);
  CHECK(first.find("talus_destroy") != std::string::npos);
  const int64_t calls = fake().log().calls;
  const auto is_lost = [&](auto call) {
    leave_stale_error();
    CHECK(call() == TALUS_E_DEVICE_LOST);
    CHECK(talus_last_error() == first);
    CHECK(talus_last_error_detail() == 719);
  };
  is_lost([&] { return talus_step(device.opt, nullptr); });
  is_lost([&] { return talus_prepare(device.opt, nullptr); });
  is_lost([&] { return talus_advance(device.opt, nullptr); });
  is_lost([&] { return talus_zero_grad(device.opt, TALUS_ZERO_FILL, nullptr); });
  CHECK(fake().log().calls == calls);
  set(device, "lr", 0.5);  // what needs no device still works
  CHECK(get(device.opt, "lr") == 0.5);
  CHECK(talus_zero_grad(device.opt, TALUS_ZERO_UNBIND, nullptr) == TALUS_OK);
  step(other);
}

TEST_CASE("device: a step that fails half way is the last one") {
  Run device("adamw", 0);  // two launches: f32 and f64
  step(device);
  const Failing plan("run", 2, TALUS_E_DEVICE, 700);
  REQUIRE(talus_step(device.opt, nullptr) == TALUS_E_DEVICE_LOST);
  const std::string first = talus_last_error();
  CHECK(first.find("fakeCall(run): error 700") != std::string::npos);
  CHECK(talus_step(device.opt, nullptr) == TALUS_E_DEVICE_LOST);
  CHECK(talus_last_error() == first);
  CHECK(steps(device.opt, 0) == 1);
}

TEST_CASE("trap 58: in a forked child a device's optimizer is refused, the CPU's goes on") {
  Run device("adamw", 0), host("adamw", kHost);
  step(device);
  step(host);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const bool right = talus_step(device.opt, nullptr) == TALUS_E_FORKED &&
                       talus_prepare(device.opt, nullptr) == TALUS_E_FORKED &&
                       talus_zero_grad(device.opt, TALUS_ZERO_FILL, nullptr) == TALUS_E_FORKED &&
                       talus_step(host.opt, nullptr) == TALUS_OK;
    talus_destroy(device.opt);
    _exit(right ? 0 : 1);
  }
  int status = 1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  step(device);
}

TEST_CASE(
    "device: a captured step is replayed with the values of each step, and gives eager bits") {
  for (const bool warm : {false, true}) {
    CAPTURE(warm);
    Run device("adamw", 0), host("adamw", kHost);
    if (warm) both(device, host, [](Run& run) { step(run); });
    REQUIRE(talus_prepare(device.opt, kStream) == TALUS_OK);
    const std::vector<std::string> before = device.bytes();
    REQUIRE(talus_step(device.opt, kFakeCapture) == TALUS_OK);
    CHECK(first_difference(before, device.bytes()) == "");  // recorded, not taken
    for (const double lr : {0.5, 0.25, 0.125}) {
      both(device, host, [&](Run& run) {
        set(run, "lr", lr);
        if (lr > 0.25) return;
        void* const grad = run.memory.put(std::vector<char>(17 * 4, '>').data(), 17 * 4);
        REQUIRE(talus_bind_grads(run.opt, 1, 1, &grad) == TALUS_OK);
      });
      REQUIRE(talus_advance(device.opt, kStream) == TALUS_OK);
      CHECK(fake().log().stream == kStream);
      REQUIRE(fake().replay() == TALUS_OK);
      step(host);
      CHECK(first_difference(device.bytes(), host.bytes()) == "");
    }
  }
}

TEST_CASE("device: a capture that would need memory, a plan or an upload is refused, and goes on") {
  Run device("adamw", 0);
  const auto is_refused = [&](const char* what) {
    const int64_t calls = fake().log().calls;
    CHECK(talus_step(device.opt, kFakeCapture) == TALUS_E_NOT_PREPARED);
    CHECK(fake().log().calls == calls);
    refused_on(device, TALUS_E_NOT_PREPARED, {what, "talus_prepare"},
               [&] { return talus_step(device.opt, kFakeCapture); });
    REQUIRE(talus_prepare(device.opt, nullptr) == TALUS_OK);
    CHECK(talus_step(device.opt, kFakeCapture) == TALUS_OK);
  };
  is_refused("memory");
  REQUIRE(talus_set_setting(device.opt, "chunk_tiles", 1) == TALUS_OK);
  is_refused("plan");
  void* grad = nullptr;
  REQUIRE(talus_bind_grads(device.opt, 0, 1, &grad) == TALUS_OK);
  is_refused("pointers");
}

TEST_CASE("device: advance is refused where the graph is no longer the step, and on the CPU") {
  Run device("adamw", 0), host("adamw", kHost);
  refused(host.opt, TALUS_E_UNSUPPORTED, {"talus_advance", "CPU"},
          [&] { return talus_advance(host.opt, nullptr); });
  refused(nullptr, TALUS_E_ARGUMENT, {"opt"}, [] { return talus_advance(nullptr, nullptr); });
  refused_on(device, TALUS_E_STATE, {"talus_advance", "talus_prepare"},
             [&] { return talus_advance(device.opt, nullptr); });
  step(device);
  refused_on(device, TALUS_E_STATE, {"talus_advance", "capturing"},
             [&] { return talus_advance(device.opt, kFakeCapture); });
  const auto is_refused = [&](const char* what) {
    refused_on(device, TALUS_E_STATE, {"talus_advance", what, "talus_prepare"},
               [&] { return talus_advance(device.opt, nullptr); });
  };
  const auto capture = [&] {
    REQUIRE(talus_prepare(device.opt, nullptr) == TALUS_OK);
    REQUIRE(talus_step(device.opt, kFakeCapture) == TALUS_OK);
    REQUIRE(talus_advance(device.opt, nullptr) == TALUS_OK);
  };
  is_refused("no step has been captured");  // an eager one is none
  capture();
  REQUIRE(talus_set_setting(device.opt, "chunk_tiles", 1) == TALUS_OK);
  is_refused("no longer fits");
  REQUIRE(talus_prepare(device.opt, nullptr) == TALUS_OK);
  is_refused("no longer fits");  // the plan that the graph is of has gone
  capture();
  device.add(TALUS_F32, TALUS_F32, 5);
  step(device);
  is_refused("no longer fits");
  capture();
  for (const double stats : {1., 0.}) {
    REQUIRE(talus_set_setting(device.opt, "stats", stats) == TALUS_OK);
    is_refused("norm");
    capture();
  }
}

TEST_CASE("device: a scalar class that appears after the capture takes part in the replay") {
  Run device("adamw", 0), host("adamw", kHost);
  void* none = nullptr;
  const auto bind_last = [&](bool there) {
    both(device, host, [&](Run& run) {
      REQUIRE(talus_bind_grads(run.opt, 1, 1, there ? &run.tensors[1].grad : &none) == TALUS_OK);
    });
  };
  const auto take_step = [&] {
    REQUIRE(talus_advance(device.opt, kStream) == TALUS_OK);
    REQUIRE(fake().replay() == TALUS_OK);
    step(host);
  };
  REQUIRE(talus_prepare(device.opt, kStream) == TALUS_OK);
  REQUIRE(talus_step(device.opt, kFakeCapture) == TALUS_OK);
  bind_last(false);
  take_step();
  bind_last(true);
  take_step();
  CHECK(steps(device.opt, 1) == 1);
  CHECK(first_difference(device.bytes(), host.bytes()) == "");
}

TEST_CASE("device: a capture holds none of the rows of the eager step before it") {
  Run device("adagrad", 0), host("adagrad", kHost);
  both(device, host, [](Run& run) {
    const int32_t numbers[] = {7, 2};
    talus_rows rows{};
    rows.struct_size = sizeof rows;
    rows.index_dtype = TALUS_I32;
    rows.count = 2;
    rows.indices = run.memory.put(numbers, sizeof numbers);
    rows.values = run.memory.put(Run::bytes_of(TALUS_F32, 2, 3).data(), 8);
    REQUIRE(talus_bind_rows(run.opt, 0, &rows) == TALUS_OK);
    step(run);
  });
  REQUIRE(talus_prepare(device.opt, kStream) == TALUS_OK);
  REQUIRE(talus_step(device.opt, kFakeCapture) == TALUS_OK);
  REQUIRE(talus_advance(device.opt, kStream) == TALUS_OK);
  REQUIRE(fake().replay() == TALUS_OK);
  step(host);
  CHECK(first_difference(device.bytes(), host.bytes()) == "");
}

TEST_CASE("device: more rows than a parameter has are refused where they are bound") {
  Run device("adagrad", 0);
  const std::vector<char> zeros(5002 * 4);
  talus_rows rows{};
  rows.struct_size = sizeof rows;
  rows.index_dtype = TALUS_I32;
  rows.count = 5002;
  rows.indices = device.memory.put(zeros.data(), zeros.size());
  rows.values = device.memory.put(zeros.data(), zeros.size());
  refused_on(device, TALUS_E_ARGUMENT, {"count is 5002", "5001", "different"},
             [&] { return talus_bind_rows(device.opt, 0, &rows); });
}

TEST_CASE("device: prepare on a capturing stream is refused before anything is allocated") {
  Run device("adamw", 0);
  const int64_t calls = fake().log().calls;
  CHECK(talus_prepare(device.opt, kFakeCapture) == TALUS_E_NOT_PREPARED);
  CHECK(fake().log().calls == calls);
  CHECK(device.stats().state_bytes == 0);
  step(device);
}

TEST_CASE("device: an allocation that finds the device lost says so, and it stays lost") {
  Run device("adamw", 0);
  const Failing plan("allocate", 1, TALUS_E_DEVICE_LOST, 719);
  CHECK(talus_prepare(device.opt, nullptr) == TALUS_E_DEVICE_LOST);
  const std::string first = talus_last_error();
  CHECK(first.find("fakeCall(allocate): error 719") != std::string::npos);
  CHECK(talus_step(device.opt, nullptr) == TALUS_E_DEVICE_LOST);
  CHECK(talus_last_error() == first);
}

TEST_CASE("device: a capture that fails half way has done nothing, and eager steps go on") {
  Run device("adamw", 0), host("adamw", kHost);
  REQUIRE(talus_prepare(device.opt, nullptr) == TALUS_OK);
  const Failing plan("run", 2, TALUS_E_DEVICE, 700);
  refused_on(device, TALUS_E_DEVICE, {"fakeCall(run)", "error 700"},
             [&] { return talus_step(device.opt, kFakeCapture); });
  both(device, host, [](Run& run) { step(run); });
  CHECK(first_difference(device.bytes(), host.bytes()) == "");
}

TEST_CASE("device: the host's allocator serves it, with the stream of the call") {
  Run device("adamw", 0);
  struct Host {
    Memory memory{0};
    int live = 0, calls = 0;
    void* stream = nullptr;
  } host;
  talus_allocator allocator{};
  allocator.struct_size = sizeof allocator;
  allocator.user = &host;
  allocator.alloc = [](void* user, uint64_t bytes, uint64_t, void* stream) {
    Host& h = *static_cast<Host*>(user);
    ++h.live, ++h.calls, h.stream = stream;
    return h.memory.put(std::vector<char>(bytes).data(), bytes);
  };
  allocator.release = [](void* user, void*, uint64_t, void*) { --static_cast<Host*>(user)->live; };
  REQUIRE(talus_set_allocator(device.opt, &allocator) == TALUS_OK);
  step(device, kStream);
  CHECK((host.calls > 0 && host.stream == kStream));
  talus_destroy(device.opt);
  device.opt = nullptr;
  CHECK(host.live == 0);
}

TEST_CASE(
    "device: checkpoints have the CPU's bytes, and a copy that fails is told and changes nothing") {
  Run device("adamw", 1), host("adamw", kHost), fresh("adamw", 1);
  both(device, host, [](Run& run) { step(run), step(run); });
  const std::string saved = test::save_bytes(device.opt, TALUS_SAVE_PARAMS);
  CHECK(saved == test::save_bytes(host.opt, TALUS_SAVE_PARAMS));
  for (const char* function : {"set_staging", "start_copy", "wait_copy"})
    for (int call = 1; call <= 2; ++call) {
      INFO(function << ", call " << call);
      if (std::string(function) == "set_staging" && call == 2) continue;
      const Failing failing(function, call, TALUS_E_DEVICE, 719);
      refused_on(fresh, TALUS_E_DEVICE, {},
                 [&] { return test::load_bytes(fresh.opt, saved, TALUS_LOAD_PARAMS); });
    }
  REQUIRE(test::load_bytes(fresh.opt, saved, TALUS_LOAD_PARAMS) == TALUS_OK);
  CHECK(test::save_bytes(fresh.opt, TALUS_SAVE_PARAMS) == saved);
  both(fresh, host, [](Run& run) { step(run); });
  CHECK(test::save_bytes(fresh.opt, TALUS_SAVE_PARAMS) ==
        test::save_bytes(host.opt, TALUS_SAVE_PARAMS));
}

TEST_CASE("device: steps that the device decides on, eager and captured, give the CPU's bits") {
  Run device("adamw", 0), host("adamw", kHost);
  both(device, host, [](Run& run) {
    REQUIRE(talus_set_setting(run.opt, "max_grad_norm", 0.5) == TALUS_OK);
    REQUIRE(talus_set_setting(run.opt, "max_grad_value", 0.25) == TALUS_OK);
    step(run);
  });
  const auto poison = [](Run& run, uint32_t bits) {
    run.memory.write(static_cast<float*>(run.tensors[0].grad) + 17, &bits, sizeof bits);
  };
  both(device, host, [&](Run& run) {
    poison(run, 0x7f800000);
    step(run);  // skipped
    CHECK(run.stats().found_inf == 1);
    CHECK(run.stats().nonfinite_param == 0);
    CHECK(run.stats().skipped == 1);
    poison(run, 0x3f000000);
    step(run);
  });
  CHECK(first_difference(device.bytes(), host.bytes()) == "");
  REQUIRE(talus_prepare(device.opt, nullptr) == TALUS_OK);
  step(device, kFakeCapture);
  for (const uint32_t bits : {0x3f000000u, 0x7fc00000u, 0x3e000000u}) {
    both(device, host, [&](Run& run) { poison(run, bits); });
    REQUIRE(talus_advance(device.opt, nullptr) == TALUS_OK);
    REQUIRE(fake().replay() == TALUS_OK);
    step(host);
    CHECK(first_difference(device.bytes(), host.bytes()) == "");
    CHECK(exact(device.stats().grad_norm) == exact(host.stats().grad_norm));
  }
  CHECK(device.stats().skipped == 2);
}

TEST_CASE(
    "device: failures around a decision leave a step repeatable before it, and lost behind it") {
  for (const char* function : {"send_order", "measure", "decide"}) {
    CAPTURE(function);
    Run device("adamw", 0), host("adamw", kHost);
    both(device, host, [](Run& run) {
      REQUIRE(talus_set_setting(run.opt, "check_finite", 1) == TALUS_OK);
      step(run);
    });
    const Failing failing(function, 1, TALUS_E_DEVICE, 7);
    refused_on(device, TALUS_E_DEVICE, {function}, [&] { return talus_step(device.opt, nullptr); });
    both(device, host, [](Run& run) { step(run); });
    CHECK(first_difference(device.bytes(), host.bytes()) == "");
  }
  for (const char* function : {"run", "queue_report"}) {
    CAPTURE(function);
    Run device("adamw", 0);
    REQUIRE(talus_set_setting(device.opt, "check_finite", 1) == TALUS_OK);
    step(device);
    const Failing failing(function, 1, TALUS_E_DEVICE, 7);
    CHECK(talus_step(device.opt, nullptr) == TALUS_E_DEVICE_LOST);
    CHECK(talus_step(device.opt, nullptr) == TALUS_E_DEVICE_LOST);
  }
}

TEST_CASE("device: a scaler there is the CPU's, and no optimizer of another device takes it") {
  Run device("sgd", 0), other("sgd", 1), host("sgd", kHost);
  const auto with = [](Run& run, int32_t type, int32_t id, talus_scaler** out) {
    REQUIRE(talus_scaler_create(type, id, out) == TALUS_OK);
    REQUIRE(talus_scaler_set(*out, "growth_interval", 1) == TALUS_OK);
    REQUIRE(talus_attach_scaler(run.opt, *out) == TALUS_OK);
  };
  talus_scaler *there = nullptr, *here = nullptr;
  with(device, TALUS_CUDA, 0, &there);
  with(host, TALUS_CPU, 0, &here);
  CHECK(talus_attach_scaler(other.opt, there) == TALUS_E_ARGUMENT);
  for (int round = 0; round < 3; ++round) {
    step(device, kStream);
    step(host);
    REQUIRE(talus_scaler_update(there, kStream) == TALUS_OK);
    REQUIRE(talus_scaler_update(here, nullptr) == TALUS_OK);
    double a = 0, b = 0;
    REQUIRE(talus_scaler_scale(there, &a) == TALUS_OK);
    REQUIRE(talus_scaler_scale(here, &b) == TALUS_OK);
    CHECK(a == b);
    CHECK(a == 65536 * std::pow(2, round + 1));
  }
  CHECK(first_difference(device.bytes(), host.bytes()) == "");
  talus_scaler_destroy(there);
  talus_scaler_destroy(here);
}
