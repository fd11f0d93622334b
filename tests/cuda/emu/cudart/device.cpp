// Devices, versions and errors.
#include <cstring>

#include "tests/cuda/emu/cudart/state.h"

using namespace emu;

namespace {
bool is_device(int device) { return device >= 0 && device < runtime().device_count; }
}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  EMU_ENTER(EMU_OTHER);
  *count = runtime().count_error == cudaSuccess ? runtime().device_count : 0;
  return leave(runtime().count_error);
}
cudaError_t cudaGetDevice(int* device) {
  EMU_ENTER(EMU_OTHER);
  *device = runtime().current;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  EMU_ENTER(EMU_OTHER);
  if (!is_device(device)) return leave(cudaErrorInvalidDevice);
  runtime().current = device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  EMU_ENTER(EMU_OTHER);
  if (!is_device(device)) return leave(cudaErrorInvalidDevice);
  *p = {};
  std::strcpy(p->name, "emulated device (no GPU)");
  p->totalGlobalMem = runtime().memory_limit;
  p->major = 9;
  p->multiProcessorCount = 1;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->memoryPoolsSupported = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  EMU_ENTER(EMU_OTHER);
  if (!is_device(device)) return leave(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
    case cudaDevAttrMultiProcessorCount: *value = 1; break;
    case cudaDevAttrMemoryPoolsSupported: *value = 1; break;
    default: return leave(cudaErrorNotSupported);
  }
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total) {
  EMU_ENTER(EMU_OTHER);
  *total = runtime().memory_limit;
  *free_bytes = *total - runtime().devices[runtime().current].used;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  EMU_ENTER(EMU_OTHER);
  *version = runtime().driver;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  EMU_ENTER(EMU_OTHER);
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void) {
  EMU_ENTER(EMU_SYNC);
  EMU_TRY(unsafe_in_capture());
  drain();
  return leave(runtime().sticky);
}

cudaError_t cudaGetLastError(void) {
  EMU_LOCK;
  const cudaError_t e = runtime().last;
  runtime().last = runtime().sticky;  // a sticky error is not cleared
  return e;
}
cudaError_t cudaPeekAtLastError(void) {
  EMU_LOCK;
  return runtime().last;
}
const char* cudaGetErrorName(cudaError_t e) {
  switch (e) {
#define NAME(error) \
  case error: return #error
    NAME(cudaSuccess);
    NAME(cudaErrorInvalidValue);
    NAME(cudaErrorMemoryAllocation);
    NAME(cudaErrorStubLibrary);
    NAME(cudaErrorInsufficientDriver);
    NAME(cudaErrorInvalidDeviceFunction);
    NAME(cudaErrorNoDevice);
    NAME(cudaErrorInvalidDevice);
    NAME(cudaErrorNoKernelImageForDevice);
    NAME(cudaErrorInvalidPtx);
    NAME(cudaErrorInvalidResourceHandle);
    NAME(cudaErrorIllegalAddress);
    NAME(cudaErrorLaunchOutOfResources);
    NAME(cudaErrorMisalignedAddress);
    NAME(cudaErrorLaunchFailure);
    NAME(cudaErrorStreamCaptureUnsupported);
#undef NAME
    default: return "cudaError (emulated)";
  }
}
const char* cudaGetErrorString(cudaError_t e) { return cudaGetErrorName(e); }

}  // extern "C"
