#include "lib/checkpoint/manifest.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include "lib/checkpoint/json_place.h"
#include "lib/checkpoint/json_reader.h"
#include "lib/checkpoint/json_text.h"

namespace talus {
namespace {

using safetensors::Strings;

constexpr std::string_view kFormat = "format", kVersion = "talus.version",
                           kRequires = "talus.requires", kWriter = "talus.writer",
                           kParams = "talus.params", kGroups = "talus.groups",
                           kSettings = "talus.settings", kCounts = "talus.counts",
                           kPieces = "talus.pieces", kSchedules = "talus.schedules",
                           kScaler = "talus.scaler", kNote = "user.";

// The members of talus.counts.
struct CountMember {
  const char* name;
  int64_t Counts::*value;
  bool of_steps = true;
};
constexpr CountMember kCountMembers[] = {{"applied", &Counts::applied},
                                         {"called", &Counts::called},
                                         {"skipped", &Counts::skipped},
                                         {"clock", &Counts::clock, false}};

std::vector<std::string> sorted(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// ---- write

Json params_json(const std::vector<ParamRecord>& params) {
  Json list = Json::array();
  for (const ParamRecord& p : params)
    list.push_back(Json{{"name", p.name},
                        {"dtype", p.dtype},
                        {"shape", p.shape},
                        {"group", uint64_t(p.group)},
                        {"slots", p.slots}});
  return list;
}

Json groups_json(const std::vector<GroupRecord>& groups) {
  Json list = Json::array();
  for (const GroupRecord& g : groups) {
    Json hyper = Json::object();
    for (const auto& [name, value] : g.hyper) hyper.emplace(name, json_number(value));
    list.push_back(Json{{"algorithm", g.algorithm}, {"hyper", std::move(hyper)}, {"mode", g.mode}});
  }
  return list;
}

Json counts_json(const Counts& counts) {
  Json json = Json::object();
  for (const CountMember& m : kCountMembers) json.emplace(m.name, json_count(counts.*m.value));
  return json;
}

// ---- read

Status read_shape(const Json& json, const Place& at, std::vector<uint64_t>* out) {
  if (!json.is_array()) return at.fault("no list");
  for (const Json& extent : json.elements()) {
    if (!extent.is_whole())
      return at.element(out->size()).fault("no extent, expected an integer from 0 on");
    out->push_back(extent.whole());
  }
  return {};
}

Status read_slots(const Json& json, const Place& at, std::vector<std::string>* out) {
  if (!json.is_array()) return at.fault("no list");
  std::set<std::string> seen;
  for (const Json& slot : json.elements()) {
    std::string name;
    TALUS_TRY(read_string(slot, at.element(out->size()), &name));
    if (!seen.insert(name).second) return at.fault(shown(name) + " twice");
    out->push_back(std::move(name));
  }
  return {};
}

Status read_param(const Json& json, const Place& at, size_t group_count, ParamRecord* out) {
  TALUS_TRY(check_members(json, at, {"name", "dtype", "shape", "group", "slots"}));
  TALUS_TRY(read_string(json["name"], at.member("name"), &out->name));
  const Place here = at.named(out->name);
  TALUS_TRY(read_string(json["dtype"], here.member("dtype"), &out->dtype));
  TALUS_TRY(read_shape(json["shape"], here.member("shape"), &out->shape));
  TALUS_TRY(read_index(json["group"], here.member("group"), "group", group_count, &out->group));
  return read_slots(json["slots"], here.member("slots"), &out->slots);
}

Status read_hyper(const Json& json, const Place& at, GroupRecord* out) {
  if (!json.is_object()) return at.fault("no JSON object");
  for (const auto& [name, text] : json.members()) {
    double value = 0;
    if (!read_number(text, &value)) return at.named(name).fault("no number, \"inf\" or \"-inf\"");
    out->hyper.emplace_back(name, value);
  }
  return {};
}

Status read_group(const Json& json, const Place& at, GroupRecord* out) {
  TALUS_TRY(check_members(json, at, {"algorithm", "hyper", "mode"}));
  TALUS_TRY(read_string(json["algorithm"], at.member("algorithm"), &out->algorithm));
  TALUS_TRY(read_string(json["mode"], at.member("mode"), &out->mode));
  return read_hyper(json["hyper"], at.member("hyper"), out);
}

// What is read from a file, and its document while it is.
class Reader {
 public:
  Reader(const Strings& metadata, const std::string& file) : metadata_(metadata), file_(file) {}

  Status read(Manifest* out) const {
    TALUS_TRY(read_version(&out->version));
    TALUS_TRY(read_required(&out->required));
    TALUS_TRY(read_groups(&out->groups));
    TALUS_TRY(read_params(out->groups.size(), &out->params));
    TALUS_TRY(read_settings(&out->settings));
    TALUS_TRY(read_scaler(*out, &out->scaler));
    TALUS_TRY(read_counts(&out->counts));
    TALUS_TRY(read_schedules(*out, &out->schedules));
    if (const std::string* writer = find(kWriter)) out->writer = *writer;
    return read_notes(&out->notes);
  }

 private:
  const std::string* find(std::string_view key) const {
    const auto found = metadata_.find(key);
    return found == metadata_.end() ? nullptr : &found->second;
  }

  // An absent key is an error.
  Status parse(std::string_view key, Json* out) const {
    const std::string* const text = find(key);
    if (!text) return Place(file_, key).fault("is missing");
    return parse_json(*text, Place(file_, key).text(), out);
  }

  Status read_version(int* out) const {
    const std::string* const text = find(kVersion);
    if (!text) return {TALUS_E_FORMAT, file_ + ": not a talus checkpoint: no talus.version"};
    const bool is_number = text->find_first_not_of("0123456789") == text->npos && !text->empty() &&
                           text->front() != '0';
    const Place at(file_, kVersion);
    if (!is_number) return at.fault("no version: " + shown(*text));
    if (*text != std::to_string(kFormatVersion))
      return {TALUS_E_VERSION, at.text() + " is " + shown(*text) + ", this library reads up to " +
                                   std::to_string(kFormatVersion)};
    *out = kFormatVersion;
    return {};
  }

  Status read_required(std::vector<std::string>* out) const {
    const std::string* const text = find(kRequires);
    if (!text || text->empty()) return {};
    for (size_t begin = 0, end = 0; end != text->npos; begin = end + 1) {
      end = text->find(',', begin);
      const std::string feature = text->substr(begin, end == text->npos ? end : end - begin);
      const Place at(file_, kRequires);
      if (feature.empty()) return at.fault("an empty name in " + shown(*text));
      if (std::find(std::begin(kKnownFeatures), std::end(kKnownFeatures), feature) ==
          std::end(kKnownFeatures))
        return {TALUS_E_VERSION, at.text() + ": feature " + shown(feature) +
                                     " is not known, only " +
                                     join_names(kKnownFeatures, [](const char* f) { return f; })};
      out->push_back(feature);
    }
    *out = sorted(std::move(*out));
    return {};
  }

  Status read_groups(std::vector<GroupRecord>* out) const {
    Json list;
    TALUS_TRY(parse(kGroups, &list));
    const Place at(file_, kGroups);
    if (!list.is_array()) return at.fault("no list");
    for (const Json& group : list.elements()) {
      const Place here = at.element(out->size());
      TALUS_TRY(read_group(group, here, &out->emplace_back()));
    }
    return {};
  }

  Status read_params(size_t group_count, std::vector<ParamRecord>* out) const {
    Json list;
    TALUS_TRY(parse(kParams, &list));
    const Place at(file_, kParams);
    if (!list.is_array()) return at.fault("no list");
    std::set<std::string> names;
    for (const Json& param : list.elements()) {
      const Place here = at.element(out->size());
      TALUS_TRY(read_param(param, here, group_count, &out->emplace_back()));
      if (!names.insert(out->back().name).second)
        return here.fault("a second parameter " + shown(out->back().name));
    }
    return {};
  }

  Status read_settings(NamedValues* out) const {
    if (!find(kSettings)) return {};
    Json settings;
    TALUS_TRY(parse(kSettings, &settings));
    return take_values(settings, Place(file_, kSettings), out);
  }

  static bool needs(const Manifest& so_far, const char* feature) {
    const std::vector<std::string>& all = so_far.required;
    return std::find(all.begin(), all.end(), feature) != all.end();
  }

  Status read_scaler(const Manifest& so_far, std::optional<ScalerRecord>* out) const {
    if (!needs(so_far, kScalerFeature) && !find(kScaler)) return {};
    Json json;
    TALUS_TRY(parse(kScaler, &json));
    return take_scaler(json, Place(file_, kScaler), &out->emplace());
  }

  Status read_counts(Counts* out) const {
    if (!find(kCounts)) return {};
    Json counts;
    TALUS_TRY(parse(kCounts, &counts));
    const Place at(file_, kCounts);
    TALUS_TRY(check_members(counts, at, {"applied", "called", "skipped", "clock"}));
    for (const CountMember& m : kCountMembers)
      if (!read_count(counts[m.name], &(out->*m.value)) ||
          (m.of_steps && out->*m.value > kMostSteps))
        return at.member(m.name).fault(
            text("no count, expected a string of digits up to 2^%d", m.of_steps ? 62 : 63));
    return {};
  }

  Status read_schedules(const Manifest& so_far, SchedulesRecord* out) const {
    if (!needs(so_far, kSchedulesFeature) && !find(kSchedules)) return {};
    Json json;
    TALUS_TRY(parse(kSchedules, &json));
    return take_schedules(json, Place(file_, kSchedules), so_far.groups.size(), out);
  }

  // A key that could not be written again would make the next save fail.
  Status read_notes(Strings* out) const {
    for (const auto& [key, value] : metadata_) {
      if (!key.starts_with(kNote)) continue;
      const bool plain = std::none_of(key.begin(), key.end(), is_control);
      if (!plain || key.size() > safetensors::Limits().name_bytes)
        return {TALUS_E_FORMAT,
                file_ + ": " + shown(key) + ": a control character, or longer than a name"};
      out->emplace(key.substr(kNote.size()), value);
    }
    return {};
  }

  const Strings& metadata_;
  const std::string& file_;
};

Status read_piece(const Json& piece, const Place& at, Piece* out) {
  TALUS_TRY(check_members(piece, at, {"parameter", "slot", "first", "count"}));
  TALUS_TRY(read_string(piece["parameter"], at.member("parameter"), &out->param));
  TALUS_TRY(read_string(piece["slot"], at.member("slot"), &out->slot));
  int64_t first = 0, count = 0;
  if (!read_count(piece["first"], &first) || !read_count(piece["count"], &count))
    return at.fault("first or count is no string of decimal digits");
  out->first = uint64_t(first);
  out->count = uint64_t(count);
  return {};
}

}  // namespace

std::string state_key(const std::string& param, std::string_view slot) {
  std::string out = "state.";
  out.append(param).append(1, '.').append(slot);
  return out;
}

Strings write_manifest(const Manifest& from) {
  Strings out;
  for (const auto& [key, value] : from.notes) out.emplace(std::string(kNote) + key, value);
  const auto put = [&](std::string_view key, std::string value) {
    out.emplace(key, std::move(value));
  };
  put(kFormat, "pt");  // the layout of keys and data is PyTorch's
  put(kVersion, std::to_string(from.version));
  std::string required;
  for (const std::string& feature : sorted(from.required))
    required += (required.empty() ? "" : ",") + feature;
  put(kRequires, required);
  put(kWriter, from.writer);
  put(kParams, write_json(params_json(from.params)));
  put(kGroups, write_json(groups_json(from.groups)));
  put(kSettings, write_json(values_json(from.settings)));
  if (from.scaler) put(kScaler, write_json(scaler_json(*from.scaler)));
  put(kCounts, write_json(counts_json(from.counts)));
  if (!from.schedules.empty()) put(kSchedules, write_json(schedules_json(from.schedules)));
  return out;
}

Status read_manifest(const Strings& metadata, const std::string& file, Manifest* out) {
  Manifest manifest;
  TALUS_TRY(Reader(metadata, file).read(&manifest));
  *out = std::move(manifest);
  return {};
}

Json pieces_json(const Pieces& from) {
  Json json = Json::object();
  for (const auto& [key, p] : from)
    json.emplace(key, Json{{"parameter", p.param},
                           {"slot", p.slot},
                           {"first", json_count(int64_t(p.first))},
                           {"count", json_count(int64_t(p.count))}});
  return json;
}

std::string write_pieces(const Pieces& from) { return write_json(pieces_json(from)); }

Status take_pieces(const Json& json, const std::string& file, Pieces* out) {
  const Place at(file, kPieces);
  if (!json.is_object()) return at.fault("no JSON object");
  Pieces pieces;
  for (const auto& [key, piece] : json.members())
    TALUS_TRY(read_piece(piece, at.named(key), &pieces[key]));
  *out = std::move(pieces);
  return {};
}

Status read_pieces(std::string_view text, const std::string& file, Pieces* out) {
  Json json;
  TALUS_TRY(parse_json(text, Place(file, kPieces).text(), &json));
  return take_pieces(json, file, out);
}

}  // namespace talus
