// The loss scaler: a scale that falls when gradients overflow and grows while they do not (PyTorch's
// rule, with apex's hysteresis and bounds). Shared by optimizers, each of which skips alone. Host
// only; not thread-safe.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "lib/base/hyper.h"
#include "lib/base/status.h"

namespace talus {

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
std::span<const Hyper> scaler_params();

// What a checkpoint keeps beside the parameters.
struct ScalerState {
  float scale;
  int64_t growth = 0, hysteresis = 1;  // trackers
  int64_t consecutive_skips = 0, total_skips = 0;

  bool operator==(const ScalerState&) const = default;
};

class Scaler {
 public:
  Scaler();

  // "scale" too: the present one. TALUS_E_NAME, _RANGE; TALUS_E_STATE within a round.
  Status set(std::string_view name, double value);
  Status get(std::string_view name, double* value) const;  // and the members of the state
  const double* params() const { return params_; }
  const ScalerState& state() const { return state_; }
  // Of a checkpoint; all or nothing. TALUS_E_RANGE.
  Status restore(const double* params, const ScalerState& state);

  float scale() const { return state_.scale; }
  // A round is what lies between two updates: each optimizer steps at most once in it.
  int64_t round() const { return round_; }
  bool round_is_open() const { return checked_ > 0; }
  void note(bool found);  // by an optimizer that has stepped or skipped
  Status update();        // TALUS_E_STATE: nobody has

 private:
  double params_[kScalerParamCount];
  ScalerState state_{};
  int64_t round_ = 1, checked_ = 0;
  bool found_ = false;
};

// Whether the parameters go together: NULL, or what does not.
const char* scaler_conflict(const double* params);
// One update of the state.
void update_scaler(const double* params, bool found, ScalerState* state);

}  // namespace talus
