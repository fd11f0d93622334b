// Scheduled steps of every rule against the same steps with values set by hand: every real
// hyperparameter, alone and all at once, bit for bit.
#include <catch2/catch_test_macros.hpp>

#include "tests/schedule.h"

using namespace talus::test;

namespace {

constexpr int kSteps = 7;
constexpr int64_t kCount = 37;  // no multiple of a vector

// Never 1 at t = 0, where some values act alone; never 0.
double factor(void* shift, int64_t t) {
  constexpr double kFactors[] = {0.5, 1, 0.875, 0.75, 0.25};
  return kFactors[(t + *static_cast<int64_t*>(shift)) % 5];
}

struct Scheduled {
  std::string name;
  double base;
  int64_t shift;  // of its factors

  double at(int64_t t) { return base * factor(&shift, t); }
};

// A base that all factors leave inside the range, and with which each of them is felt.
double base_of(const talus_hyper& h) {
  static const std::map<std::string, double> kBases = {{"lr", 0.05},
                                                       {"eps", 0.1},
                                                       {"t0", 3},
                                                       {"etaminus", 0.5},
                                                       {"step_size_min", 0.02},
                                                       {"step_size_max", 0.2},
                                                       {"trust_coefficient", 0.002}};
  if (const auto found = kBases.find(h.name); found != kBases.end()) return found->second;
  if (h.max <= 1) return 0.95;
  if (h.min >= 1) return 5;
  return h.def > 0 ? h.def : 0.3;
}

std::vector<Scheduled> scheduled_of(const std::string& algorithm) {
  std::vector<Scheduled> found;
  for (int32_t i = 0; i < talus_hyper_count(algorithm.c_str()); ++i) {
    talus_hyper h{};
    h.struct_size = sizeof h;
    must(talus_hyper_info(algorithm.c_str(), i, &h));
    if (h.kind == TALUS_REAL && h.min < h.max) found.push_back({h.name, base_of(h), i});
  }
  return found;
}

struct Run {
  Run(const std::string& algorithm, const Mix& mix) : tensor(mix, kCount), optimizer(algorithm) {
    tensor.fill(1);
    for (const Scheduled& h : scheduled_of(algorithm)) optimizer.set(h.name, h.base);
    optimizer.add(tensor);
  }
  void step(int t) {
    tensor.fill_grad(1, t);
    optimizer.step();
  }
  TestTensor tensor;
  Optimizer optimizer;
};

// The first difference between a scheduled run and one whose values are set before each step; what the
// bases alone would have given must be another one.
std::string check(const std::string& algorithm, const Mix& mix, std::vector<Scheduled> hypers) {
  Run scheduled(algorithm, mix), set(algorithm, mix), plain(algorithm, mix);
  for (Scheduled& h : hypers) {
    Schedule lambda("lambda");
    lambda.function(factor, &h.shift);
    attach(scheduled.optimizer.get(), h.name.c_str(), lambda);
  }
  for (int t = 0; t < kSteps; ++t) {
    for (Scheduled& h : hypers) set.optimizer.set(h.name, h.at(t));
    for (Run* run : {&scheduled, &set, &plain}) run->step(t + 1);
    const std::string text =
        difference(scheduled.optimizer, scheduled.tensor, set.optimizer, set.tensor);
    if (!text.empty()) return "step " + std::to_string(t + 1) + ": " + text;
    for (Scheduled& h : hypers)
      if (scheduled.optimizer.hyper(h.name) != h.base) return h.name + ": the base has moved";
  }
  const bool felt =
      !difference(scheduled.optimizer, scheduled.tensor, plain.optimizer, plain.tensor).empty();
  return felt ? "" : "the schedule has done nothing";
}

const Mix kMixes[] = {kF32,
                      kF64,
                      {TALUS_BF16, TALUS_F32, TALUS_MASTER_AUTO},
                      {TALUS_F16, TALUS_BF16, TALUS_MASTER_NONE}};

}  // namespace

TEST_CASE("schedules: each real hyperparameter of each rule, scheduled, is as if set by hand") {
  int compared = 0;
  for (int32_t a = 0; a < talus_name_count("algorithms"); ++a) {
    const std::string algorithm = talus_name_at("algorithms", a);
    for (const Scheduled& h : scheduled_of(algorithm))
      for (const Mix& mix : kMixes) {
        INFO(algorithm << ", " << h.name << ", " << name_of(mix));
        CHECK(check(algorithm, mix, {h}) == "");
        ++compared;
      }
  }
  CHECK(compared > 250);
}

TEST_CASE("schedules: all real hyperparameters of a rule at once, each with its own, as if set") {
  for (int32_t a = 0; a < talus_name_count("algorithms"); ++a) {
    const std::string algorithm = talus_name_at("algorithms", a);
    for (const Mix& mix : kMixes) {
      INFO(algorithm << ", " << name_of(mix));
      CHECK(check(algorithm, mix, scheduled_of(algorithm)) == "");
    }
  }
}

TEST_CASE("schedules: two groups of one rule have schedules of their own, on their own clocks") {
  Optimizer both("adamw"), first("adamw"), second("adamw");
  TestTensor x(kF32, kCount), y(kMixes[2], kCount), x_alone(kF32, kCount),
      y_alone(kMixes[2], kCount);
  for (TestTensor* t : {&x, &y, &x_alone, &y_alone}) t->fill(1);
  const int32_t group = both.add_group();
  both.add(x);
  both.add(y, group);
  first.add(x_alone);
  second.add(y_alone);
  const Schedule warmup("linear", {{"start_factor", 0.25}, {"total_iters", 4}}),
      decay("exponential", {{"gamma", 0.5}});
  attach(both.get(), "lr", warmup, TALUS_CLOCK_APPLIED, 0);
  attach(both.get(), "lr", decay, TALUS_CLOCK_MANUAL, group);
  attach(both.get(), "beta1", decay, TALUS_CLOCK_CALLED, group);
  for (int t = 0; t < kSteps; ++t) {
    const int64_t epoch = t / 3;
    must(talus_set_clock(both.get(), epoch));
    first.set("lr", warmup.value(1e-3, t));
    second.set("lr", decay.value(1e-3, epoch));
    second.set("beta1", decay.value(0.9, t));
    for (TestTensor* tensor : {&x, &y, &x_alone, &y_alone}) tensor->fill_grad(1, t + 1);
    for (Optimizer* optimizer : {&both, &first, &second}) optimizer->step();
    CHECK(difference(both, x, first, x_alone) == "");
    CHECK(difference(both, y, second, y_alone) == "");
  }
}

TEST_CASE("schedules: a parameter that moves to another group goes by the schedules there") {
  Optimizer moving("adamw"), set("adamw");
  TestTensor x(kF32, kCount), y(kF32, kCount);
  x.fill(1), y.fill(1);
  const int32_t group = moving.add_group();
  moving.add(x), set.add(y);
  const Schedule decay("exponential", {{"gamma", 0.5}});
  attach(moving.get(), "lr", decay, TALUS_CLOCK_APPLIED, group);
  for (int t = 0; t < kSteps; ++t) {
    if (t == 3) must(talus_move_params(moving.get(), group, 1, &x.index));
    if (t >= 3) set.set("lr", decay.value(1e-3, t));
    x.fill_grad(1, t + 1), y.fill_grad(1, t + 1);
    moving.step(), set.step();
    CHECK(difference(moving, x, set, y) == "");
  }
}

TEST_CASE("schedules: a momentum that passes through 0 keeps its buffer, as the formula says") {
  constexpr double kLr = 0.5;
  static constexpr double kMomentum[] = {0.5, 0, 0.25, 0, 0.5};
  Optimizer optimizer("sgd", {{"lr", kLr}, {"momentum", 0.5}, {"dampening", 0.25}});
  TestTensor x(kF64, 1);
  x.set_all(1, 0);
  optimizer.add(x);
  Schedule through("lambda");
  through.function([](void*, int64_t t) { return kMomentum[t] / 0.5; });
  attach(optimizer.get(), "momentum", through);
  double p = 1, buffer = 0;
  for (int t = 0; t < 5; ++t) {
    const double g = double(t + 1) / 8;
    x.grad.set(0, g);
    optimizer.step();
    buffer = t == 0 ? g : kMomentum[t] * buffer + 0.75 * g;
    p -= kLr * buffer;
    CHECK(x.param.get(0) == p);
    CHECK(optimizer.state(x, "momentum_buffer").get(0) == buffer);
  }
}
