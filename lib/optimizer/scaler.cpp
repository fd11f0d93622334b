#include "lib/optimizer/scaler.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "lib/base/float_contract.h"
#include "lib/base/float_environment.h"
#include "lib/table/step_law.h"

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
  return failure(
      TALUS_E_NAME, "scaler has no parameter %s, expected one of: scale, growth_tracker, %s",
      quoted(name).c_str(), join_names(kParams, [](const Hyper& h) { return h.name; }).c_str());
}

}  // namespace

std::span<const Hyper> scaler_params() { return kParams; }

const char* scaler_conflict(const double* p) {
  if (p[kMinScale] > p[kMaxScale]) return "min_scale must not exceed max_scale";
  if (p[kInitScale] < p[kMinScale] || p[kInitScale] > p[kMaxScale])
    return "init_scale must lie within min_scale .. max_scale";
  return nullptr;
}

Scaler::Scaler(const Backend& backend, int32_t device) : backend_(&backend), device_(device) {
  for (int i = 0; i < kScalerParamCount; ++i) params_[i] = kParams[i].def;
  state_.scale = float(params_[kInitScale]);
}

Scaler::~Scaler() {
  if (memory_) backend_->release(context_, memory_, sizeof *memory_, nullptr);
  if (context_) backend_->destroy(context_);
}

Status Scaler::create(const Backend& backend, int32_t device, std::shared_ptr<Scaler>* out) {
  auto made = std::make_shared<Scaler>(backend, device);
  BackendConfig config{};
  config.device = device;
  config.threads = 1;
  if (const int32_t status = backend.create(&config, &made->context_); status != TALUS_OK) {
    int64_t detail = 0;
    const char* const why = backend.last_error(nullptr, &detail);
    return Status(status, text("cannot use %s device %d: %s", backend.name, device, why), detail);
  }
  made->memory_ = static_cast<ScalerMemory*>(
      backend.allocate(made->context_, sizeof(ScalerMemory), alignof(ScalerMemory), nullptr));
  if (!made->memory_)
    return failure(TALUS_E_MEMORY, "%s device %d has no memory for a scaler", backend.name, device);
  TALUS_TRY(made->send(made->params_, made->state_));
  out->swap(made);
  return {};
}

bool Scaler::is_on(const Backend& backend, int32_t device) const {
  return backend_ == &backend && device_ == device;
}

Status Scaler::from_backend(int32_t status, const char* what) const {
  if (status == TALUS_OK) return {};
  int64_t detail = 0;
  const char* const why = backend_->last_error(context_, &detail);
  return Status(status, text("the %s backend failed to %s: %s", backend_->name, what, why), detail);
}

Status Scaler::send(const double* params, const ScalerState& state) {
  if (!memory_) return {};
  ScalerMemory made{};
  std::copy(params, params + kScalerParamCount, made.params);
  made.state = state;
  TALUS_TRY(from_backend(backend_->wait(context_), "wait for a scaler"));
  return from_backend(backend_->copy(context_, memory_, &made, sizeof made, nullptr),
                      "take a scaler");
}

Status Scaler::fetch() {
  if (!memory_) return {};
  ScalerMemory found{};
  TALUS_TRY(from_backend(backend_->wait(context_), "wait for a scaler"));
  TALUS_TRY(from_backend(backend_->copy(context_, &found, memory_, sizeof found, nullptr),
                         "report a scaler"));
  state_ = found.state;
  return {};
}

Status Scaler::read_scale(double* out) {
  TALUS_TRY(fetch());
  *out = double(state_.scale);
  return {};
}

Status Scaler::set(std::string_view name, double value) {
  if (name == "growth_tracker") return set_growth(value);
  const bool is_scale = name == "scale";
  const int i = is_scale ? int(kInitScale) : find_param(name);
  if (i < 0) return unknown(name);
  Hyper param = kParams[i];
  if (is_scale) param.name = "scale";
  if (!accepts(param, value)) return refuse_value(param, value, "scaler");
  TALUS_TRY(check_closed(param.name));
  double changed[kScalerParamCount];
  std::copy(std::begin(params_), std::end(params_), changed);
  changed[i] = value;
  if (const char* const conflict = scaler_conflict(changed))
    return failure(TALUS_E_RANGE, "scaler: %s; got %s = %g", conflict,
                   is_scale ? "scale" : kParams[i].name, value);
  TALUS_TRY(fetch());
  const FloatEnvironment ieee;
  if (is_scale) changed[i] = params_[i];
  ScalerState state = state_;
  if (i == kInitScale) state.scale = float(value);
  if (i == kHysteresis) state.hysteresis = int64_t(value);
  state.scale = std::clamp(state.scale, float(changed[kMinScale]), float(changed[kMaxScale]));
  TALUS_TRY(send(changed, state));
  std::copy(std::begin(changed), std::end(changed), params_);
  state_ = state;
  return {};
}

// Where another scaler's run goes on.
Status Scaler::set_growth(double value) {
  static constexpr Hyper kTracker = {
      "growth_tracker", TALUS_INTEGER, 0, {0, kMostCount, 0}, 0, "clean rounds since it moved"};
  if (!accepts(kTracker, value)) return refuse_value(kTracker, value, "scaler");
  TALUS_TRY(check_closed(kTracker.name));
  TALUS_TRY(fetch());
  ScalerState state = state_;
  state.growth = int64_t(value);
  TALUS_TRY(send(params_, state));
  state_ = state;
  return {};
}

Status Scaler::check_closed(const char* name) const {
  if (!round_is_open()) return {};
  return failure(
      TALUS_E_STATE,
      "scaler: %s cannot change between a step and talus_scaler_update, which closes the "
      "round",
      name);
}

Status Scaler::get(std::string_view name, double* value) {
  if (const int i = find_param(name); i >= 0) return *value = params_[i], Status();
  for (const Reading& reading : kReadings) {
    if (name != reading.name) continue;
    TALUS_TRY(fetch());
    return *value = reading.value(state_), Status();
  }
  return unknown(name);
}

Status check_scaler(const double* params, const ScalerState& state) {
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
  return {};
}

Status Scaler::restore(const double* params, const ScalerState& state) {
  TALUS_TRY(check_scaler(params, state));
  TALUS_TRY(send(params, state));
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

void Scaler::close_replayed() {
  if (!replays_) return;
  ++round_;
  checked_ = 0;
}

// Whether the update has gone into a graph.
Status Scaler::record(void* stream, bool* recorded) {
  int32_t capturing = 0;
  TALUS_TRY(from_backend(backend_->is_capturing(context_, stream, &capturing),
                         "tell whether the stream is capturing"));
  *recorded = capturing != 0;
  if (!*recorded) return {};
  TALUS_TRY(from_backend(backend_->update_scaler(context_, memory_, stream), "update a scaler"));
  replays_ = true;
  return {};
}

Status Scaler::update(void* stream) {
  const FloatEnvironment ieee;
  bool recorded = false;
  if (memory_) TALUS_TRY(record(stream, &recorded));
  if (recorded) return {};
  if (checked_ == 0)
    return failure(TALUS_E_STATE,
                   "talus_scaler_update: no optimizer has stepped since the last one, expected "
                   "talus_step of one that the scaler is attached to");
  if (memory_)
    TALUS_TRY(from_backend(backend_->update_scaler(context_, memory_, stream), "update a scaler"));
  else
    update_scaler(params_, found_, &state_);
  ++round_;
  checked_ = 0;
  found_ = false;
  return {};
}

}  // namespace talus
