// Kernels of one CPU target as a plain table, and how a target is chosen. No SIMD names here.
#pragma once
#include <span>

#include "lib/base/status.h"
#include "lib/table/backend.h"

namespace talus {

// One call of a pass over some segments, all of one kernel key.
struct PassCall {
  const PlanView* plan;
  const Row* rows;             // by scalar class
  const BeginRow* begin_rows;  // by scalar class; begin only
  const Slot* slots;           // of the rule; begin only
  int slot_count;
  const GradientEntry* entry;  // of gradients; NULL: as they are
  Sum measured;                // by measure
  bool glance;                 // by measure: whether all are finite, no sum
  double* partials;            // [sum][tile]
  int64_t partial_stride;
  const double* part_values;  // [tensor][kMaxPartValues], or NULL

  double* partial(int sum, int64_t tensor, int64_t tile) const {
    return partials + sum * partial_stride + plan->tile_first[tensor] + tile;
  }
};

using SegmentsFn = void (*)(const PassCall&, const Segment* first, const Segment* last);

// Functions by [rule][variant][pass][compute type is f64].
struct KernelTable {
  const char* target;
  const SegmentsFn (*const* const* update)[2];
  SegmentsFn begin[2], measure[2];
};

const KernelTable& scalar_kernels();

// SIMD targets by the instruction sets they need. NULL: not compiled into this library.
enum class Simd { ssse3, sse4, avx2, avx3, neon };
const KernelTable* simd_kernels(Simd target);

struct TargetInfo {
  const KernelTable* kernels;
  const char* doc;
};

// Strongest first, "scalar" last; only those this machine can run.
std::span<const TargetInfo> cpu_targets();

// The target in use and, in static words, why: TALUS_CPU_TARGET if it is set, read once, else the
// strongest. TALUS_E_NAME if it names none of cpu_targets().
Status choose_cpu_target(const TargetInfo** out, const char** why = nullptr);

}  // namespace talus
