// How gradients enter a step on a device, by emulation: scaled back, cut, measured. Every bit is the CPU's.
#include "tests/cuda/amp_run.h"

using namespace talus::test;

namespace {

std::vector<Shape> shapes() {
  std::vector<Shape> out;
  for (const Mix& mix : all_mixes())
    for (const int64_t n : {0, 5, 300}) out.push_back({mix, n, out.size() % 3, out.size() % 2});
  out.push_back({kF32, 4097, 0, 0});
  return out;
}

double norm(talus_optimizer* opt, int32_t group, double type) {
  double out = -1;
  must(talus_grad_norm(&opt, 1, group, type, &out, nullptr));
  return out;
}

}  // namespace

TEST_CASE(
    "cuda entry: norms of every kind of what is scaled and cut, also where it is not finite") {
  const Fresh fresh;
  DeviceRun run({"adamw", "", {}}, shapes());
  for (const double bad : {0.0, double(INFINITY), double(NAN)}) {
    run.set_grads([&](size_t k, int64_t i) {
      return bad != 0 && k == 7 && i == 2 ? bad : grad_value(k, 1, i);
    });
    for (const double scale : {1.0, 3.0})
      for (const double limit : {0.0, 0.04}) {
        setting_both(run, "grad_scale", scale);
        setting_both(run, "max_grad_value", limit);
        for (const double type : {1.0, 2.0, double(INFINITY)}) {
          const double expected = norm(run.host.get(), TALUS_ALL, type);
          CAPTURE(bad, scale, limit, type, expected);
          CHECK(same_number(norm(run.opt, TALUS_ALL, type), expected));
          CHECK((expected > 0) == (bad == bad && (bad == 0 || std::isinf(expected))));
        }
      }
  }
}

TEST_CASE("cuda entry: the norm of one group is of its tensors alone") {
  const Fresh fresh;
  DeviceRun run({"adamw", "", {}}, shapes());
  int32_t group = -1;
  must(talus_add_group(run.opt, nullptr, &group));
  must(talus_add_group(run.host.get(), nullptr, &group));
  const int64_t moved[] = {1, 4, 5};
  must(talus_move_params(run.opt, group, 3, moved));
  must(talus_move_params(run.host.get(), group, 3, moved));
  for (const int32_t g : {0, group, TALUS_ALL}) {
    CAPTURE(g);
    const double expected = norm(run.host.get(), g, 2);
    CHECK(expected > 0);
    CHECK(norm(run.opt, g, 2) == expected);
  }
  CHECK(norm(run.opt, 0, 2) != norm(run.opt, TALUS_ALL, 2));
}

TEST_CASE(
    "cuda entry: steps with a scale and a limit, of every mix, in as many launches as before") {
  const Fresh fresh;
  for (const char* algorithm : {"adamw", "sgd"})
    for (const double limit : {0.0, 0.04}) {
      DeviceRun run({algorithm, "", {}}, shapes());
      setting_both(run, "grad_scale", 3);
      setting_both(run, "max_grad_value", limit);
      run.step_both();
      run.set_grads(
          [](size_t k, int64_t i) { return k == 3 && i == 1 ? double(NAN) : grad_value(k, 2, i); });
      const size_t mark = emu_log_size();
      run.step_both();
      CHECK(emu_count(EMU_LAUNCH, mark) == 2);  // f32 and f64
      CHECK(forbidden(mark) == "");
      REQUIRE(run.difference_from_host() == "");
    }
}

TEST_CASE("cuda entry: rules with sums of their own see gradients scaled and cut") {
  const Fresh fresh;
  for (const char* algorithm : {"lamb", "lars", "novograd", "nadam"}) {
    CAPTURE(algorithm);
    DeviceRun run({algorithm, "", {}}, {{kF32, 4100, 0, 0}, {all_mixes()[3], 37, 1, 0}});
    setting_both(run, "grad_scale", 3);
    setting_both(run, "max_grad_value", 0.04);
    setting_both(run, "stats", 1);
    setting_both(run, "grad_norm_type", 1);  // where a rule reads that of squares
    for (int step = 0; step < 2; ++step) run.step_both();
    REQUIRE(run.difference_from_host() == "");
    REQUIRE(stats_difference(run) == "");
  }
}

TEST_CASE("cuda entry: a norm that is asked for leaves the one of the step") {
  const Fresh fresh;
  DeviceRun run({"adamw", "", {}}, {{kF32, 64, 0, 0}});
  setting_both(run, "stats", 1);
  run.step_both();
  run.set_grads([](size_t k, int64_t i) { return grad_value(k, 5, i); });
  CHECK(norm(run.opt, TALUS_ALL, 2) == norm(run.host.get(), TALUS_ALL, 2));
  REQUIRE(stats_difference(run) == "");
}
