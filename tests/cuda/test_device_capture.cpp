// Captured steps that the device decides on, by emulation: replayed behind talus_advance they have the
// bits of eager ones and of the CPU.
#include "tests/cuda/amp_run.h"

using namespace talus::test;

namespace {

const HyperSet kAdamW = {"adamw", "", {{"weight_decay", .1}}};

std::vector<Shape> shapes() {
  return {{kF32, 21, 1, 0}, {all_mixes()[3], 10, 0, 0}, {kF64, 5, 0, 0}};
}

void configure(DeviceRun& run, ScalerPair& scaler, talus_schedule* schedule) {
  scaler.set("init_scale", 1000);
  scaler.set("growth_interval", 3);
  scaler.attach(run);
  setting_both(run, "max_grad_norm", 0.05);
  setting_both(run, "max_grad_value", 0.1);
  must(talus_attach_schedule(run.opt, 0, "lr", schedule, TALUS_CLOCK_APPLIED));
  must(talus_attach_schedule(run.host.get(), 0, "lr", schedule, TALUS_CLOCK_APPLIED));
}

}  // namespace

TEST_CASE("cuda replays: 200 captured steps with scaler, clips and infinities are the eager ones") {
  const Fresh fresh;
  const Stream stream;
  talus_schedule* schedule = nullptr;
  must(talus_schedule_create("cosine", &schedule));
  must(talus_schedule_set(schedule, "T_max", 150));
  {
    DeviceRun run(kAdamW, shapes()), eager(kAdamW, shapes());
    ScalerPair scaler, second;
    configure(run, scaler, schedule);
    configure(eager, second, schedule);
    must(talus_prepare(run.opt, stream));
    const size_t mark = emu_log_size();
    const Graph graph(stream, [&] {
      must(talus_step(run.opt, stream));
      must(talus_scaler_update(scaler.device, stream));
    });
    CHECK(graph.node_count() == emu_count(EMU_LAUNCH, mark));
    for (int step = 0; step < 200; ++step) {
      CAPTURE(step);
      for (DeviceRun* each : {&run, &eager}) set_step_grads(*each, step, 300, is_bad_step(9, step));
      const size_t before = emu_log_size();
      must(talus_advance(run.opt, stream));
      must_cuda(cudaGraphLaunch(graph.exec, stream));
      if (step > 0) CHECK(forbidden(before) == "");
      run.host.step();
      must(talus_scaler_update(scaler.host, nullptr));
      eager.step_both(stream);
      second.update(stream);
      if (step % 40 != 39) continue;
      REQUIRE(run.difference_from_host() == "");
      REQUIRE(eager.difference_from_host() == "");
      REQUIRE(scaler.difference() == "");
      REQUIRE(stats_difference(run) == "");
    }
    CHECK(stats_of(run.opt).skipped > 20);
    CHECK(stats_of(run.opt).steps + stats_of(run.opt).skipped == 200);
    run.step_both(stream);  // and eager steps go on from there
    scaler.update(stream);
    REQUIRE(run.difference_from_host() == "");
    REQUIRE(scaler.difference() == "");
  }
  talus_schedule_destroy(schedule);
}

TEST_CASE("cuda replays: the host is ahead of replays as of steps") {
  const Fresh fresh;
  const Stream stream;
  DeviceRun run(kAdamW, {{kF32, 21, 1, 0}});
  setting_both(run, "check_finite", 1);
  must(talus_prepare(run.opt, stream));
  const Graph graph(stream, [&] { must(talus_step(run.opt, stream)); });
  emu_defer(1);
  for (int step = 0; step < 40; ++step) {
    run.set_both("lr", 0.001 * (step + 1));
    must(talus_advance(run.opt, stream));
    must_cuda(cudaGraphLaunch(graph.exec, stream));
    run.host.step();
  }
  emu_run_all();
  emu_defer(0);
  CHECK(stats_difference(run) == "");
  REQUIRE(run.difference_from_host() == "");
}

TEST_CASE("cuda replays: without an order of its own no step is taken, and the next call says so") {
  const Fresh fresh;
  const Stream stream;
  DeviceRun run(kAdamW, {{kF32, 21, 1, 0}});
  setting_both(run, "check_finite", 1);
  must(talus_prepare(run.opt, stream));
  const Graph graph(stream, [&] { must(talus_step(run.opt, stream)); });
  must(talus_advance(run.opt, stream));
  must_cuda(cudaGraphLaunch(graph.exec, stream));
  run.host.step();
  must_cuda(cudaGraphLaunch(graph.exec, stream));  // forgotten
  REQUIRE(run.difference_from_host() == "");
  CHECK(talus_advance(run.opt, stream) == TALUS_E_STATE);
  CHECK(std::string(talus_last_error()).find("talus_advance") != std::string::npos);
  must(talus_advance(run.opt, stream));
  must_cuda(cudaGraphLaunch(graph.exec, stream));
  run.host.step();
  REQUIRE(run.difference_from_host() == "");
}

TEST_CASE("cuda replays: what is not prepared, has to wait or has changed is refused") {
  const Fresh fresh;
  const Stream stream;
  DeviceRun run(kAdamW, {{kF32, 21, 1, 0}});
  must(talus_prepare(run.opt, stream));
  must(talus_set_setting(run.opt, "check_finite", 1));
  {
    const Graph none(stream, [&] { CHECK(talus_step(run.opt, stream) == TALUS_E_NOT_PREPARED); });
    CHECK(none.node_count() == 0);
  }
  must(talus_prepare(run.opt, stream));
  must(talus_set_setting(run.opt, "error_if_nonfinite", 1));
  {
    const Graph none(stream, [&] { CHECK(talus_step(run.opt, stream) == TALUS_E_UNSUPPORTED); });
    CHECK(none.node_count() == 0);
  }
  must(talus_set_setting(run.opt, "error_if_nonfinite", 0));
  const Graph graph(stream, [&] { must(talus_step(run.opt, stream)); });
  must(talus_set_setting(run.opt, "max_grad_value", 1));
  CHECK(talus_advance(run.opt, stream) == TALUS_E_STATE);
  must(talus_set_setting(run.opt, "max_grad_value", 0));
  must(talus_advance(run.opt, stream));
}

TEST_CASE("cuda replays: a clip by call is for one replay; of what is not finite there is none") {
  const Fresh fresh;
  const Stream stream;
  DeviceRun run(kAdamW, {{kF32, 21, 1, 0}});
  talus_optimizer* const host = run.host.get();
  const auto clip_both = [&](talus_status expected_host) {
    double norm = 0;
    must(talus_clip_grad_norm(&run.opt, 1, TALUS_ALL, 0.01, 2, &norm, nullptr));
    must(talus_clip_grad_norm(&host, 1, TALUS_ALL, 0.01, 2, nullptr, nullptr));
    CHECK(std::isfinite(norm) == (expected_host == TALUS_OK));
  };
  must(talus_prepare(run.opt, stream));
  const Graph graph(stream, [&] { must(talus_step(run.opt, stream)); });
  for (int step = 0; step < 4; ++step) {
    set_step_grads(run, step, 1, false);
    if (step % 2 == 0) clip_both(TALUS_OK);
    must(talus_advance(run.opt, stream));
    must_cuda(cudaGraphLaunch(graph.exec, stream));
    run.host.step();
    REQUIRE(run.difference_from_host() == "");
  }
  set_step_grads(run, 4, 1, true);
  clip_both(TALUS_E_NONFINITE);
  CHECK(talus_advance(run.opt, stream) == TALUS_E_NONFINITE);
  CHECK(talus_last_error_detail() == 0);
  run.host.step();  // skipped
  REQUIRE(run.difference_from_host() == "");
  set_step_grads(run, 5, 1, false);
  must(talus_advance(run.opt, stream));
  must_cuda(cudaGraphLaunch(graph.exec, stream));
  run.host.step();
  REQUIRE(run.difference_from_host() == "");
}

TEST_CASE("cuda replays: another capture without the update leaves the rounds to the host") {
  const Fresh fresh;
  const Stream stream;
  DeviceRun run(kAdamW, {{kF32, 21, 1, 0}});
  ScalerPair scaler;
  scaler.attach(run);
  must(talus_prepare(run.opt, stream));
  const Graph first(stream, [&] {
    must(talus_step(run.opt, stream));
    must(talus_scaler_update(scaler.device, stream));
  });
  const Graph second(stream, [&] { must(talus_step(run.opt, stream)); });
  for (int step = 0; step < 3; ++step) {
    must(talus_advance(run.opt, stream));
    must_cuda(cudaGraphLaunch(second.exec, stream));
    run.host.step();
    scaler.update(stream);
  }
  CHECK(scaler.difference() == "");
  REQUIRE(run.difference_from_host() == "");
}
