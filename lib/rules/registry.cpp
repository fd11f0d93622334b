// The host's pass over the rule files. The kernels' passes are in lib/cpu/kernels.cpp.
#include "lib/rules/registry.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "lib/base/float_contract.h"
#include "lib/base/power.h"

namespace talus {
namespace {

#define TALUS_FN inline
#include "lib/rules/numbered.inl"
#undef TALUS_FN

template <class Rule, class Pass>
void fold_pass(const double* row, const double* sums, double* slots, double* values) {
  typename Rule::template Scalars<double> s;
  std::memcpy(&s, row, sizeof s);
  Pass::fold(s, sums, slots, values);
}

template <class Rule, class Pass>
constexpr PassInfo pass_info() {
  PassInfo out{{Pass::kUses, size_t(Pass::kUseCount)},
               {Pass::kSums, size_t(Pass::kSumCount)},
               Pass::kValueCount,
               Pass::kTotal,
               nullptr};
  static_assert(Pass::kSumCount <= kMaxSums && Pass::kValueCount <= kMaxPartValues);
  if constexpr (kFolds<Pass>) out.fold = fold_pass<Rule, Pass>;
  return out;
}

template <class Rule, class Passes>
struct PassTable;
template <class Rule, class... Pass>
struct PassTable<Rule, List<Pass...>> {
  static_assert(sizeof...(Pass) >= 1 && sizeof...(Pass) <= kMaxPasses);
  static constexpr PassInfo kTable[] = {pass_info<Rule, Pass>()...};
};

template <class Rule, class Variants>
struct VariantTable;
template <class Rule, class... Passes>
struct VariantTable<Rule, List<Passes...>> {
  static constexpr VariantInfo kTable[] = {{PassTable<Rule, Passes>::kTable}...};
};

template <class Rule>
void scalars_row(const double* h, int64_t t, double* row) {
  const auto s = Rule::scalars(h, t);
  static_assert(sizeof s <= kMaxScalars * sizeof(double) && sizeof s % sizeof(double) == 0);
  std::memcpy(row, &s, sizeof s);
}

template <class Rule>
constexpr auto needs_total() -> bool (*)(const double*) {
  if constexpr (requires { Rule::needs_total; }) return Rule::needs_total;
  return nullptr;
}

template <class Rule>
constexpr RowsInfo rows_info() {
  if constexpr (requires { Rule::kRows; })
    return {Rule::kRows, Rule::kRowsOnly, Rule::rows_conflict};
  return {};
}

template <class Rule>
constexpr RuleInfo rule_info() {
  static_assert(std::size(Rule::kHypers) <= kMaxHypers && std::size(Rule::kSlots) <= kMaxSlots);
  return {Rule::kAlgorithms, Rule::kHypers,
          Rule::kSlots,      VariantTable<Rule, typename Rule::Variants>::kTable,
          Rule::variant,     needs_total<Rule>(),
          rows_info<Rule>(), Rule::conflict,
          scalars_row<Rule>};
}

template <int... kIndex>
std::span<const RuleInfo> rule_table(std::integer_sequence<int, kIndex...>) {
  static constexpr RuleInfo kTable[] = {rule_info<typename RuleAt<kIndex>::Type>()...};
  return kTable;
}

}  // namespace

std::span<const RuleInfo> rules() {
  return rule_table(std::make_integer_sequence<int, kRuleCount>());
}

AlgorithmRef algorithm_at(int i) {
  for (const RuleInfo& rule : rules()) {
    if (i < int(rule.algorithms.size()))
      return i < 0 ? AlgorithmRef{} : AlgorithmRef{&rule, &rule.algorithms[size_t(i)]};
    i -= int(rule.algorithms.size());
  }
  return {};
}

AlgorithmRef find_algorithm(std::string_view name) {
  for (int i = 0; const AlgorithmRef ref = algorithm_at(i); ++i)
    if (name == ref.algorithm->name) return ref;
  return {};
}

int rule_index(const RuleInfo& rule) { return int(&rule - rules().data()); }

int find_hyper(const RuleInfo& rule, std::string_view name) {
  for (size_t i = 0; i < rule.hypers.size(); ++i) {
    const Hyper& hyper = rule.hypers[i];
    if (name == hyper.name || (hyper.alias && name == hyper.alias)) return int(i);
  }
  return -1;
}

int find_slot(const RuleInfo& rule, std::string_view name) {
  for (size_t i = 0; i < rule.slots.size(); ++i)
    if (name == rule.slots[i].name) return int(i);
  return -1;
}

double default_value(const AlgorithmRef& ref, int hyper) {
  for (const Preset& preset : ref.algorithm->presets)
    if (preset.hyper == hyper) return preset.value;
  return ref.rule->hypers[size_t(hyper)].def;
}

bool slot_exists(const Slot& slot, const double* h) { return !slot.exists || slot.exists(h); }

}  // namespace talus
