// Averaged SGD by definition (Polyak & Juditsky 1992, in the form of torch/optim/asgd.py, with the
// step size of this very step). Mutations are the mistakes that the tests must be able to see.
#pragma once
#include "tests/reference/exact_pow.hpp"
#include "tests/reference/rule.hpp"

namespace talus::reference {

inline Hypers asgd_defaults(const std::string&) {
  return {{"lr", 1e-2}, {"lambd", 1e-4},     {"alpha", .75},
          {"t0", 1e6},  {"weight_decay", 0}, {"maximize", 0}};
}

enum class AsgdMutation {
  kNone,
  kStepSizeConstant,
  kStepCountOneAhead,
  kAlphaIgnored,
  kLambdIgnored,
  kAverageOneEarly,
  kAverageOfOldValue,
  kDecayIgnored,
  kMaximizeIgnored,
  kCount
};

template <class Real>
void asgd_step(const Hypers& h, int mutation, Tensor<Real>& x, const std::vector<Real>& gradient) {
  using M = AsgdMutation;
  const auto is = [&](M m) { return mutation == int(m); };
  ++x.t;
  const double lr = h.at("lr"), lambd = h.at("lambd");
  const double steps = double(x.t - 1), ahead = is(M::kStepCountOneAhead) ? 1 : 0;
  double eta_host =
      lr / exact_pow(1 + lambd * lr * (steps + ahead), is(M::kAlphaIgnored) ? 1 : h.at("alpha"));
  if (is(M::kStepSizeConstant)) eta_host = lr;
  const double from = is(M::kAverageOneEarly) ? h.at("t0") - 1 : h.at("t0");
  const double mu_host = 1 / larger(1.0, steps - from);
  const Real eta = x.scalar(eta_host), mu = x.scalar(mu_host), wd = x.scalar(h.at("weight_decay"));
  const Real dec = is(M::kLambdIgnored) ? Real(1) : x.scalar(1 - lambd * eta_host);
  const bool decays = h.at("weight_decay") != 0 && !is(M::kDecayIgnored);
  const bool maximize = h.at("maximize") != 0 && !is(M::kMaximizeIgnored);

  std::vector<Real>& ax = x.slot("ax");
  for (size_t i = 0; i < x.p.size(); ++i) {
    const Real old = x.p[i];
    Real p = old, g = maximize ? -gradient[i] : gradient[i];
    if (decays) g = g + wd * p;
    p = p * dec;
    p = p - eta * g;
    const Real seen = is(M::kAverageOfOldValue) ? old : p;
    ax[i] = mu_host == 1 ? seen : ax[i] + (seen - ax[i]) * mu;
    x.p[i] = x.rounded(p);
  }
}

inline Rule asgd_rule() {
  using M = AsgdMutation;
  // The product with 1 - lambd * eta rounds once more and mostly one way, as decoupled decay does:
  // at most 58, in p and in ax. A 16-bit value that tipped is 2^16 f32 ULPs off, its average too.
  constexpr double kShrunk = 100, kTipped = 131072;
  return {.algorithms = {"asgd"},
          .defaults = asgd_defaults,
          .step = asgd_step<double>,
          .step_f32 = asgd_step<float>,
          .sets =
              {
                  {"asgd", "defaults", {}, kShrunk, kShrunk, kTipped},
                  {"asgd", "average", {{"lr", .1}, {"t0", 0}}, kShrunk, kShrunk, kTipped},
                  {"asgd", "average later", {{"lr", .1}, {"t0", 90}}, kShrunk, kShrunk, kTipped},
                  {"asgd",
                   "lambd",
                   {{"lr", .05}, {"lambd", .1}, {"t0", 50}},
                   kShrunk,
                   kShrunk,
                   kTipped},
                  {"asgd",
                   "alpha",
                   {{"lr", .1}, {"lambd", .1}, {"alpha", .4}, {"t0", 95}},
                   kShrunk,
                   kShrunk,
                   kTipped},
                  {"asgd",
                   "alpha 0",
                   {{"lr", .1}, {"alpha", 0}, {"t0", .5}},
                   kShrunk,
                   kShrunk,
                   kTipped},
                  {"asgd", "weight decay", {{"weight_decay", .05}}, kShrunk, kShrunk, kTipped},
                  {"asgd",
                   "maximize",
                   {{"weight_decay", .05}, {"t0", 3}, {"maximize", 1}},
                   kShrunk,
                   kShrunk,
                   kTipped},
              },
          .mutants =
              {
                  {"asgd", "alpha", int(M::kStepSizeConstant), "kStepSizeConstant"},
                  {"asgd", "alpha", int(M::kStepCountOneAhead), "kStepCountOneAhead"},
                  {"asgd", "alpha", int(M::kAlphaIgnored), "kAlphaIgnored"},
                  {"asgd", "lambd", int(M::kLambdIgnored), "kLambdIgnored"},
                  {"asgd", "average later", int(M::kAverageOneEarly), "kAverageOneEarly"},
                  {"asgd", "average later", int(M::kAverageOfOldValue), "kAverageOfOldValue"},
                  {"asgd", "weight decay", int(M::kDecayIgnored), "kDecayIgnored"},
                  {"asgd", "maximize", int(M::kMaximizeIgnored), "kMaximizeIgnored"},
              },
          .mutation_count = int(M::kCount),
          .unfelt_states = {"ax"}};  // nothing reads it back
}

}  // namespace talus::reference
