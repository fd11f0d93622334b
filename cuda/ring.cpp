#include "ring.h"

#include <algorithm>
#include <cstring>

namespace talus::cuda {

Ring::~Ring() { release(); }

void Ring::release() {
  for (uint32_t i = 0; i < made_; ++i) (void)cudaEventDestroy(uploads_[i].passed);
  if (base_) (void)cudaFreeHost(base_);
  base_ = nullptr;
  capacity_ = made_ = oldest_ = count_ = 0;
  written_ = free_from_ = 0;
}

// Twice the largest upload, so that one can be written while the one before is read.
cudaError_t Ring::reserve(size_t bytes) {
  const size_t wanted = std::max(kLeast, 2 * ((bytes + 15) / 16 * 16));
  if (capacity_ >= wanted) return cudaSuccess;
  while (made_ < kUploads) {
    const cudaError_t e = cudaEventCreateWithFlags(&uploads_[made_].passed, cudaEventDisableTiming);
    if (e != cudaSuccess) return e;
    ++made_;
  }
  char* base = nullptr;
  if (const cudaError_t e =
          cudaHostAlloc(reinterpret_cast<void**>(&base), wanted, cudaHostAllocDefault);
      e != cudaSuccess)
    return e;
  while (count_ > 0)
    if (const cudaError_t e = retire(true); e != cudaSuccess) {
      (void)cudaFreeHost(base);
      return e;
    }
  if (base_) (void)cudaFreeHost(base_);
  base_ = base;
  capacity_ = wanted;
  written_ = free_from_ = 0;
  return cudaSuccess;
}

cudaError_t Ring::retire(bool wait) {
  const Upload& upload = uploads_[oldest_];
  const cudaError_t e = wait ? cudaEventSynchronize(upload.passed) : cudaEventQuery(upload.passed);
  if (e != cudaSuccess) return e;
  free_from_ = upload.end;
  oldest_ = (oldest_ + 1) % kUploads;
  --count_;
  return cudaSuccess;
}

// Until positions below `end` may be written.
cudaError_t Ring::make_room(uint64_t end) {
  while (count_ > 0) {
    const bool full = count_ == kUploads || end - free_from_ > capacity_;
    const cudaError_t e = retire(full);
    if (e == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return cudaSuccess;
    }
    if (e != cudaSuccess) return e;
  }
  return cudaSuccess;
}

cudaError_t Ring::upload(void* to, const void* data, size_t bytes, cudaStream_t stream,
                         bool* queued) {
  *queued = false;
  const uint64_t taken = (bytes + 15) / 16 * 16;
  uint64_t begin = written_;
  if (begin % capacity_ + taken > capacity_) begin += capacity_ - begin % capacity_;
  const uint64_t end = begin + taken;
  if (const cudaError_t e = make_room(end); e != cudaSuccess) return e;
  char* const slot = base_ + begin % capacity_;
  std::memcpy(slot, data, bytes);
  cudaError_t e = cudaMemcpyAsync(to, slot, bytes, cudaMemcpyHostToDevice, stream);
  if (e != cudaSuccess) return e;
  *queued = true;
  const uint32_t next = (oldest_ + count_) % kUploads;
  e = cudaEventRecord(uploads_[next].passed, stream);
  if (e != cudaSuccess) return e;
  uploads_[next].end = end;
  ++count_;
  written_ = end;
  return cudaSuccess;
}

}  // namespace talus::cuda
