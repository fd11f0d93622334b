// SGD with momentum by definition (Sutskever et al. 2013, in the form of torch/optim/sgd.py, and
// apex's decay after momentum). Mutations are the mistakes that the tests must be able to see.
#pragma once
#include "tests/reference/tensor.hpp"

namespace talus::reference {

inline Hypers sgd_defaults() {
  return {
      {"lr", 1e-3},    {"momentum", 0},          {"dampening", 0}, {"weight_decay", 0},
      {"nesterov", 0}, {"wd_after_momentum", 0}, {"maximize", 0},  {"materialize_master_grads", 1}};
}

enum class SgdMutation {
  kNone,
  kSignFlipped,
  kFirstBufferDampened,
  kDampeningIgnored,
  kDampeningOnMomentum,
  kLrInsideBuffer,
  kNesterovIgnored,
  kNesterovFromOldBuffer,
  kDecayIgnored,
  kDecayDecoupled,
  kDecayAfterMomentumAlways,
  kDecayBeforeMomentumAlways,
  kMaximizeIgnored,
  kMaximizeAfterDecay,
  kBufferOfBareGradient,
  kCount
};

template <class Real>
void sgd_step(const Hypers& h, SgdMutation mutation, Tensor<Real>& x,
              const std::vector<Real>& gradient) {
  using M = SgdMutation;
  const auto is = [&](M m) { return mutation == m; };
  const Real lr = x.scalar(h.at("lr")), momentum = x.scalar(h.at("momentum"));
  const Real wd = x.scalar(h.at("weight_decay"));
  const Real undamped = x.scalar(
      is(M::kDampeningIgnored) || is(M::kDampeningOnMomentum) ? 1.0 : 1 - h.at("dampening"));
  const Real kept = is(M::kDampeningOnMomentum) ? x.scalar(1 - h.at("dampening")) : Real(1);
  const bool has_buffer = h.at("momentum") != 0,
             decays = h.at("weight_decay") != 0 && !is(M::kDecayIgnored);
  const bool late = is(M::kDecayAfterMomentumAlways) ||
                    (h.at("wd_after_momentum") != 0 && !is(M::kDecayBeforeMomentumAlways));
  const bool nesterov = h.at("nesterov") != 0 && !is(M::kNesterovIgnored);
  const bool maximize = h.at("maximize") != 0 && !is(M::kMaximizeIgnored);

  ++x.t;
  std::vector<Real> none(x.p.size());
  std::vector<Real>& buffer = has_buffer ? x.slot("momentum_buffer") : none;
  for (size_t i = 0; i < x.p.size(); ++i) {
    Real p = x.p[i], g = gradient[i];
    if (maximize && !is(M::kMaximizeAfterDecay)) g = -g;
    if (is(M::kDecayDecoupled)) p = p * (1 - lr * wd);
    const bool couples = decays && !is(M::kDecayDecoupled);

    Real d = g;
    if (couples && !late) d = d + wd * p;
    if (maximize && is(M::kMaximizeAfterDecay)) d = -d;
    if (has_buffer) {
      const Real into = (is(M::kBufferOfBareGradient) ? g : d) * (is(M::kLrInsideBuffer) ? lr : 1);
      const Real old = buffer[i];
      if (x.t == 1)
        buffer[i] = is(M::kFirstBufferDampened) ? undamped * into : into;
      else
        buffer[i] = (momentum * kept) * old + undamped * into;
      const Real ahead = is(M::kNesterovFromOldBuffer) ? old : buffer[i];
      d = nesterov ? d + momentum * ahead : buffer[i];
    }
    if (couples && late) d = d + wd * p;
    const Real change = is(M::kLrInsideBuffer) && has_buffer ? d : lr * d;
    x.p[i] = x.rounded(is(M::kSignFlipped) ? p + change : p - change);
  }
}

}  // namespace talus::reference
