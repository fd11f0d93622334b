#include "lib/optimizer/scaler.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "lib/base/float_contract.h"
#include "lib/base/float_environment.h"

namespace talus {
namespace {

constexpr double kMostCount = 9007199254740992;  // 2^53
constexpr Range kScaleRange{0x1p-126, 0x1p126, 0};

constexpr Hyper kParams[] = {
    {"init_scale", TALUS_REAL, 65536, kScaleRange, 0,
     "the scale at first; setting it sets the scale"},
    {"growth_factor",
     TALUS_REAL,
     2,
     {1, kInfinity, TALUS_HYPER_MIN_OPEN | TALUS_HYPER_MAX_OPEN},
     0,
     "of the scale after growth_interval clean rounds"},
    {"backoff_factor",
     TALUS_REAL,
     0.5,
     {0, 1, TALUS_HYPER_MIN_OPEN | TALUS_HYPER_MAX_OPEN},
     0,
     "of the scale when gradients were not finite"},
    {"growth_interval", TALUS_INTEGER, 2000, {1, kMostCount, 0}, 0, "clean rounds before it grows"},
    {"hysteresis",
     TALUS_INTEGER,
     1,
     {1, kMostCount, 0},
     0,
     "skipped rounds in a row from which on it falls; 1: PyTorch's"},
    {"min_scale", TALUS_REAL, 1, kScaleRange, 0, "it never falls below"},
    {"max_scale", TALUS_REAL, 0x1p24, kScaleRange, 0, "it never grows above"},
    {"dynamic", TALUS_FLAG, 1, kSwitch, 0,
     "0: the scale stays, and steps are skipped all the same"},
};
static_assert(std::size(kParams) == kScalerParamCount);

// What can be read beside the parameters.
struct Reading {
  const char* name;
  double (*value)(const ScalerState& s);
};
constexpr Reading kReadings[] = {
    {"scale", [](const ScalerState& s) { return double(s.scale); }},
    {"growth_tracker", [](const ScalerState& s) { return double(s.growth); }},
    {"hysteresis_tracker", [](const ScalerState& s) { return double(s.hysteresis); }},
    {"consecutive_skips", [](const ScalerState& s) { return double(s.consecutive_skips); }},
    {"total_skips", [](const ScalerState& s) { return double(s.total_skips); }},
};

int find_param(std::string_view name) {
  for (int i = 0; i < kScalerParamCount; ++i)
    if (name == kParams[i].name) return i;
  return -1;
}

Status unknown(std::string_view name) {
  return failure(TALUS_E_NAME, "scaler has no parameter %s, expected one of: scale, %s",
                 quoted(name).c_str(),
                 join_names(kParams, [](const Hyper& h) { return h.name; }).c_str());
}

}  // namespace

std::span<const Hyper> scaler_params() { return kParams; }

const char* scaler_conflict(const double* p) {
  if (p[kMinScale] > p[kMaxScale]) return "min_scale must not exceed max_scale";
  if (p[kInitScale] < p[kMinScale] || p[kInitScale] > p[kMaxScale])
    return "init_scale must lie within min_scale .. max_scale";
  return nullptr;
}

// Products in double, rounded once to what the scale is held as.
void update_scaler(const double* p, bool found, ScalerState* s) {
  if (found) {
    s->growth = 0;
    ++s->consecutive_skips;
    ++s->total_skips;
    s->hysteresis = std::max<int64_t>(s->hysteresis - 1, 0);
    if (p[kDynamic] != 0 && s->hysteresis == 0)
      s->scale = std::max(float(p[kMinScale]), float(double(s->scale) * p[kBackoffFactor]));
    return;
  }
  s->consecutive_skips = 0;
  s->hysteresis = int64_t(p[kHysteresis]);
  ++s->growth;
  if (double(s->growth) < p[kGrowthInterval]) return;
  s->growth = 0;
  if (p[kDynamic] != 0)
    s->scale = std::min(float(p[kMaxScale]), float(double(s->scale) * p[kGrowthFactor]));
}

Scaler::Scaler() {
  for (int i = 0; i < kScalerParamCount; ++i) params_[i] = kParams[i].def;
  state_.scale = float(params_[kInitScale]);
}

Status Scaler::set(std::string_view name, double value) {
  const bool is_scale = name == "scale";
  const int i = is_scale ? int(kInitScale) : find_param(name);
  if (i < 0) return unknown(name);
  if (!accepts(kParams[i], value)) return refuse_value(kParams[i], value, "scaler");
  if (round_is_open())
    return failure(TALUS_E_STATE,
                   "scaler: %s cannot change between a step and talus_scaler_update, which closes "
                   "the round",
                   is_scale ? "scale" : kParams[i].name);
  double changed[kScalerParamCount];
  std::copy(std::begin(params_), std::end(params_), changed);
  changed[i] = value;
  if (const char* const conflict = scaler_conflict(changed))
    return failure(TALUS_E_RANGE, "scaler: %s; got %s = %g", conflict,
                   is_scale ? "scale" : kParams[i].name, value);
  const FloatEnvironment ieee;
  if (!is_scale) params_[i] = value;
  if (i == kInitScale) state_.scale = float(value);
  if (i == kHysteresis) state_.hysteresis = int64_t(value);
  state_.scale = std::clamp(state_.scale, float(params_[kMinScale]), float(params_[kMaxScale]));
  return {};
}

Status Scaler::get(std::string_view name, double* value) const {
  if (const int i = find_param(name); i >= 0) return *value = params_[i], Status();
  for (const Reading& reading : kReadings)
    if (name == reading.name) return *value = reading.value(state_), Status();
  return unknown(name);
}

Status Scaler::restore(const double* params, const ScalerState& state) {
  for (int i = 0; i < kScalerParamCount; ++i)
    if (!accepts(kParams[i], params[i])) return refuse_value(kParams[i], params[i], "scaler");
  if (const char* const conflict = scaler_conflict(params))
    return failure(TALUS_E_RANGE, "scaler: %s", conflict);
  const bool counts = state.growth >= 0 && state.hysteresis >= 0 && state.consecutive_skips >= 0 &&
                      state.total_skips >= 0;
  const FloatEnvironment ieee;
  const bool within =
      state.scale >= float(params[kMinScale]) && state.scale <= float(params[kMaxScale]);
  if (!counts || !within)
    return failure(TALUS_E_RANGE, "scaler: scale %g or a count is outside of its range",
                   double(state.scale));
  std::copy(params, params + kScalerParamCount, params_);
  state_ = state;
  ++round_;
  checked_ = 0;
  found_ = false;
  return {};
}

void Scaler::note(bool found) {
  ++checked_;
  found_ = found_ || found;
}

Status Scaler::update() {
  if (checked_ == 0)
    return failure(TALUS_E_STATE,
                   "talus_scaler_update: no optimizer has stepped since the last one, expected "
                   "talus_step of one that the scaler is attached to");
  const FloatEnvironment ieee;  // whatever the caller's
  update_scaler(params_, found_, &state_);
  ++round_;
  checked_ = 0;
  found_ = false;
  return {};
}

}  // namespace talus
