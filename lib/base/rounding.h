// The conversions of rounding.inl for host code. Lanes compile the same text for themselves.
#pragma once
#include <cstdint>

#include "lib/base/dtype.h"

namespace talus {

#pragma push_macro("TALUS_FN")
#undef TALUS_FN
#define TALUS_FN inline
#include "lib/base/rounding.inl"
#pragma pop_macro("TALUS_FN")

}  // namespace talus
