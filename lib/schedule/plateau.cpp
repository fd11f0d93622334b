#include "lib/schedule/plateau.h"

#include <algorithm>
#include <limits>

#include "lib/base/float_contract.h"

namespace talus {
namespace {

// Strict in all modes, so a tie and a NaN are not better.
bool is_better(const double* p, double metric, double best) {
  const double threshold = p[kPlateauThreshold];
  const bool relative = p[kPlateauThresholdMode] == 0;
  if (p[kPlateauMode] == 0) return metric < (relative ? best * (1 - threshold) : best - threshold);
  return metric > (relative ? best * (1 + threshold) : best + threshold);
}

}  // namespace

PlateauState fresh_plateau(const double* params) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  return {params[kPlateauMode] == 0 ? kInfinite : -kInfinite};
}

bool report_metric(const double* p, double metric, PlateauState* state) {
  if (is_better(p, metric, state->best))
    state->best = metric, state->bad = 0;
  else
    ++state->bad;
  if (state->cooling > 0) --state->cooling, state->bad = 0;
  if (!(double(state->bad) > p[kPlateauPatience])) return false;
  state->cooling = int64_t(p[kPlateauCooldown]);
  state->bad = 0;
  return true;
}

double reduced_value(const double* p, double value) {
  const double reduced = std::max(value * p[kPlateauFactor], p[kPlateauMinValue]);
  return value - reduced > p[kPlateauEps] ? reduced : value;
}

}  // namespace talus
