// The kernels, run by emulation behind the C ABI: every bit is the CPU's. Run once with the PTX that
// nvcc made of them and once with what the host's compiler does.
#include "tests/cuda/device_run.h"
#include "tests/reference/all.hpp"

using namespace talus::test;

namespace {

// Sizes around vectors, tiles and chunks, and starts that no operand shares with another.
std::vector<Shape> shapes_of(const Mix& mix, size_t turn) {
  std::vector<Shape> out;
  for (const int64_t n : {0, 1, 7, 8, 9, 63, 4095, 4096, 4097, 5})
    out.push_back({mix, n, (turn + out.size()) % 5, (turn + out.size()) % 3});
  return out;
}

double hard(size_t tensor, int64_t i) {
  return hard_value(draw(tensor, 77, i), grad_value(tensor, 3, i));
}

}  // namespace

TEST_CASE("cuda bits: every mix of dtypes, sizes at edges, starts off alignment, changing values") {
  const Fresh fresh;
  for (const char* algorithm : {"adamw", "sgd"}) {
    HyperSet set = {algorithm, "", {{"weight_decay", .1}}};
    if (set.algorithm == "sgd") set.values.push_back({"momentum", .9});
    for (const uint64_t order : {0, 7}) {
      std::vector<Shape> shapes;
      for (size_t m = 0; m < all_mixes().size(); ++m)
        for (const Shape& shape : shapes_of(all_mixes()[m], m)) shapes.push_back(shape);
      emu_shuffle(order);
      DeviceRun run(set, shapes);
      run.step_both();
      run.set_both("lr", 0.25);
      run.set_grads([](size_t k, int64_t i) { return grad_value(k, 2, i); });
      run.step_both();
      REQUIRE(run.difference_from_host() == "");
    }
  }
}

TEST_CASE("cuda bits: a tensor of several chunks, aligned and not") {
  const Fresh fresh;
  for (const size_t skew : {0, 1}) {
    DeviceRun run({"adamw", "", {}}, {{kF32, 40001, skew, skew}, {kF32, 16385, 0, 1}});
    run.step_both();
    REQUIRE(run.difference_from_host() == "");
  }
}

TEST_CASE("cuda bits: every set of hyperparameters of every rule") {
  const Fresh fresh;
  for (const HyperSet& set : hyper_sets()) {
    INFO(set.algorithm << ", " << set.name);
    DeviceRun run(set,
                  {{kF32, 37, 0, 0}, {all_mixes()[0], 9, 1, 0}, {all_mixes().back(), 21, 1, 1}});
    for (int step = 0; step < 3; ++step) {
      run.set_grads([&](size_t k, int64_t i) { return grad_value(k, step, i); });
      run.step_both();
    }
    REQUIRE(run.difference_from_host() == "");
  }
}

TEST_CASE("cuda bits: infinities, NaN, zeros and subnormals in gradients and parameters") {
  const Fresh fresh;
  for (const Mix& mix : all_mixes()) {
    DeviceRun run({"adamw", "", {{"amsgrad", 1}}}, {{mix, 1003, 0, 0}});
    for (int64_t i = 0; i < 1003; i += 5) run.tensors[0].param.set(i, hard_value(draw(9, 9, i), 1));
    run.params[0].send(run.tensors[0].param);
    run.set_grads(hard);
    run.step_both();
    run.step_both();
    REQUIRE(run.difference_from_host() == "");
  }
}

TEST_CASE("cuda bits: no kernel has two threads in one place of memory without an order") {
  const Fresh fresh;
  emu_check_races(1);
  for (const char* algorithm : {"adam", "sgd"}) {
    DeviceRun run({algorithm, "", {}},
                  {{kF32, 9000, 1, 1}, {all_mixes()[3], 4097, 0, 0}, {kF64, 100, 0, 0}});
    must(talus_set_setting(run.opt, "chunk_tiles", 1));
    must(talus_set_setting(run.opt, "stats", 1));
    for (int step = 0; step < 2; ++step) run.step_both();
    REQUIRE(run.difference_from_host() == "");
  }
}

TEST_CASE("cuda bits: gradients that come and go, parameters that come later, one without any") {
  const Fresh fresh;
  DeviceRun run({"adamw", "", {}}, {{kF32, 100, 0, 0}, {kF32, 50, 1, 0}, {kF64, 20, 0, 0}});
  run.step_both();
  run.bind_grad(1, false);
  run.step_both();
  REQUIRE(run.difference_from_host() == "");
  run.add({kF32, 4097, 0, 0});
  run.bind_grad(0, false);
  run.bind_grad(1, true);
  run.step_both();
  run.step_both();
  REQUIRE(run.difference_from_host() == "");
}

TEST_CASE("cuda bits: the gradient norm, of every dtype, over tiles and tensors") {
  const Fresh fresh;
  std::vector<Shape> shapes;
  for (const Mix& mix : all_mixes())
    for (const int64_t n : {0, 5, 4097}) shapes.push_back({mix, n, 0, shapes.size() % 3});
  shapes.push_back({kF32, 70001, 0, 1});
  DeviceRun run({"adamw", "", {}}, shapes);
  must(talus_set_setting(run.opt, "stats", 1));
  run.host.setting("stats", 1);
  run.step_both();
  talus_stats stats{};
  stats.struct_size = sizeof stats;
  must(talus_get_stats(run.host.get(), 1, &stats));
  CHECK(stats.grad_norm > 0);
  CHECK(run.grad_norm() == stats.grad_norm);
  REQUIRE(run.difference_from_host() == "");
}
