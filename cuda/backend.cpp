// The CUDA backend: how a context comes and goes, and the table of functions of
// lib/table/backend.h. Nothing here runs when the plugin is loaded or the process ends.
#include <algorithm>
#include <cstdio>
#include <new>

#include "context.h"

namespace talus::cuda {
namespace {

constexpr int kKinds = int(Sum::own);  // that a measure may have

const char* last_error(const void* context, int64_t* detail) {
  const Failures& failures =
      context ? static_cast<const Context*>(context)->failures : without_context();
  *detail = failures.detail();
  return failures.text();
}

// The state in words, with the versions that decide it.
int32_t say(DeviceReport* out, int32_t status, cudaError_t error, const char* what) {
  std::snprintf(out->text, sizeof out->text, "%s (driver CUDA %d.%d, runtime CUDA %d.%d, %s)", what,
                out->driver / 1000, out->driver % 1000 / 10, out->runtime / 1000,
                out->runtime % 1000 / 10, cudaGetErrorName(error));
  return out->status = status;
}

int32_t probe(int32_t device, DeviceReport* out) {
  *out = {};
  (void)cudaDriverGetVersion(&out->driver);
  (void)cudaRuntimeGetVersion(&out->runtime);
  const cudaError_t error = cudaGetDeviceCount(&out->device_count);
  (void)cudaGetLastError();
  if (error != cudaSuccess) out->device_count = 0;
  const auto unsupported = [&](const char* what) {
    return say(out, TALUS_E_UNSUPPORTED, error, what);
  };
  if (error == cudaErrorInsufficientDriver)
    return unsupported(out->driver == 0 ? "no CUDA driver is installed"
                                        : "the CUDA driver is too old for this plugin");
  if (error == cudaErrorStubLibrary)
    return unsupported("a stub libcuda.so is first on the library path");
  if (error == cudaErrorNoDevice || (error == cudaSuccess && out->device_count == 0))
    return unsupported("the driver reports no CUDA device");
  if (error != cudaSuccess) return say(out, TALUS_E_DEVICE, error, "cudaGetDeviceCount failed");
  char what[160];
  if (device < 0 || device >= out->device_count) {
    std::snprintf(what, sizeof what, "there is no CUDA device %d, the driver reports %d", device,
                  out->device_count);
    return unsupported(what);
  }
  cudaDeviceProp properties{};
  if (const cudaError_t e = cudaGetDeviceProperties(&properties, device); e != cudaSuccess) {
    (void)cudaGetLastError();
    return say(out, TALUS_E_DEVICE, e, "cudaGetDeviceProperties failed");
  }
  std::snprintf(out->name, sizeof out->name, "%.127s", properties.name);
  out->capability = 10 * properties.major + properties.minor;
  out->memory_total = properties.totalGlobalMem;
  return say(out, TALUS_OK, cudaSuccess, "ready");
}

// Pinned memory and an event for what is measured; that there is code for the device is seen here, not in a
// step.
int32_t set_up(Context& x) {
  TALUS_ENTER(x);
  int pools = 0;
  TALUS_CALL(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, x.config.device));
  x.pools = pools != 0;
  cudaFuncAttributes attributes{};
  TALUS_CALL(
      cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(common_kernels().decide)));
  TALUS_CALL(cudaHostAlloc(reinterpret_cast<void**>(&x.measured_here), kKinds * sizeof(Measured),
                           cudaHostAllocDefault));
  std::fill_n(x.measured_here, kKinds, Measured{__builtin_nan(""), -1});
  TALUS_CALL(cudaEventCreateWithFlags(&x.measured, cudaEventDisableTiming));
  return TALUS_OK;
}

void destroy(void* context) {
  Context& x = get(context);
  if (x.is_forked()) return;  // its memory is the parent's: nothing here may be touched
  {
    const DeviceGuard guard(x.config.device);
    (void)cudaDeviceSynchronize();  // copies may still read the ring, or write the norm
    free_staging(x.staging);
    if (x.measured) (void)cudaEventDestroy(x.measured);
    if (x.measured_here) (void)cudaFreeHost(x.measured_here);
    free_reports(x.reports);
    delete &x;
    (void)cudaGetLastError();
  }
}

int32_t create(const BackendConfig* config, void** out) {
  Context* const made = new (std::nothrow) Context(*config);
  if (!made) return without_context().fail(TALUS_E_MEMORY, "the host has no memory");
  const int32_t status = set_up(*made);
  if (status == TALUS_OK) return *out = made, TALUS_OK;
  without_context() = made->failures;
  destroy(made);
  return status;
}

int32_t set_config(void* context, const BackendConfig* config) {
  Context& x = get(context);
  if (config->device != x.config.device)
    return x.failures.fail(TALUS_E_ARGUMENT, "the device was %d and cannot become %d",
                           x.config.device, config->device);
  x.config = *config;
  return TALUS_OK;
}

int32_t is_capturing(void* context, void* stream, int32_t* out) {
  TALUS_ENTER(get(context));
  bool captured = false;
  const int32_t status = is_captured(get(context), as_stream(stream), &captured);
  *out = captured;
  return status;
}

constexpr Backend kBackend = {sizeof(Backend),
                              kBackendAbi,
                              TALUS_VERSION,
                              "cuda",
                              last_error,
                              probe,
                              create,
                              destroy,
                              set_config,
                              allocate,
                              release,
                              check_pointer,
                              wait,
                              copy,
                              set_staging,
                              start_copy,
                              wait_copy,
                              is_capturing,
                              workspace_bytes,
                              set_plan,
                              read_report,
                              read_totals,
                              set_row_gradients,
                              prepare_orders,
                              send_order,
                              decide,
                              queue_report,
                              take_report,
                              update_scaler,
                              set_column,
                              set_rows,
                              fill_zero,
                              measure,
                              begin,
                              run};

}  // namespace
}  // namespace talus::cuda

extern "C" [[gnu::visibility("default")]] const talus::Backend* talus_backend_entry_v1(
    uint32_t core_abi) {
  return core_abi == talus::kBackendAbi ? &talus::cuda::kBackend : nullptr;
}
