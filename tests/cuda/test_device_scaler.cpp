// Loss scalers on a device, by emulation: the scale lives and moves there, and the CPU's is the same.
#include "tests/cuda/amp_run.h"

using namespace talus::test;

namespace {

const HyperSet kAdamW = {"adamw", "", {}};

struct DeviceFloat {
  Buffer host{TALUS_F32, 1};
  DeviceCopy device{host, 0};
  explicit DeviceFloat(double value) { set(value); }
  void set(double value) {
    host.set(0, value);
    device.send(host);
  }
  const float* data() const { return static_cast<const float*>(device.data()); }
};

}  // namespace

TEST_CASE("cuda scaler: 60 rounds with infinities, every scale, tracker and bit as on the CPU") {
  const Fresh fresh;
  for (const double hysteresis : {1.0, 2.0}) {
    DeviceRun run(kAdamW, {{kF32, 40, 0, 0}, {all_mixes()[3], 20, 1, 0}, {kF64, 7, 0, 0}});
    ScalerPair scaler;
    scaler.set("init_scale", 1000);
    scaler.set("growth_factor", 1.7);
    scaler.set("backoff_factor", 0.3);
    scaler.set("growth_interval", 3);
    scaler.set("hysteresis", hysteresis);
    scaler.set("min_scale", 4);
    scaler.attach(run);
    if (hysteresis == 2) setting_both(run, "max_grad_norm", 1e-3);
    for (int step = 0; step < 30; ++step) {
      CAPTURE(hysteresis, step);
      set_step_grads(run, step, 300, is_bad_step(3, step));
      run.step_both();
      if (step % 5 == 0) REQUIRE(stats_difference(run) == "");
      scaler.update();
      REQUIRE(scaler.difference() == "");
    }
    REQUIRE(run.difference_from_host() == "");
    CHECK(scaler.device.get("total_skips") > 2);
  }
}

TEST_CASE("cuda scaler: a step and an update queue and wait for nothing") {
  const Fresh fresh;
  const Stream stream;
  DeviceRun run(kAdamW, {{kF32, 40, 0, 0}});
  ScalerPair scaler;
  scaler.attach(run);
  for (int step = 0; step < 2; ++step) run.step_both(stream), scaler.update(stream);
  emu_defer(1);
  const size_t mark = emu_log_size();
  for (int step = 0; step < 8; ++step) {
    must(talus_step(run.opt, stream));
    must(talus_scaler_update(scaler.device, stream));
  }
  CHECK(forbidden(mark) == "");
  CHECK(scaler.device.get("growth_tracker") == 10);  // waits
  emu_defer(0);
  for (int step = 0; step < 8; ++step) {
    run.host.step();
    must(talus_scaler_update(scaler.host, nullptr));
  }
  REQUIRE(run.difference_from_host() == "");
  CHECK(scaler.difference() == "");
}

TEST_CASE("cuda scaler: two optimizers share one, each skips alone, and rounds are kept") {
  const Fresh fresh;
  DeviceRun first(kAdamW, {{kF32, 40, 0, 0}}), second({"sgd", "", {}}, {{kF32, 30, 0, 0}});
  ScalerPair scaler;
  scaler.attach(first);
  scaler.attach(second);
  CHECK(talus_scaler_update(scaler.device, nullptr) == TALUS_E_STATE);  // nobody has stepped
  for (int step = 0; step < 6; ++step) {
    set_step_grads(first, step, 1, step == 1 || step == 4);
    set_step_grads(second, step, 1, step == 2 || step == 4);
    first.step_both();
    CHECK(talus_step(first.opt, nullptr) == TALUS_E_STATE);  // twice in a round
    CHECK(talus_scaler_set(scaler.device, "scale", 8) == TALUS_E_STATE);
    second.step_both();
    scaler.update();
    REQUIRE(scaler.difference() == "");
  }
  CHECK(scaler.device.get("total_skips") == 3);
  for (DeviceRun* run : {&first, &second}) {
    REQUIRE(run->difference_from_host() == "");
    CHECK(stats_difference(*run) == "");
  }
}

TEST_CASE("cuda scaler: one of another device is refused, and one that is destroyed serves on") {
  const Fresh fresh;
  DeviceRun run(kAdamW, {{kF32, 40, 0, 0}});
  {
    ScalerPair scaler;
    CHECK(talus_attach_scaler(run.opt, scaler.host) == TALUS_E_ARGUMENT);
    CHECK(talus_attach_scaler(run.host.get(), scaler.device) == TALUS_E_ARGUMENT);
    scaler.attach(run);
  }
  run.step_both();
  REQUIRE(run.difference_from_host() == "");
  CHECK(stats_of(run.opt).loss_scale == 65536);
}

TEST_CASE("cuda scaler: a bound scale and flag are read on the device by each step") {
  const Fresh fresh;
  DeviceRun run(kAdamW, {{kF32, 40, 0, 0}, {kF64, 7, 0, 0}});
  DeviceFloat scale(8), flag(0);
  float host_scale = 8, host_flag = 0;
  const auto set = [&](float s, float f) { scale.set(host_scale = s), flag.set(host_flag = f); };
  const float on_host = 1;
  CHECK(talus_bind_scale(run.opt, &on_host, nullptr) == TALUS_E_ARGUMENT);
  must(talus_bind_scale(run.opt, scale.data(), flag.data()));
  must(talus_bind_scale(run.host.get(), &host_scale, &host_flag));
  run.step_both();
  set(3, 1);  // skipped
  run.step_both();
  set(3, 0);
  run.step_both();
  REQUIRE(run.difference_from_host() == "");
  CHECK(stats_of(run.opt).skipped == 1);
  CHECK(stats_of(run.opt).loss_scale == 3);
  must(talus_bind_scale(run.opt, scale.data(), nullptr));  // it checks by itself
  must(talus_bind_scale(run.host.get(), &host_scale, nullptr));
  set_step_grads(run, 1, 1, true);
  run.step_both();
  CHECK(stats_difference(run) == "");
  set_step_grads(run, 2, 1, false);
  set(0, 0);  // no scale at all: told by the next call that learns of it
  must(talus_step(run.opt, nullptr));
  set(4, 0);
  CHECK(talus_step(run.opt, nullptr) == TALUS_E_RANGE);
  CHECK(std::string(talus_last_error()).find("bound scale") != std::string::npos);
  run.step_both();
  REQUIRE(run.difference_from_host() == "");
}
