// Rprop by definition (Riedmiller & Braun 1993), ordered as torch/optim/rprop.py, but signs are
// compared where torch takes the sign of a product. Mutations are the mistakes that the tests must
// be able to see.
#pragma once
#include "tests/reference/rule.hpp"

namespace talus::reference {

inline Hypers rprop_defaults(const std::string&) {
  return {{"lr", 1e-2},          {"etaminus", .5}, {"etaplus", 1.2}, {"step_size_min", 1e-6},
          {"step_size_max", 50}, {"maximize", 0}};
}

enum class RpropMutation {
  kNone,
  kSignFlipped,
  kEtasSwapped,
  kMinimumIgnored,
  kMaximumIgnored,
  kStepsBack,             // moves where the sign changed
  kGradientIsRemembered,  // there, the next step sees a sign to compare with
  kStartsFromMinimum,
  kMaximizeIgnored,
  kCount
};

inline int sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }  // NaN: 0

template <class Real>
void rprop_step(const Hypers& given, int mutation, Tensor<Real>& x,
                const std::vector<Real>& gradient) {
  using M = RpropMutation;
  const auto is = [&](M m) { return mutation == int(m); };
  Hypers h = given;
  if (is(M::kEtasSwapped)) std::swap(h["etaminus"], h["etaplus"]);
  const Real shrink = x.scalar(h.at("etaminus")), grow = x.scalar(h.at("etaplus"));
  const Real least = x.scalar(h.at("step_size_min")), most = x.scalar(h.at("step_size_max"));
  const Real start = is(M::kStartsFromMinimum) ? least : x.scalar(h.at("lr"));

  ++x.t;
  std::vector<Real>&prev = x.slot("prev"), &size = x.slot("step_size");
  if (x.t == 1) size.assign(x.p.size(), start);
  for (size_t i = 0; i < x.p.size(); ++i) {
    Real g = gradient[i];
    if (h.at("maximize") != 0 && !is(M::kMaximizeIgnored)) g = -g;
    const int agreement = sign_of(double(g)) * sign_of(double(prev[i]));
    size[i] = size[i] * (agreement > 0 ? grow : agreement < 0 ? shrink : Real(1));
    if (size[i] < least && !is(M::kMinimumIgnored)) size[i] = least;
    if (size[i] > most && !is(M::kMaximumIgnored)) size[i] = most;
    const bool turned = agreement < 0;

    const Real moved = turned && !is(M::kStepsBack) ? Real(0) : g;
    prev[i] = turned && !is(M::kGradientIsRemembered) ? Real(0) : g;
    const Real sign = moved != moved ? moved : Real(sign_of(double(moved)));
    const Real change = sign * size[i];
    x.p[i] = x.rounded(is(M::kSignFlipped) ? x.p[i] + change : x.p[i] - change);
  }
}

inline Rule rprop_rule() {
  using M = RpropMutation;
  return {.algorithms = {"rprop"},
          .defaults = rprop_defaults,
          .step = rprop_step<double>,
          .step_f32 = rprop_step<float>,
          .sets =
              {
                  {"rprop",
                   "bounded",
                   {{"lr", .001}, {"step_size_min", .0005}, {"step_size_max", .002}}},
                  {"rprop", "defaults", {{"lr", 1e-3}}},
                  {"rprop",
                   "etas",
                   {{"lr", .001}, {"etaminus", .7}, {"etaplus", 1.3}, {"step_size_max", .003}}},
                  {"rprop", "lr above the largest step", {{"lr", .01}, {"step_size_max", .002}}},
                  {"rprop", "maximize", {{"lr", .001}, {"step_size_max", .002}, {"maximize", 1}}},
              },
          .mutants =
              {
                  {"rprop", "bounded", int(M::kSignFlipped), "kSignFlipped"},
                  {"rprop", "etas", int(M::kEtasSwapped), "kEtasSwapped"},
                  {"rprop", "bounded", int(M::kMinimumIgnored), "kMinimumIgnored"},
                  {"rprop", "bounded", int(M::kMaximumIgnored), "kMaximumIgnored"},
                  {"rprop", "bounded", int(M::kStepsBack), "kStepsBack"},
                  {"rprop", "bounded", int(M::kGradientIsRemembered), "kGradientIsRemembered"},
                  {"rprop", "bounded", int(M::kStartsFromMinimum), "kStartsFromMinimum"},
                  {"rprop", "maximize", int(M::kMaximizeIgnored), "kMaximizeIgnored"},
              },
          .mutation_count = int(M::kCount),
          .still_at_zero_lr = false,   // lr is the first step size, and step_size_min bounds it
          .unfelt_states = {"prev"}};  // a NaN there came from a gradient that made p one
}

}  // namespace talus::reference
