// Device memory: the host's allocator or CUDA's pool in stream order.
#include "context.h"

namespace talus::cuda {
namespace {

int32_t allocate_own(Context& x, uint64_t bytes, cudaStream_t stream, void** out) {
  TALUS_ENTER(x);
  if (const int32_t status = refuse_capture(x, stream, "an allocation"); status != TALUS_OK)
    return status;
  if (x.pools)
    TALUS_CALL(cudaMallocAsync(out, bytes, stream));
  else
    TALUS_CALL(cudaMalloc(out, bytes));
  return TALUS_OK;
}

void release_own(Context& x, void* data, cudaStream_t stream) {
  (void)(x.pools ? cudaFreeAsync(data, stream) : cudaFree(data));
}

// Whose memory it is. expected: a device, or -1 for the host.
int32_t check_place(Failures& failures, const void* data, int expected) {
  cudaPointerAttributes attributes{};
  TALUS_CALL(cudaPointerGetAttributes(&attributes, data));
  if (attributes.type == cudaMemoryTypeManaged) return TALUS_OK;
  const int owner = attributes.type == cudaMemoryTypeDevice ? attributes.device : -1;
  if (owner == expected) return TALUS_OK;
  if (owner < 0) return failures.fail(TALUS_E_ARGUMENT, "memory of the host");
  return failures.fail(TALUS_E_ARGUMENT, "memory of CUDA device %d", owner);
}

int32_t check_range(Failures& failures, const void* data, uint64_t bytes, int expected) {
  const int32_t status = check_place(failures, data, expected);
  if (status != TALUS_OK) return status;
  return check_place(failures, static_cast<const char*>(data) + bytes - 1, expected);
}

}  // namespace

// CUDA aligns to 256 bytes, more than talus asks for.
void* allocate(void* context, uint64_t bytes, uint64_t alignment, void* stream) {
  Context& x = get(context);
  const talus_allocator& a = x.config.allocator;
  if (a.alloc) return a.alloc(a.user, bytes, alignment, stream);
  void* out = nullptr;
  return allocate_own(x, bytes, as_stream(stream), &out) == TALUS_OK ? out : nullptr;
}

// Without a stream nobody says that the kernels are done with it: wait for all. Failures are of no
// use to anybody here. In a forked child the memory is the parent's.
void release(void* context, void* data, uint64_t bytes, void* stream) {
  Context& x = get(context);
  if (x.is_forked()) return;
  const talus_allocator& a = x.config.allocator;
  const DeviceGuard guard(x.config.device);
  if (!stream) (void)cudaDeviceSynchronize();
  if (a.alloc)
    a.release(a.user, data, bytes, stream);
  else
    release_own(x, data, as_stream(stream));
  (void)cudaGetLastError();
}

// Without a context: where no driver answers (there is none, or this is a forked child), nothing is a
// device's.
int32_t check_pointer(void* context, const void* data, uint64_t bytes) {
  if (bytes == 0) return TALUS_OK;
  if (!context) {
    const int32_t status = check_range(without_context(), data, bytes, -1);
    return status == TALUS_E_ARGUMENT ? status : TALUS_OK;
  }
  TALUS_ENTER(get(context));
  return check_range(failures, data, bytes, get(context).config.device);
}

int32_t wait(void* context) {
  TALUS_ENTER(get(context));
  TALUS_CALL(cudaDeviceSynchronize());
  return TALUS_OK;
}

int32_t copy(void* context, void* to, const void* from, uint64_t bytes, void* stream) {
  TALUS_ENTER(get(context));
  if (bytes > 0) TALUS_CALL(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, as_stream(stream)));
  TALUS_CALL(cudaStreamSynchronize(as_stream(stream)));
  return TALUS_OK;
}

int32_t fill_zero(void* context, void* data, uint64_t bytes, void* stream) {
  TALUS_ENTER(get(context));
  if (bytes > 0) TALUS_CALL(cudaMemsetAsync(data, 0, bytes, as_stream(stream)));
  return TALUS_OK;
}

}  // namespace talus::cuda
