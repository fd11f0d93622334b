// Compiles rules and traversal once per target and chooses a target at run time. Library headers
// come before the target's region, so that no inline function of theirs is built inside it.
#include "lib/cpu/kernels.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "lib/base/float_contract.h"
#include "lib/base/power.h"
#include "lib/table/norm.h"

namespace talus {
namespace {

template <int... kIndex>
struct IntegerList {};
template <int kCount, int... kIndex>
struct IntegerListOf : IntegerListOf<kCount - 1, kCount - 1, kIndex...> {};
template <int... kIndex>
struct IntegerListOf<0, kIndex...> {
  using Type = IntegerList<kIndex...>;
};
template <int kCount>
using MakeIntegerList = typename IntegerListOf<kCount>::Type;

namespace scalar {
#define TALUS_FN [[gnu::always_inline]] inline
#define TALUS_TARGET_NAME "scalar"
#include "lib/cpu/lane_scalar.inl"
#include "lib/cpu/target.inl"
#undef TALUS_FN
#undef TALUS_TARGET_NAME
}  // namespace scalar

constexpr TargetInfo kTargets[] = {{&scalar::kKernels, "plain C++, any CPU"}};

}  // namespace

std::span<const TargetInfo> cpu_targets() { return kTargets; }

namespace {

// What the environment asked for at the first call; a copy, for a host may change it.
struct Choice {
  char wanted[32] = "";
  const TargetInfo* target = nullptr;

  Choice() {
    const char* const name = std::getenv("TALUS_CPU_TARGET");
    if (name) std::strncpy(wanted, name, sizeof wanted - 1);
    for (const TargetInfo& known : cpu_targets())
      if (!target && (!name || std::strcmp(known.kernels->target, name) == 0)) target = &known;
  }
};

}  // namespace

Status choose_cpu_target(const TargetInfo** out) {
  static const Choice choice;
  *out = choice.target;
  if (choice.target) return {};
  return failure(TALUS_E_NAME, "TALUS_CPU_TARGET is %s, expected one that this machine has: %s",
                 quoted(choice.wanted).c_str(), join_names(cpu_targets(), [](const TargetInfo& t) {
                                                  return t.kernels->target;
                                                }).c_str());
}

}  // namespace talus
