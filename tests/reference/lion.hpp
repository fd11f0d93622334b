// Lion by definition (Chen et al. 2023, Alg. 2), cautious updates (Liang et al. 2024) and cautious
// decay (Chen et al. 2025). Mutations are the mistakes that the tests must be
// able to see.
#pragma once
#include "tests/reference/adam.hpp"

namespace talus::reference {

inline Hypers lion_defaults(const std::string&) {
  return {{"lr", 1e-4},        {"beta1", .9},   {"beta2", .99},
          {"weight_decay", 0}, {"cautious", 0}, {"cautious_weight_decay", 0},
          {"maximize", 0}};
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
  kMaskIgnored,
  kMaskHidesDecay,
  kMaskOfMomentum,  // m where c should be compared with g
  kMaskNotScaled,
  kDecayAgainstUpdate,
  kDecayByMomentum,
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
  const Real beta1 = x.scalar(h.at("beta1")), gain1 = x.scalar(1 - h.at("beta1"));
  const Real beta2 = x.scalar(h.at("beta2")), gain2 = x.scalar(1 - h.at("beta2"));
  const Real keep = x.scalar(is(M::kDecayWithoutLr) ? 1 - wd : 1 - lr_host * wd);
  const bool decays = wd != 0 && !is(M::kDecayIgnored);

  ++x.t;
  std::vector<Real>& m = x.slot("exp_avg");
  std::vector<Real> g = gradient, c = gradient, next = gradient;
  std::vector<bool> moves(g.size(), true);
  for (size_t i = 0; i < g.size(); ++i) {
    if (h.at("maximize") != 0 && !is(M::kMaximizeIgnored)) g[i] = -g[i];
    next[i] = beta2 * m[i] + gain2 * g[i];
    c[i] = beta1 * (is(M::kDirectionOfNewMomentum) ? next[i] : m[i]) + gain1 * g[i];
    if (h.at("cautious") != 0 && !is(M::kMaskIgnored))
      moves[i] = agree(is(M::kMaskOfMomentum) ? m[i] : c[i], g[i]);
  }
  const bool scales = h.at("cautious") != 0 && !is(M::kMaskNotScaled);
  const Real lr = x.scalar(scales ? lr_host * mask_scale(moves) : lr_host);
  for (size_t i = 0; i < g.size(); ++i) {
    Real p = x.p[i];
    const Real guide = is(M::kDecayByMomentum) ? m[i] : c[i];
    const bool against = (guide > 0 && p < 0) || (guide < 0 && p > 0);
    bool shrinks = decays;
    if (h.at("cautious_weight_decay") != 0)
      shrinks = shrinks && against == is(M::kDecayAgainstUpdate);
    if (is(M::kMaskHidesDecay)) shrinks = shrinks && moves[i];
    if (shrinks && !is(M::kDecayAfterUpdate)) p = p * keep;
    const Real sign = c[i] > 0 ? Real(1) : c[i] < 0 ? Real(-1) : c[i];
    const Real change = lr * (is(M::kNoSign) ? c[i] : sign);
    if (moves[i]) p = is(M::kSignFlipped) ? p + change : p - change;
    if (shrinks && is(M::kDecayAfterUpdate)) p = p * keep;
    x.p[i] = x.rounded(p);
  }
  m = next;
}

// The product with 1 - lr * weight_decay rounds once more, mostly the same way: at most 47.
inline constexpr double kLionDecayUlps = 100;

inline Rule lion_rule() {
  using M = LionMutation;
  return {
      .algorithms = {"lion"},
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
              {"lion",
               "cautious decay",
               {{"lr", 1e-3}, {"beta1", .5}, {"weight_decay", 1}, {"cautious_weight_decay", 1}},
               kLionDecayUlps},
              {"lion",
               "cautious",
               {{"lr", 1e-3}, {"beta1", .7}, {"beta2", .8}, {"weight_decay", .5}, {"cautious", 1}},
               kLionDecayUlps},
              {"lion",
               "cautious, cautious decay, maximize",
               {{"lr", 1e-3},
                {"beta1", .6},
                {"beta2", .8},
                {"weight_decay", .5},
                {"cautious", 1},
                {"cautious_weight_decay", 1},
                {"maximize", 1}},
               kLionDecayUlps},
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
              {"lion", "cautious", int(M::kMaskIgnored), "kMaskIgnored"},
              {"lion", "cautious", int(M::kMaskHidesDecay), "kMaskHidesDecay"},
              {"lion", "cautious", int(M::kMaskOfMomentum), "kMaskOfMomentum"},
              {"lion", "cautious", int(M::kMaskNotScaled), "kMaskNotScaled"},
              {"lion", "cautious decay", int(M::kDecayAgainstUpdate), "kDecayAgainstUpdate"},
              {"lion", "cautious decay", int(M::kDecayByMomentum), "kDecayByMomentum"},
          },
      .mutation_count = int(M::kCount)};
}

}  // namespace talus::reference
