// Pinned buffers for what does not fit the ring: the state of a checkpoint on its way to a file.
#include "context.h"

namespace talus::cuda {

void free_staging(Staging& staging) {
  for (int side = 0; side < 2; ++side) {
    if (staging.buffer[side]) (void)cudaFreeHost(staging.buffer[side]);
    if (staging.passed[side]) (void)cudaEventDestroy(staging.passed[side]);
  }
  staging = {};
}

int32_t set_staging(void* context, uint64_t bytes, void** buffers) {
  Context& x = get(context);
  TALUS_ENTER(x);
  free_staging(x.staging);
  if (bytes == 0) return TALUS_OK;
  for (int side = 0; side < 2; ++side) {
    TALUS_CALL(cudaHostAlloc(&x.staging.buffer[side], bytes, cudaHostAllocDefault));
    TALUS_CALL(cudaEventCreateWithFlags(&x.staging.passed[side], cudaEventDisableTiming));
    buffers[side] = x.staging.buffer[side];
  }
  return TALUS_OK;
}

int32_t start_copy(void* context, int32_t side, void* to, const void* from, uint64_t bytes,
                   void* stream) {
  Context& x = get(context);
  TALUS_ENTER(x);
  TALUS_CALL(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, as_stream(stream)));
  TALUS_CALL(cudaEventRecord(x.staging.passed[side], as_stream(stream)));
  return TALUS_OK;
}

int32_t wait_copy(void* context, int32_t side) {
  Context& x = get(context);
  TALUS_ENTER(x);
  TALUS_CALL(cudaEventSynchronize(x.staging.passed[side]));
  return TALUS_OK;
}

}  // namespace talus::cuda
