// Instantiates every kernel: a function for each rule, variant, pass and compute type.
#include "kernels.h"

#include "kernels.cuh"

namespace talus::cuda {
namespace {

template <class Rule, class Pass, class T>
constexpr RowsKernel rows_entry() {
  if constexpr (requires { Rule::kRows; }) return rows_kernel<Rule, Pass, T>;
  return nullptr;
}

template <class Rule, class Pass>
constexpr PassEntry pass_entry() {
  if constexpr (Pass::kUseCount == 0)
    return {nullptr, {nullptr, nullptr}, fold_kernel<Rule, Pass>, 0, 0, Pass::kValueCount};
  else if constexpr (Pass::kSumCount > 0)
    return {sum_kernel<Rule, Pass, float, true>,
            {sum_kernel<Rule, Pass, float, false>, sum_kernel<Rule, Pass, double, false>},
            fold_kernel<Rule, Pass>,
            kSumThreads,
            Pass::kSumCount,
            Pass::kValueCount};
  else
    return {update_kernel<Rule, Pass, float, true>,
            {update_kernel<Rule, Pass, float, false>, update_kernel<Rule, Pass, double, false>},
            nullptr,
            kThreads,
            0,
            0,
            {rows_entry<Rule, Pass, float>(), rows_entry<Rule, Pass, double>()}};
}

template <Sum kSum>
constexpr MeasureKernels measure_kernels() {
  using Rule = Measuring<kSum>;
  using Pass = typename Rule::Gradients;
  return {{sum_kernel<Rule, Pass, float, true>,
           {sum_kernel<Rule, Pass, float, false>, sum_kernel<Rule, Pass, double, false>},
           nullptr,
           kSumThreads,
           1,
           0,
           {rows_sum_kernel<kSum, float>, rows_sum_kernel<kSum, double>}},
          total_kernel<kSum>,
          norm_kernel<kSum>};
}

template <class Rule, class Passes>
struct PassTable;
template <class Rule, class... Pass>
struct PassTable<Rule, List<Pass...>> {
  static constexpr PassEntry kTable[] = {pass_entry<Rule, Pass>()...};
  static constexpr std::span<const PassEntry> kPasses = kTable;
};

template <class Rule, class Variants>
struct VariantTable;
template <class Rule, class... Passes>
struct VariantTable<Rule, List<Passes...>> {
  static constexpr std::span<const PassEntry> kTable[] = {PassTable<Rule, Passes>::kPasses...};
  static constexpr std::span<const std::span<const PassEntry>> kVariants = kTable;
};

template <class Rule>
constexpr RuleEntry rule_entry() {
  uint32_t per_tensor = 0;
  for (size_t k = 0; k < std::size(Rule::kSlots); ++k)
    if (Rule::kSlots[k].shape == Shape::tensor) per_tensor |= 1u << k;
  return {VariantTable<Rule, typename Rule::Variants>::kVariants, uint32_t(std::size(Rule::kSlots)),
          per_tensor};
}

template <int... kRule>
std::span<const RuleEntry> rule_table(std::integer_sequence<int, kRule...>) {
  static constexpr RuleEntry kTable[] = {rule_entry<typename RuleAt<kRule>::Type>()...};
  return kTable;
}

}  // namespace

std::span<const RuleEntry> rule_entries() {
  return rule_table(std::make_integer_sequence<int, kRuleCount>());
}

const CommonKernels& common_kernels() {
  static constexpr CommonKernels kCommon = {{begin_kernel<float>, begin_kernel<double>},
                                            measure_kernels<Sum::squares>(),
                                            measure_kernels<Sum::magnitudes>(),
                                            measure_kernels<Sum::largest>(),
                                            decide_kernel,
                                            scaler_kernel,
                                            kThreads,
                                            kFoldThreads,
                                            kRowThreads};
  return kCommon;
}

}  // namespace talus::cuda
