// The kernel table of one target: a function for each rule, variant, pass and compute type. No
// include guard: compiled in the namespace of its target.

template <class Rule, class Pass, class T>
constexpr SegmentsFn update_of() {
  if constexpr (Pass::kUseCount == 0)
    return nullptr;  // a fold alone
  else
    return update_segments<Rule, Pass, T>;
}

template <class Rule, class Passes>
struct PassKernels;
template <class Rule, class... Pass>
struct PassKernels<Rule, List<Pass...>> {
  static constexpr SegmentsFn kTable[][2] = {
      {update_of<Rule, Pass, float>(), update_of<Rule, Pass, double>()}...};
};

template <class Rule, class Variants>
struct VariantKernels;
template <class Rule, class... Passes>
struct VariantKernels<Rule, List<Passes...>> {
  static constexpr const SegmentsFn (*kTable[])[2] = {PassKernels<Rule, Passes>::kTable...};
};

template <int kRule>
struct RuleKernels {
  using Rule = typename RuleAt<kRule>::Type;
  static constexpr auto& kTable = VariantKernels<Rule, typename Rule::Variants>::kTable;
};

template <class Indices>
struct AllKernels;
template <int... kRule>
struct AllKernels<std::integer_sequence<int, kRule...>> {
  static constexpr const SegmentsFn (*const* kTable[])[2] = {RuleKernels<kRule>::kTable...};
};

inline constexpr KernelTable kKernels = {
    TALUS_TARGET_NAME,
    AllKernels<std::make_integer_sequence<int, kRuleCount>>::kTable,
    {begin_segments<float>, begin_segments<double>},
    {measure_segments<float>, measure_segments<double>},
};
