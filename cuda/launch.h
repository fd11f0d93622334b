// One launch and what its failure means.
#pragma once
#include "context.h"

namespace talus::cuda {

inline constexpr int64_t kMostBlocks = INT32_MAX;

// What goes together: behind a pass its rows and its fold must follow.
enum class Behind { nothing, part };

int32_t launch_kernel(Context& x, const void* kernel, int64_t blocks, int threads, void* args,
                      cudaStream_t stream, const char* what, Behind behind);

template <class Args>
int32_t launch(Context& x, void (*kernel)(Args), int64_t blocks, int threads, Args args,
               cudaStream_t stream, const char* what, Behind behind = Behind::nothing) {
  return launch_kernel(x, reinterpret_cast<const void*>(kernel), blocks, threads, &args, stream,
                       what, behind);
}

// Leaves the function with the status of a launch that failed.
#define TALUS_LAUNCH(...)                                                                 \
  do {                                                                                    \
    if (const int32_t status_ = launch(__VA_ARGS__); status_ != TALUS_OK) return status_; \
  } while (false)

// The tables of the plan for a step of the host's, or for one that was ordered.
inline Tables tables_of(const Context& x, bool ordered) {
  Tables out = x.plan->tables();
  if (ordered) out.control = x.control;
  return out;
}

inline RowsArgs rows_args(const Tables& tables, const RowGradient& rows, const EntryArgs& entry) {
  return {tables,          rows.indices,          rows.values,         rows.count, rows.rows,
          rows.row_length, uint32_t(rows.tensor), uint32_t(rows.wide), entry};
}

}  // namespace talus::cuda
