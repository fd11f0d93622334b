// The laws of step_law.inl for host code. Devices compile the same text for themselves.
#pragma once
#include "lib/base/float_contract.h"
#include "lib/table/step_order.h"

namespace talus {

#pragma push_macro("TALUS_FN")
#undef TALUS_FN
#define TALUS_FN inline
#include "lib/table/step_law.inl"
#pragma pop_macro("TALUS_FN")

}  // namespace talus
