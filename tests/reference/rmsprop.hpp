// RMSprop by definition (Tieleman & Hinton 2012; centered: Graves 2013), ordered as
// torch/optim/rmsprop.py, but a variance that rounding made negative is 0. Mutations are the
// mistakes that the tests must be able to see.
#pragma once
#include "tests/reference/rule.hpp"

namespace talus::reference {

inline Hypers rmsprop_defaults(const std::string&) {
  return {{"lr", 1e-2},    {"alpha", .99},  {"eps", 1e-8},  {"weight_decay", 0},
          {"momentum", 0}, {"centered", 0}, {"maximize", 0}};
}

enum class RmspropMutation {
  kNone,
  kEpsInsideRoot,
  kEpsIgnored,
  kNotCentered,
  kCenterOfOldMean,
  kLrInsideBuffer,
  kMomentumBeforeScaling,
  kDecayIgnored,
  kDecayDecoupled,
  kMaximizeIgnored,
  kMaximizeAfterDecay,
  kLowerLerpAlways,  // the same in real arithmetic: only exact comparison sees it
  kCount
};

template <class Real>
void rmsprop_step(const Hypers& h, int mutation, Tensor<Real>& x,
                  const std::vector<Real>& gradient) {
  using M = RmspropMutation;
  const auto is = [&](M m) { return mutation == int(m); };
  const double weight = 1 - h.at("alpha");
  const Real lr = x.scalar(h.at("lr")), alpha = x.scalar(h.at("alpha")), w = x.scalar(weight);
  const Real rest = x.scalar(1 - weight), momentum = x.scalar(h.at("momentum"));
  const Real eps = x.scalar(is(M::kEpsIgnored) ? 0 : h.at("eps"));
  const Real wd = x.scalar(h.at("weight_decay"));
  const bool decays = h.at("weight_decay") != 0 && !is(M::kDecayIgnored);
  const bool centered = h.at("centered") != 0, has_buffer = h.at("momentum") != 0;
  const bool maximize = h.at("maximize") != 0 && !is(M::kMaximizeIgnored);
  const bool lower = weight < .5 || is(M::kLowerLerpAlways);

  ++x.t;
  std::vector<Real> none(x.p.size());
  std::vector<Real>& square = x.slot("square_avg");
  std::vector<Real>& mean = centered ? x.slot("grad_avg") : none;
  std::vector<Real>& buffer = has_buffer ? x.slot("momentum_buffer") : none;
  for (size_t i = 0; i < x.p.size(); ++i) {
    Real p = x.p[i], g = gradient[i];
    if (maximize && !is(M::kMaximizeAfterDecay)) g = -g;
    if (decays && is(M::kDecayDecoupled)) p = p * (1 - lr * wd);
    if (decays && !is(M::kDecayDecoupled)) g = g + wd * p;
    if (maximize && is(M::kMaximizeAfterDecay)) g = -g;

    square[i] = alpha * square[i] + (w * g) * g;
    Real variance = square[i];
    if (centered) {
      const Real old = mean[i];
      mean[i] = lerp(mean[i], g, lower, w, rest);
      const Real center = is(M::kCenterOfOldMean) ? old : mean[i];
      if (!is(M::kNotCentered)) variance = larger(square[i] - center * center, Real(0));
    }
    const Real root =
        is(M::kEpsInsideRoot) ? Real(std::sqrt(variance + eps)) : Real(std::sqrt(variance)) + eps;

    if (has_buffer && is(M::kMomentumBeforeScaling)) {
      buffer[i] = momentum * buffer[i] + g;
      p = p - (lr * buffer[i]) / root;
    } else if (has_buffer && is(M::kLrInsideBuffer)) {
      buffer[i] = momentum * buffer[i] + (lr * g) / root;
      p = p - buffer[i];
    } else if (has_buffer) {
      buffer[i] = momentum * buffer[i] + g / root;
      p = p - lr * buffer[i];
    } else {
      p = p - (lr * g) / root;
    }
    x.p[i] = x.rounded(p);
  }
}

inline Rule rmsprop_rule() {
  using M = RmspropMutation;
  return {
      .algorithms = {"rmsprop"},
      .defaults = rmsprop_defaults,
      .step = rmsprop_step<double>,
      .step_f32 = rmsprop_step<float>,
      .sets =
          {
              {"rmsprop", "defaults", {{"lr", 1e-3}}},
              {"rmsprop", "weight decay", {{"lr", 1e-3}, {"weight_decay", .005}}},
              {"rmsprop", "momentum", {{"lr", 1e-3}, {"momentum", .5}}},
              {"rmsprop", "centered", {{"lr", 1e-3}, {"centered", 1}, {"eps", .01}}},
              // With coupled decay a huge p makes square_avg and grad_avg^2 infinite: their
              // difference is NaN. The pairs of test_rule_options.cpp have centered with it.
              {"rmsprop",
               "centered, momentum, maximize",
               {{"lr", 1e-3}, {"centered", 1}, {"momentum", .5}, {"eps", .01}, {"maximize", 1}}},
              {"rmsprop",
               "momentum, weight decay, maximize",
               {{"lr", 1e-3}, {"momentum", .5}, {"weight_decay", .005}, {"maximize", 1}}},
              {"rmsprop",
               "centered, alpha 0.3",
               {{"lr", 1e-3}, {"centered", 1}, {"alpha", .3}, {"eps", .1}}},
              {"rmsprop", "alpha 0", {{"lr", 1e-3}, {"alpha", 0}, {"eps", .01}}},
              {"rmsprop",
               "alpha 0, centered",
               {{"lr", 1e-3}, {"alpha", 0}, {"centered", 1}, {"eps", .1}}},
              {"rmsprop", "alpha 1", {{"lr", 1e-4}, {"alpha", 1}, {"eps", .1}}},
              {"rmsprop", "eps 0.1", {{"lr", 1e-3}, {"eps", .1}}},
              {"rmsprop", "maximize", {{"lr", 1e-3}, {"maximize", 1}}},
          },
      .mutants =
          {
              {"rmsprop", "eps 0.1", int(M::kEpsInsideRoot), "kEpsInsideRoot"},
              {"rmsprop", "eps 0.1", int(M::kEpsIgnored), "kEpsIgnored"},
              {"rmsprop", "centered", int(M::kNotCentered), "kNotCentered"},
              {"rmsprop", "centered", int(M::kCenterOfOldMean), "kCenterOfOldMean"},
              {"rmsprop", "momentum", int(M::kLrInsideBuffer), "kLrInsideBuffer"},
              {"rmsprop", "momentum", int(M::kMomentumBeforeScaling), "kMomentumBeforeScaling"},
              {"rmsprop", "weight decay", int(M::kDecayIgnored), "kDecayIgnored"},
              {"rmsprop", "weight decay", int(M::kDecayDecoupled), "kDecayDecoupled"},
              {"rmsprop", "maximize", int(M::kMaximizeIgnored), "kMaximizeIgnored"},
              {"rmsprop", "momentum, weight decay, maximize", int(M::kMaximizeAfterDecay),
               "kMaximizeAfterDecay"},
              {"rmsprop", "centered, alpha 0.3", int(M::kLowerLerpAlways), "kLowerLerpAlways",
               true},
          },
      .mutation_count = int(M::kCount)};
}

}  // namespace talus::reference
