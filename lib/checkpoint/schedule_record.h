// The schedules of an optimizer as a checkpoint says them: plain values, and their JSON.
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

inline constexpr const char* kSchedulesFeature = "schedules";
inline constexpr size_t kMostSchedules = 65536;  // objects, attachments and pieces, each

struct ProductRecord {  // of the factors of 1 .. t
  int64_t t = 0;
  double value = 1;

  bool operator==(const ProductRecord&) const = default;
};

struct PlateauRecord {
  double best = 0;
  int64_t bad = 0, cooling = 0;

  bool operator==(const PlateauRecord&) const = default;
};

struct ScheduleRecord {
  std::string kind;
  std::vector<std::pair<std::string, double>> params;  // without those that are not set
  std::vector<int64_t> milestones;
  std::vector<int32_t> pieces;  // objects before this one
  bool needs_function = false;  // that a file cannot hold
  std::optional<ProductRecord> product;
  std::optional<PlateauRecord> plateau;

  bool operator==(const ScheduleRecord&) const = default;
};

struct AttachmentRecord {
  int32_t group = -1;  // -1: all that are added later
  std::string hyper;
  int32_t clock = 0;  // TALUS_CLOCK_...
  int32_t object = 0;
  std::optional<double> value;  // what a plateau has made of the base

  bool operator==(const AttachmentRecord&) const = default;
};

struct SchedulesRecord {
  std::vector<ScheduleRecord> objects;
  std::vector<AttachmentRecord> attachments, later;

  bool empty() const { return objects.empty() && attachments.empty() && later.empty(); }
  bool operator==(const SchedulesRecord&) const = default;
};

// "applied", "called", "manual".
const char* clock_name(int32_t clock);

Json schedules_json(const SchedulesRecord& from);
// TALUS_E_FORMAT; whether kinds, parameters and groups are known is not looked at.
Status take_schedules(const Json& json, const Place& at, size_t group_count, SchedulesRecord* out);

}  // namespace talus
