#include "status.h"

#include <cstdarg>
#include <cstdio>

namespace talus::cuda {

bool is_sticky(cudaError_t error) {
  switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure: return true;
    default: return false;
  }
}

int32_t Failures::fail(int32_t status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text_, sizeof text_, format, arguments);
  va_end(arguments);
  detail_ = 0;
  return status;
}

int32_t Failures::check(cudaError_t error, const char* call, bool lost) {
  if (error == cudaSuccess) return TALUS_OK;
  (void)cudaGetLastError();  // the host's own calls must not find it
  lost_ = lost_ || lost || is_sticky(error);
  const char* const after = is_sticky(error) ? "; this process cannot use the device any more"
                            : lost           ? "; a part of the step was queued before it, so the "
                                               "optimizer cannot go on"
                                             : "";
  const int32_t status = lost_                                ? TALUS_E_DEVICE_LOST
                         : error == cudaErrorMemoryAllocation ? TALUS_E_MEMORY
                                                              : TALUS_E_DEVICE;
  fail(status, "%s on device %d: %s (%d): %s%s", call, device_, cudaGetErrorName(error), int(error),
       cudaGetErrorString(error), after);
  detail_ = int64_t(error);
  return status;
}

}  // namespace talus::cuda
