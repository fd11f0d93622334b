// LARS by definition (You et al. 2017, Alg. 1, with the step size outside the buffer), and with the
// clip of apex LARC. Mutations are the mistakes that the tests must be able to see.
#pragma once
#include "tests/reference/rule.hpp"

namespace talus::reference {

inline Hypers lars_defaults(const std::string& algorithm) {
  const bool clips = algorithm == "larc";
  return {{"lr", 1e-3},
          {"momentum", .9},
          {"dampening", 0},
          {"nesterov", 0},
          {"weight_decay", 0},
          {"trust_coefficient", clips ? .02 : .001},
          {"trust_clip", double(clips)},
          {"eps", 1e-8},
          {"maximize", 0}};
}

enum class LarsMutation {
  kNone,
  kTrustIgnored,
  kTrustOfDecayed,
  kDecayNotInDivisor,
  kDecayOutsideTrust,
  kClipIgnored,
  kClipAlways,
  kTrustBehindMomentum,
  kFirstBufferDampened,
  kNesterovIgnored,
  kMaximizeAfterDecay,
  kCount
};

template <class Real>
void lars_step(const Hypers& h, int mutation, Tensor<Real>& x, const std::vector<Real>& gradient) {
  using M = LarsMutation;
  const auto is = [&](M m) { return mutation == int(m); };
  ++x.t;
  const double lr_host = h.at("lr"), wd_host = h.at("weight_decay");
  const bool has_buffer = h.at("momentum") != 0;
  const Real lr = x.scalar(lr_host), wd = x.scalar(wd_host), momentum = x.scalar(h.at("momentum"));
  const Real undamped = x.scalar(1 - h.at("dampening"));
  const Real sign = h.at("maximize") != 0 ? -1 : 1;

  std::vector<Real> decayed(x.p.size());
  for (size_t i = 0; i < x.p.size(); ++i) decayed[i] = sign * gradient[i] + wd * x.p[i];
  const double pn = norm2(x.p), gn = norm2(is(M::kTrustOfDecayed) ? decayed : gradient);
  double a = 1;
  if (h.at("trust_coefficient") > 0 && pn != 0 && gn != 0 && !is(M::kTrustIgnored)) {
    const double divisor_decay = is(M::kDecayNotInDivisor) ? 0 : wd_host;
    a = (h.at("trust_coefficient") * pn) / ((gn + divisor_decay * pn) + h.at("eps"));
    if ((h.at("trust_clip") != 0 && !is(M::kClipIgnored)) || is(M::kClipAlways))
      a = a >= lr_host ? 1 : a / lr_host;
  }
  const Real factor = x.scalar(a);

  std::vector<Real> none(x.p.size());
  std::vector<Real>& buffer = has_buffer ? x.slot("momentum_buffer") : none;
  for (size_t i = 0; i < x.p.size(); ++i) {
    const Real p = x.p[i], g = is(M::kMaximizeAfterDecay) ? gradient[i] : sign * gradient[i];
    Real d = g;
    if (wd_host != 0 && !is(M::kDecayOutsideTrust)) d = d + wd * p;
    if (is(M::kMaximizeAfterDecay)) d = sign * d;
    if (!is(M::kTrustBehindMomentum)) d = d * factor;
    if (is(M::kDecayOutsideTrust)) d = d + wd * p;
    if (has_buffer) {
      if (x.t == 1)
        buffer[i] = is(M::kFirstBufferDampened) ? undamped * d : d;
      else
        buffer[i] = momentum * buffer[i] + undamped * d;
      d = h.at("nesterov") != 0 && !is(M::kNesterovIgnored) ? d + momentum * buffer[i] : buffer[i];
    }
    if (is(M::kTrustBehindMomentum)) d = d * factor;
    x.p[i] = x.rounded(p - lr * d);
  }
}

inline Rule lars_rule() {
  using M = LarsMutation;
  return {
      .algorithms = {"lars", "larc"},
      .defaults = lars_defaults,
      .step = lars_step<double>,
      .step_f32 = lars_step<float>,
      .sets =
          {
              {"lars", "defaults", {{"lr", .5}}},
              {"lars", "weight decay", {{"lr", .5}, {"weight_decay", .05}}},
              {"lars", "no momentum", {{"lr", 1}, {"momentum", 0}, {"weight_decay", .01}}},
              {"lars", "dampening", {{"lr", .5}, {"dampening", .3}, {"weight_decay", .01}}},
              {"lars", "nesterov", {{"lr", .5}, {"nesterov", 1}}},
              {"lars", "no trust", {{"lr", .01}, {"trust_coefficient", 0}, {"momentum", .5}}},
              {"lars", "eps 1", {{"lr", .5}, {"eps", 1}}},
              {"lars",
               "maximize, weight decay",
               {{"lr", .5}, {"maximize", 1}, {"weight_decay", .05}}},
              {"lars", "clipped", {{"lr", .02}, {"trust_clip", 1}, {"momentum", .5}}},
              {"larc", "defaults", {}},
              {"larc", "clipped", {{"lr", .5}, {"trust_coefficient", 1e-4}}},
              {"larc",
               "clipped, nesterov, weight decay",
               {{"lr", .5}, {"trust_coefficient", 1e-4}, {"nesterov", 1}, {"weight_decay", .01}}},
              {"larc", "not clipped", {{"lr", .01}, {"trust_clip", 0}}},
          },
      .mutants =
          {
              {"lars", "defaults", int(M::kTrustIgnored), "kTrustIgnored"},
              {"lars", "weight decay", int(M::kTrustOfDecayed), "kTrustOfDecayed"},
              {"lars", "weight decay", int(M::kDecayNotInDivisor), "kDecayNotInDivisor"},
              {"lars", "weight decay", int(M::kDecayOutsideTrust), "kDecayOutsideTrust"},
              {"larc", "clipped", int(M::kClipIgnored), "kClipIgnored"},
              {"lars", "defaults", int(M::kClipAlways), "kClipAlways"},
              {"lars", "defaults", int(M::kTrustBehindMomentum), "kTrustBehindMomentum"},
              {"lars", "dampening", int(M::kFirstBufferDampened), "kFirstBufferDampened"},
              {"lars", "nesterov", int(M::kNesterovIgnored), "kNesterovIgnored"},
              {"lars", "maximize, weight decay", int(M::kMaximizeAfterDecay),
               "kMaximizeAfterDecay"},
          },
      .mutation_count = int(M::kCount),
      .sums = true};
}

}  // namespace talus::reference
