// What a checkpoint says of how gradients enter steps: settings of the optimizer, and its loss scaler.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/status.h"
#include "lib/checkpoint/json_place.h"
#include "lib/checkpoint/json_value.h"

namespace talus {

inline constexpr const char* kSettingsFeature = "settings";
inline constexpr const char* kScalerFeature = "scaler";

using NamedValues = std::vector<std::pair<std::string, double>>;

struct ScalerRecord {
  NamedValues params;
  double scale = 1;
  int64_t growth = 0, hysteresis = 1;  // trackers
  int64_t consecutive_skips = 0, total_skips = 0;

  bool operator==(const ScalerRecord&) const = default;
};

// An object of numbers; of settings those that are not at their default.
Json values_json(const NamedValues& from);
Status take_values(const Json& json, const Place& at, NamedValues* out);

Json scaler_json(const ScalerRecord& from);
Status take_scaler(const Json& json, const Place& at, ScalerRecord* out);  // TALUS_E_FORMAT

}  // namespace talus
