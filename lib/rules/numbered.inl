// Includes all rules and numbers them in that order: RuleAt<0>::Type, ... RuleAt<kRuleCount - 1>.
// No include guard: once per lane, and once for the host in registry.cpp. TALUS_RULE_FILE may name a
// file with other rules in place of these (tests do).
template <int kIndex>
struct RuleAt;

// __COUNTER__ is what lets a rule file add itself: g++, clang, nvcc and MSVC have it.
enum { kRuleBase = __COUNTER__ + 1 };
#define TALUS_RULE(Rule)                   \
  template <>                              \
  struct RuleAt<__COUNTER__ - kRuleBase> { \
    using Type = Rule;                     \
  };
#ifdef TALUS_RULE_FILE
#include TALUS_RULE_FILE
#else
#include "lib/rules/all.inl"
#endif
#undef TALUS_RULE
enum { kRuleCount = __COUNTER__ - kRuleBase };
