#include "lib/base/hyper.h"

#include <cmath>

#include "lib/base/status.h"

namespace talus {
namespace {

std::string range_text(const Range& r) {
  return text("%c%.16g, %.16g%c", r.open & TALUS_HYPER_MIN_OPEN ? '(' : '[', r.min, r.max,
              r.open & TALUS_HYPER_MAX_OPEN ? ')' : ']');
}

}  // namespace

bool accepts(const Hyper& hyper, double value) {
  const Range& r = hyper.range;
  const bool above = r.open & TALUS_HYPER_MIN_OPEN ? value > r.min : value >= r.min;
  const bool below = r.open & TALUS_HYPER_MAX_OPEN ? value < r.max : value <= r.max;
  const bool whole = hyper.kind == TALUS_REAL || value == std::floor(value);
  return above && below && whole;  // NaN is neither above nor below
}

Status refuse_value(const Hyper& hyper, double value, const char* where) {
  if (hyper.kind == TALUS_FLAG)
    return failure(TALUS_E_RANGE, "%s: %s is %g, expected %s", where, hyper.name, value,
                   hyper.range.max == 0 ? "0: it has no such form" : "a flag, 0 or 1");
  const char* kind = hyper.kind == TALUS_INTEGER ? "an integer" : "a value";
  return failure(TALUS_E_RANGE, "%s: %s is %g, expected %s in %s", where, hyper.name, value, kind,
                 range_text(hyper.range).c_str());
}

}  // namespace talus
