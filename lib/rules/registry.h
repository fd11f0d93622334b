// The host's view of the rules: names, tables, scalars of a step, folds. No kernels here.
#pragma once
#include <span>
#include <string_view>

#include "lib/rules/rule.h"

namespace talus {

struct PassInfo {
  std::span<const Use> uses;
  std::span<const Sum> sums;
  int value_count;
  bool total;  // sums[0] of its fold is that of all gradients
  // NULL: none. row: the scalars in double; sums, slots and values as rule.h says.
  void (*fold)(const double* row, const double* sums, double* slots, double* values);
};

struct VariantInfo {
  std::span<const PassInfo> passes;
};

// Whether a rule takes gradients of rows.
struct RowsInfo {
  const char* doc = nullptr;  // when; NULL: never
  bool only = false;          // it takes no dense ones
  const char* (*conflict)(const double* h) = nullptr;
};

struct RuleInfo {
  std::span<const Algorithm> algorithms;
  std::span<const Hyper> hypers;
  std::span<const Slot> slots;
  std::span<const VariantInfo> variants;
  int (*variant)(const double* h);
  bool (*needs_total)(const double* h);  // NULL: never
  RowsInfo rows;
  const char* (*conflict)(const double* h);
  void (*scalars)(const double* h, int64_t t, double* row);  // fills at most kMaxScalars
};

std::span<const RuleInfo> rules();

// An algorithm or alias found by name; rule is NULL if there is none.
struct AlgorithmRef {
  const RuleInfo* rule = nullptr;
  const Algorithm* algorithm = nullptr;
  explicit operator bool() const { return rule != nullptr; }
};
AlgorithmRef find_algorithm(std::string_view name);
AlgorithmRef algorithm_at(int i);  // all of them, aliases too; empty past the end

int rule_index(const RuleInfo& rule);
int find_hyper(const RuleInfo& rule, std::string_view name);  // either spelling; -1 if unknown
int find_slot(const RuleInfo& rule, std::string_view name);   // -1 if unknown
double default_value(const AlgorithmRef& ref, int hyper);     // the rule's, or the preset
bool slot_exists(const Slot& slot, const double* h);

}  // namespace talus
