// Adamax by definition (Kingma & Ba 2015, Alg. 2), ordered as torch/optim/adamax.py. Mutations are
// the mistakes that the tests must be able to see.
#pragma once
#include "tests/reference/exact_power.hpp"
#include "tests/reference/rule.hpp"

namespace talus::reference {

inline Hypers adamax_defaults(const std::string&) {
  return {{"lr", 2e-3},  {"beta1", .9},       {"beta2", .999},
          {"eps", 1e-8}, {"weight_decay", 0}, {"maximize", 0}};
}

enum class AdamaxMutation {
  kNone,
  kEpsInDenominator,
  kNormNotDecayed,
  kNormSigned,
  kNoCorrection,
  kDecayIgnored,
  kLowerLerpAlways,  // the same in real arithmetic: only exact comparison sees it
  kCount
};

template <class Real>
void adamax_step(const Hypers& h, int mutation, Tensor<Real>& x,
                 const std::vector<Real>& gradient) {
  using M = AdamaxMutation;
  const auto is = [&](M m) { return mutation == int(m); };
  ++x.t;
  const double w_host = 1 - h.at("beta1");
  const double correction = is(M::kNoCorrection) ? 1 : one_minus_power(h.at("beta1"), x.t);
  const Real step_size = x.scalar(h.at("lr") / correction), eps = x.scalar(h.at("eps"));
  const Real w = x.scalar(w_host), rest = x.scalar(1 - w_host), wd = x.scalar(h.at("weight_decay"));
  const Real beta2 = is(M::kNormNotDecayed) ? Real(1) : x.scalar(h.at("beta2"));
  const bool lower = w_host < .5 || is(M::kLowerLerpAlways);
  const bool decays = h.at("weight_decay") != 0 && !is(M::kDecayIgnored);

  std::vector<Real>&m = x.slot("exp_avg"), &u = x.slot("exp_inf");
  for (size_t i = 0; i < x.p.size(); ++i) {
    const Real p = x.p[i];
    Real g = h.at("maximize") != 0 ? -gradient[i] : gradient[i];
    if (decays) g = g + wd * p;
    m[i] = lerp(m[i], g, lower, w, rest);
    const Real size = is(M::kNormSigned) ? g : std::abs(g);
    u[i] = larger(beta2 * u[i], is(M::kEpsInDenominator) ? size : size + eps);
    const Real norm = is(M::kEpsInDenominator) ? u[i] + eps : u[i];
    x.p[i] = x.rounded(p - (step_size * m[i]) / norm);
  }
}

inline Rule adamax_rule() {
  using M = AdamaxMutation;
  return {.algorithms = {"adamax"},
          .defaults = adamax_defaults,
          .step = adamax_step<double>,
          .step_f32 = adamax_step<float>,
          .sets =
              {
                  {"adamax", "defaults", {}},
                  {"adamax", "weight decay", {{"weight_decay", .005}}},
                  {"adamax", "beta1 0", {{"beta1", 0}}},
                  {"adamax", "beta1 0.3", {{"beta1", .3}}},
                  {"adamax", "beta2 0", {{"beta2", 0}}},
                  {"adamax", "beta2 0.9", {{"beta2", .9}}},
                  {"adamax", "eps 0.1", {{"eps", .1}, {"beta2", .9}}},
                  {"adamax", "maximize", {{"weight_decay", .005}, {"maximize", 1}}},
              },
          .mutants =
              {
                  {"adamax", "eps 0.1", int(M::kEpsInDenominator), "kEpsInDenominator"},
                  {"adamax", "beta2 0.9", int(M::kNormNotDecayed), "kNormNotDecayed"},
                  {"adamax", "beta2 0.9", int(M::kNormSigned), "kNormSigned"},
                  {"adamax", "defaults", int(M::kNoCorrection), "kNoCorrection"},
                  {"adamax", "weight decay", int(M::kDecayIgnored), "kDecayIgnored"},
                  {"adamax", "beta1 0.3", int(M::kLowerLerpAlways), "kLowerLerpAlways", true},
              },
          .mutation_count = int(M::kCount)};
}

}  // namespace talus::reference
