// The references by algorithm name: one row each.
#pragma once
#include "tests/cases.h"
#include "tests/reference/adam.hpp"
#include "tests/reference/sgd.hpp"

namespace talus::reference {

// Other libraries' spellings, as an alias accepts them.
inline std::string own_name(const std::string& hyper) {
  return hyper == "adam_w_mode" ? "decoupled_weight_decay" : hyper;
}

inline Hypers defaults(const std::string& algorithm) {
  if (algorithm == "sgd" || algorithm == "fused_sgd") return sgd_defaults();
  if (algorithm == "adam") return adam_defaults();
  if (algorithm == "adamw") return adamw_defaults();
  if (algorithm == "fused_adam") return fused_adam_defaults();
  throw std::logic_error("no reference for " + algorithm);
}

inline Hypers hypers(const std::string& algorithm, const test::Values& values) {
  Hypers h = defaults(algorithm);
  for (const auto& [name, value] : values) h.at(own_name(name)) = value;
  return h;
}

// mutation: 0, or a SgdMutation or AdamMutation as the algorithm has it.
template <class Real>
void step(const std::string& algorithm, const Hypers& h, int mutation, Tensor<Real>& x,
          const std::vector<Real>& gradient) {
  if (algorithm == "sgd" || algorithm == "fused_sgd")
    sgd_step(h, SgdMutation(mutation), x, gradient);
  else
    adam_step(h, AdamMutation(mutation), x, gradient);
}

}  // namespace talus::reference
