// A step over gradients that are not finite: skipped whole, to the last byte, told of, and without
// trace in what follows; or an error.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/abi/fixture.h"
#include "tests/amp/rounds.h"
#include "tests/reference/all.hpp"

using namespace talus::test;
using talus::abi::refused;

namespace {

constexpr double kInf = INFINITY, kNaN = NAN;
constexpr double kBad[] = {kInf, -kInf, kNaN};

std::vector<std::string> algorithms() {
  std::vector<std::string> names;
  for (int32_t i = 0; i < talus_name_count("algorithms"); ++i)
    names.push_back(talus_name_at("algorithms", i));
  return names;
}

// Tensors of every mix under one rule.
struct Zoo {
  std::deque<TestTensor> tensors;
  Optimizer optimizer;

  explicit Zoo(const std::string& algorithm, int64_t each = 1) : optimizer(algorithm) {
    for (int64_t k = 0; k < each; ++k)
      for (const Mix& mix : all_mixes())
        tensors.emplace_back(mix, 1 + int64_t(tensors.size()) % 67).fill(tensors.size());
    optimizer.add_all(tensors);
    draw_grads(1);
  }
  void draw_grads(int64_t step) {
    for (TestTensor& x : tensors) x.fill_grad(uint64_t(x.index), step);
  }
  std::vector<std::string> bytes() const { return bytes_of(optimizer, tensors); }
  std::string difference(const Zoo& other) const {
    for (size_t i = 0; i < tensors.size(); ++i)
      if (const std::string text =
              talus::test::difference(optimizer, tensors[i], other.optimizer, other.tensors[i]);
          !text.empty())
        return "tensor " + std::to_string(i) + ", " + text;
    return "";
  }
};

// Where a bad element goes: the first, the last, one between.
int64_t place_of(const TestTensor& x, size_t turn) {
  return turn % 3 == 0 ? 0 : turn % 3 == 1 ? x.extent - 1 : x.extent / 2;
}

}  // namespace

TEST_CASE("one bad element among 10,000 tensors leaves every byte") {
  Zoo zoo("adamw", 10000 / int64_t(all_mixes().size()) + 1);
  REQUIRE(zoo.tensors.size() >= 10000);
  zoo.optimizer.setting("check_finite", 1);
  zoo.optimizer.step();
  const std::vector<std::string> before = zoo.bytes();
  int64_t skipped = 0;
  for (size_t turn = 0; turn < all_mixes().size(); ++turn)
    for (double bad : kBad) {
      TestTensor& x = zoo.tensors[4001 + turn * 100 + turn];
      const int64_t place = place_of(x, turn);
      const double usual = x.grad.get(place);
      x.grad.set(place, bad);
      zoo.optimizer.step();
      x.grad.set(place, usual);
      INFO(name_of(x.mix) << ", " << bad);
      const talus_stats stats = stats_of(zoo.optimizer);
      CHECK(stats.found_inf == 1);
      CHECK(stats.nonfinite_param == x.index);
      CHECK(stats.skipped == ++skipped);
      CHECK((zoo.bytes() == before));
    }
  CHECK(clock_of(zoo.optimizer, TALUS_CLOCK_CALLED) == 1 + skipped);
  zoo.optimizer.step();
  CHECK(stats_of(zoo.optimizer).found_inf == 0);
  CHECK(stats_of(zoo.optimizer).nonfinite_param == -1);
  CHECK_FALSE((zoo.bytes() == before));
}

TEST_CASE("skipped steps leave no trace under any rule, first ones neither") {
  for (const std::string& algorithm : algorithms()) {
    Zoo with(algorithm), without(algorithm);
    with.optimizer.setting("check_finite", 1);
    size_t turn = 0;
    for (int step = 1; step <= 4; ++step) {
      for (int skips = step % 3; skips >= 0; --skips) {
        with.draw_grads(100 + step);
        TestTensor& x = with.tensors[turn * 5 % with.tensors.size()];
        const std::vector<std::string> before = with.bytes();
        x.grad.set(place_of(x, turn), kBad[turn % 3]);
        ++turn;
        with.optimizer.step();
        INFO(algorithm << ", step " << step << ", tensor " << x.index);
        CHECK(stats_of(with.optimizer).found_inf == 1);
        CHECK(stats_of(with.optimizer).nonfinite_param == x.index);
        CHECK((with.bytes() == before));
      }
      with.draw_grads(step), without.draw_grads(step);
      with.optimizer.step(), without.optimizer.step();
      INFO(algorithm << ", step " << step);
      CHECK(with.difference(without) == "");
    }
    CHECK(stats_of(with.optimizer).steps == 4);
  }
}

TEST_CASE("after a skipped first step there is no state yet, and fixed values are still free") {
  TestTensor x(kF32, 5);
  x.set_all(1, kNaN);
  TestTensor half({TALUS_BF16, TALUS_F32, TALUS_MASTER_AUTO}, 5);
  half.set_all(1, .5);
  Optimizer optimizer("adamw");
  optimizer.add(x);
  optimizer.add(half);
  optimizer.setting("check_finite", 1);
  optimizer.step();
  CHECK(optimizer.steps(x) == 0);
  CHECK(optimizer.steps(half) == 0);
  float master[5];
  CHECK(talus_export_param(optimizer.get(), "master", half.index, master, TALUS_F32, nullptr) ==
        TALUS_E_STATE);
  optimizer.set("amsgrad", 1);
  half.set_all(3, .5);  // what the first step starts from
  x.set_all(1, 1);
  optimizer.step();
  CHECK(optimizer.has_state(x, "max_exp_avg_sq"));
  CHECK(std::abs(optimizer.state(half, "master_param").get(0) - (3 * (1 - 1e-5) - 1e-3)) < 1e-6);
}

TEST_CASE("every reason to check skips; without one values propagate") {
  const std::pair<const char*, double> reasons[] = {
      {"check_finite", 1}, {"max_grad_norm", 1}, {"max_grad_norm", kInf}};
  for (const auto& [name, value] : reasons)
    for (double type : {1., 2., kInf})
      for (double cut : {0., .5}) {
        Zoo zoo("sgd");
        zoo.optimizer.setting(name, value);
        zoo.optimizer.setting("grad_norm_type", type);
        zoo.optimizer.setting("max_grad_value", cut);
        for (const TestTensor& bad : zoo.tensors) {
          TestTensor& x = zoo.tensors[size_t(bad.index)];
          const Buffer usual = x.grad;
          x.grad.set(0, kInf);
          const std::vector<std::string> before = zoo.bytes();
          zoo.optimizer.step();
          x.grad = usual;
          INFO(name << " " << value << ", type " << type << ", cut " << cut << ", " << x.index);
          CHECK(stats_of(zoo.optimizer).nonfinite_param == x.index);
          CHECK((zoo.bytes() == before));
        }
      }
  Zoo free("sgd");
  free.optimizer.setting("stats", 1);  // to measure is not to check
  free.tensors[3].grad.set(0, kNaN);
  free.optimizer.step();
  CHECK(stats_of(free.optimizer).found_inf == 0);
  CHECK(std::isnan(free.tensors[3].param.get(0)));
}

TEST_CASE("a norm that a rule takes for itself does not check") {
  TestTensor x(kF32, 4);
  x.set_all(1, 1);
  x.grad.set(2, kNaN);
  Optimizer optimizer("lamb");
  optimizer.add(x);
  optimizer.step();
  CHECK(stats_of(optimizer).found_inf == 0);
  CHECK(stats_of(optimizer).steps == 1);
  CHECK(std::isnan(x.param.get(2)));
}

TEST_CASE("what overflows only once it is scaled back is found") {
  TestTensor x(kF32, 4);
  x.set_all(1, 1);
  x.grad.set(2, 0x1p127);
  Optimizer optimizer("sgd");
  optimizer.add(x);
  optimizer.setting("check_finite", 1);
  optimizer.step();
  CHECK(stats_of(optimizer).found_inf == 0);
  optimizer.setting("grad_scale", .5);
  const Buffer before = x.param;
  optimizer.step();
  CHECK(stats_of(optimizer).found_inf == 1);
  CHECK(x.param.same_bytes(before));
}

TEST_CASE("a gradient of rows is checked, and used up by a skipped step") {
  for (double bad : kBad) {
    TestTensor x(kF32, 6), dense(kF32, 3);
    x.set_all(1, 0), dense.set_all(1, .5);
    x.has_grad = false;
    Optimizer optimizer("sgd", {{"lr", 1}});
    optimizer.add(dense);
    optimizer.add(x);
    optimizer.setting("check_finite", 1);
    const int64_t rows[] = {4, 1};
    float values[] = {1, float(bad)};
    const talus_rows given = {sizeof given, TALUS_I64, 2, rows, values, 0};
    must(talus_bind_rows(optimizer.get(), x.index, &given));
    optimizer.step();
    CHECK(stats_of(optimizer).nonfinite_param == x.index);
    CHECK(x.param.get(4) == 1);
    CHECK(dense.param.get(0) == 1);
    optimizer.step();  // without the rows
    CHECK(stats_of(optimizer).found_inf == 0);
    CHECK(optimizer.steps(x) == 0);
    CHECK(dense.param.get(0) == .5);
  }
}

// ---- clocks

TEST_CASE("a schedule of applied steps stands still at a skip, one of calls goes on") {
  for (int32_t clock : {TALUS_CLOCK_APPLIED, TALUS_CLOCK_CALLED}) {
    TestTensor x(kF64, 1);
    x.set_all(0, 1);
    Optimizer optimizer("sgd", {{"lr", 64}});
    optimizer.add(x);
    optimizer.setting("check_finite", 1);
    talus_schedule* halves = nullptr;
    must(talus_schedule_create("exponential", &halves));
    must(talus_schedule_set(halves, "gamma", .5));
    must(talus_attach_schedule(optimizer.get(), TALUS_ALL, "lr", halves, clock));
    talus_schedule_destroy(halves);
    double taken = 0, lr = 64;
    for (const bool found : {false, true, true, false, true, false, false}) {
      double next = 0;
      must(talus_value_now(optimizer.get(), 0, "lr", &next));
      CHECK(next == lr);
      x.grad.set(0, found ? kInf : 1);
      optimizer.step();
      if (!found) taken += lr;
      if (!found || clock == TALUS_CLOCK_CALLED) lr /= 2;
      CHECK(x.param.get(0) == -taken);
    }
  }
}

TEST_CASE("bias corrections count applied steps") {
  TestTensor x(kF64, 3), y(kF64, 3);
  x.set_all(1, .5), y.set_all(1, .5);
  Optimizer with("adam"), without("adam");
  with.add(x), without.add(y);
  with.setting("check_finite", 1);
  for (int step = 0; step < 5; ++step) {
    for (int skip = 0; skip < 7; ++skip) {
      x.grad.set(1, kNaN);
      with.step();
    }
    x.grad.set(1, .5);
    with.step(), without.step();
    CHECK(difference(with, x, without, y) == "");
  }
}

// ---- an error in place of a skip

TEST_CASE("error_if_nonfinite names the first bad parameter, and nothing has changed") {
  const bool measures = GENERATE(false, true);
  Zoo zoo("adamw");
  zoo.optimizer.setting("stats", measures);
  zoo.optimizer.setting("check_finite", 1);
  zoo.optimizer.step();
  zoo.optimizer.setting("error_if_nonfinite", 1);
  TestTensor x(kF32, 3);
  x.set_all(1, 1);
  talus_param named = x.descriptor();
  named.name = "layers.7.weight";
  must(talus_add_params(zoo.optimizer.get(), 0, 1, &named, &x.index));
  zoo.optimizer.prepare();
  x.grad.set(2, kInf);
  const auto step = [&] { return talus_step(zoo.optimizer.get(), nullptr); };
  const talus_stats stats = stats_of(zoo.optimizer);
  refused(zoo.optimizer.get(), TALUS_E_NONFINITE, {"layers.7.weight", "not finite"}, step);
  CHECK(talus_last_error_detail() == x.index);
  zoo.tensors[2].grad.set(0, kNaN);
  refused(zoo.optimizer.get(), TALUS_E_NONFINITE, {"param.2", "not finite"}, step);
  CHECK(talus_last_error_detail() == 2);
  CHECK(clock_of(zoo.optimizer, TALUS_CLOCK_CALLED) == 1);
  const talus_stats after = stats_of(zoo.optimizer);
  CHECK(std::isnan(stats.grad_norm) == !measures);
  CHECK((std::memcmp(&after.grad_norm, &stats.grad_norm, sizeof after.grad_norm) == 0));
  CHECK(after.found_inf == 0);
  CHECK(after.nonfinite_param == -1);
  zoo.tensors[2].grad.set(0, 1), x.grad.set(2, 1);
  CHECK(step() == TALUS_OK);
}

TEST_CASE("error_if_nonfinite: what a clip by call has found is an error too, and used up") {
  TestTensor x(kF32, 3);
  x.set_all(0, 1);
  Optimizer optimizer("sgd", {{"lr", 1}});
  optimizer.add(x);
  optimizer.setting("error_if_nonfinite", 1);
  talus_optimizer* const opt = optimizer.get();
  x.grad.set(1, kNaN);
  must(talus_clip_grad_norm(&opt, 1, TALUS_ALL, 1, 2, nullptr, nullptr));
  x.grad.set(1, 1);
  refused(opt, TALUS_E_NONFINITE, {"not finite"}, [&] { return talus_step(opt, nullptr); });
  CHECK(talus_last_error_detail() == x.index);
  optimizer.step();
  CHECK(x.param.get(1) == -1);
}

TEST_CASE("with a scaler such a step is skipped all the same") {
  Scaler scaler;
  Finder finder(scaler);
  finder.optimizer.setting("error_if_nonfinite", 1);
  finder.step(true);
  CHECK(stats_of(finder.optimizer).found_inf == 1);
  scaler.update();
  CHECK(scaler.scale() == 32768);
}

TEST_CASE("error_if_nonfinite alone checks nothing") {
  TestTensor x(kF32, 1);
  x.set_all(0, kInf);
  Optimizer optimizer("sgd");
  optimizer.add(x);
  optimizer.setting("error_if_nonfinite", 1);
  optimizer.step();
  CHECK(x.param.get(0) == -kInf);
}

// ---- a scale and a flag of the caller's

TEST_CASE("a bound scale divides, and its flag skips; both are read by each step") {
  float scale = 4, found = 0;
  TestTensor x(kF32, 2);
  x.set_all(0, 1);
  Optimizer optimizer("sgd", {{"lr", 1}});
  optimizer.add(x);
  must(talus_bind_scale(optimizer.get(), &scale, &found));
  optimizer.step();
  CHECK(x.param.get(0) == -.25);
  CHECK(stats_of(optimizer).loss_scale == 4);
  scale = 2;
  optimizer.step();
  CHECK(x.param.get(0) == -.75);
  for (float flag : {1.f, 2.f, -1.f, .5f, float(kNaN)}) {
    found = flag;
    optimizer.step();
    CHECK(stats_of(optimizer).found_inf == 1);
    CHECK(stats_of(optimizer).nonfinite_param == -1);
    CHECK(x.param.get(0) == -.75);
  }
  found = 0;
  x.grad.set(1, kInf);  // the flag is all that is asked
  optimizer.step();
  CHECK(stats_of(optimizer).found_inf == 0);
  CHECK(x.param.get(1) == -kInf);
}

TEST_CASE("a bound scale without a flag checks by itself") {
  const float scale = 4;
  TestTensor x(kF32, 2);
  x.set_all(0, 1);
  Optimizer optimizer("sgd", {{"lr", 1}});
  optimizer.add(x);
  must(talus_bind_scale(optimizer.get(), &scale, nullptr));
  optimizer.step();
  CHECK(x.param.get(0) == -.25);
  x.grad.set(1, kNaN);
  optimizer.step();
  CHECK(stats_of(optimizer).nonfinite_param == 0);
  CHECK(x.param.get(0) == -.25);
  must(talus_bind_scale(optimizer.get(), nullptr, nullptr));
  optimizer.step();
  CHECK(x.param.get(0) == -1.25);
}

TEST_CASE("a bound scale that is none fails the step, and nothing has changed") {
  float scale = 1;
  TestTensor x(kF32, 2);
  x.set_all(0, 1);
  Optimizer optimizer("sgd");
  optimizer.add(x);
  talus_optimizer* const opt = optimizer.get();
  must(talus_bind_scale(opt, &scale, nullptr));
  for (float bad : {0.f, -1.f, float(kInf), float(-kInf), float(kNaN)}) {
    scale = bad;
    INFO(bad);
    refused(opt, TALUS_E_RANGE, {"scale"}, [&] { return talus_step(opt, nullptr); });
  }
  scale = 1;
  const float flag = 0;
  refused(opt, TALUS_E_ARGUMENT, {"talus_bind_scale"},
          [&] { return talus_bind_scale(opt, nullptr, &flag); });
  optimizer.step();
}
