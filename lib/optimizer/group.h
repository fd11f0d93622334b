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
  const char* name;  // as it was given, from a rule's table; static
  double value;
};

class Group {
 public:
  explicit Group(const AlgorithmRef& ref);

  const RuleInfo& rule() const { return *ref_.rule; }
  const char* algorithm() const;  // the rule's own name, never an alias
  const double* values() const { return values_.data(); }
  int variant() const { return rule().variant(values()); }
  bool needs_total() const { return rule().needs_total && rule().needs_total(values()); }
  bool started() const { return started_; }
  void start() { started_ = true; }
  double default_of(size_t hyper) const { return default_value(ref_, int(hyper)); }
  bool has_slot(int k) const { return slot_exists(rule().slots[size_t(k)], values()); }

  // TALUS_E_NAME, TALUS_E_RANGE or TALUS_E_STATE; `index` is the group's, for the text. Without a
  // failure nothing is allocated: hosts set lr at every step.
  Status check(std::string_view name, double value, int32_t index) const;
  // Whether a first step would decide if the value can still be changed.
  bool may_be_fixed(std::string_view name) const;
  void set(std::string_view name, double value);    // after check
  const double* find(std::string_view name) const;  // NULL: unknown
  // The name as a static text, its own or another library's spelling; it must be known.
  const char* spelling(std::string_view name) const;
  Status check_conflict(int32_t index) const { return check_conflict(index, values()); }
  double gradient_sign() const { return values_[size_t(maximize_)] != 0 ? -1 : 1; }
  std::string where(int32_t index) const;  // for texts

  // Values of the step being taken: those of schedules in place of their bases.
  const double* now() const { return scheduled_ ? now_.data() : values(); }
  void begin_now() { now_ = values_, scheduled_ = true; }
  void set_now(int hyper, double value) { now_[size_t(hyper)] = value; }
  void end_now() { scheduled_ = false; }
  bool has_now() const { return scheduled_; }
  // Whether `now` is a step's: against the rule's conditions, and within what the bases have decided.
  Status check_now(int32_t index) const;

 private:
  Status check_conflict(int32_t index, const double* h) const;

  AlgorithmRef ref_;
  std::array<double, kMaxHypers> values_{}, now_{};
  int maximize_;
  bool scheduled_ = false;  // now_ holds the values of a step
  bool started_ = false;    // a parameter of it has taken a step: fixed hyperparameters are fixed
};

}  // namespace talus
