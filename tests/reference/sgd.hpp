// SGD with momentum by definition (Sutskever et al. 2013, in the form of torch/optim/sgd.py, and
// apex's decay after momentum). Mutations are the mistakes that the tests must be able to see.
#pragma once
#include "tests/reference/rule.hpp"

namespace talus::reference {

inline Hypers sgd_defaults(const std::string&) {
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
void sgd_step(const Hypers& h, int mutation, Tensor<Real>& x, const std::vector<Real>& gradient) {
  using M = SgdMutation;
  const auto is = [&](M m) { return mutation == int(m); };
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

inline Rule sgd_rule() {
  return {
      .algorithms = {"sgd", "fused_sgd"},
      .defaults = sgd_defaults,
      .step = sgd_step<double>,
      .step_f32 = sgd_step<float>,
      .sets =
          {
              {"sgd", "defaults", {}},
              {"sgd", "momentum", {{"lr", .01}, {"momentum", .9}}},
              {"sgd", "dampening", {{"lr", .01}, {"momentum", .9}, {"dampening", .3}}},
              {"sgd", "negative dampening", {{"lr", .01}, {"momentum", .5}, {"dampening", -.5}}},
              {"sgd", "nesterov", {{"lr", .01}, {"momentum", .9}, {"nesterov", 1}}},
              {"sgd", "weight decay", {{"lr", .01}, {"weight_decay", .1}}},
              {"sgd",
               "momentum, weight decay",
               {{"lr", .01}, {"momentum", .9}, {"weight_decay", .01}}},
              {"sgd",
               "weight decay after momentum",
               {{"lr", .01}, {"momentum", .9}, {"weight_decay", .1}, {"wd_after_momentum", 1}}},
              {"sgd",
               "weight decay after no momentum",
               {{"lr", .01}, {"weight_decay", .1}, {"wd_after_momentum", 1}}},
              {"sgd", "maximize", {{"lr", .01}, {"maximize", 1}}},
              {"sgd",
               "maximize, dampening, weight decay",
               {{"lr", .01},
                {"momentum", .9},
                {"dampening", .3},
                {"weight_decay", .01},
                {"maximize", 1}}},
              {"sgd",
               "maximize, nesterov, weight decay after momentum",
               {{"lr", .01},
                {"momentum", .9},
                {"nesterov", 1},
                {"weight_decay", .05},
                {"wd_after_momentum", 1},
                {"maximize", 1}}},
              {"sgd", "materialize off", {{"lr", .01}, {"materialize_master_grads", 0}}},
              {"fused_sgd", "defaults", {}},
              {"fused_sgd", "momentum", {{"lr", .01}, {"momentum", .9}, {"weight_decay", .01}}},
          },
      .mutants =
          {
              {"sgd", "defaults", int(SgdMutation::kSignFlipped), "kSignFlipped"},
              {"sgd", "dampening", int(SgdMutation::kFirstBufferDampened), "kFirstBufferDampened"},
              {"sgd", "dampening", int(SgdMutation::kDampeningIgnored), "kDampeningIgnored"},
              {"sgd", "dampening", int(SgdMutation::kDampeningOnMomentum), "kDampeningOnMomentum"},
              {"sgd", "momentum", int(SgdMutation::kLrInsideBuffer), "kLrInsideBuffer"},
              {"sgd", "nesterov", int(SgdMutation::kNesterovIgnored), "kNesterovIgnored"},
              {"sgd", "nesterov", int(SgdMutation::kNesterovFromOldBuffer),
               "kNesterovFromOldBuffer"},
              {"sgd", "weight decay", int(SgdMutation::kDecayIgnored), "kDecayIgnored"},
              {"fused_sgd", "momentum", int(SgdMutation::kDecayIgnored), "kDecayIgnored"},
              {"sgd", "momentum, weight decay", int(SgdMutation::kDecayDecoupled),
               "kDecayDecoupled"},
              {"sgd", "momentum, weight decay", int(SgdMutation::kDecayAfterMomentumAlways),
               "kDecayAfterMomentumAlways"},
              {"sgd", "weight decay after momentum", int(SgdMutation::kDecayBeforeMomentumAlways),
               "kDecayBeforeMomentumAlways"},
              {"sgd", "maximize", int(SgdMutation::kMaximizeIgnored), "kMaximizeIgnored"},
              {"sgd", "maximize, dampening, weight decay", int(SgdMutation::kMaximizeAfterDecay),
               "kMaximizeAfterDecay"},
              {"sgd", "momentum, weight decay", int(SgdMutation::kBufferOfBareGradient),
               "kBufferOfBareGradient"},
          },
      .mutation_count = int(SgdMutation::kCount)};
}

}  // namespace talus::reference
