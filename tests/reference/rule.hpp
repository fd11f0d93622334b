// What the tests know of one rule: its definition, what of it to try, and the mistakes they must see.
#pragma once
#include "tests/cases.h"
#include "tests/reference/tensor.hpp"

namespace talus::reference {

using test::HyperSet;

// A mistake in the reference that a comparison of this set must show.
struct Mutant {
  const char *algorithm, *set;
  int mutation;
  const char* name;
  bool only_exact = false;  // the same in real arithmetic: bounds cannot see it
};

struct Rule {
  std::vector<std::string> algorithms;  // aliases too
  Hypers (*defaults)(const std::string& algorithm);
  // mutation: 0 for the rule itself.
  void (*step)(const Hypers&, int mutation, Tensor<double>&, const std::vector<double>& gradient);
  void (*step_f32)(const Hypers&, int mutation, Tensor<float>&, const std::vector<float>& gradient);
  // Learning rates and gradients are such that parameters of 0.5 to 2 stay away from 0 for 100
  // steps: there an ULP means the same all the way.
  std::vector<HyperSet> sets;
  std::vector<Mutant> mutants;
  int mutation_count;  // the first number that is none

  // What is not as with most rules.
  bool sums = false;                         // of the whole tensor: one NaN reaches all elements
  bool rows_only = false;                    // takes gradients of rows alone
  bool still_at_zero_lr = true;              // lr = 0 leaves p as it is
  std::vector<std::string> unfelt_states{};  // a NaN there does not reach p in one step
  std::map<std::string, std::string> aliases{};  // other spellings of hyperparameters
};

}  // namespace talus::reference
