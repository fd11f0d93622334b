// The CPU as a backend; see lib/table/backend.h for the table of functions.
#pragma once
#include "lib/table/backend.h"

namespace talus {

const Backend& cpu_backend();

// Waking parked workers (20-30 us) costs about as much as updating this many chunks, 128Ki
// parameters: below, a step stays on the calling thread.
inline constexpr int64_t kSerialBelow = 8;

// Runs a function over all segments of one launch of the plan, on the threads of the backend: for
// the bench, whose roof kernels must meet the same plan, pool and floating-point environment.
struct PassCall;
void cpu_run_region(void* context, int64_t launch,
                    void (*function)(const PassCall&, const Segment* first, const Segment* last));

}  // namespace talus
