// Steps that the device decides on, by emulation: what is skipped changes nothing, what is taken has the
// CPU's bits, and the host does not wait for either.
#include "tests/cuda/amp_run.h"
#include "tests/reference/all.hpp"

using namespace talus::test;

namespace {

const HyperSet kAdamW = {"adamw", "", {{"weight_decay", .1}}};

std::vector<Shape> shapes() {
  std::vector<Shape> out;
  for (const Mix& mix : all_mixes())
    out.push_back({mix, 9 + int64_t(out.size()), out.size() % 2, 0});
  out.push_back({kF32, 4100, 0, 0});
  return out;
}

struct Schedule {
  talus_schedule* handle = nullptr;
  Schedule() {
    must(talus_schedule_create("exponential", &handle));
    must(talus_schedule_set(handle, "gamma", 0.9));
  }
  ~Schedule() { talus_schedule_destroy(handle); }
};

void attach_both(DeviceRun& run, const Schedule& schedule, int32_t clock) {
  must(talus_attach_schedule(run.opt, 0, "lr", schedule.handle, clock));
  must(talus_attach_schedule(run.host.get(), 0, "lr", schedule.handle, clock));
}

}  // namespace

TEST_CASE("cuda orders: clipped steps of every mix and norm, some skipped, have the CPU's bits") {
  const Fresh fresh;
  for (const double type : {1.0, 2.0, double(INFINITY)})
    for (const double limit : {0.0, 0.03}) {
      DeviceRun run(kAdamW, shapes());
      setting_both(run, "max_grad_norm", 0.75);
      setting_both(run, "grad_norm_type", type);
      setting_both(run, "max_grad_value", limit);
      setting_both(run, "grad_scale", 3);
      for (int step = 0; step < 6; ++step) {
        CAPTURE(type, limit, step);
        set_step_grads(run, step, 1, step == 0 || step == 3);
        run.step_both();
        REQUIRE(stats_difference(run) == "");
        REQUIRE(run.difference_from_host() == "");
      }
    }
}

TEST_CASE("cuda orders: every rule, checked, with a first step that is skipped") {
  const Fresh fresh;
  for (const HyperSet& set : hyper_sets()) {
    if (Optimizer::takes_rows_only(set.algorithm)) continue;
    INFO(set.algorithm << ", " << set.name);
    DeviceRun run(set, {{kF32, 37, 0, 0}, {all_mixes()[0], 9, 1, 0}});
    setting_both(run, "check_finite", 1);
    for (int step = 0; step < 4; ++step) {
      set_step_grads(run, step, 1, step % 2 == 0);
      run.step_both();
    }
    REQUIRE(run.difference_from_host() == "");
    REQUIRE(stats_difference(run) == "");
  }
}

TEST_CASE("cuda orders: every rule, clipped by the step and by call") {
  const Fresh fresh;
  for (const HyperSet& set : hyper_sets()) {
    if (Optimizer::takes_rows_only(set.algorithm)) continue;
    INFO(set.algorithm << ", " << set.name);
    DeviceRun run(set, {{kF32, 37, 0, 0}, {all_mixes()[0], 9, 1, 0}});
    talus_optimizer* const host = run.host.get();
    for (int step = 0; step < 4; ++step) {
      setting_both(run, "max_grad_norm",
                   step == 1 ? 0 : 0.3);  // the host's, then the device's step
      setting_both(run, "grad_norm_type", step == 3 ? 1 : 2);
      set_step_grads(run, step, 1, false);
      if (step > 0) {
        must(talus_clip_grad_norm(&run.opt, 1, 0, 0.125, 2, nullptr, nullptr));
        must(talus_clip_grad_norm(&host, 1, 0, 0.125, 2, nullptr, nullptr));
      }
      run.step_both();
      REQUIRE(run.difference_from_host() == "");
    }
    REQUIRE(stats_difference(run) == "");
  }
}

TEST_CASE(
    "cuda orders: a sum of f64 that overflows skips a step where the norm is to clip, else none") {
  const Fresh fresh;
  for (const double type : {1.0, 2.0, double(INFINITY)})
    for (const double max_norm : {0.0, 1.0}) {
      CAPTURE(type, max_norm);
      DeviceRun run(kAdamW, {{kF32, 40, 0, 0}, {kF64, 30, 0, 0}});
      setting_both(run, "check_finite", 1);
      setting_both(run, "stats", 1);
      setting_both(run, "grad_norm_type", type);
      setting_both(run, "max_grad_norm", max_norm);
      for (int step = 0; step < 4; ++step) {  // large, infinite, large, small
        run.set_grads([&](size_t k, int64_t i) {
          const bool large = k == 1 && i < 2 && step < 3;
          return !large ? grad_value(k, step, i) : step == 1 ? double(INFINITY) : 1.5e308;
        });
        run.step_both();
        REQUIRE(stats_difference(run) == "");
        REQUIRE(run.difference_from_host() == "");
      }
      const bool skips = max_norm > 0 && type != double(INFINITY);
      CHECK(stats_of(run.opt).skipped == (skips ? 3 : 1));
    }
}

TEST_CASE("cuda orders: the host runs ahead without a wait, over skips, schedules and new values") {
  const Fresh fresh;
  for (const int32_t clock : {TALUS_CLOCK_APPLIED, TALUS_CLOCK_CALLED}) {
    const Stream stream;
    const Schedule schedule;
    DeviceRun run(kAdamW, {{kF32, 70, 0, 0}, {all_mixes()[3], 20, 1, 0}});
    attach_both(run, schedule, clock);
    setting_both(run, "max_grad_norm", 0.5);
    std::deque<DeviceCopy> grads;  // of each step, for none has been read when the next is written
    for (int step = 0; step < 12; ++step) {
      set_step_grads(run, step, 1, is_bad_step(1, step));
      for (const TestTensor& t : run.tensors) grads.emplace_back(t.grad, 0);
    }
    must(talus_prepare(run.opt, stream));
    emu_defer(1);
    for (int step = 0; step < 12; ++step) {
      void* bound[2] = {grads[2 * size_t(step)].data(), grads[2 * size_t(step) + 1].data()};
      must(talus_bind_grads(run.opt, 0, 2, bound));
      if (step % 5 == 0) must(talus_set(run.opt, 0, "eps", 1e-8 * (step + 1)));
      const size_t mark = emu_log_size();
      must(talus_step(run.opt, stream));
      if (step > 0) CHECK(forbidden(mark) == "");
    }
    CHECK(stats_of(run.opt, 0).steps == 0);  // nothing is known
    emu_run_all();
    emu_defer(0);
    int skipped = 0;
    for (int step = 0; step < 12; ++step) {
      for (size_t k = 0; k < 2; ++k)
        for (int64_t i = 0; i < run.tensors[k].extent; ++i) {
          const bool bad = is_bad_step(1, step) && k == size_t(step) % 2 && i == step % 3;
          run.tensors[k].grad.set(
              i, bad ? (step % 2 ? double(INFINITY) : double(NAN)) : grad_value(k, step, i));
        }
      skipped += is_bad_step(1, step);
      if (step % 5 == 0) run.host.set("eps", 1e-8 * (step + 1));
      run.host.step();
    }
    CHECK(skipped > 1);
    for (size_t k = 0; k < 2; ++k) run.grads[k].send(run.tensors[k].grad);
    CHECK(stats_difference(run) == "");
    REQUIRE(run.difference_from_host() == "");
  }
}

TEST_CASE("cuda orders: more steps than may be under way wait for the oldest, and are all taken") {
  const Fresh fresh;
  const Stream stream;
  DeviceRun run(kAdamW, {{kF32, 40, 0, 0}});
  setting_both(run, "check_finite", 1);
  must(talus_prepare(run.opt, stream));
  emu_defer(1);
  for (int step = 0; step < 60; ++step) must(talus_step(run.opt, stream));
  emu_run_all();
  emu_defer(0);
  for (int step = 0; step < 60; ++step) run.host.step();
  CHECK(stats_difference(run) == "");
  REQUIRE(run.difference_from_host() == "");
}

TEST_CASE("cuda orders: gradients that come and go while steps are under way") {
  const Fresh fresh;
  const Stream stream;
  DeviceRun run(kAdamW, {{kF32, 40, 0, 0}, {kF32, 30, 0, 0}, {kF64, 20, 0, 0}});
  setting_both(run, "check_finite", 1);
  const auto step_deferred = [&](bool bad) {
    set_step_grads(run, 0, 1, bad);
    emu_defer(1);
    run.step_both(stream);
  };
  const auto bind = [&](size_t k, bool there) { run.bind_grad(k, there); };
  run.bind_grad(1, false);
  step_deferred(true);  // a first step that is skipped
  bind(1, true);        // joins: its own count is another now
  step_deferred(false);
  bind(0, false);
  step_deferred(false);  // without tensor 0
  bind(0, true);
  step_deferred(true);
  must(talus_zero_grad(run.opt, TALUS_ZERO_UNBIND, nullptr));  // all go and come back
  must(talus_zero_grad(run.host.get(), TALUS_ZERO_UNBIND, nullptr));
  for (size_t k = 0; k < 3; ++k) bind(k, true);
  const size_t mark = emu_log_size();
  step_deferred(false);
  CHECK(emu_count(EMU_LAUNCH, mark) > 0);
  run.add({kF32, 12, 0, 0});
  step_deferred(false);
  emu_run_all();
  emu_defer(0);
  REQUIRE(run.difference_from_host() == "");
  CHECK(stats_difference(run) == "");
}

TEST_CASE("cuda orders: all gradients go and come back between two steps without a wait") {
  const Fresh fresh;
  const Stream stream;
  DeviceRun run(kAdamW, {{kF32, 40, 0, 0}, {kF32, 30, 0, 0}});
  setting_both(run, "check_finite", 1);
  run.step_both(stream);
  std::vector<void*> grads = {run.grads[0].data(), run.grads[1].data()};
  emu_defer(1);
  const size_t mark = emu_log_size();
  for (int step = 0; step < 5; ++step) {
    must(talus_zero_grad(run.opt, TALUS_ZERO_UNBIND, nullptr));
    must(talus_bind_grads(run.opt, 0, 2, grads.data()));
    must(talus_step(run.opt, stream));
  }
  CHECK(forbidden(mark) == "");
  emu_run_all();
  emu_defer(0);
  for (int step = 0; step < 5; ++step) run.host.step();
  REQUIRE(run.difference_from_host() == "");
}

TEST_CASE("cuda orders: of 10,000 tensors with one infinity not one byte changes") {
  const Fresh fresh;
  constexpr int64_t kTensors = 10000, kEach = 3;
  Buffer params(TALUS_F32, kTensors * kEach), grads(TALUS_F32, kTensors * kEach);
  for (int64_t i = 0; i < kTensors * kEach; ++i)
    params.set(i, param_value(1, i)), grads.set(i, grad_value(1, 1, i));
  const DeviceCopy data(params, 0), grad(grads, 0);
  std::vector<talus_param> list(kTensors);
  for (int64_t k = 0; k < kTensors; ++k) {
    talus_param& p = list[size_t(k)];
    p = {};
    p.struct_size = sizeof p;
    p.dtype = TALUS_F32;
    p.data = static_cast<float*>(data.data()) + k * kEach;
    p.grad = static_cast<float*>(grad.data()) + k * kEach;
    p.shape = &kEach;
    p.ndim = 1;
  }
  talus_optimizer* opt = nullptr;
  must(talus_create("adamw", TALUS_CUDA, 0, &opt));
  must(talus_set_setting(opt, "check_pointers", 0));
  must(talus_set_setting(opt, "check_finite", 1));
  must(talus_add_params(opt, 0, kTensors, list.data(), nullptr));
  must(talus_step(opt, nullptr));
  // Parameters, and the block that all state lies in.
  const char *first = nullptr, *last = nullptr;
  for (int64_t i = 0; i < talus_state_count(opt); ++i) {
    talus_state s{};
    s.struct_size = sizeof s;
    must(talus_state_info(opt, i, &s));
    const char* const at = static_cast<const char*>(s.data);
    first = first && first < at ? first : at;
    last = last > at + s.bytes ? last : at + s.bytes;
  }
  const auto bytes = [&] {
    std::vector<char> out(params.bytes() + size_t(last - first));
    must_cuda(cudaMemcpy(out.data(), data.data(), params.bytes(), cudaMemcpyDeviceToHost));
    must_cuda(cudaMemcpy(out.data() + params.bytes(), first, size_t(last - first),
                         cudaMemcpyDeviceToHost));
    return out;
  };
  const auto step_with = [&](double value) {
    grads.set(7777 * kEach + 1, value);
    grad.send(grads);
    must(talus_step(opt, nullptr));
  };
  const std::vector<char> before = bytes();
  step_with(INFINITY);
  CHECK(bytes() == before);
  const talus_stats stats = stats_of(opt);
  CHECK(stats.found_inf == 1);
  CHECK(stats.nonfinite_param == 7777);
  CHECK(stats.steps == 1);
  CHECK(stats.skipped == 1);
  step_with(0.5);
  CHECK(bytes() != before);
  CHECK(stats_of(opt).steps == 2);
  talus_destroy(opt);
}

TEST_CASE("cuda orders: a step that is not finite is an error where that was asked for") {
  const Fresh fresh;
  DeviceRun run(kAdamW, {{kF32, 40, 0, 0}, {kF32, 30, 0, 0}});
  setting_both(run, "check_finite", 1);
  setting_both(run, "error_if_nonfinite", 1);
  run.step_both();
  set_step_grads(run, 1, 1, true);
  CHECK(talus_step(run.opt, nullptr) == TALUS_E_NONFINITE);
  CHECK(talus_last_error_detail() == 1);
  CHECK(talus_step(run.host.get(), nullptr) == TALUS_E_NONFINITE);
  CHECK(stats_difference(run) == "");  // of the step before
  set_step_grads(run, 2, 1, false);
  run.step_both();
  CHECK(stats_difference(run) == "");
  REQUIRE(run.difference_from_host() == "");
}

TEST_CASE("cuda orders: clipping by call, then steps of the host and of the device in turns") {
  const Fresh fresh;
  DeviceRun run(kAdamW, {{kF32, 40, 0, 0}, {kF32, 30, 0, 0}});
  for (int step = 0; step < 8; ++step) {
    setting_both(run, "check_finite", step % 2);
    set_step_grads(run, step, 1, step == 3);
    if (step % 3 == 0) {
      double norms[2];
      must(talus_clip_grad_norm(&run.opt, 1, TALUS_ALL, 0.25, 2, &norms[0], nullptr));
      talus_optimizer* host = run.host.get();
      must(talus_clip_grad_norm(&host, 1, TALUS_ALL, 0.25, 2, &norms[1], nullptr));
      CHECK(same_number(norms[0], norms[1]));
    }
    run.step_both();
  }
  CHECK(stats_difference(run) == "");
  REQUIRE(run.difference_from_host() == "");
}

TEST_CASE("cuda orders: any call of the runtime may fail: an error, no leak, right bits or none") {
  int failed = 0;
  for (int nth = 1;; ++nth) {
    const Fresh fresh;
    INFO("call " << nth);
    DeviceRun run(kAdamW, {{kF32, 40, 0, 0}, {all_mixes()[3], 20, 1, 0}});
    setting_both(run, "max_grad_norm", 0.5);
    emu_fail(nullptr, nth, cudaErrorInvalidValue);
    talus_status status = TALUS_OK;
    for (int step = 0; step < 3 && status == TALUS_OK; ++step) {
      status = talus_step(run.opt, nullptr);
      if (status == TALUS_OK) run.host.step();
    }
    const bool happened = emu_failures() > 0;
    emu_reset();
    CHECK(cudaGetLastError() == cudaSuccess);
    if (!happened) break;
    ++failed;
    if (status == TALUS_OK) {
      CHECK(run.difference_from_host() == "");
      continue;
    }
    const talus_status next = talus_step(run.opt, nullptr);
    CHECK((next == TALUS_OK || next == TALUS_E_DEVICE_LOST));
    if (next != TALUS_OK) continue;
    run.host.step();
    CHECK(run.difference_from_host() == "");
  }
  CHECK(failed > 20);
}
