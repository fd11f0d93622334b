// Adam by definition (Kingma & Ba 2015, Alg. 1; AMSGrad: Reddi et al. 2018, Alg. 2; AdamW is the
// same with decoupled decay: Loshchilov & Hutter 2019, Alg. 2), ordered as torch/optim/adam.py;
// cautious updates (Liang et al. 2024), cautious decay (Chen et al. 2025) and StableAdamW (Wortsman
// et al. 2023).
// Mutations are the mistakes that the tests must be able to see.
#pragma once
#include "tests/reference/exact_power.hpp"
#include "tests/reference/rule.hpp"

namespace talus::reference {

inline Hypers adam_defaults(const std::string& algorithm) {
  const bool decoupled = algorithm != "adam";
  return {{"lr", 1e-3},
          {"beta1", .9},
          {"beta2", .999},
          {"eps", 1e-8},
          {"weight_decay", algorithm == "adamw" ? .01 : 0},
          {"amsgrad", 0},
          {"bias_correction", 1},
          {"maximize", 0},
          {"decoupled_weight_decay", double(decoupled)},
          {"cautious", 0},
          {"cautious_weight_decay", 0},
          {"stable", 0}};
}

enum class AdamMutation {
  kNone,
  kSignFlipped,
  kEpsInsideRoot,
  kEpsBeforeCorrection,
  kEpsIgnored,
  kNoFirstCorrection,
  kNoSecondCorrection,
  kAlwaysCorrected,
  kStepCountOneAhead,
  kBetasSwapped,
  kSecondMomentOfFirst,
  kFirstMomentNotAveraged,
  kStaleFirstMoment,
  kDecayIgnored,
  kDecayThroughMoments,
  kDecayDecoupledAlways,
  kDecayWithoutLr,
  kDecayAfterUpdate,
  kMaximizeIgnored,
  kMaximizeAfterDecay,
  kMaximumIgnored,
  kMaximumOfCorrected,
  kLowerLerpAlways,  // the same in real arithmetic: only exact comparison sees it
  kMaskIgnored,
  kMaskHidesDecay,
  kMaskNotScaled,
  kDecayAgainstUpdate,  // cautious decay where it should not be, and not where it should
  kDecayByStaleMoment,
  kStableIgnored,
  kStableForStepOnly,
  kStableUncorrected,
  kStableOfMaximum,
  kStableRaises,  // also where the root mean square is below 1
  kCount
};

// The host's part of a step.
struct AdamHost {
  double bc1 = 1, bc2 = 1;

  AdamHost(const Hypers& h, AdamMutation mutation, int64_t t) {
    using M = AdamMutation;
    if (h.at("bias_correction") == 0 && mutation != M::kAlwaysCorrected) return;
    const int64_t count = mutation == M::kStepCountOneAhead ? t + 1 : t;
    if (mutation != M::kNoFirstCorrection) bc1 = one_minus_power(h.at("beta1"), count);
    if (mutation != M::kNoSecondCorrection) bc2 = one_minus_power(h.at("beta2"), count);
  }
};

// Both above or both below zero; a NaN agrees with everything.
template <class Real>
bool agree(Real a, Real b) {
  return a != a || b != b || (a > 0 && b > 0) || (a < 0 && b < 0);
}

// 1 over the share of elements that agree, at least one in a thousand.
inline double mask_scale(const std::vector<bool>& agrees) {
  double count = 0;
  for (const bool one : agrees) count += one;
  return 1 / std::max(count / double(agrees.size()), 1e-3);
}

// What moments and gradient ask for beyond Adam: the learning rate of this step, and the mask.
template <class Real>
struct AdamExtras {
  double lr, scale = 1;
  std::vector<bool> moves;

  AdamExtras(const Hypers& h, AdamMutation mutation, double bc2, const std::vector<Real>& g,
             const std::vector<Real>& m, const std::vector<Real>& v)
      : lr(h.at("lr")), moves(g.size(), true) {
    using M = AdamMutation;
    if (h.at("stable") != 0 && mutation != M::kStableIgnored) {
      std::vector<double> ratios;
      const double correction = mutation == M::kStableUncorrected ? 1 : bc2;
      for (size_t i = 0; i < g.size(); ++i)
        ratios.push_back(double(g[i]) * double(g[i]) /
                         larger(double(v[i]) / correction, h.at("eps") * h.at("eps")));
      const double rms = std::sqrt(tree_sum(ratios) / double(g.size()));
      lr = lr / (mutation == M::kStableRaises ? rms : larger(rms, 1.0));
    }
    if (h.at("cautious") != 0 && mutation != M::kMaskIgnored) {
      for (size_t i = 0; i < g.size(); ++i) moves[i] = agree(m[i], g[i]);
      if (mutation != M::kMaskNotScaled) scale = mask_scale(moves);
    }
  }
};

template <class Real>
void adam_step(const Hypers& given, int mutation, Tensor<Real>& x,
               const std::vector<Real>& gradient) {
  using M = AdamMutation;
  const auto is = [&](M m) { return mutation == int(m); };
  Hypers h = given;
  if (is(M::kBetasSwapped)) std::swap(h["beta1"], h["beta2"]);
  ++x.t;
  const AdamHost host(h, AdamMutation(mutation), x.t);
  const double w_host = 1 - h.at("beta1"), wd_host = h.at("weight_decay");
  const Real r2 = x.scalar(std::sqrt(host.bc2));
  const Real w = x.scalar(w_host), rest = x.scalar(1 - w_host);
  const Real beta2 = x.scalar(h.at("beta2")), gain2 = x.scalar(1 - h.at("beta2"));
  const Real wd = x.scalar(wd_host), eps = x.scalar(is(M::kEpsIgnored) ? 0 : h.at("eps"));
  const bool lower = w_host < .5 || is(M::kLowerLerpAlways);
  const bool decays = wd_host != 0 && !is(M::kDecayIgnored);
  const bool decoupled = (h.at("decoupled_weight_decay") != 0 || is(M::kDecayDecoupledAlways)) &&
                         !is(M::kDecayThroughMoments);
  const bool maximize = h.at("maximize") != 0 && !is(M::kMaximizeIgnored);
  const bool amsgrad = h.at("amsgrad") != 0;

  std::vector<Real>&m = x.slot("exp_avg"), &v = x.slot("exp_avg_sq");
  std::vector<Real> none(x.p.size()), stale = m, entered = gradient;
  std::vector<Real>& largest = amsgrad ? x.slot("max_exp_avg_sq") : none;
  for (size_t i = 0; i < x.p.size(); ++i) {
    Real& g = entered[i];
    if (maximize && !is(M::kMaximizeAfterDecay)) g = -g;
    if (decays && !decoupled) g = g + wd * x.p[i];
    if (maximize && is(M::kMaximizeAfterDecay)) g = -g;
    m[i] = is(M::kFirstMomentNotAveraged) ? rest * m[i] + g : lerp(m[i], g, lower, w, rest);
    const Real squared = is(M::kSecondMomentOfFirst) ? m[i] : g;
    v[i] = beta2 * v[i] + (gain2 * squared) * squared;
    if (amsgrad && !is(M::kMaximumOfCorrected)) largest[i] = larger(largest[i], v[i]);
  }

  const AdamExtras<Real> extras(h, AdamMutation(mutation), host.bc2, entered, m,
                                is(M::kStableOfMaximum) && amsgrad ? largest : v);
  const Real step_size = x.scalar((extras.lr / host.bc1) * extras.scale);
  const double decay_lr = is(M::kStableForStepOnly) ? h.at("lr") : extras.lr;
  const Real keep = x.scalar(is(M::kDecayWithoutLr) ? 1 - wd_host : 1 - decay_lr * wd_host);
  for (size_t i = 0; i < x.p.size(); ++i) {
    Real p = x.p[i];
    const Real guide = is(M::kDecayByStaleMoment) ? stale[i] : m[i];
    const bool against = (guide > 0 && p < 0) || (guide < 0 && p > 0);
    bool shrinks = decays && decoupled;
    if (h.at("cautious_weight_decay") != 0)
      shrinks = shrinks && against == is(M::kDecayAgainstUpdate);
    if (is(M::kMaskHidesDecay)) shrinks = shrinks && extras.moves[i];
    if (shrinks && !is(M::kDecayAfterUpdate)) p = p * keep;

    Real root = std::sqrt(v[i]) / r2;
    if (is(M::kEpsInsideRoot)) root = std::sqrt(v[i] / (r2 * r2) + eps);
    if (is(M::kEpsBeforeCorrection)) root = (std::sqrt(v[i]) + eps) / r2;
    if (amsgrad && is(M::kMaximumOfCorrected)) {
      largest[i] = larger(largest[i], v[i] / (r2 * r2));
      root = std::sqrt(largest[i]);
    } else if (amsgrad && !is(M::kMaximumIgnored)) {
      root = std::sqrt(largest[i]) / r2;
    }
    if (!is(M::kEpsInsideRoot) && !is(M::kEpsBeforeCorrection)) root = root + eps;

    const Real change = (step_size * (is(M::kStaleFirstMoment) ? stale[i] : m[i])) / root;
    if (extras.moves[i]) p = is(M::kSignFlipped) ? p + change : p - change;
    if (shrinks && is(M::kDecayAfterUpdate)) p = p * keep;
    x.p[i] = x.rounded(p);
  }
}

inline Rule adam_rule() {
  return {
      .algorithms = {"adam", "adamw", "fused_adam"},
      .defaults = adam_defaults,
      .step = adam_step<double>,
      .step_f32 = adam_step<float>,
      .sets =
          {
              {"adam", "defaults", {}},
              {"adam", "weight decay", {{"weight_decay", .005}}},
              {"adam", "decoupled", {{"weight_decay", .1}, {"decoupled_weight_decay", 1}}},
              {"adam", "decoupled alone", {{"decoupled_weight_decay", 1}}},
              {"adam", "amsgrad", {{"amsgrad", 1}, {"beta2", .9}}},
              {"adam",
               "amsgrad, weight decay, maximize",
               {{"amsgrad", 1}, {"beta2", .9}, {"weight_decay", .005}, {"maximize", 1}}},
              {"adam", "no bias correction", {{"bias_correction", 0}, {"lr", 1e-4}}},
              {"adam", "maximize", {{"maximize", 1}}},
              {"adam", "beta1 0", {{"beta1", 0}}},
              {"adam", "beta2 0", {{"beta2", 0}, {"eps", .01}}},
              {"adam", "both betas 0", {{"beta1", 0}, {"beta2", 0}, {"eps", .01}}},
              {"adam", "beta1 0.3", {{"beta1", .3}}},
              {"adam", "beta1 0.5", {{"beta1", .5}}},
              {"adam", "eps 0", {{"eps", 0}}},
              {"adam", "eps 0.1", {{"eps", .1}}},
              {"fused_adam", "defaults", {}},
              {"fused_adam", "weight decay", {{"weight_decay", .1}}},
              {"fused_adam", "coupled", {{"weight_decay", .005}, {"adam_w_mode", 0}}},

              {"adamw", "defaults", {}},
              {"adamw", "no weight decay", {{"weight_decay", 0}}},
              {"adamw", "weight decay", {{"lr", 2e-3}, {"weight_decay", .3}}},
              {"adamw", "heavy decay", {{"lr", .01}, {"weight_decay", .5}}},
              {"adamw", "coupled", {{"weight_decay", .005}, {"decoupled_weight_decay", 0}}},
              {"adamw", "amsgrad", {{"amsgrad", 1}, {"beta2", .9}}},
              {"adamw", "no bias correction", {{"bias_correction", 0}, {"lr", 1e-4}}},
              {"adamw", "maximize", {{"maximize", 1}, {"weight_decay", .1}}},
              {"adamw", "beta1 0.3", {{"beta1", .3}}},
              {"adamw", "both betas 0", {{"beta1", 0}, {"beta2", 0}, {"eps", .01}}},
              {"adamw", "eps 0.1", {{"eps", .1}}},

              {"adamw", "cautious", {{"cautious", 1}, {"weight_decay", .3}}},
              {"adamw",
               "cautious decay",
               {{"lr", 2e-3}, {"weight_decay", .3}, {"cautious_weight_decay", 1}}},
              {"adamw",
               "stable",
               {{"lr", 2e-3}, {"weight_decay", .3}, {"stable", 1}},
               0,
               0,
               0,
               true},
              {"adamw",
               "stable, no decay, beta2 0.9",
               {{"stable", 1}, {"weight_decay", 0}, {"beta2", .9}, {"eps", .1}},
               0,
               0,
               0,
               true},
              {"adam",
               "cautious, amsgrad, maximize",
               {{"cautious", 1}, {"amsgrad", 1}, {"beta2", .9}, {"maximize", 1}}},
              {"adam",
               "stable, amsgrad",
               {{"stable", 1}, {"amsgrad", 1}, {"beta2", .8}},
               0,
               0,
               0,
               true},
              {"fused_adam",
               "cautious, cautious decay, stable, amsgrad",
               {{"cautious", 1},
                {"cautious_weight_decay", 1},
                {"stable", 1},
                {"amsgrad", 1},
                {"weight_decay", .3},
                {"beta2", .9}},
               0,
               0,
               0,
               true},
          },
      .mutants =
          {
              {"adam", "defaults", int(AdamMutation::kSignFlipped), "kSignFlipped"},
              {"adam", "eps 0.1", int(AdamMutation::kEpsInsideRoot), "kEpsInsideRoot"},
              {"adam", "eps 0.1", int(AdamMutation::kEpsBeforeCorrection), "kEpsBeforeCorrection"},
              {"adam", "eps 0.1", int(AdamMutation::kEpsIgnored), "kEpsIgnored"},
              {"adam", "defaults", int(AdamMutation::kNoFirstCorrection), "kNoFirstCorrection"},
              {"adam", "defaults", int(AdamMutation::kNoSecondCorrection), "kNoSecondCorrection"},
              {"adam", "no bias correction", int(AdamMutation::kAlwaysCorrected),
               "kAlwaysCorrected"},
              {"adam", "defaults", int(AdamMutation::kStepCountOneAhead), "kStepCountOneAhead"},
              {"adam", "defaults", int(AdamMutation::kBetasSwapped), "kBetasSwapped"},
              {"adam", "defaults", int(AdamMutation::kSecondMomentOfFirst), "kSecondMomentOfFirst"},
              {"adam", "defaults", int(AdamMutation::kFirstMomentNotAveraged),
               "kFirstMomentNotAveraged"},
              {"adam", "defaults", int(AdamMutation::kStaleFirstMoment), "kStaleFirstMoment"},
              {"adam", "weight decay", int(AdamMutation::kDecayIgnored), "kDecayIgnored"},
              {"adamw", "weight decay", int(AdamMutation::kDecayIgnored), "kDecayIgnored"},
              {"adamw", "weight decay", int(AdamMutation::kDecayThroughMoments),
               "kDecayThroughMoments"},
              {"fused_adam", "weight decay", int(AdamMutation::kDecayThroughMoments),
               "kDecayThroughMoments"},
              {"adam", "weight decay", int(AdamMutation::kDecayDecoupledAlways),
               "kDecayDecoupledAlways"},
              {"fused_adam", "coupled", int(AdamMutation::kDecayDecoupledAlways),
               "kDecayDecoupledAlways"},
              {"adamw", "weight decay", int(AdamMutation::kDecayWithoutLr), "kDecayWithoutLr"},
              {"adamw", "heavy decay", int(AdamMutation::kDecayAfterUpdate), "kDecayAfterUpdate"},
              {"adam", "maximize", int(AdamMutation::kMaximizeIgnored), "kMaximizeIgnored"},
              {"adam", "amsgrad, weight decay, maximize", int(AdamMutation::kMaximizeAfterDecay),
               "kMaximizeAfterDecay"},
              {"adam", "amsgrad", int(AdamMutation::kMaximumIgnored), "kMaximumIgnored"},
              {"adam", "amsgrad", int(AdamMutation::kMaximumOfCorrected), "kMaximumOfCorrected"},
              {"adam", "beta1 0.3", int(AdamMutation::kLowerLerpAlways), "kLowerLerpAlways", true},
              {"adamw", "cautious", int(AdamMutation::kMaskIgnored), "kMaskIgnored"},
              {"adamw", "cautious", int(AdamMutation::kMaskHidesDecay), "kMaskHidesDecay"},
              {"adam", "cautious, amsgrad, maximize", int(AdamMutation::kMaskNotScaled),
               "kMaskNotScaled"},
              {"adamw", "cautious decay", int(AdamMutation::kDecayAgainstUpdate),
               "kDecayAgainstUpdate"},
              {"adamw", "cautious decay", int(AdamMutation::kDecayByStaleMoment),
               "kDecayByStaleMoment"},
              {"adamw", "stable", int(AdamMutation::kStableIgnored), "kStableIgnored"},
              {"adamw", "stable", int(AdamMutation::kStableForStepOnly), "kStableForStepOnly"},
              {"adamw", "stable", int(AdamMutation::kStableUncorrected), "kStableUncorrected"},
              {"adam", "stable, amsgrad", int(AdamMutation::kStableOfMaximum), "kStableOfMaximum"},
              {"adamw", "stable, no decay, beta2 0.9", int(AdamMutation::kStableRaises),
               "kStableRaises"},
          },
      .mutation_count = int(AdamMutation::kCount),
      .aliases = {{"adam_w_mode", "decoupled_weight_decay"}}};
}

}  // namespace talus::reference
