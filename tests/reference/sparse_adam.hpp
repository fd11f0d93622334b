// Adam on the rows of a gradient (torch.optim.SparseAdam), for those rows alone: who calls it picks
// them. Mutations are the mistakes that the tests must be able to see.
#pragma once
#include "tests/reference/exact_power.hpp"
#include "tests/reference/rule.hpp"

namespace talus::reference {

inline Hypers sparse_adam_defaults(const std::string&) {
  return {{"lr", 1e-3}, {"beta1", .9}, {"beta2", .999}, {"eps", 1e-8}, {"maximize", 0}};
}

enum class SparseAdamMutation {
  kNone,
  kSignFlipped,
  kEpsAsAdam,  // added to the corrected root
  kNoCorrection,
  kMaximizeIgnored,
  kProductForm,  // beta * m + (1 - beta) * g: the same in real arithmetic
  kCount
};

template <class Real>
void sparse_adam_step(const Hypers& h, int mutation, Tensor<Real>& x,
                      const std::vector<Real>& gradient) {
  using M = SparseAdamMutation;
  const auto is = [&](M m) { return mutation == int(m); };
  ++x.t;
  const double bc1 = is(M::kNoCorrection) ? 1 : one_minus_power(h.at("beta1"), x.t);
  const double bc2 = is(M::kNoCorrection) ? 1 : one_minus_power(h.at("beta2"), x.t);
  const Real w1 = x.scalar(1 - h.at("beta1")), w2 = x.scalar(1 - h.at("beta2"));
  const Real kept = x.scalar(h.at("beta1"));
  const Real size = x.scalar(h.at("lr") * std::sqrt(bc2) / bc1);
  const Real eps = x.scalar(is(M::kEpsAsAdam) ? h.at("eps") * std::sqrt(bc2) : h.at("eps"));
  const bool maximize = h.at("maximize") != 0 && !is(M::kMaximizeIgnored);
  std::vector<Real>&m = x.slot("exp_avg"), &v = x.slot("exp_avg_sq");
  for (size_t i = 0; i < x.p.size(); ++i) {
    const Real g = maximize ? -gradient[i] : gradient[i];
    m[i] = is(M::kProductForm) ? kept * m[i] + w1 * g : m[i] + w1 * (g - m[i]);
    v[i] = v[i] + w2 * (g * g - v[i]);
    const Real change = (size * m[i]) / (std::sqrt(v[i]) + eps);
    x.p[i] = x.rounded(is(M::kSignFlipped) ? x.p[i] + change : x.p[i] - change);
  }
}

inline Rule sparse_adam_rule() {
  return {
      .algorithms = {"sparse_adam"},
      .defaults = sparse_adam_defaults,
      .step = sparse_adam_step<double>,
      .step_f32 = sparse_adam_step<float>,
      .sets = {{"sparse_adam", "defaults", {}},
               {"sparse_adam", "eps 0.1", {{"eps", .1}}},
               {"sparse_adam", "beta1 0", {{"beta1", 0}}},
               {"sparse_adam", "betas", {{"beta1", .4}, {"beta2", .9}}},
               {"sparse_adam", "maximize", {{"maximize", 1}}}},
      .mutants =
          {{"sparse_adam", "defaults", int(SparseAdamMutation::kSignFlipped), "kSignFlipped"},
           {"sparse_adam", "eps 0.1", int(SparseAdamMutation::kEpsAsAdam), "kEpsAsAdam"},
           {"sparse_adam", "defaults", int(SparseAdamMutation::kNoCorrection), "kNoCorrection"},
           {"sparse_adam", "maximize", int(SparseAdamMutation::kMaximizeIgnored),
            "kMaximizeIgnored"},
           {"sparse_adam", "betas", int(SparseAdamMutation::kProductForm), "kProductForm", true}},
      .mutation_count = int(SparseAdamMutation::kCount),
      .rows_only = true};
}

}  // namespace talus::reference
