// Adadelta by definition (Zeiler 2012, Alg. 1), ordered as torch/optim/adadelta.py. Mutations are
// the mistakes that the tests must be able to see.
#pragma once
#include "tests/reference/rule.hpp"

namespace talus::reference {

inline Hypers adadelta_defaults(const std::string&) {
  return {{"lr", 1}, {"rho", .9}, {"eps", 1e-6}, {"weight_decay", 0}, {"maximize", 0}};
}

enum class AdadeltaMutation {
  kNone,
  kEpsOutsideRoots,
  kDeltasWithLr,
  kDeltasOfThisStep,
  kDecayIgnored,
  kMaximizeIgnored,
  kCount
};

template <class Real>
void adadelta_step(const Hypers& h, int mutation, Tensor<Real>& x,
                   const std::vector<Real>& gradient) {
  using M = AdadeltaMutation;
  const auto is = [&](M m) { return mutation == int(m); };
  ++x.t;
  const Real lr = x.scalar(h.at("lr")), rho = x.scalar(h.at("rho")), eps = x.scalar(h.at("eps"));
  const Real gain = x.scalar(1 - h.at("rho")), wd = x.scalar(h.at("weight_decay"));
  const bool decays = h.at("weight_decay") != 0 && !is(M::kDecayIgnored);
  const bool maximize = h.at("maximize") != 0 && !is(M::kMaximizeIgnored);
  const auto root = [&](Real y) {
    return is(M::kEpsOutsideRoots) ? std::sqrt(y) + eps : std::sqrt(y + eps);
  };

  std::vector<Real>&v = x.slot("square_avg"), &u = x.slot("acc_delta");
  for (size_t i = 0; i < x.p.size(); ++i) {
    const Real p = x.p[i];
    Real g = maximize ? -gradient[i] : gradient[i];
    if (decays) g = g + wd * p;
    v[i] = rho * v[i] + (gain * g) * g;
    Real d = (root(u[i]) / root(v[i])) * g;
    const Real seen = is(M::kDeltasWithLr) ? lr * d : d;
    u[i] = rho * u[i] + (gain * seen) * seen;
    if (is(M::kDeltasOfThisStep)) d = (root(u[i]) / root(v[i])) * g;
    x.p[i] = x.rounded(p - lr * d);
  }
}

inline Rule adadelta_rule() {
  using M = AdadeltaMutation;
  // Each acc_delta is made of the one before: at most 18.9, without decay 51, and then 5 of p.
  constexpr double kState = 32, kRhoZeroState = 80, kRhoZeroValue = 8;
  return {.algorithms = {"adadelta"},
          .defaults = adadelta_defaults,
          .step = adadelta_step<double>,
          .step_f32 = adadelta_step<float>,
          .sets =
              {
                  {"adadelta", "defaults", {}, 0, kState},
                  {"adadelta", "lr", {{"lr", .5}, {"rho", .8}}, 0, kState},
                  {"adadelta", "weight decay", {{"weight_decay", .005}}, 0, kState},
                  {"adadelta", "rho 0", {{"rho", 0}}, kRhoZeroValue, kRhoZeroState},
                  {"adadelta", "rho 1", {{"rho", 1}}, 0, kState},
                  {"adadelta", "eps 0.01", {{"eps", .01}, {"lr", .1}}, 0, kState},
                  {"adadelta", "maximize", {{"weight_decay", .005}, {"maximize", 1}}, 0, kState},
              },
          .mutants =
              {
                  {"adadelta", "eps 0.01", int(M::kEpsOutsideRoots), "kEpsOutsideRoots"},
                  {"adadelta", "lr", int(M::kDeltasWithLr), "kDeltasWithLr"},
                  {"adadelta", "defaults", int(M::kDeltasOfThisStep), "kDeltasOfThisStep"},
                  {"adadelta", "weight decay", int(M::kDecayIgnored), "kDecayIgnored"},
                  {"adadelta", "maximize", int(M::kMaximizeIgnored), "kMaximizeIgnored"},
              },
          .mutation_count = int(M::kCount)};
}

}  // namespace talus::reference
