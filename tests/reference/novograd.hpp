// NovoGrad by definition (Ginsburg et al. 2019, Alg. 1; apex's form by default, the paper's with
// reg_inside_moment). Mutations are the mistakes that the tests must be able to see.
#pragma once
#include "tests/reference/exact_power.hpp"
#include "tests/reference/rule.hpp"

namespace talus::reference {

inline Hypers novograd_defaults(const std::string&) {
  return {{"lr", 1e-3},          {"bias_correction", 1}, {"beta1", .9},    {"beta2", .999},
          {"eps", 1e-8},         {"weight_decay", 0},    {"amsgrad", 0},   {"reg_inside_moment", 0},
          {"grad_averaging", 1}, {"norm_type", 2},       {"init_zero", 0}, {"maximize", 0}};
}

enum class NovogradMutation {
  kNone,
  kNormsBlendedPlain,
  kNormsBlendedSquared,
  kStartsFromZero,
  kStartsDampened,
  kCorrectedWithoutRoot,
  kDecayOfGradient,
  kInsideAlways,
  kMaximizeAfterDecay,
  kCount
};

// NaN where one of them is.
template <class Real>
double largest_magnitude(const std::vector<Real>& x) {
  double largest = 0;
  for (const Real v : x) largest = larger(largest, std::abs(double(v)));
  return largest;
}

// The norm that stands in the state after this step.
template <class Real>
double novograd_norm(const Hypers& h, NovogradMutation mutation, const Tensor<Real>& x, double norm,
                     double before) {
  using M = NovogradMutation;
  const double beta2 = h.at("beta2"), gain2 = 1 - beta2;
  const bool from_zero = h.at("init_zero") != 0 || mutation == M::kStartsFromZero;
  if (x.t == 1 && !from_zero) return mutation == M::kStartsDampened ? gain2 * norm : norm;
  const double v = x.t == 1 ? 0 : before;
  const bool squares = (h.at("norm_type") == 2 && mutation != M::kNormsBlendedPlain) ||
                       mutation == M::kNormsBlendedSquared;
  return squares ? std::sqrt((beta2 * v) * v + (gain2 * norm) * norm) : beta2 * v + gain2 * norm;
}

template <class Real>
void novograd_step(const Hypers& h, int mutation, Tensor<Real>& x,
                   const std::vector<Real>& gradient) {
  using M = NovogradMutation;
  const auto is = [&](M m) { return mutation == int(m); };
  ++x.t;
  const bool corrects = h.at("bias_correction") != 0, maximizes = h.at("maximize") != 0;
  const bool inside = h.at("reg_inside_moment") != 0 || is(M::kInsideAlways);
  const double wd_host = h.at("weight_decay");
  const Real lr = x.scalar(h.at("lr")), wd = x.scalar(wd_host), beta1 = x.scalar(h.at("beta1"));
  const Real beta3 = x.scalar(h.at("grad_averaging") != 0 ? 1 - h.at("beta1") : 1);
  const Real bc1 = x.scalar(corrects ? one_minus_power(h.at("beta1"), x.t) : 1);
  const double bc2 = corrects ? one_minus_power(h.at("beta2"), x.t) : 1;

  double& norm = x.scalar_state["exp_avg_sq"];
  norm =
      novograd_norm(h, M(mutation), x,
                    h.at("norm_type") == 2 ? norm2(gradient) : largest_magnitude(gradient), norm);
  const double r2 = is(M::kCorrectedWithoutRoot) ? bc2 : std::sqrt(bc2);
  const Real d = x.scalar(norm / r2 + h.at("eps"));

  std::vector<Real>& m = x.slot("exp_avg");
  for (size_t i = 0; i < x.p.size(); ++i) {
    const Real p = x.p[i], sign = maximizes ? -1 : 1;
    Real g = is(M::kMaximizeAfterDecay) ? gradient[i] : sign * gradient[i];
    if (inside) {
      g = g / d;
      if (wd_host != 0) g = g + wd * p;
    }
    if (is(M::kDecayOfGradient)) g = g + wd * p;
    m[i] = beta1 * m[i] + beta3 * g;
    Real u = m[i] / bc1;
    if (!inside) {
      u = u / d;
      if (wd_host != 0 && !is(M::kDecayOfGradient)) u = u + wd * p;
    }
    x.p[i] = x.rounded(p - lr * (is(M::kMaximizeAfterDecay) ? sign * u : u));
  }
}

inline Rule novograd_rule() {
  using M = NovogradMutation;
  return {
      .algorithms = {"novograd", "fused_novograd"},
      .defaults = novograd_defaults,
      .step = novograd_step<double>,
      .step_f32 = novograd_step<float>,
      .sets =
          {
              {"novograd", "defaults", {{"lr", .1}}},
              {"novograd", "weight decay", {{"lr", .01}, {"weight_decay", .05}}},
              {"novograd", "no bias correction", {{"lr", .01}, {"bias_correction", 0}}},
              {"novograd", "from 0", {{"lr", .01}, {"init_zero", 1}}},
              {"novograd",
               "from 0, largest",
               {{"lr", .001}, {"init_zero", 1}, {"norm_type", 0}, {"bias_correction", 0}}},
              {"novograd", "largest", {{"lr", .01}, {"norm_type", 0}, {"beta2", .9}}},
              {"novograd",
               "inside",
               {{"lr", .01}, {"reg_inside_moment", 1}, {"weight_decay", .05}, {"beta2", .9}}},
              {"novograd",
               "inside, sums of gradients",
               {{"lr", .002}, {"reg_inside_moment", 1}, {"grad_averaging", 0}}},
              {"novograd", "sums of gradients", {{"lr", .002}, {"grad_averaging", 0}}},
              {"novograd", "maximize", {{"lr", .01}, {"maximize", 1}, {"weight_decay", .05}}},
              {"novograd", "both betas 0", {{"lr", .01}, {"beta1", 0}, {"beta2", 0}, {"eps", .01}}},
              {"novograd", "eps 0.1", {{"lr", .01}, {"eps", .1}, {"beta2", .95}}},
              {"fused_novograd", "defaults", {{"lr", .1}}},
          },
      .mutants =
          {
              {"novograd", "from 0", int(M::kNormsBlendedPlain), "kNormsBlendedPlain"},
              {"novograd", "from 0, largest", int(M::kNormsBlendedSquared), "kNormsBlendedSquared"},
              {"novograd", "defaults", int(M::kStartsFromZero), "kStartsFromZero"},
              {"novograd", "no bias correction", int(M::kStartsDampened), "kStartsDampened"},
              {"novograd", "defaults", int(M::kCorrectedWithoutRoot), "kCorrectedWithoutRoot"},
              {"novograd", "weight decay", int(M::kDecayOfGradient), "kDecayOfGradient"},
              {"novograd", "weight decay", int(M::kInsideAlways), "kInsideAlways"},
              {"novograd", "maximize", int(M::kMaximizeAfterDecay), "kMaximizeAfterDecay"},
          },
      .mutation_count = int(M::kCount),
      .sums = true};
}

}  // namespace talus::reference
