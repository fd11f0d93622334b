#include "lib/checkpoint/json_place.h"

#include <algorithm>

#include "lib/checkpoint/json_reader.h"

namespace talus {
namespace {

bool contains(Names names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Place Place::named(std::string_view name) const { return Place(text_ + ' ' + shown(name)); }

Status check_members(const Json& json, const Place& at, Names expected, Names optional) {
  if (!json.is_object()) return at.fault("no JSON object");
  for (const auto& [name, value] : json.members())
    if (!contains(expected, name) && !contains(optional, name))
      return at.fault("unknown member " + shown(name));
  for (const std::string_view name : expected)
    if (!json.find(name)) return at.fault("no member " + shown(name));
  return {};
}

Status read_string(const Json& json, const Place& at, std::string* out) {
  if (!json.is_string()) return at.fault("no string");
  *out = json.string();
  return {};
}

Status read_index(const Json& json, const Place& at, const char* what, size_t count, int32_t* out) {
  if (!json.is_whole() || json.whole() >= count)
    return at.fault(text("no %s, expected an integer below %zu", what, count));
  *out = int32_t(json.whole());
  return {};
}

}  // namespace talus
