#include "context.h"

#include <unistd.h>

namespace talus::cuda {

Context::Context(const BackendConfig& from)
    : config(from), failures(from.device), process(getpid()) {}

bool Context::is_forked() const { return process != getpid(); }

int32_t Context::usable() {
  if (is_forked())
    return failures.fail(
        TALUS_E_FORKED,
        "created in process %lld, of which this is a child: CUDA does not survive a "
        "fork",
        static_cast<long long>(process));
  return failures.is_lost() ? TALUS_E_DEVICE_LOST : TALUS_OK;  // with the first text
}

Failures& without_context() {
  static constinit thread_local Failures failures(0);
  return failures;
}

DeviceGuard::DeviceGuard(int device) {
  error_ = cudaGetDevice(&before_);
  if (error_ != cudaSuccess || before_ == device) return;
  error_ = cudaSetDevice(device);
  restore_ = error_ == cudaSuccess;
}

DeviceGuard::~DeviceGuard() {
  if (restore_) (void)cudaSetDevice(before_);
}

int32_t is_captured(Context& x, cudaStream_t stream, bool* out) {
  Failures& failures = x.failures;
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  TALUS_CALL(cudaStreamIsCapturing(stream, &capture));
  *out = capture != cudaStreamCaptureStatusNone;
  return TALUS_OK;
}

int32_t refuse_capture(Context& x, cudaStream_t stream, const char* what) {
  bool captured = false;
  if (const int32_t status = is_captured(x, stream, &captured); status != TALUS_OK) return status;
  if (!captured) return TALUS_OK;
  return x.failures.fail(
      TALUS_E_NOT_PREPARED,
      "%s on a stream that is being captured: a replay would read memory that has "
      "been used again; expected it before the capture",
      what);
}

int32_t upload(Context& x, void* to, const void* data, size_t bytes, cudaStream_t stream,
               const char* what) {
  if (bytes == 0) return TALUS_OK;
  if (const int32_t status = refuse_capture(x, stream, what); status != TALUS_OK) return status;
  bool queued = false;  // then its place in the ring is not known to pass
  const cudaError_t error = x.ring.upload(to, data, bytes, stream, &queued);
  return x.failures.check(error, what, queued);
}

}  // namespace talus::cuda
