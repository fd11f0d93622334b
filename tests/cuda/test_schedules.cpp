// Schedules of an optimizer on the emulated device: the bits of the CPU, in eager and in replayed steps.
#include "tests/cuda/device_run.h"
#include "tests/schedule.h"

using namespace talus::test;

namespace {

const std::vector<Shape> kShapes = {
    {kF32, 5000, 1, 0}, {all_mixes()[3], 40, 0, 1}, {kF64, 3, 0, 0}};

Schedule warmup_then_cosine() {
  return Schedule(ScheduleSpec{"sequential",
                               {},
                               {3},
                               {{"linear", {{"start_factor", 0.25}, {"total_iters", 3}}},
                                {"cosine_restarts", {{"T_0", 4}, {"eta_min", 1e-5}}}}});
}

// A schedule on both sides.
void attach_both(DeviceRun& run, const char* hyper, const Schedule& schedule, int32_t clock) {
  attach(run.opt, hyper, schedule, clock);
  attach(run.host.get(), hyper, schedule, clock);
}

void attach_three(DeviceRun& run) {
  attach_both(run, "lr", warmup_then_cosine(), TALUS_CLOCK_APPLIED);
  attach_both(run, "beta1", Schedule("exponential", {{"gamma", 0.97}}), TALUS_CLOCK_CALLED);
  Schedule product("multiplicative");
  product.function([](void*, int64_t t) { return t % 2 != 0 ? 0.5 : 1.5; });
  attach_both(run, "weight_decay", product, TALUS_CLOCK_MANUAL);
}

void set_clocks(DeviceRun& run, int64_t t) {
  must(talus_set_clock(run.opt, t));
  must(talus_set_clock(run.host.get(), t));
}

void new_grads(DeviceRun& run, int step) {
  run.set_grads([&](size_t k, int64_t i) { return grad_value(k, step, i); });
}

void replay(DeviceRun& run, const Graph& graph, cudaStream_t stream) {
  must(talus_advance(run.opt, stream));
  must_cuda(cudaGraphLaunch(graph.exec, stream));
  run.host.step();
}

void check_same_clocks(const DeviceRun& run) {
  for (int32_t clock = TALUS_CLOCK_APPLIED; clock <= TALUS_CLOCK_MANUAL; ++clock)
    CHECK(clock_of(run.opt, clock) == clock_of(run.host.get(), clock));
}

}  // namespace

TEST_CASE("cuda schedules: eager steps have the bits of the CPU, and cost no call more") {
  const Fresh fresh;
  const Stream stream;
  DeviceRun run({"adamw", "", {}}, kShapes);
  attach_three(run);
  run.step_both(stream);
  for (int step = 1; step < 10; ++step) {
    new_grads(run, step);
    set_clocks(run, step / 2);
    const size_t mark = emu_log_size();
    run.step_both(stream);
    CHECK(emu_count(EMU_COPY, mark) == 1);  // the rows of scalars
    CHECK(forbidden(mark) == "");
    REQUIRE(run.difference_from_host() == "");
  }
  check_same_clocks(run);
}

TEST_CASE("cuda schedules: every kind, with a plateau that has had its reports") {
  const ScheduleSpec linear = {"linear", {{"start_factor", 0.25}, {"total_iters", 4}}};
  const ScheduleSpec specs[] = {
      {"step", {{"step_size", 2}}},
      {"multistep", {}, {1, 3}},
      {"exponential", {{"gamma", 0.5}}},
      {"lambda", {}, {}, {}, "1 / (t + 1)"},
      {"multiplicative", {}, {}, {}, "0.95 at odd t, else 0.9"},
      {"constant", {{"total_iters", 2}}},
      linear,
      {"polynomial", {{"total_iters", 6}, {"power", 0.9}}},
      {"cosine", {{"T_max", 6}}},
      {"cosine_restarts", {{"T_0", 3}}},
      {"cyclic", {{"max_value", 0.01}, {"step_size_up", 2}}},
      {"one_cycle", {{"max_value", 0.01}, {"total_steps", 5}}},
      {"inverse_sqrt", {{"warmup_steps", 2}}},
      {"wsd", {{"warmup_steps", 1}, {"stable_steps", 2}, {"decay_steps", 3}, {"decay", 2}}},
      {"plateau", {{"patience", 1}, {"factor", 0.5}}},
      {"sequential", {}, {3}, {linear, {"constant"}}},
      {"chained", {}, {}, {linear, {"plateau", {{"patience", 0}}}}},
  };
  REQUIRE(std::size(specs) == size_t(talus_name_count("schedules")));
  for (const ScheduleSpec& spec : specs) {
    INFO(text_of(spec));
    const Fresh fresh;
    const Stream stream;
    DeviceRun run({"sgd", "", {{"momentum", 0.9}}}, {{kF32, 70, 0, 0}});
    // A plateau serves one optimizer.
    for (talus_optimizer* opt : {run.opt, run.host.get()}) attach(opt, "lr", Schedule(spec));
    const bool follows = text_of(spec).find("plateau") != std::string::npos;
    must(talus_prepare(run.opt, stream));
    const Graph graph(stream, [&] { run.step_device(stream); });
    for (int step = 0; step < 6; ++step) {
      new_grads(run, step);
      if (step % 2)
        replay(run, graph, stream);
      else
        run.step_both(stream);
      REQUIRE(run.difference_from_host() == "");
      CHECK(value_now(run.opt, "lr") == value_now(run.host.get(), "lr"));
      if (follows)
        for (talus_optimizer* opt : {run.opt, run.host.get()}) must(talus_observe(opt, 1));
    }
  }
}

TEST_CASE("cuda schedules: a step captured once is replayed with the values of every clock") {
  const Fresh fresh;
  const Stream stream;
  DeviceRun run({"adamw", "", {}}, kShapes);
  attach_three(run);
  must(talus_prepare(run.opt, stream));
  const Graph graph(stream, [&] { run.step_device(stream); });
  CHECK(clock_of(run.opt, TALUS_CLOCK_CALLED) == 0);  // a capture is no step
  for (int step = 0; step < 10; ++step) {
    new_grads(run, step);
    set_clocks(run, 2 * step);
    if (step == 5) run.set_both("lr", 0.01);  // another base
    if (step == 7)                            // and none any more
      for (talus_optimizer* opt : {run.opt, run.host.get()}) attach(opt, "beta1", nullptr);
    replay(run, graph, stream);
    REQUIRE(run.difference_from_host() == "");
    check_same_clocks(run);
  }
  run.step_both(stream);  // eager ones go on from there
  REQUIRE(run.difference_from_host() == "");
}

TEST_CASE("cuda schedules: replays that wait in a stream keep the value of their own step") {
  const Fresh fresh;
  const Stream stream;
  DeviceRun run({"sgd", "", {{"momentum", 0.9}}}, {{kF32, 70, 0, 0}});
  attach_both(run, "lr", Schedule("exponential", {{"gamma", 0.5}}), TALUS_CLOCK_APPLIED);
  attach_both(run, "momentum", Schedule("exponential", {{"gamma", 0.875}}), TALUS_CLOCK_MANUAL);
  must(talus_prepare(run.opt, stream));
  const Graph graph(stream, [&] { run.step_device(stream); });
  emu_defer(1);
  for (int step = 0; step < 20; ++step) {
    set_clocks(run, step / 3);
    replay(run, graph, stream);
  }
  emu_run_all();
  emu_defer(0);
  REQUIRE(run.difference_from_host() == "");
}

TEST_CASE(
    "cuda schedules: an advance whose value is refused counts nothing, and the graph stays good") {
  const Fresh fresh;
  const Stream stream;
  DeviceRun run({"sgd", "", {}}, {{kF32, 70, 0, 0}});
  Schedule sinking("lambda");
  sinking.function([](void*, int64_t t) { return double(1 - t); });
  attach_both(run, "lr", sinking, TALUS_CLOCK_APPLIED);
  must(talus_prepare(run.opt, stream));
  const Graph graph(stream, [&] { run.step_device(stream); });
  replay(run, graph, stream);
  replay(run, graph, stream);
  const size_t mark = emu_log_size();
  CHECK(talus_advance(run.opt, stream) == TALUS_E_RANGE);
  const std::string text = talus_last_error();
  for (const char* cause : {"group 0 \"sgd\"", "lr", "\"lambda\"", "t = 2", "-0.001"}) {
    INFO(text << " should name " << cause);
    CHECK(text.find(cause) != std::string::npos);
  }
  CHECK(emu_count(EMU_COPY, mark) == 0);
  CHECK(clock_of(run.opt, TALUS_CLOCK_APPLIED) == 2);
  CHECK(clock_of(run.opt, TALUS_CLOCK_CALLED) == 2);
  sinking.function([](void*, int64_t t) { return double(t); });
  replay(run, graph, stream);
  REQUIRE(run.difference_from_host() == "");
  check_same_clocks(run);
}
