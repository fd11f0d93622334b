// The handle of the C ABI: the optimizer itself, under its C name.
#pragma once
#include "capi/boundary.h"
#include "lib/optimizer/optimizer.h"

namespace talus::capi {

inline Optimizer& get(talus_optimizer* opt) { return *reinterpret_cast<Optimizer*>(opt); }
inline const Optimizer& get(const talus_optimizer* opt) {
  return *reinterpret_cast<const Optimizer*>(opt);
}

inline Status check_stream(const talus_optimizer* opt, void* stream, const char* function) {
  if (!stream || !get(opt).on_cpu()) return {};
  return failure(TALUS_E_ARGUMENT, "%s: stream is %p, expected NULL on the CPU", function, stream);
}

// There, and not left half-way by a load.
inline Status usable(const talus_optimizer* opt, const char* function) {
  if (opt && get(opt).is_whole()) return {};
  TALUS_TRY(need(opt, function, "opt"));
  return get(opt).check_whole();
}

inline Status check_group(const talus_optimizer* opt, int32_t group, bool all,
                          const char* function) {
  TALUS_TRY(usable(opt, function));
  const size_t count = get(opt).model().groups.size();
  if ((group >= 0 && size_t(group) < count) || (all && group == TALUS_ALL)) return {};
  return failure(TALUS_E_ARGUMENT, "%s: group is %d, expected 0 .. %zu%s", function, group,
                 count - 1, all ? " or TALUS_ALL" : "");
}

inline Status check_param(const talus_optimizer* opt, int64_t param, const char* function) {
  TALUS_TRY(usable(opt, function));
  const Parameters& params = get(opt).model().params;
  const int64_t count = params.size();
  if (param >= 0 && param < count) {
    if (!params[param].removed) return {};
    return failure(TALUS_E_ARGUMENT, "%s: parameter %lld was removed", function,
                   static_cast<long long>(param));
  }
  if (count == 0)
    return failure(TALUS_E_ARGUMENT, "%s: parameter is %lld, there are none yet", function,
                   static_cast<long long>(param));
  return failure(TALUS_E_ARGUMENT, "%s: parameter is %lld, expected 0 .. %lld", function,
                 static_cast<long long>(param), static_cast<long long>(count - 1));
}

// Bytes of the first version of the struct that has all it needs.
inline constexpr size_t kLeastParam = offsetof(talus_param, ndim) + sizeof(int32_t);

inline Status check_clock(int32_t clock, const char* function) {
  if (clock >= TALUS_CLOCK_APPLIED && clock <= TALUS_CLOCK_MANUAL) return {};
  return failure(TALUS_E_ARGUMENT,
                 "%s: clock is %d, expected TALUS_CLOCK_APPLIED (0) .. _MANUAL (2)", function,
                 clock);
}

}  // namespace talus::capi
