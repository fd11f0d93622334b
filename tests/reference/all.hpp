// The references by algorithm name: one line a rule.
#pragma once
#include "tests/reference/adadelta.hpp"
#include "tests/reference/adagrad.hpp"
#include "tests/reference/adam.hpp"
#include "tests/reference/lion.hpp"
#include "tests/reference/rmsprop.hpp"
#include "tests/reference/rprop.hpp"
#include "tests/reference/adamax.hpp"
#include "tests/reference/asgd.hpp"
#include "tests/reference/nadam.hpp"
#include "tests/reference/radam.hpp"
#include "tests/reference/lamb.hpp"
#include "tests/reference/lars.hpp"
#include "tests/reference/novograd.hpp"
#include "tests/reference/sgd.hpp"
#include "tests/reference/sparse_adam.hpp"

namespace talus::reference {

inline const std::vector<Rule>& rules() {
  // One line a rule.
  // clang-format off
  static const std::vector<Rule> all = {
      sgd_rule(),
      adam_rule(),
      adagrad_rule(),
      rmsprop_rule(),
      adadelta_rule(),
      adamax_rule(),
      nadam_rule(),
      radam_rule(),
      asgd_rule(),
      rprop_rule(),
      lion_rule(),
      lamb_rule(),
      novograd_rule(),
      lars_rule(),
      sparse_adam_rule(),
  };
  // clang-format on
  return all;
}

inline const Rule& rule_of(const std::string& algorithm) {
  for (const Rule& rule : rules())
    for (const std::string& name : rule.algorithms)
      if (name == algorithm) return rule;
  throw std::logic_error("no reference for " + algorithm);
}

inline Hypers hypers(const std::string& algorithm, const test::Values& values) {
  const Rule& rule = rule_of(algorithm);
  Hypers h = rule.defaults(algorithm);
  for (const auto& [name, value] : values) {
    const auto other = rule.aliases.find(name);
    h.at(other == rule.aliases.end() ? name : other->second) = value;
  }
  return h;
}

inline void step(const std::string& algorithm, const Hypers& h, int mutation, Tensor<double>& x,
                 const std::vector<double>& gradient) {
  rule_of(algorithm).step(h, mutation, x, gradient);
}
inline void step(const std::string& algorithm, const Hypers& h, int mutation, Tensor<float>& x,
                 const std::vector<float>& gradient) {
  rule_of(algorithm).step_f32(h, mutation, x, gradient);
}

}  // namespace talus::reference

namespace talus::test {

inline const std::vector<HyperSet>& hyper_sets() {
  static const std::vector<HyperSet> sets = [] {
    std::vector<HyperSet> all;
    for (const reference::Rule& rule : reference::rules())
      all.insert(all.end(), rule.sets.begin(), rule.sets.end());
    return all;
  }();
  return sets;
}

inline const HyperSet& hyper_set(const std::string& algorithm, const std::string& name) {
  for (const HyperSet& set : hyper_sets())
    if (set.algorithm == algorithm && set.name == name) return set;
  throw std::logic_error("no set \"" + name + "\" of " + algorithm);
}

}  // namespace talus::test
