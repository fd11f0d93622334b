// NAdam by definition (Dozat 2016, with its momentum schedule), ordered as
// torch/optim/nadam.py. Mutations are the mistakes that the tests must be able to see.
#pragma once
#include "tests/reference/exact_pow.hpp"
#include "tests/reference/rule.hpp"

namespace talus::reference {

inline Hypers nadam_defaults(const std::string&) {
  return {{"lr", 2e-3},        {"beta1", .9},
          {"beta2", .999},     {"eps", 1e-8},
          {"weight_decay", 0}, {"momentum_decay", 4e-3},
          {"maximize", 0},     {"decoupled_weight_decay", 0}};
}

enum class NadamMutation {
  kNone,
  kMomentumNotScheduled,
  kProductIsPower,
  kNextMomentumTwice,
  kNoLookAhead,
  kNoSecondCorrection,
  kEpsInsideRoot,
  kDecayDecoupledAlways,
  kDecayCoupledAlways,
  kStepsAdded,  // the same in real arithmetic: only exact comparison sees it
  kCount
};

// The host's part of a step: what multiplies the gradient and the moment.
struct NadamHost {
  double gradient_step, moment_step;

  NadamHost(const Hypers& h, NadamMutation mutation, int64_t t, double& product) {
    using M = NadamMutation;
    const auto momentum = [&](int64_t step) {
      const double decay = exact_pow(.96, double(step) * h.at("momentum_decay"));
      return h.at("beta1") * (1 - .5 * (mutation == M::kMomentumNotScheduled ? 1 : decay));
    };
    const double mu = momentum(t), next = momentum(t + 1), lr = h.at("lr");
    product = t == 1 ? mu : product * mu;
    if (mutation == M::kProductIsPower) product = 1 - one_minus_power(h.at("beta1"), t);
    const double ahead = mutation == M::kNextMomentumTwice ? product * next * next : product * next;
    gradient_step = lr * (1 - mu) / (1 - product);
    moment_step = lr * next / (1 - ahead);
    if (mutation == M::kNoLookAhead) moment_step = lr * mu / (1 - product);
  }
};

template <class Real>
void nadam_step(const Hypers& h, int mutation, Tensor<Real>& x, const std::vector<Real>& gradient) {
  using M = NadamMutation;
  const auto is = [&](M m) { return mutation == int(m); };
  ++x.t;
  const NadamHost host(h, M(mutation), x.t, x.scalar_state["mu_product"]);
  const double w_host = 1 - h.at("beta1"), wd_host = h.at("weight_decay");
  const Real of_gradient = x.scalar(host.gradient_step), of_moment = x.scalar(host.moment_step);
  const Real w = x.scalar(w_host), rest = x.scalar(1 - w_host), eps = x.scalar(h.at("eps"));
  const Real beta2 = x.scalar(h.at("beta2")), gain2 = x.scalar(1 - h.at("beta2"));
  const Real bc2 =
      is(M::kNoSecondCorrection) ? Real(1) : x.scalar(one_minus_power(h.at("beta2"), x.t));
  const Real wd = x.scalar(wd_host), keep = x.scalar(1 - h.at("lr") * wd_host);
  const bool decoupled = (h.at("decoupled_weight_decay") != 0 || is(M::kDecayDecoupledAlways)) &&
                         !is(M::kDecayCoupledAlways);

  std::vector<Real>&m = x.slot("exp_avg"), &v = x.slot("exp_avg_sq");
  for (size_t i = 0; i < x.p.size(); ++i) {
    Real p = x.p[i], g = h.at("maximize") != 0 ? -gradient[i] : gradient[i];
    if (wd_host != 0 && decoupled) p = p * keep;
    if (wd_host != 0 && !decoupled) g = g + wd * p;
    m[i] = lerp(m[i], g, w_host < .5, w, rest);
    v[i] = beta2 * v[i] + (gain2 * g) * g;
    const Real d =
        is(M::kEpsInsideRoot) ? std::sqrt(v[i] / bc2 + eps) : std::sqrt(v[i] / bc2) + eps;
    if (is(M::kStepsAdded)) {
      p = p - ((of_gradient * g) / d + (of_moment * m[i]) / d);
    } else {
      p = p - (of_gradient * g) / d;
      p = p - (of_moment * m[i]) / d;
    }
    x.p[i] = x.rounded(p);
  }
}

inline Rule nadam_rule() {
  using M = NadamMutation;
  // p is rounded twice a step, and the first rounding goes one way for long: at most 24.
  constexpr double kTwice = 40;
  return {
      .algorithms = {"nadam"},
      .defaults = nadam_defaults,
      .step = nadam_step<double>,
      .step_f32 = nadam_step<float>,
      .sets =
          {
              {"nadam", "defaults", {}, kTwice},
              {"nadam", "momentum decay", {{"momentum_decay", .3}}, kTwice},
              {"nadam", "momentum not scheduled", {{"momentum_decay", 0}}, kTwice},
              {"nadam", "weight decay", {{"weight_decay", .005}}, kTwice},
              {"nadam", "decoupled", {{"weight_decay", .1}, {"decoupled_weight_decay", 1}}, kTwice},
              {"nadam", "beta1 0", {{"beta1", 0}}, kTwice},
              {"nadam", "beta1 0.3", {{"beta1", .3}}, kTwice},
              {"nadam", "beta2 0", {{"beta2", 0}, {"eps", .01}}, kTwice},
              {"nadam", "eps 0.1", {{"eps", .1}}, kTwice},
              {"nadam", "maximize", {{"weight_decay", .005}, {"maximize", 1}}, kTwice},
          },
      .mutants =
          {
              {"nadam", "momentum decay", int(M::kMomentumNotScheduled), "kMomentumNotScheduled"},
              {"nadam", "defaults", int(M::kProductIsPower), "kProductIsPower"},
              {"nadam", "defaults", int(M::kNextMomentumTwice), "kNextMomentumTwice"},
              {"nadam", "defaults", int(M::kNoLookAhead), "kNoLookAhead"},
              {"nadam", "defaults", int(M::kNoSecondCorrection), "kNoSecondCorrection"},
              {"nadam", "eps 0.1", int(M::kEpsInsideRoot), "kEpsInsideRoot"},
              {"nadam", "weight decay", int(M::kDecayDecoupledAlways), "kDecayDecoupledAlways"},
              {"nadam", "decoupled", int(M::kDecayCoupledAlways), "kDecayCoupledAlways"},
              {"nadam", "defaults", int(M::kStepsAdded), "kStepsAdded", true},
          },
      .mutation_count = int(M::kCount),
      .aliases = {{"adam_w_mode", "decoupled_weight_decay"}}};
}

}  // namespace talus::reference
