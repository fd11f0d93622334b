// A named number that a user may set: a hyperparameter, a setting, a parameter of a schedule.
#pragma once
#include <talus.h>

#include <cstdint>

namespace talus {

class Status;

// A legal range; an open end is not legal itself.
struct Range {
  double min, max;
  uint32_t open;  // TALUS_HYPER_MIN_OPEN | TALUS_HYPER_MAX_OPEN
};
inline constexpr double kInfinity = __builtin_inf();
inline constexpr Range kAny{-kInfinity, kInfinity, TALUS_HYPER_MIN_OPEN | TALUS_HYPER_MAX_OPEN};
inline constexpr Range kNotNegative{0, kInfinity, TALUS_HYPER_MAX_OPEN};
inline constexpr Range kBelowOne{0, 1, TALUS_HYPER_MAX_OPEN};
inline constexpr Range kSwitch{0, 1, 0};
inline constexpr Range kOnlyZero{0, 0, 0};  // a name that another library has, without what it does

struct Hyper {
  const char* name;
  int32_t kind;  // TALUS_REAL...
  double def;
  Range range;
  uint32_t flags;  // 0, TALUS_HYPER_FIXED or TALUS_HYPER_REQUIRED
  const char* doc;
  const char* alias = nullptr;  // another library's spelling
};

// Whether a value is of the hyperparameter's kind and in its range; the failure if not.
bool accepts(const Hyper& hyper, double value);
Status refuse_value(const Hyper& hyper, double value, const char* where);
}  // namespace talus
