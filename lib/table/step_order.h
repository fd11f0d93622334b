// A step that a device may leave out, because only the device knows its gradients: what it is told, and
// what it decides. Plain data on both sides of the boundary, in device memory too.
#pragma once
#include <cstdint>

namespace talus {

// How a gradient enters a step: in the compute type, times factor, then cut to [-limit, limit], where a
// NaN stays one.
struct GradientEntry {
  double factor = 1;               // 1 / loss scale
  double limit = __builtin_inf();  // infinity: none

  bool is_plain() const { return factor == 1 && limit == __builtin_inf(); }
};

// The parameters of a loss scaler, in order.
enum ScalerParam {
  kInitScale,
  kGrowthFactor,
  kBackoffFactor,
  kGrowthInterval,
  kHysteresis,
  kMinScale,
  kMaxScale,
  kDynamic,
  kScalerParamCount
};

// What a checkpoint keeps beside the parameters.
struct ScalerState {
  float scale;
  int64_t growth = 0, hysteresis = 1;  // trackers
  int64_t consecutive_skips = 0, total_skips = 0;

  bool operator==(const ScalerState&) const = default;
};

// A scaler as a device keeps it.
struct ScalerMemory {
  double params[kScalerParamCount];
  ScalerState state;
  int64_t found;  // not 0: a step of this round has
};

// How many steps have been applied is not known while reports of the device are under way, so a step is
// ordered with rows of scalars for each count that is possible: `applied` of them, one more, and so on.
struct StepOrder {
  int64_t call = 0;  // differs from the call before: without an order of its own no step is taken
  int64_t applied = 0;                         // at least so many steps before this one
  int64_t candidates = 1, classes = 0;         // rows are [candidate][class]
  double factor = 1, limit = __builtin_inf();  // the entry; factor: where scale is NULL
  double max_norm = 0;                         // 0: no clip
  double norm_type = 2;
  const float* scale = nullptr;    // in device memory
  const float* found = nullptr;    // there; not 0 skips the step
  ScalerMemory* scaler = nullptr;  // there; hears what is found
  int32_t exact = 1;               // 1: `applied` is the count, whatever the device has counted
  int32_t checks = 0;              // 1: a total that is not finite skips the step
  int32_t skip = 0;                // 1: skipped in any case
  int32_t unused = 0;
  int64_t skip_param = -1;  // the first tensor that was not finite then
};

// Why a step that was not skipped was not taken either.
enum StepFault : int32_t { kNoFault, kNoOrder, kNoRow, kBadScale };

// What became of the last step, and what its kernels read of it.
struct StepControl {
  int64_t call = 0, applied = 0;  // with this one
  int64_t candidate = 0;          // of its rows
  int32_t live = 0, found = 0;    // taken; skipped
  int32_t fault = kNoFault, unused = 0;
  int64_t fault_call = 0;  // the last call that had one
  double total = 0, coef = 1;
  double factor = 1;  // of gradients, behind the cut
  GradientEntry entry;
  double scale = 1;
  int64_t first_nonfinite = -1;  // tensor
};

}  // namespace talus
