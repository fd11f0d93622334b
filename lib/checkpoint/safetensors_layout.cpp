// The writer's half of safetensors.h: what it writes, the reader takes.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "lib/checkpoint/json_reader.h"
#include "lib/checkpoint/safetensors.h"

namespace talus::safetensors {
namespace {

constexpr size_t kHeadMultiple = 64;  // so that data that is aligned in the file is so in memory
constexpr uint64_t kLargestFile = INT64_MAX;

Status refused(const std::string& why) { return {TALUS_E_ARGUMENT, why}; }

Status check_name(const std::string& what, std::string_view name, const Limits& limits) {
  if (!is_utf8(name)) return refused(what + " is no UTF-8");
  if (std::any_of(name.begin(), name.end(), is_control))
    return refused(what + ' ' + shown(name) + " has control characters");
  if (name.size() > limits.name_bytes)
    return refused(what + ' ' + shown(name) + " is longer than " +
                   std::to_string(limits.name_bytes) + " bytes");
  return {};
}

Status check_entry(const Entry& entry, const Limits& limits, uint64_t* bytes) {
  TALUS_TRY(check_name("tensor name", entry.name, limits));
  const std::string what = "tensor " + shown(entry.name);
  if (entry.name == "__metadata__") return refused(what + ": the name is the format's own");
  *bytes = dtype_bytes(entry.dtype);
  if (*bytes == 0) return refused(what + ": dtype " + shown(entry.dtype) + " is not known");
  if (entry.shape.size() > limits.rank)
    return refused(what + ": rank " + std::to_string(entry.shape.size()) + ", at most " +
                   std::to_string(limits.rank));
  for (const uint64_t n : entry.shape)
    if (__builtin_mul_overflow(*bytes, n, bytes)) return refused(what + ": its size overflows");
  return {};
}

Status check_metadata(const Strings& metadata, const Limits& limits) {
  if (metadata.size() > limits.metadata)
    return refused("more than " + std::to_string(limits.metadata) + " entries of metadata");
  for (const auto& [key, value] : metadata) {
    TALUS_TRY(check_name("metadata key", key, limits));
    const std::string what = "metadata " + shown(key);
    if (!is_utf8(value)) return refused(what + " is no UTF-8");
    if (value.size() > limits.metadata_value_bytes)
      return refused(what + " is longer than " + std::to_string(limits.metadata_value_bytes) +
                     " bytes");
  }
  return {};
}

// Indices of entries: by descending size of the dtype, then by name, `last` behind all.
std::vector<size_t> order_of(std::span<const Entry> entries, std::string_view last) {
  std::vector<size_t> order(entries.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto is_last = [&](const Entry& e) { return !last.empty() && e.name == last; };
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) {
    const Entry &a = entries[i], &b = entries[j];
    if (is_last(a) != is_last(b)) return is_last(b);
    const uint64_t size_a = dtype_bytes(a.dtype), size_b = dtype_bytes(b.dtype);
    return size_a != size_b ? size_a > size_b : a.name < b.name;
  });
  return order;
}

// Equal names may be far apart in the order of the data.
Status check_names_differ(std::span<const Entry> entries) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const Entry& entry : entries) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return {};
  return refused("two tensors " + shown(*twice));
}

// JSON of a string: UTF-8 as it is.
std::string in_quotes(const std::string& s) { return nlohmann::json(s).dump(); }

std::string metadata_json(const Strings& metadata) {
  std::string out;
  for (const auto& [key, value] : metadata)
    out += (out.empty() ? "" : ",") + in_quotes(key) + ':' + in_quotes(value);
  return "\"__metadata__\":{" + out + "}";
}

std::string tensor_json(const Entry& entry, uint64_t begin, uint64_t end) {
  const auto number = [](uint64_t n) { return std::to_string(n); };
  std::string shape;
  for (const uint64_t n : entry.shape) shape += (shape.empty() ? "" : ",") + number(n);
  return in_quotes(entry.name) + ":{\"dtype\":\"" + entry.dtype + "\",\"shape\":[" + shape +
         "],\"data_offsets\":[" + number(begin) + ',' + number(end) + "]}";
}

std::string with_length(std::string json) {
  const size_t over = (sizeof(uint64_t) + json.size()) % kHeadMultiple;
  if (over != 0) json.append(kHeadMultiple - over, ' ');
  std::string length;
  for (size_t i = 0; i < sizeof(uint64_t); ++i)
    length += static_cast<char>(uint64_t{json.size()} >> 8 * i & 0xff);
  return length + json;
}

}  // namespace

uint64_t Entry::bytes() const {
  uint64_t bytes = dtype_bytes(dtype);
  for (const uint64_t n : shape) bytes *= n;
  return bytes;
}

Status lay_out(std::span<const Entry> entries, const Strings& metadata, std::string_view last,
               Layout* out) {
  const Limits limits;
  if (entries.size() > limits.tensors)
    return refused("more than " + std::to_string(limits.tensors) + " tensors");
  std::vector<uint64_t> bytes(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) TALUS_TRY(check_entry(entries[i], limits, &bytes[i]));
  TALUS_TRY(check_names_differ(entries));
  TALUS_TRY(check_metadata(metadata, limits));

  Layout layout;
  layout.order = order_of(entries, last);
  std::string json = metadata.empty() ? "{" : "{" + metadata_json(metadata);
  uint64_t at = 0;
  for (const size_t i : layout.order) {
    const uint64_t begin = at;
    if (__builtin_add_overflow(begin, bytes[i], &at) || at > kLargestFile - 2 * limits.header_bytes)
      return refused("the tensors are larger than a file can be");
    if (json.size() > 1) json += ',';
    json += tensor_json(entries[i], begin, at);
  }
  json += '}';
  layout.head = with_length(std::move(json));
  if (layout.head.size() - sizeof(uint64_t) > limits.header_bytes)
    return refused("a header of " + std::to_string(layout.head.size() - sizeof(uint64_t)) +
                   " bytes, at most " + std::to_string(limits.header_bytes));
  layout.total = layout.head.size() + at;
  *out = std::move(layout);
  return {};
}

}  // namespace talus::safetensors
