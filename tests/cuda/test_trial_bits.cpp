// A rule with sums, folds, part values, tensor slots and several passes on a device: the trial rule
// of tests/trial/rules.inl, in a plugin and a library of its own. Every bit is the CPU's, and what
// those are worth is in tests/test_passes.cpp.
#include "tests/cuda/device_run.h"

using namespace talus::test;

namespace {

const HyperSet kTrial = {"trial", "", {}};

// New gradients, values and a step on both sides.
void train(DeviceRun& run, int step, cudaStream_t stream = nullptr) {
  run.set_both("lr", 0.1 / (step + 1));
  run.set_both("beta", step % 2 ? 0.5 : 0.75);
  run.set_grads([&](size_t k, int64_t i) { return grad_value(k, step, i); });
  run.step_both(stream);
}

}  // namespace

TEST_CASE("trial bits: every mix of dtypes, sizes around vectors and tiles, starts off alignment") {
  const Fresh fresh;
  std::vector<Shape> shapes;
  for (const Mix& mix : all_mixes())
    for (const int64_t n : {0, 1, 5, 4095, 4097})
      shapes.push_back({mix, n, shapes.size() % 5, shapes.size() % 3});
  for (const uint64_t order : {0, 7}) {
    emu_shuffle(order);
    DeviceRun run({"trial", "", {{"maximize", order ? 1 : 0}}}, shapes);
    for (int step = 0; step < 2; ++step) train(run, step);
    REQUIRE(run.difference_from_host() == "");
  }
}

TEST_CASE("trial bits: tensors of several chunks and uneven tiles, whatever the chunk") {
  const Fresh fresh;
  const Mix bf16 = {TALUS_BF16, TALUS_BF16, TALUS_MASTER_AUTO};
  for (const int tiles : {1, 4, 16}) {
    INFO("chunk_tiles " << tiles);
    DeviceRun run(kTrial, {{kF32, 3, 0, 0}, {kF32, 45057, 1, 1}, {bf16, 12289, 0, 0}});
    must(talus_set_setting(run.opt, "chunk_tiles", tiles));
    for (int step = 0; step < 2; ++step) train(run, step);
    REQUIRE(run.difference_from_host() == "");
  }
}

TEST_CASE("trial bits: no gradient for a step, a parameter that joins late, the norm in between") {
  const Fresh fresh;
  DeviceRun run(kTrial, {{kF32, 4097, 0, 0}, {kF32, 50, 1, 0}, {kF64, 20, 0, 0}, {kF32, 9, 0, 0}});
  must(talus_set_setting(run.opt, "stats", 1));
  run.host.setting("stats", 1);
  run.bind_grad(3, false);
  train(run, 0);
  run.bind_grad(0, false);
  train(run, 1);
  REQUIRE(run.difference_from_host() == "");
  for (const Mix& mix : all_mixes()) run.add({mix, 4100, 1, 0});
  run.bind_grad(0, true);
  run.bind_grad(2, false);
  for (int step = 2; step < 4; ++step) train(run, step);
  REQUIRE(run.difference_from_host() == "");
}

TEST_CASE("trial bits: infinities and NaN stay in their tensor, and sums of all zeros") {
  const Fresh fresh;
  DeviceRun run(kTrial, std::vector<Shape>(6, {kF32, 200, 0, 0}));
  run.set_grads([](size_t k, int64_t i) {
    const double ordinary = grad_value(k, 1, i);
    return k == 5 ? 0 : k % 2 ? ordinary : hard_value(draw(k, 77, i), ordinary);
  });
  for (int step = 0; step < 2; ++step) run.step_both();
  REQUIRE(run.difference_from_host() == "");
}

TEST_CASE("trial bits: no kernel has two threads in one place of memory without an order") {
  const Fresh fresh;
  emu_check_races(1);
  DeviceRun run(kTrial, {{kF32, 9000, 1, 1}, {all_mixes()[3], 4097, 0, 0}, {kF64, 5000, 0, 0}});
  must(talus_set_setting(run.opt, "stats", 1));
  must(talus_set_setting(run.opt, "chunk_tiles", 1));
  for (int step = 0; step < 2; ++step) train(run, step);
  REQUIRE(run.difference_from_host() == "");
}

TEST_CASE("trial bits: launches do not grow with tensors, and a step neither waits nor allocates") {
  const Fresh fresh;
  size_t launches[2] = {};
  for (const bool many : {false, true}) {
    DeviceRun run(kTrial, std::vector<Shape>(many ? 100 : 1, {kF32, 3, 0, 0}));
    train(run, 0);
    const size_t mark = emu_log_size();
    run.step_both();
    launches[many] = emu_count(EMU_LAUNCH, mark);
    CHECK(forbidden(mark) == "");
    REQUIRE(run.difference_from_host() == "");
  }
  CHECK(launches[0] > 1);
  CHECK(launches[0] == launches[1]);
}

TEST_CASE("trial bits: a captured step of several passes replays with the bits of eager ones") {
  const Fresh fresh;
  const Stream stream;
  DeviceRun run(kTrial, {{kF32, 5000, 1, 0}, {kF32, 10, 0, 0}, {kF64, 4097, 0, 0}});
  must(talus_prepare(run.opt, stream));
  const Graph graph(stream, [&] { run.step_device(stream); });
  for (int step = 0; step < 3; ++step) {
    run.set_both("lr", 0.1 / (step + 1));
    run.set_grads([&](size_t k, int64_t i) { return grad_value(k, step, i); });
    must(talus_advance(run.opt, stream));
    must_cuda(cudaGraphLaunch(graph.exec, stream));
    run.host.step();
  }
  train(run, 3, stream);
  REQUIRE(run.difference_from_host() == "");
}
