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

}  // namespace talus::capi
