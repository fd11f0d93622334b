// LAMB by definition (You et al. 2020, Alg. 2), with apex's clip by the norm of all gradients: here
// of the one tensor. Mutations are the mistakes that the tests must be able to see.
#pragma once
#include "tests/reference/exact_power.hpp"
#include "tests/reference/rule.hpp"

namespace talus::reference {

inline Hypers lamb_defaults(const std::string&) {
  return {{"lr", 1e-3},          {"bias_correction", 1}, {"beta1", .9},     {"beta2", .999},
          {"eps", 1e-6},         {"weight_decay", .01},  {"amsgrad", 0},    {"adam_w_mode", 1},
          {"grad_averaging", 1}, {"max_grad_norm", 1},   {"use_nvlamb", 0}, {"maximize", 0}};
}

enum class LambMutation {
  kNone,
  kClipIgnored,
  kClipAlways,
  kTrustIgnored,
  kTrustWithoutDecay,
  kTrustInverted,
  kTrustOfBareUpdate,
  kAveragedAlways,
  kDecayInUpdateAlways,
  kSecondMomentUncorrected,
  kMaximizeAfterDecay,
  kCount
};

template <class Real>
void lamb_step(const Hypers& h, int mutation, Tensor<Real>& x, const std::vector<Real>& gradient) {
  using M = LambMutation;
  const auto is = [&](M m) { return mutation == int(m); };
  ++x.t;
  const bool corrects = h.at("bias_correction") != 0, maximizes = h.at("maximize") != 0;
  const double wd_host = h.at("weight_decay"), most = h.at("max_grad_norm");
  const bool late = h.at("adam_w_mode") != 0 || is(M::kDecayInUpdateAlways);
  const bool averages = h.at("grad_averaging") != 0 || is(M::kAveragedAlways);
  const Real beta1 = x.scalar(h.at("beta1")), beta2 = x.scalar(h.at("beta2"));
  const Real beta3 = x.scalar(averages ? 1 - h.at("beta1") : 1);
  const Real gain2 = x.scalar(1 - h.at("beta2")), eps = x.scalar(h.at("eps"));
  const Real wd = x.scalar(wd_host);
  const Real bc1 = x.scalar(corrects ? one_minus_power(h.at("beta1"), x.t) : 1);
  const Real bc2 = x.scalar(
      corrects && !is(M::kSecondMomentUncorrected) ? one_minus_power(h.at("beta2"), x.t) : 1);

  const double norm = norm2(gradient);
  const bool above = std::isfinite(norm) && norm > most;
  const bool clips = most > 0 && (above || is(M::kClipAlways)) && !is(M::kClipIgnored);
  const Real clip = x.scalar(clips ? norm / most : 1);

  std::vector<Real>&m = x.slot("exp_avg"), &v = x.slot("exp_avg_sq");
  std::vector<Real> u(x.p.size()), bare(x.p.size());
  for (size_t i = 0; i < x.p.size(); ++i) {
    const Real p = x.p[i], sign = maximizes ? -1 : 1;
    Real g = (is(M::kMaximizeAfterDecay) ? gradient[i] : sign * gradient[i]) / clip;
    if (wd_host != 0 && !late) g = g + wd * p;
    if (is(M::kMaximizeAfterDecay)) g = sign * g;
    m[i] = beta1 * m[i] + beta3 * g;
    v[i] = beta2 * v[i] + (gain2 * g) * g;
    bare[i] = u[i] = (m[i] / bc1) / (std::sqrt(v[i] / bc2) + eps);
    if (wd_host != 0 && late) u[i] = u[i] + wd * p;
  }

  const double pn = norm2(x.p), un = norm2(is(M::kTrustOfBareUpdate) ? bare : u);
  const bool wanted = wd_host != 0 || h.at("use_nvlamb") != 0 || is(M::kTrustWithoutDecay);
  double ratio = h.at("lr");
  if (wanted && !is(M::kTrustIgnored) && pn != 0 && un != 0)
    ratio = ratio * (is(M::kTrustInverted) ? un / pn : pn / un);
  for (size_t i = 0; i < x.p.size(); ++i) x.p[i] = x.rounded(x.p[i] - x.scalar(ratio) * u[i]);
}

inline Rule lamb_rule() {
  return {
      .algorithms = {"lamb", "fused_lamb", "fused_mixed_precision_lamb"},
      .defaults = lamb_defaults,
      .step = lamb_step<double>,
      .step_f32 = lamb_step<float>,
      .sets =
          {
              {"lamb", "defaults", {}},
              {"lamb", "no weight decay", {{"weight_decay", 0}}},
              {"lamb", "trust without decay", {{"weight_decay", 0}, {"use_nvlamb", 1}}},
              {"lamb", "coupled", {{"adam_w_mode", 0}, {"weight_decay", .01}}},
              {"lamb", "clipped", {{"max_grad_norm", .25}}},
              {"lamb",
               "clipped, coupled, maximize",
               {{"max_grad_norm", .5},
                {"adam_w_mode", 0},
                {"weight_decay", .01},
                {"maximize", 1},
                {"bias_correction", 0},
                {"lr", 2e-4}}},
              {"lamb", "no clip", {{"max_grad_norm", 0}}},
              {"lamb", "high bound of the norm", {{"max_grad_norm", 1e4}}},
              {"lamb", "sums of gradients", {{"grad_averaging", 0}, {"lr", 1e-3}}},
              {"lamb", "no bias correction", {{"bias_correction", 0}, {"lr", 1e-4}}},
              {"lamb", "maximize", {{"maximize", 1}, {"weight_decay", .1}}},
              {"lamb", "both betas 0", {{"beta1", 0}, {"beta2", 0}, {"eps", .01}}},
              {"lamb", "eps 0", {{"eps", 0}}},
              {"fused_lamb", "defaults", {}},
              {"fused_lamb", "weight decay", {{"weight_decay", .1}, {"use_nvlamb", 1}}},
              {"fused_mixed_precision_lamb", "defaults", {}},
          },
      .mutants =
          {
              {"lamb", "clipped", int(LambMutation::kClipIgnored), "kClipIgnored"},
              {"lamb", "high bound of the norm", int(LambMutation::kClipAlways), "kClipAlways"},
              {"lamb", "defaults", int(LambMutation::kTrustIgnored), "kTrustIgnored"},
              {"lamb", "no weight decay", int(LambMutation::kTrustWithoutDecay),
               "kTrustWithoutDecay"},
              {"lamb", "defaults", int(LambMutation::kTrustInverted), "kTrustInverted"},
              {"fused_lamb", "weight decay", int(LambMutation::kTrustOfBareUpdate),
               "kTrustOfBareUpdate"},
              {"lamb", "sums of gradients", int(LambMutation::kAveragedAlways), "kAveragedAlways"},
              {"lamb", "coupled", int(LambMutation::kDecayInUpdateAlways), "kDecayInUpdateAlways"},
              {"lamb", "defaults", int(LambMutation::kSecondMomentUncorrected),
               "kSecondMomentUncorrected"},
              {"lamb", "clipped, coupled, maximize", int(LambMutation::kMaximizeAfterDecay),
               "kMaximizeAfterDecay"},
          },
      .mutation_count = int(LambMutation::kCount),
      .sums = true};
}

}  // namespace talus::reference
