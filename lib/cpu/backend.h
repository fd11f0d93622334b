// The CPU as a backend; see lib/table/backend.h for the table of functions.
#pragma once
#include "lib/table/backend.h"

namespace talus {

const Backend& cpu_backend();

// Below this many chunks, 128Ki parameters at the default of chunk_tiles, a step stays on the
// calling thread. With workers awake two threads took 0.7 of the time of one from 8 chunks on, and
// no less than one below; with workers parked they cost 0 to 10 % more up to 64 chunks, never the
// wait for a worker that is not awake yet (waking took 31 us, on a processor that had idled 2 ms;
// AdamW f32, 2-vCPU Intel Xeon, 2026-11-30).
inline constexpr int64_t kSerialBelow = 8;

// Runs a function over all segments of one launch of the plan, on the threads of the backend: for
// the bench, whose roof kernels must meet the same plan, pool and floating-point environment.
struct PassCall;
void cpu_run_region(void* context, int64_t launch,
                    void (*function)(const PassCall&, const Segment* first, const Segment* last));

}  // namespace talus
