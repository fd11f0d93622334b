#include "lib/checkpoint/index.h"

#include <algorithm>

#include "lib/checkpoint/files.h"
#include "lib/checkpoint/json_reader.h"
#include "lib/checkpoint/json_text.h"

namespace talus {
namespace {

constexpr const char* kMetadata = "metadata";
constexpr const char* kWeightMap = "weight_map";
constexpr const char* kFiles = "talus_files";
constexpr const char* kTotalSize = "total_size";
constexpr const char* kGeneration = "talus.generation";
constexpr size_t kGenerationDigits = 16;

bool is_digits(std::string_view text, const char* digits) {
  return text.find_first_not_of(digits) == std::string_view::npos;
}

// A name beside the index: nothing that leads elsewhere.
bool is_plain_name(std::string_view name) {
  if (name.empty() || name == "." || name == "..") return false;
  for (const char c : name)
    if (c == '/' || c == '\\' || is_control(c)) return false;
  return true;
}

// "dir/x.safetensors.index.json" -> "x"
std::string stem_of(const std::string& index_path) {
  const std::string name = base_name(index_path);
  return is_index(name) ? name.substr(0, name.size() - std::string_view(kIndexSuffix).size())
                        : name;
}

class Reader {
 public:
  Reader(const std::string& file, Index& index) : file_(file), index_(index) {}

  Status read(const Json& json) {
    TALUS_TRY(members(json, "the index", {kMetadata, kWeightMap, kFiles}));
    TALUS_TRY(read_files(json[kFiles]));
    TALUS_TRY(read_weight_map(json[kWeightMap]));
    return read_metadata(json[kMetadata]);
  }

 private:
  Status fault(const std::string& what) const {
    return Status(TALUS_E_FORMAT, file_ + ": " + what);  // a printf would cut at a NUL
  }

  // An object with exactly these.
  Status members(const Json& json, const std::string& what,
                 std::initializer_list<const char*> names) const {
    if (!json.is_object()) return fault(what + " is no JSON object");
    for (const char* name : names)
      if (!json.find(name)) return fault(what + " has no \"" + name + "\"");
    for (const auto& [key, value] : json.members())
      if (std::find(names.begin(), names.end(), key) == names.end())
        return fault(what + " has " + shown(key) + ", which is not known here");
    return {};
  }

  Status read_files(const Json& json) {
    if (!json.is_object()) return fault("\"talus_files\" is no JSON object");
    for (const auto& [name, record] : json.members()) {
      if (!is_plain_name(name))
        return fault("file " + shown(name) + " is no plain name beside the index");
      TALUS_TRY(members(record, "file " + shown(name), {"size", "header_crc32c", "pieces"}));
      ShardRecord& out = index_.files[name];
      int64_t size = 0;
      const Json& crc = record["header_crc32c"];
      if (!read_count(record["size"], &size) || !crc.is_whole() || crc.whole() > UINT32_MAX)
        return fault("file " + shown(name) + ": size is no decimal text, or the digest no uint32");
      out.size = uint64_t(size);
      out.header_crc32c = uint32_t(crc.whole());
      TALUS_TRY(take_pieces(record["pieces"], file_, &out.pieces));
    }
    return {};
  }

  Status read_weight_map(const Json& json) {
    if (!json.is_object()) return fault("\"weight_map\" is no JSON object");
    for (const auto& [key, file] : json.members()) {
      if (!file.is_string()) return fault("weight_map: " + shown(key) + " is no text");
      const std::string& name = file.string();
      if (!index_.files.contains(name))
        return fault("weight_map: " + shown(key) + " is in " + shown(name) +
                     ", which \"talus_files\" does not list");
      index_.weight_map.emplace(key, name);
    }
    return {};
  }

  Status read_metadata(const Json& json) {
    if (!json.is_object()) return fault("\"metadata\" is no JSON object");
    for (const auto& [key, value] : json.members()) {
      if (key == kTotalSize) {
        if (!value.is_whole()) return fault("total_size is no number of bytes");
        index_.total_size = value.whole();
      } else if (!value.is_string()) {
        return fault("metadata: " + shown(key) + " is no text");
      } else if (key == kGeneration) {
        index_.generation = value.string();
      } else {
        index_.metadata.emplace(key, value.string());
      }
    }
    if (index_.generation.size() == kGenerationDigits &&
        is_digits(index_.generation, "0123456789abcdef"))
      return {};
    return fault("\"talus.generation\" is not 16 hex digits");
  }

  const std::string& file_;
  Index& index_;
};

}  // namespace

bool is_index(std::string_view path) { return path.ends_with(kIndexSuffix); }

std::string shard_name(const std::string& index_path, const std::string& generation, int number,
                       int count) {
  return text("%s-%s-%05d-of-%05d%s", stem_of(index_path).c_str(), generation.c_str(), number,
              count, kFileSuffix);
}

bool is_shard_of(const std::string& index_path, std::string_view name) {
  const std::string sample = shard_name(index_path, std::string(kGenerationDigits, '0'), 0, 0);
  const std::string stem = stem_of(index_path) + "-";
  if (name.size() < sample.size() || !name.starts_with(stem) || !name.ends_with(kFileSuffix))
    return false;
  const std::string_view rest =
      name.substr(stem.size(), name.size() - stem.size() - std::string_view(kFileSuffix).size());
  const size_t of = rest.find("-of-");
  return of != std::string_view::npos && of > kGenerationDigits + 1 &&
         rest[kGenerationDigits] == '-' &&
         is_digits(rest.substr(0, kGenerationDigits), "0123456789abcdef") &&
         is_digits(rest.substr(kGenerationDigits + 1, of - kGenerationDigits - 1), "0123456789") &&
         is_digits(rest.substr(of + 4), "0123456789");
}

bool is_shard_left_over(const std::string& index_path, std::string_view name) {
  const size_t behind = std::string_view(".0123456789abcdef.tmp").size();
  return name.size() > behind && name.front() == '.' && name.ends_with(".tmp") &&
         is_shard_of(index_path, name.substr(1, name.size() - 1 - behind));
}

std::string write_index(const Index& from) {
  Json metadata = Json::object(), weights = Json::object(), files = Json::object();
  metadata.emplace(kTotalSize, from.total_size);
  metadata.emplace(kGeneration, from.generation);
  for (const auto& [key, value] : from.metadata) metadata.emplace(key, value);
  for (const auto& [key, file] : from.weight_map) weights.emplace(key, file);
  for (const auto& [name, record] : from.files)
    files.emplace(name, Json{{"size", json_count(int64_t(record.size))},
                             {"header_crc32c", uint64_t{record.header_crc32c}},
                             {"pieces", pieces_json(record.pieces)}});
  return write_json(Json{{kMetadata, metadata}, {kWeightMap, weights}, {kFiles, files}}) + "\n";
}

Status read_index(std::string_view text, const std::string& file, Index* out) {
  Json json;
  TALUS_TRY(parse_json(text, file, &json));
  Index index;
  TALUS_TRY(Reader(file, index).read(json));
  *out = std::move(index);
  return {};
}

Status read_index_file(const std::string& path, Index* out) {
  std::unique_ptr<Source> source;
  TALUS_TRY(open_source(path, true, &source));
  if (source->size() > kMostIndexBytes)
    return failure(TALUS_E_FORMAT, "%s: %llu bytes, an index has at most %llu", path.c_str(),
                   static_cast<unsigned long long>(source->size()),
                   static_cast<unsigned long long>(kMostIndexBytes));
  std::string text(size_t(source->size()), '\0');
  TALUS_TRY(source->read(0, text.data(), text.size()));
  return read_index(text, path, out);
}

}  // namespace talus
