#include "lib/checkpoint/settings.h"

#include <algorithm>

namespace talus {
namespace {

// Those that decide what a step computes; the others are of this machine and run.
constexpr int kFirst = kGradScale, kLast = kErrorIfNonfinite;

int find_setting(std::string_view name) {
  for (int i = kFirst; i <= kLast; ++i)
    if (name == settings()[size_t(i)].name) return i;
  return -1;
}

ScalerRecord record_of(const Scaler& scaler) {
  const ScalerState& s = scaler.state();
  ScalerRecord out{{}, double(s.scale), s.growth, s.hysteresis, s.consecutive_skips, s.total_skips};
  const std::span<const Hyper> params = scaler_params();
  for (size_t i = 0; i < params.size(); ++i)
    out.params.emplace_back(params[i].name, scaler.params()[i]);
  return out;
}

// Parameters that are newer than the file have their defaults.
Status read_scaler(const ScalerRecord& record, Restored::ScalerValues* out) {
  const std::span<const Hyper> params = scaler_params();
  for (size_t i = 0; i < params.size(); ++i) out->params[i] = params[i].def;
  for (const auto& [name, value] : record.params) {
    const auto found =
        std::find_if(params.begin(), params.end(),
                     [key = std::string_view(name)](const Hyper& h) { return key == h.name; });
    if (found == params.end())
      return failure(TALUS_E_NAME, "scaler has no parameter %s", quoted(name).c_str());
    out->params[found - params.begin()] = value;
  }
  out->state = {float(record.scale), record.growth, record.hysteresis, record.consecutive_skips,
                record.total_skips};
  if (double(out->state.scale) != record.scale)
    return failure(TALUS_E_RANGE, "scaler: scale %.17g is no f32", record.scale);
  return check_scaler(out->params, out->state);  // whether it can be
}

void compare_scaler(const Optimizer& live, const std::optional<ScalerRecord>& file,
                    Differences* differences, Restored* out) {
  if (!file && !live.scaler()) return;
  if (!file || !live.scaler())
    return differences->add(TALUS_M_SCALER,
                            text("%s in the optimizer, %s in the file; attach or detach it first "
                                 "(talus_attach_scaler), or TALUS_LOAD_KEEP_HYPER",
                                 live.scaler() ? "a scaler" : "no scaler", file ? "one" : "none"));
  const Status status = read_scaler(*file, &out->scaler.emplace());
  if (!status.ok()) differences->add(TALUS_M_SCALER, "in the file: " + status.text());
}

void compare_values(const Optimizer& live, const NamedValues& file, Differences* differences,
                    Restored* out) {
  std::vector<double>& wanted = out->settings;
  for (const Hyper& setting : settings()) wanted.push_back(setting.def);
  for (int i = 0; i < kSettingCount; ++i)
    if (i < kFirst || i > kLast) wanted[size_t(i)] = live.setting(i);
  for (const auto& [name, value] : file) {
    const int i = find_setting(name);
    if (i < 0) {
      differences->add(TALUS_M_HYPER,
                       "settings: the file has " + quoted(name) + ", which is not known here");
      continue;
    }
    if (const Status status = live.check_setting(i, value); !status.ok())
      differences->add(TALUS_M_HYPER, "in the file: " + status.text());
    wanted[size_t(i)] = value;
  }
}

}  // namespace

Status record_settings(const Optimizer& from, Manifest* out) {
  for (int i = kFirst; i <= kLast; ++i)
    if (from.setting(i) != settings()[size_t(i)].def)
      out->settings.emplace_back(settings()[size_t(i)].name, from.setting(i));
  if (!from.scaler()) return {};
  if (from.scaler()->round_is_open())
    return failure(TALUS_E_STATE,
                   "talus_save: a step waits for its scaler's update, expected "
                   "talus_scaler_update before");
  out->scaler = record_of(*from.scaler());
  return {};
}

Status check_round(const Optimizer& into) {
  if (!into.scaler() || !into.scaler()->round_is_open()) return {};
  return failure(TALUS_E_STATE,
                 "talus_load: a step waits for its scaler's update, expected talus_scaler_update "
                 "before");
}

void compare_settings(const Optimizer& live, const Manifest& file, Differences* differences,
                      Restored* out) {
  compare_values(live, file.settings, differences, out);
  compare_scaler(live, file.scaler, differences, out);
}

}  // namespace talus
