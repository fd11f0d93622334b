// CUDA's errors in the statuses and words of talus. Every call of the plugin goes through check().
#pragma once
#include <cuda_runtime_api.h>
#include <talus.h>

#include <cstdint>

namespace talus::cuda {

// The last failure of a context, and whether anything may still be asked of it.
class Failures {
 public:
  explicit constexpr Failures(int device) : device_(device) {}

  const char* text() const { return text_; }
  int64_t detail() const { return detail_; }

  bool is_lost() const { return lost_; }

  // A call of the runtime in words. `lost`: work that belongs together was queued in part, so that
  // nobody knows what tensors hold.
  int32_t check(cudaError_t error, const char* call, bool lost = false);
  [[gnu::format(printf, 3, 4)]] int32_t fail(int32_t status, const char* format, ...);

 private:
  int device_;
  int64_t detail_ = 0;
  bool lost_ = false;
  char text_[512] = "";
};

// Of these each later call in this process repeats the first.
bool is_sticky(cudaError_t error);

}  // namespace talus::cuda

// Leaves the function with the status of a call that failed. `failures` is in scope.
#define TALUS_CALL(call)                                                            \
  do {                                                                              \
    if (const int32_t status_ = failures.check((call), #call); status_ != TALUS_OK) \
      return status_;                                                               \
  } while (false)
