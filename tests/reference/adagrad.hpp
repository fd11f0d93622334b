// Adagrad by definition (Duchi et al. 2011), ordered as torch/optim/adagrad.py, and apex's
// decoupled decay. Mutations are the mistakes that the tests must be able to see.
#pragma once
#include "tests/reference/rule.hpp"

namespace talus::reference {

inline Hypers adagrad_defaults(const std::string&) {
  return {
      {"lr", 1e-2},   {"lr_decay", 0},       {"weight_decay", 0}, {"initial_accumulator_value", 0},
      {"eps", 1e-10}, {"adagrad_w_mode", 0}, {"maximize", 0}};
}

enum class AdagradMutation {
  kNone,
  kStepCountOneAhead,
  kStartIgnored,
  kEpsInsideRoot,
  kSumForgets,
  kDecayDecoupledAlways,
  kDecayCoupledAlways,
  kDecayWithoutLrDecay,
  kMaximizeAfterDecay,
  kCount
};

template <class Real>
void adagrad_step(const Hypers& h, int mutation, Tensor<Real>& x,
                  const std::vector<Real>& gradient) {
  using M = AdagradMutation;
  const auto is = [&](M m) { return mutation == int(m); };
  ++x.t;
  const double wd_host = h.at("weight_decay");
  const double steps_before = double(is(M::kStepCountOneAhead) ? x.t : x.t - 1);
  const double rate = h.at("lr") / (1 + steps_before * h.at("lr_decay"));
  const double decay_rate = is(M::kDecayWithoutLrDecay) ? h.at("lr") : rate;
  const Real clr = x.scalar(rate), eps = x.scalar(h.at("eps")), wd = x.scalar(wd_host);
  const Real keep = x.scalar(1 - decay_rate * wd_host);
  const bool decoupled =
      (h.at("adagrad_w_mode") != 0 || is(M::kDecayDecoupledAlways)) && !is(M::kDecayCoupledAlways);
  const bool maximize = h.at("maximize") != 0, late = is(M::kMaximizeAfterDecay);

  std::vector<Real>& sum = x.slot("sum");
  if (x.t == 1 && !is(M::kStartIgnored))
    sum.assign(sum.size(), x.scalar(h.at("initial_accumulator_value")));
  for (size_t i = 0; i < x.p.size(); ++i) {
    Real p = x.p[i], g = gradient[i];
    if (maximize && !late) g = -g;
    if (wd_host != 0 && decoupled) p = p * keep;
    if (wd_host != 0 && !decoupled) g = g + wd * p;
    if (maximize && late) g = -g;
    sum[i] = (is(M::kSumForgets) ? Real(.99) * sum[i] : sum[i]) + g * g;
    const Real root = is(M::kEpsInsideRoot) ? std::sqrt(sum[i] + eps) : std::sqrt(sum[i]) + eps;
    x.p[i] = x.rounded(p - (clr * g) / root);
  }
}

inline Rule adagrad_rule() {
  using M = AdagradMutation;
  // The decay rounds once more, mostly the same way in consecutive steps: at most 18.
  constexpr double kDecoupled = 32;
  return {
      .algorithms = {"adagrad", "fused_adagrad"},
      .defaults = adagrad_defaults,
      .step = adagrad_step<double>,
      .step_f32 = adagrad_step<float>,
      .sets =
          {
              {"adagrad", "defaults", {}},
              {"adagrad", "lr decay", {{"lr", .05}, {"lr_decay", .1}}},
              {"adagrad", "weight decay", {{"weight_decay", .005}}},
              {"adagrad", "start", {{"initial_accumulator_value", .2}}},
              {"adagrad", "eps 0.1", {{"eps", .1}}},
              {"adagrad",
               "decoupled, lr decay",
               {{"lr", .05}, {"lr_decay", .1}, {"weight_decay", .3}, {"adagrad_w_mode", 1}},
               kDecoupled},
              {"adagrad", "maximize, weight decay", {{"weight_decay", .01}, {"maximize", 1}}},
              {"fused_adagrad", "defaults", {}},
              {"fused_adagrad",
               "decoupled",
               {{"weight_decay", .3}, {"adagrad_w_mode", 1}},
               kDecoupled},
          },
      .mutants =
          {
              {"adagrad", "lr decay", int(M::kStepCountOneAhead), "kStepCountOneAhead"},
              {"adagrad", "start", int(M::kStartIgnored), "kStartIgnored"},
              {"adagrad", "eps 0.1", int(M::kEpsInsideRoot), "kEpsInsideRoot"},
              {"adagrad", "defaults", int(M::kSumForgets), "kSumForgets"},
              {"adagrad", "weight decay", int(M::kDecayDecoupledAlways), "kDecayDecoupledAlways"},
              {"fused_adagrad", "decoupled", int(M::kDecayCoupledAlways), "kDecayCoupledAlways"},
              {"adagrad", "decoupled, lr decay", int(M::kDecayWithoutLrDecay),
               "kDecayWithoutLrDecay"},
              {"adagrad", "maximize, weight decay", int(M::kMaximizeAfterDecay),
               "kMaximizeAfterDecay"},
          },
      .mutation_count = int(M::kCount)};
}

}  // namespace talus::reference
