// A parameter group: an algorithm and its hyperparameters. No tensors here.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"
#include "lib/rules/registry.h"

namespace talus {

// A value set for TALUS_ALL: the default of groups added later, where they have the name.
struct Override {
  std::string name;
  double value;
};

class Group {
 public:
  explicit Group(const AlgorithmRef& ref);

  const RuleInfo& rule() const { return *ref_.rule; }
  const char* algorithm() const;  // the rule's own name, never an alias
  const double* values() const { return values_.data(); }
  int variant() const { return rule().variant(values()); }
  bool started() const { return started_; }
  void start() { started_ = true; }
  bool has_slot(int k) const { return slot_exists(rule().slots[size_t(k)], values()); }

  // TALUS_E_NAME, TALUS_E_RANGE or TALUS_E_STATE; `where` names the group in the text.
  Status check(std::string_view name, double value, int32_t where) const;
  void set(std::string_view name, double value);    // after check
  const double* find(std::string_view name) const;  // NULL: unknown
  Status check_conflict(int32_t where) const;
  double gradient_sign() const { return values_[size_t(maximize_)] != 0 ? -1 : 1; }

 private:
  AlgorithmRef ref_;
  std::array<double, kMaxHypers> values_{};
  int maximize_;
  bool started_ = false;  // a parameter of it has taken a step: fixed hyperparameters are fixed
};

// Checks a value against a hyperparameter's or setting's kind and range.
Status check_range(const Hyper& hyper, double value, const char* where);

// "[0, inf)", for messages.
std::string range_text(const Range& range);

}  // namespace talus
