// The state machine of "plateau" (PyTorch's ReduceLROnPlateau): what a metric that does not get better
// does to the values that it serves.
#pragma once
#include <cstdint>

namespace talus {

struct PlateauState {
  double best;
  int64_t bad = 0, cooling = 0;

  bool operator==(const PlateauState&) const = default;
};

// The parameters of the kind, by index in its table.
enum PlateauParam {
  kPlateauMode,  // 0 min, 1 max
  kPlateauFactor,
  kPlateauPatience,
  kPlateauThreshold,
  kPlateauThresholdMode,  // 0 rel, 1 abs
  kPlateauCooldown,
  kPlateauMinValue,
  kPlateauEps
};

// Before any report; best is worse than anything.
PlateauState fresh_plateau(const double* params);

// Takes a report. True: every value is to be reduced now.
bool report_metric(const double* params, double metric, PlateauState* state);

// value reduced once, or as it is where the fall would be eps or less.
double reduced_value(const double* params, double value);

}  // namespace talus
