#include "lib/checkpoint/schedule_record.h"

#include <talus.h>

#include <cmath>
#include <iterator>

#include "lib/checkpoint/json_text.h"

namespace talus {
namespace {

constexpr const char* kClocks[] = {"applied", "called", "manual"};  // by TALUS_CLOCK_...
static_assert(TALUS_CLOCK_APPLIED == 0 && TALUS_CLOCK_CALLED == 1 && TALUS_CLOCK_MANUAL == 2);

// ---- write --------------------------------------------------------------------------------------

Json object_json(const ScheduleRecord& s) {
  Json params = Json::object(), milestones = Json::array(), pieces = Json::array();
  for (const auto& [name, value] : s.params) params.emplace(name, json_number(value));
  for (const int64_t t : s.milestones) milestones.push_back(json_count(t));
  for (const int32_t piece : s.pieces) pieces.push_back(uint64_t(piece));
  Json json{{"kind", s.kind}, {"parameters", std::move(params)}};
  if (!s.milestones.empty()) json.emplace("milestones", std::move(milestones));
  if (!s.pieces.empty()) json.emplace("pieces", std::move(pieces));
  if (s.needs_function) json.emplace("function", "unbound");
  if (s.product)
    json.emplace("product",
                 Json{{"t", json_count(s.product->t)}, {"value", json_number(s.product->value)}});
  if (s.plateau)
    json.emplace("plateau", Json{{"best", json_number(s.plateau->best)},
                                 {"bad", json_count(s.plateau->bad)},
                                 {"cooling", json_count(s.plateau->cooling)}});
  return json;
}

Json attachment_json(const AttachmentRecord& a) {
  Json json = Json::object();
  if (a.group >= 0) json.emplace("group", uint64_t(a.group));
  json.emplace("hyper", a.hyper);
  json.emplace("clock", clock_name(a.clock));
  json.emplace("object", uint64_t(a.object));
  if (a.value) json.emplace("value", json_number(*a.value));
  return json;
}

template <class T>
Json list_json(const std::vector<T>& from, Json (*one)(const T&)) {
  Json list = Json::array();
  for (const T& item : from) list.push_back(one(item));
  return list;
}

// ---- read ---------------------------------------------------------------------------------------

Status read_value(const Json& json, const Place& at, double* out) {
  return read_number(json, out) ? Status() : at.fault("no number, \"inf\" or \"-inf\"");
}

Status read_finite(const Json& json, const Place& at, double* out) {
  return read_number(json, out) && std::isfinite(*out) ? Status() : at.fault("no finite number");
}

Status read_time(const Json& json, const Place& at, int64_t* out) {
  return read_count(json, out) ? Status() : at.fault("no count, expected a string of digits");
}

Status check_list(const Json& json, const Place& at, size_t used) {
  if (!json.is_array()) return at.fault("no list");
  if (json.elements().size() > kMostSchedules - used)
    return at.fault(text("more than %zu of them", kMostSchedules));
  return {};
}

Status read_params(const Json& json, const Place& at, ScheduleRecord* out) {
  if (!json.is_object()) return at.fault("no JSON object");
  for (const auto& [name, value] : json.members()) {
    out->params.emplace_back(name, 0);
    TALUS_TRY(read_value(value, at.named(name), &out->params.back().second));
  }
  return {};
}

Status read_milestones(const Json& json, const Place& at, std::vector<int64_t>* out) {
  TALUS_TRY(check_list(json, at, 0));
  for (const Json& t : json.elements()) {
    const Place here = at.element(out->size());
    TALUS_TRY(read_time(t, here, &out->emplace_back()));
  }
  return {};
}

// index: of the schedule; only those before it can be its pieces.
Status read_pieces(const Json& json, const Place& at, size_t index, size_t* used,
                   std::vector<int32_t>* out) {
  TALUS_TRY(check_list(json, at, *used));
  *used += json.elements().size();
  for (const Json& piece : json.elements()) {
    const Place here = at.element(out->size());
    TALUS_TRY(read_index(piece, here, "schedule before this one", index, &out->emplace_back()));
  }
  return {};
}

Status read_function(const Json& json, const Place& at, bool* out) {
  if (!json.is_string() || json.string() != "unbound") return at.fault("expected \"unbound\"");
  *out = true;
  return {};
}

Status read_product(const Json& json, const Place& at, ProductRecord* out) {
  TALUS_TRY(check_members(json, at, {"t", "value"}));
  TALUS_TRY(read_time(json["t"], at.member("t"), &out->t));
  return read_finite(json["value"], at.member("value"), &out->value);
}

Status read_plateau(const Json& json, const Place& at, PlateauRecord* out) {
  TALUS_TRY(check_members(json, at, {"best", "bad", "cooling"}));
  TALUS_TRY(read_value(json["best"], at.member("best"), &out->best));
  TALUS_TRY(read_time(json["bad"], at.member("bad"), &out->bad));
  return read_time(json["cooling"], at.member("cooling"), &out->cooling);
}

Status read_object(const Json& json, const Place& at, size_t index, size_t* pieces,
                   ScheduleRecord* out) {
  TALUS_TRY(check_members(json, at, {"kind", "parameters"},
                          {"milestones", "pieces", "function", "product", "plateau"}));
  TALUS_TRY(read_string(json["kind"], at.member("kind"), &out->kind));
  TALUS_TRY(read_params(json["parameters"], at.member("parameters"), out));
  if (const Json* const list = json.find("milestones"))
    TALUS_TRY(read_milestones(*list, at.member("milestones"), &out->milestones));
  if (const Json* const list = json.find("pieces"))
    TALUS_TRY(read_pieces(*list, at.member("pieces"), index, pieces, &out->pieces));
  if (const Json* const function = json.find("function"))
    TALUS_TRY(read_function(*function, at.member("function"), &out->needs_function));
  if (const Json* const product = json.find("product"))
    TALUS_TRY(read_product(*product, at.member("product"), &out->product.emplace()));
  if (const Json* const plateau = json.find("plateau"))
    TALUS_TRY(read_plateau(*plateau, at.member("plateau"), &out->plateau.emplace()));
  return {};
}

Status read_clock(const Json& json, const Place& at, int32_t* out) {
  for (size_t clock = 0; clock < std::size(kClocks); ++clock)
    if (json.is_string() && json.string() == kClocks[clock]) return *out = int32_t(clock), Status();
  return at.fault("no clock, expected \"applied\", \"called\" or \"manual\"");
}

Status read_attachment(const Json& json, const Place& at, size_t objects, size_t groups,
                       bool of_group, AttachmentRecord* out) {
  if (of_group) {
    TALUS_TRY(check_members(json, at, {"group", "hyper", "clock", "object"}, {"value"}));
    TALUS_TRY(read_index(json["group"], at.member("group"), "group", groups, &out->group));
  } else {
    TALUS_TRY(check_members(json, at, {"hyper", "clock", "object"}));
  }
  TALUS_TRY(read_string(json["hyper"], at.member("hyper"), &out->hyper));
  TALUS_TRY(read_clock(json["clock"], at.member("clock"), &out->clock));
  if (const Json* const value = json.find("value"))
    TALUS_TRY(read_finite(*value, at.member("value"), &out->value.emplace()));
  return read_index(json["object"], at.member("object"), "schedule", objects, &out->object);
}

Status read_attachments(const Json& json, const Place& at, size_t objects, size_t groups,
                        bool of_group, std::vector<AttachmentRecord>* out) {
  TALUS_TRY(check_list(json, at, 0));
  for (const Json& attachment : json.elements()) {
    const Place here = at.element(out->size());
    TALUS_TRY(read_attachment(attachment, here, objects, groups, of_group, &out->emplace_back()));
  }
  return {};
}

}  // namespace

const char* clock_name(int32_t clock) { return kClocks[clock]; }

Json schedules_json(const SchedulesRecord& from) {
  return Json{{"objects", list_json(from.objects, object_json)},
              {"attachments", list_json(from.attachments, attachment_json)},
              {"later", list_json(from.later, attachment_json)}};
}

Status take_schedules(const Json& json, const Place& at, size_t group_count, SchedulesRecord* out) {
  TALUS_TRY(check_members(json, at, {"objects", "attachments", "later"}));
  const Place objects = at.member("objects");
  TALUS_TRY(check_list(json["objects"], objects, 0));
  size_t pieces = 0;
  for (const Json& object : json["objects"].elements()) {
    const size_t index = out->objects.size();
    const Place here = objects.element(index);
    TALUS_TRY(read_object(object, here, index, &pieces, &out->objects.emplace_back()));
  }
  const size_t count = out->objects.size();
  TALUS_TRY(read_attachments(json["attachments"], at.member("attachments"), count, group_count,
                             true, &out->attachments));
  return read_attachments(json["later"], at.member("later"), count, group_count, false,
                          &out->later);
}

}  // namespace talus
