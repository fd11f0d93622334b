// The life of a parameter under every rule: first steps, late ones, gradients of nothing and of
// everything, company that came earlier, options that change on the way. Bit for bit the reference.
#include <catch2/catch_test_macros.hpp>

#include "tests/rule_run.h"

using namespace talus;
using namespace talus::test;

namespace {

constexpr Mix kBf16Master = {TALUS_BF16, TALUS_BF16, TALUS_MASTER_AUTO};

// A tensor of the library and the reference's, stepped on the same gradients.
template <class Real>
struct Pair {
  HyperSet set;
  TestTensor tensor;
  reference::Tensor<Real> expected;
  reference::Hypers hypers;

  Pair(const HyperSet& from, const Mix& mix, uint64_t seed, int64_t n = 21)
      : set(from), tensor(mix, n), hypers(reference::hypers(from.algorithm, from.values)) {
    tensor.fill(seed);
    expected.dtype = mix.param;
    expected.has_master = mix.has_master();
    for (int64_t i = 0; i < n; ++i) expected.p.push_back(Real(tensor.param.get(i)));
  }
  template <class Gradient>
  void give(Gradient gradient) {
    for (int64_t i = 0; i < tensor.extent; ++i) tensor.grad.set(i, gradient(i));
  }
  void step_reference() {
    std::vector<Real> g;
    for (int64_t i = 0; i < tensor.extent; ++i) g.push_back(Real(tensor.grad.get(i)));
    reference::step(set.algorithm, hypers, 0, expected, g);
  }
  std::string difference(const Optimizer& optimizer) const {
    return bits_difference(optimizer, tensor, expected);
  }
};

// Calls f(pair) for every set of every rule, in f32, f64 and bf16 behind a master.
template <class F>
void for_each_set(F f) {
  for (const HyperSet& set : hyper_sets()) {
    INFO(set.algorithm << ", " << set.name);
    f(Pair<float>(set, kF32, 41));
    f(Pair<double>(set, kF64, 42));
    f(Pair<float>(set, kBf16Master, 43));
  }
}

}  // namespace

TEST_CASE("life: gradients of zero from the first step on, then some") {
  for_each_set([](auto pair) {
    Optimizer optimizer(pair.set.algorithm, pair.set.values);
    optimizer.add(pair.tensor);
    for (int step = 1; step <= 6; ++step) {
      pair.give([&](int64_t i) { return step <= 3 ? 0 : grad_value(5, step, i); });
      optimizer.step();
      pair.step_reference();
      INFO("step " << step);
      REQUIRE(pair.difference(optimizer) == "");
    }
  });
}

TEST_CASE("life: gradients of 1e-38 and of 1e38") {
  for_each_set([](auto pair) {
    Optimizer optimizer(pair.set.algorithm, pair.set.values);
    optimizer.add(pair.tensor);
    for (int step = 1; step <= 4; ++step) {
      pair.give([&](int64_t i) { return (i % 3 ? 1e-38 : 1e38) * (i % 2 ? 1 : -1) / step; });
      optimizer.step();
      pair.step_reference();
      INFO("step " << step);
      REQUIRE(pair.difference(optimizer) == "");
    }
  });
}

TEST_CASE("life: step 10,000 and the one after it") {
  for_each_set([](auto pair) {
    Optimizer optimizer(pair.set.algorithm, pair.set.values);
    optimizer.add(pair.tensor);
    for (int step = 1; step <= 4; ++step) {
      if (step == 3) {
        must(talus_set_steps(optimizer.get(), pair.tensor.index, 9999));
        pair.expected.t = 9999;
      }
      pair.give([&](int64_t i) { return grad_value(6, step, i); });
      optimizer.step();
      pair.step_reference();
      INFO("turn " << step);
      REQUIRE(pair.difference(optimizer) == "");
    }
  });
}

TEST_CASE("life: a parameter that joins at step 5 starts as the first one did") {
  for (const reference::Rule& rule : reference::rules())
    for (const HyperSet& set : rule.sets) {
      // The norm of all gradients is no tensor's own: such rules have tests of their own.
      if (set.values.empty() && rule.sums) continue;
      HyperSet apart = set;
      if (rule.defaults(set.algorithm).count("max_grad_norm"))
        apart.values.push_back({"max_grad_norm", 0});
      INFO(set.algorithm << ", " << set.name);
      Pair<float> early(apart, kF32, 44), late(apart, kF32, 45);
      Optimizer optimizer(apart.algorithm, apart.values);
      optimizer.add(early.tensor);
      for (int step = 1; step <= 8; ++step) {
        if (step == 5) optimizer.add(late.tensor);
        for (Pair<float>* pair : {&early, &late}) {
          if (pair == &late && step < 5) continue;
          pair->give([&](int64_t i) { return grad_value(7, step, i); });
          pair->step_reference();
        }
        optimizer.step();
        INFO("step " << step);
        REQUIRE(early.difference(optimizer) == "");
        if (step >= 5) REQUIRE(late.difference(optimizer) == "");
      }
    }
}

TEST_CASE("life: a group's values change from those of each set to those of the next of its rule") {
  for (const reference::Rule& rule : reference::rules())
    for (size_t k = 0; k + 1 < rule.sets.size(); ++k) {
      const HyperSet &from = rule.sets[k], &to = rule.sets[k + 1];
      if (from.algorithm != to.algorithm) continue;
      INFO(from.algorithm << ", " << from.name << " to " << to.name);
      Pair<double> pair(from, kF64, 46);
      Optimizer optimizer(from.algorithm, from.values);
      optimizer.add(pair.tensor);
      for (int step = 1; step <= 6; ++step) {
        pair.give([&](int64_t i) { return grad_value(8, step, i); });
        // All values of the other set, but for what decides which state exists: that is fixed.
        for (const auto& [name, value] : pair.hypers) {
          if (step != 4) break;
          const double target = reference::hypers(to.algorithm, to.values).at(name);
          if (talus_set(optimizer.get(), 0, name.c_str(), target) == TALUS_OK)
            pair.hypers.at(name) = target;
        }
        const talus_status status = [&] {
          optimizer.bind_all_rows();
          return talus_step(optimizer.get(), nullptr);
        }();
        if (status == TALUS_E_RANGE) break;  // a mixture that excludes itself
        must(status);
        pair.step_reference();
        INFO("step " << step);
        REQUIRE(pair.difference(optimizer) == "");
      }
    }
}
