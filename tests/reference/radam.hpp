// RAdam by definition (Liu et al. 2020, Alg. 2), ordered as torch/optim/radam.py. Mutations are the
// mistakes that the tests must be able to see.
#pragma once
#include "tests/reference/exact_power.hpp"
#include "tests/reference/rule.hpp"

namespace talus::reference {

inline Hypers radam_defaults(const std::string&) {
  return {{"lr", 1e-3},       {"beta1", .9},   {"beta2", .999},
          {"eps", 1e-8},      {"maximize", 0}, {"decoupled_weight_decay", 0},
          {"weight_decay", 0}};
}

enum class RadamMutation {
  kNone,
  kRectifiedFromFour,
  kNeverRectified,
  kNoRectifier,
  kEpsAfterCorrection,
  kAtLastOffByOne,
  kFirstPhaseKeepsV,
  kDecayDecoupledAlways,
  kDecayCoupledAlways,
  kCount
};

// The host's part of a step.
struct RadamHost {
  bool rectified;
  double step_size, root_bias2;

  RadamHost(const Hypers& h, RadamMutation mutation, int64_t t) {
    using M = RadamMutation;
    const double beta2 = h.at("beta2"), bc1 = one_minus_power(h.at("beta1"), t);
    const double bc2 = one_minus_power(beta2, t), lr = h.at("lr");
    const double rinf = 2 / (1 - beta2) - (mutation == M::kAtLastOffByOne ? 0 : 1);
    const double rt = rinf - 2 * double(t) * rounded_power(beta2, t) / bc2;
    rectified = rt > (mutation == M::kRectifiedFromFour ? 4 : 5) && mutation != M::kNeverRectified;
    root_bias2 = std::sqrt(bc2);
    step_size = lr / bc1;
    if (!rectified) return;
    const double rect = std::sqrt(((rt - 4) * (rt - 2) * rinf) / ((rinf - 4) * (rinf - 2) * rt));
    step_size = lr * (mutation == M::kNoRectifier ? 1 : rect) * root_bias2 / bc1;
  }
};

template <class Real>
void radam_step(const Hypers& h, int mutation, Tensor<Real>& x, const std::vector<Real>& gradient) {
  using M = RadamMutation;
  const auto is = [&](M m) { return mutation == int(m); };
  ++x.t;
  const RadamHost host(h, M(mutation), x.t);
  const double w_host = 1 - h.at("beta1"), wd_host = h.at("weight_decay");
  const Real c = x.scalar(host.step_size);
  const Real eps =
      x.scalar(is(M::kEpsAfterCorrection) ? h.at("eps") * host.root_bias2 : h.at("eps"));
  const Real w = x.scalar(w_host), rest = x.scalar(1 - w_host);
  const Real beta2 = x.scalar(h.at("beta2")), gain2 = x.scalar(1 - h.at("beta2"));
  const Real wd = x.scalar(wd_host), keep = x.scalar(1 - h.at("lr") * wd_host);
  const bool decoupled = (h.at("decoupled_weight_decay") != 0 || is(M::kDecayDecoupledAlways)) &&
                         !is(M::kDecayCoupledAlways);

  std::vector<Real>&m = x.slot("exp_avg"), &v = x.slot("exp_avg_sq");
  for (size_t i = 0; i < x.p.size(); ++i) {
    Real p = x.p[i], g = h.at("maximize") != 0 ? -gradient[i] : gradient[i];
    if (wd_host != 0 && decoupled) p = p * keep;
    if (wd_host != 0 && !decoupled) g = g + wd * p;
    m[i] = lerp(m[i], g, w_host < .5, w, rest);
    if (host.rectified || !is(M::kFirstPhaseKeepsV)) v[i] = beta2 * v[i] + (gain2 * g) * g;
    p = host.rectified ? p - (c * m[i]) / (std::sqrt(v[i]) + eps) : p - c * m[i];
    x.p[i] = x.rounded(p);
  }
}

inline Rule radam_rule() {
  using M = RadamMutation;
  return {.algorithms = {"radam"},
          .defaults = radam_defaults,
          .step = radam_step<double>,
          .step_f32 = radam_step<float>,
          .sets =
              {
                  {"radam", "defaults", {}},
                  {"radam", "lr 0.01", {{"lr", .01}}},
                  {"radam", "weight decay", {{"weight_decay", .005}}},
                  {"radam", "decoupled", {{"weight_decay", .1}, {"decoupled_weight_decay", 1}}},
                  {"radam", "beta1 0", {{"beta1", 0}}},
                  {"radam", "beta1 0.3", {{"beta1", .3}}},
                  {"radam", "beta2 0.6, never rectified", {{"beta2", .6}}},
                  {"radam", "beta2 0", {{"beta2", 0}}},
                  {"radam", "beta2 0.9", {{"beta2", .9}}},
                  {"radam", "eps 0.1", {{"eps", .1}}},
                  {"radam", "maximize", {{"weight_decay", .005}, {"maximize", 1}}},
              },
          .mutants =
              {
                  {"radam", "lr 0.01", int(M::kRectifiedFromFour), "kRectifiedFromFour"},
                  {"radam", "defaults", int(M::kNeverRectified), "kNeverRectified"},
                  {"radam", "beta2 0.9", int(M::kNoRectifier), "kNoRectifier"},
                  {"radam", "eps 0.1", int(M::kEpsAfterCorrection), "kEpsAfterCorrection"},
                  {"radam", "beta2 0.9", int(M::kAtLastOffByOne), "kAtLastOffByOne"},
                  {"radam", "defaults", int(M::kFirstPhaseKeepsV), "kFirstPhaseKeepsV"},
                  {"radam", "weight decay", int(M::kDecayDecoupledAlways), "kDecayDecoupledAlways"},
                  {"radam", "decoupled", int(M::kDecayCoupledAlways), "kDecayCoupledAlways"},
              },
          .mutation_count = int(M::kCount),
          // Before the first rectified step, the sixth by default, v only gathers.
          .unfelt_states = {"exp_avg_sq"},
          .aliases = {{"adam_w_mode", "decoupled_weight_decay"}}};
}

}  // namespace talus::reference
