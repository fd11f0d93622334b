// Lion by definition (Chen et al. 2023, Alg. 2). Mutations are the mistakes that the tests must be
// able to see.
#pragma once
#include "tests/reference/rule.hpp"

namespace talus::reference {

inline Hypers lion_defaults(const std::string&) {
  return {{"lr", 1e-4}, {"beta1", .9}, {"beta2", .99}, {"weight_decay", 0}, {"maximize", 0}};
}

enum class LionMutation {
  kNone,
  kSignFlipped,
  kBetasSwapped,
  kDirectionOfNewMomentum,
  kNoSign,
  kDecayIgnored,
  kDecayWithoutLr,
  kDecayAfterUpdate,
  kMaximizeIgnored,
  kCount
};

template <class Real>
void lion_step(const Hypers& given, int mutation, Tensor<Real>& x,
               const std::vector<Real>& gradient) {
  using M = LionMutation;
  const auto is = [&](M m) { return mutation == int(m); };
  Hypers h = given;
  if (is(M::kBetasSwapped)) std::swap(h["beta1"], h["beta2"]);
  const double lr_host = h.at("lr"), wd = h.at("weight_decay");
  const Real lr = x.scalar(lr_host);
  const Real beta1 = x.scalar(h.at("beta1")), gain1 = x.scalar(1 - h.at("beta1"));
  const Real beta2 = x.scalar(h.at("beta2")), gain2 = x.scalar(1 - h.at("beta2"));
  const Real keep = x.scalar(is(M::kDecayWithoutLr) ? 1 - wd : 1 - lr_host * wd);
  const bool decays = wd != 0 && !is(M::kDecayIgnored);

  ++x.t;
  std::vector<Real>& m = x.slot("exp_avg");
  for (size_t i = 0; i < x.p.size(); ++i) {
    Real p = x.p[i], g = gradient[i];
    if (h.at("maximize") != 0 && !is(M::kMaximizeIgnored)) g = -g;
    if (decays && !is(M::kDecayAfterUpdate)) p = p * keep;
    const Real next = beta2 * m[i] + gain2 * g;
    const Real c = beta1 * (is(M::kDirectionOfNewMomentum) ? next : m[i]) + gain1 * g;
    m[i] = next;
    const Real sign = c > 0 ? Real(1) : c < 0 ? Real(-1) : c;
    const Real change = lr * (is(M::kNoSign) ? c : sign);
    p = is(M::kSignFlipped) ? p + change : p - change;
    if (decays && is(M::kDecayAfterUpdate)) p = p * keep;
    x.p[i] = x.rounded(p);
  }
}

// The product with 1 - lr * weight_decay rounds once more, mostly the same way: at most 47.
inline constexpr double kLionDecayUlps = 100;

inline Rule lion_rule() {
  using M = LionMutation;
  return {.algorithms = {"lion"},
          .defaults = lion_defaults,
          .step = lion_step<double>,
          .step_f32 = lion_step<float>,
          .sets =
              {
                  {"lion", "defaults", {}},
                  {"lion", "weight decay", {{"lr", 1e-3}, {"weight_decay", .1}}, kLionDecayUlps},
                  {"lion",
                   "heavy decay, maximize",
                   {{"lr", 1e-3}, {"weight_decay", 1}, {"maximize", 1}},
                   kLionDecayUlps},
                  {"lion", "betas", {{"lr", 1e-3}, {"beta1", .4}, {"beta2", .8}}},
                  {"lion", "both betas 0", {{"lr", 1e-3}, {"beta1", 0}, {"beta2", 0}}},
                  {"lion", "maximize", {{"lr", 1e-3}, {"maximize", 1}}},
              },
          .mutants =
              {
                  {"lion", "defaults", int(M::kSignFlipped), "kSignFlipped"},
                  {"lion", "betas", int(M::kBetasSwapped), "kBetasSwapped"},
                  {"lion", "betas", int(M::kDirectionOfNewMomentum), "kDirectionOfNewMomentum"},
                  {"lion", "betas", int(M::kNoSign), "kNoSign"},
                  {"lion", "weight decay", int(M::kDecayIgnored), "kDecayIgnored"},
                  {"lion", "weight decay", int(M::kDecayWithoutLr), "kDecayWithoutLr"},
                  {"lion", "heavy decay, maximize", int(M::kDecayAfterUpdate), "kDecayAfterUpdate"},
                  {"lion", "maximize", int(M::kMaximizeIgnored), "kMaximizeIgnored"},
              },
          .mutation_count = int(M::kCount)};
}

}  // namespace talus::reference
