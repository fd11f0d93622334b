// Allocation, copies and fills.
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/cuda/emu/cudart/state.h"

using namespace emu;

extern "C" void __asan_poison_memory_region(const volatile void*, size_t) __attribute__((weak));

namespace {

void poison(const uint8_t* from, size_t bytes) {
  if (__asan_poison_memory_region) __asan_poison_memory_region(from, bytes);
}

// Device memory exists twice: under its device address, where nobody has access, and where kernels and
// copies reach it.
struct Arena {
  static constexpr size_t kBytes = size_t(64) << 30;
  uint8_t *device = nullptr, *host = nullptr;
  size_t used = 0;  // only grows

  Arena() {
    const int file = memfd_create("emulated device memory", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, off_t(kBytes)) != 0) std::abort();
    device = map(PROT_NONE, MAP_SHARED | MAP_NORESERVE, file);
    host = map(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file);
    close(file);
  }
  static uint8_t* map(int access, int flags, int file) {
    void* p = mmap(nullptr, kBytes, access, flags, file, 0);
    if (p == MAP_FAILED) std::abort();
    return static_cast<uint8_t*>(p);
  }
};

Arena& arena() {
  static auto* const a = new Arena;
  return *a;
}

constexpr size_t kAlignment = 256;

size_t round_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

cudaError_t allocate(int ordinal, void** p, size_t bytes) {
  *p = nullptr;
  if (bytes == 0) return cudaSuccess;
  Device& device = runtime().devices[ordinal];
  // A gap of its own behind each, and whole pages, which can be given back.
  const size_t taken = (bytes + kAlignment + 4095) / 4096 * 4096;
  if (bytes > runtime().memory_limit - device.used || arena().used + taken > Arena::kBytes)
    return leave(cudaErrorMemoryAllocation);
  uint8_t* const address = arena().device + arena().used;
  uint8_t* const host = arena().host + arena().used;
  arena().used += taken;
  device.used += bytes;
  std::memset(host, 0xff, bytes);  // NaN: a read before a write must show
  runtime().allocations[uint64_t(address)] = {ordinal, bytes};
  device.memory.add(uint64_t(address), bytes, host);
  poison(address + bytes, taken - bytes);
  *p = address;
  return cudaSuccess;
}

bool from_device(cudaMemcpyKind k) {
  return k == cudaMemcpyDeviceToHost || k == cudaMemcpyDeviceToDevice;
}
bool to_device(cudaMemcpyKind k) {
  return k == cudaMemcpyHostToDevice || k == cudaMemcpyDeviceToDevice;
}

bool is_side(const void* p, size_t bytes, bool device) {
  return device ? is_device_range(p, bytes) : !is_device_address(p);
}

cudaMemcpyKind kind_of(const void* to, const void* from) {
  if (is_device_address(from))
    return is_device_address(to) ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost;
  return is_device_address(to) ? cudaMemcpyHostToDevice : cudaMemcpyHostToHost;
}

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, Stream* s) {
  if (bytes == 0) return cudaSuccess;
  if (kind == cudaMemcpyDefault) kind = kind_of(to, from);
  if (!is_side(from, bytes, from_device(kind)) || !is_side(to, bytes, to_device(kind)))
    return leave(cudaErrorInvalidValue);
  uint8_t* const target = to_device(kind) ? host_view(to) : static_cast<uint8_t*>(to);
  const uint8_t* const source =
      from_device(kind) ? host_view(from) : static_cast<const uint8_t*>(from);
  const auto run = [target, source, bytes] { std::memcpy(target, source, bytes); };
  if (from_device(kind) || is_pinned(from, bytes) || s->capture) {  // read when the copy runs
    EMU_TRY(submit(s, cudaGraphNodeTypeMemcpy, run));
  } else {  // pageable memory is read before the call returns
    const std::vector<uint8_t> data(source, source + bytes);
    EMU_TRY(submit(s, cudaGraphNodeTypeMemcpy,
                   [target, data] { std::memcpy(target, data.data(), data.size()); }));
  }
  if (!to_device(kind) && !is_pinned(to, bytes) && !s->capture) run_until({s, s->enqueued});
  return cudaSuccess;
}

// Whether a copy has an end in pageable memory.
bool is_pageable(const void* p, size_t bytes) {
  return !is_device_address(p) && !is_pinned(p, bytes);
}

cudaError_t fill(void* p, int value, size_t bytes, Stream* s) {
  if (!s) return leave(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  if (!is_device_range(p, bytes)) return leave(cudaErrorInvalidValue);
  return submit(s, cudaGraphNodeTypeMemset,
                [view = host_view(p), value, bytes] { std::memset(view, value, bytes); });
}

}  // namespace

namespace emu {

bool is_device_address(const void* p) {
  const auto* at = static_cast<const uint8_t*>(p);
  return at >= arena().device && at < arena().device + Arena::kBytes;
}

bool is_device_range(const void* p, size_t bytes) {
  if (!is_device_address(p)) return false;
  for (Device& d : runtime().devices)
    if (d.memory.find(uint64_t(p), bytes)) return true;
  return false;
}

bool is_pinned(const void* p, size_t bytes) {
  auto& pinned = runtime().pinned;
  auto it = pinned.upper_bound(p);
  if (it == pinned.begin()) return false;
  --it;
  return uint64_t(p) + bytes <= uint64_t(it->first) + it->second;
}

void open_device_memory(bool open) {
  if (mprotect(arena().device, arena().used, open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
    std::abort();
}

uint8_t* host_view(const void* p) {
  return arena().host + (static_cast<const uint8_t*>(p) - arena().device);
}

cudaError_t release_memory(void* p) {
  if (!p) return cudaSuccess;
  auto& allocations = runtime().allocations;
  const auto it = allocations.find(uint64_t(p));
  if (it == allocations.end()) return leave(cudaErrorInvalidValue);
  Device& device = runtime().devices[it->second.device];
  device.memory.remove(it->first);
  device.used -= it->second.bytes;
  const size_t pages = (it->second.bytes + 4095) / 4096 * 4096;
  madvise(host_view(p), pages, MADV_REMOVE);
  poison(static_cast<const uint8_t*>(p), pages);
  allocations.erase(it);
  return cudaSuccess;
}

}  // namespace emu

extern "C" {

cudaError_t cudaMalloc(void** p, size_t bytes) {
  EMU_ENTER(EMU_ALLOCATE, nullptr, bytes);
  EMU_TRY(unsafe_in_capture());
  return allocate(runtime().current, p, bytes);
}
cudaError_t cudaFree(void* p) {
  EMU_LOCK;
  const cudaError_t entered = enter(__func__, EMU_RELEASE);
  EMU_TRY(unsafe_in_capture());
  drain();  // it waits for the device
  const cudaError_t e = release_memory(p);
  return entered != cudaSuccess ? entered : e;
}
cudaError_t cudaMallocAsync(void** p, size_t bytes, cudaStream_t stream) {
  EMU_ENTER(EMU_ALLOCATE, stream, bytes);
  Stream* s = stream_of(stream);
  if (!s) return leave(cudaErrorInvalidResourceHandle);
  if (s->capture) s->capture->invalid = true;  // stricter than CUDA, which makes a node
  return s->capture ? leave(cudaErrorStreamCaptureUnsupported) : allocate(s->device, p, bytes);
}
cudaError_t cudaFreeAsync(void* p, cudaStream_t stream) {
  EMU_LOCK;
  const cudaError_t entered = enter(__func__, EMU_RELEASE, stream);
  Stream* s = stream_of(stream);
  if (!s) return leave(cudaErrorInvalidResourceHandle);
  if (!runtime().allocations.count(uint64_t(p))) return leave(cudaErrorInvalidValue);
  const cudaError_t e = submit(s, cudaGraphNodeTypeMemFree, [p] { release_memory(p); });
  return entered != cudaSuccess ? entered : e;
}
cudaError_t cudaHostAlloc(void** p, size_t bytes, unsigned) {
  EMU_ENTER(EMU_ALLOCATE, nullptr, bytes);
  EMU_TRY(unsafe_in_capture());
  *p = std::aligned_alloc(kAlignment, round_up(bytes));
  if (!*p) return leave(cudaErrorMemoryAllocation);
  std::memset(*p, 0xff, bytes);
  runtime().pinned[*p] = bytes;
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** p, size_t bytes) { return cudaHostAlloc(p, bytes, 0); }
cudaError_t cudaFreeHost(void* p) {
  EMU_LOCK;
  const cudaError_t entered = enter(__func__, EMU_RELEASE);
  EMU_TRY(unsafe_in_capture());
  drain();
  if (p && !runtime().pinned.erase(p)) return leave(cudaErrorInvalidValue);
  std::free(p);
  return entered;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  EMU_ENTER(EMU_SYNC, nullptr, bytes);
  EMU_TRY(unsafe_in_capture());
  Stream* legacy = stream_of(nullptr);
  EMU_TRY(copy(to, from, bytes, kind, legacy));
  run_until({legacy, legacy->enqueued});
  return leave(runtime().sticky);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  EMU_LOCK;
  const bool pageable = is_pageable(to, bytes) || is_pageable(from, bytes);
  EMU_TRY(enter(__func__, pageable ? EMU_COPY_PAGEABLE : EMU_COPY, stream, bytes));
  Stream* s = stream_of(stream);
  return s ? copy(to, from, bytes, kind, s) : leave(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t stream) {
  EMU_ENTER(EMU_SET, stream, bytes);
  return fill(p, value, bytes, stream_of(stream));
}
cudaError_t cudaMemset(void* p, int value, size_t bytes) {
  EMU_ENTER(EMU_SET, nullptr, bytes);
  return fill(p, value, bytes, stream_of(nullptr));
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* p) {
  EMU_ENTER(EMU_OTHER);
  *out = {};
  out->device = -2;  // what CUDA gives for memory that it does not know
  if (is_pinned(p, 1)) {
    out->type = cudaMemoryTypeHost;
    out->device = 0;
    out->devicePointer = out->hostPointer = const_cast<void*>(p);
  }
  for (int i = 0; i < kMaxDevices; ++i) {
    if (!runtime().devices[i].memory.find(uint64_t(p), 1)) continue;
    out->type = cudaMemoryTypeDevice;
    out->device = i;
    out->devicePointer = const_cast<void*>(p);
  }
  return cudaSuccess;
}

}  // extern "C"
