// Pinned memory that uploads pass through: written by the host, read by a copy in stream order, and
// written again only after the event behind that copy has passed.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace talus::cuda {

class Ring {
 public:
  Ring() = default;
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Cold. Room for at least `bytes` at once; waits for uploads under way if it has to grow.
  cudaError_t reserve(size_t bytes);

  // Copies from `data` to device memory in order of the stream. Waits only if the host is so far
  // ahead that there is no room, and then for the oldest upload. *queued: the copy is.
  cudaError_t upload(void* to, const void* data, size_t bytes, cudaStream_t stream, bool* queued);

 private:
  static constexpr size_t kLeast = 64 << 10;
  static constexpr uint32_t kUploads = 64;  // under way at most

  struct Upload {
    cudaEvent_t passed;
    uint64_t end;  // position behind its last byte
  };

  cudaError_t make_room(uint64_t end);
  cudaError_t retire(bool wait);  // the oldest upload; cudaErrorNotReady unless it has passed
  void release();

  char* base_ = nullptr;
  size_t capacity_ = 0;
  uint64_t written_ = 0, free_from_ = 0;  // bytes since the start, never wrapped
  uint32_t oldest_ = 0, count_ = 0, made_ = 0;
  Upload uploads_[kUploads] = {};
};

}  // namespace talus::cuda
