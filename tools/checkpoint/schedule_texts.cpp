#include "tools/checkpoint/schedule_texts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace checkpoint {
namespace {

using talus::AttachmentRecord;
using talus::ScheduleRecord;
using talus::SchedulesRecord;

// No library writes more; a file may pretend to.
constexpr int kMostLevels = 16;
constexpr size_t kMostText = 4000;

void add_schedule(const SchedulesRecord& all, int32_t object, int levels, std::string* out) {
  if (levels == 0 || out->size() > kMostText) return void(*out += "...");
  const ScheduleRecord& s = all.objects[size_t(object)];
  *out += s.kind;
  for (const auto& [name, value] : s.params) *out += fmt::format(" {}={}", name, value);
  if (!s.milestones.empty()) *out += fmt::format(" milestones={}", fmt::join(s.milestones, ","));
  if (s.product) *out += fmt::format(" product={} at t={}", s.product->value, s.product->t);
  if (s.plateau)
    *out += fmt::format(" best={} bad={} cooling={}", s.plateau->best, s.plateau->bad,
                        s.plateau->cooling);
  for (const int32_t piece : s.pieces) {
    *out += " (";
    add_schedule(all, piece, levels - 1, out);
    *out += ')';
  }
}

std::string text_of(const SchedulesRecord& all, const AttachmentRecord& a) {
  std::string out;
  add_schedule(all, a.object, kMostLevels, &out);
  out += fmt::format(", clock {}", talus::clock_name(a.clock));
  if (a.value) out += fmt::format(", value {}", *a.value);
  return out;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> schedule_texts(const talus::Manifest& manifest) {
  std::vector<std::pair<std::string, std::string>> out;
  const SchedulesRecord& all = manifest.schedules;
  for (const AttachmentRecord& a : all.attachments)
    out.emplace_back(fmt::format("group {} {}", a.group, a.hyper), text_of(all, a));
  for (const AttachmentRecord& a : all.later)
    out.emplace_back("groups added later " + a.hyper, text_of(all, a));
  return out;
}

}  // namespace checkpoint
