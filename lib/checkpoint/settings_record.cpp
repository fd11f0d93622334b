#include "lib/checkpoint/settings_record.h"

#include "lib/checkpoint/json_text.h"

namespace talus {
namespace {

struct CountMember {
  const char* name;
  int64_t ScalerRecord::*value;
};
constexpr CountMember kCounts[] = {{"growth_tracker", &ScalerRecord::growth},
                                   {"hysteresis_tracker", &ScalerRecord::hysteresis},
                                   {"consecutive_skips", &ScalerRecord::consecutive_skips},
                                   {"total_skips", &ScalerRecord::total_skips}};

}  // namespace

Json values_json(const NamedValues& from) {
  Json json = Json::object();
  for (const auto& [name, value] : from) json.emplace(name, json_number(value));
  return json;
}

Status take_values(const Json& json, const Place& at, NamedValues* out) {
  if (!json.is_object()) return at.fault("no JSON object");
  for (const auto& [name, value] : json.members()) {
    out->emplace_back(name, 0);
    if (!read_number(value, &out->back().second))
      return at.named(name).fault("no number, \"inf\" or \"-inf\"");
  }
  return {};
}

Json scaler_json(const ScalerRecord& from) {
  Json json{{"parameters", values_json(from.params)}, {"scale", json_number(from.scale)}};
  for (const CountMember& m : kCounts) json.emplace(m.name, json_count(from.*m.value));
  return json;
}

Status take_scaler(const Json& json, const Place& at, ScalerRecord* out) {
  TALUS_TRY(check_members(json, at,
                          {"parameters", "scale", "growth_tracker", "hysteresis_tracker",
                           "consecutive_skips", "total_skips"}));
  TALUS_TRY(take_values(json["parameters"], at.member("parameters"), &out->params));
  if (!read_number(json["scale"], &out->scale)) return at.member("scale").fault("no number");
  for (const CountMember& m : kCounts)
    if (!read_count(json[m.name], &(out->*m.value)))
      return at.member(m.name).fault("no count, expected a string of digits");
  return {};
}

}  // namespace talus
