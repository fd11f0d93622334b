#include "lib/checkpoint/json_text.h"

#include <charconv>
#include <cstring>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "lib/base/float_environment.h"
#include "lib/checkpoint/json_reader.h"

namespace talus {
namespace {

// The parser's strtod rounds as the caller's thread does, and its text has the locale's point.
double nearest(std::string text, double otherwise) {
  for (char& c : text)
    if (!std::strchr("0123456789+-eE", c)) c = '.';
  const FloatEnvironment ieee;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? value : otherwise;
}

class Builder final : public JsonReader {
 public:
  explicit Builder(Json* out) : root_(out) {}

  bool null() override { return put(Json()); }
  bool boolean(bool value) override { return put(Json(value)); }
  bool number_integer(number_integer_t value) override { return put(Json(double(value))); }
  bool number_unsigned(number_unsigned_t value) override { return put(Json(uint64_t{value})); }
  bool number_float(number_float_t value, const string_t& text) override {
    return put(Json(nearest(text, value)));
  }
  bool string(string_t& value) override { return put(Json(std::move(value))); }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    Level& level = levels_.back();
    if (!level.names.insert(name).second) return fail("two keys " + shown(name));
    level.name = std::move(name);
    return true;
  }

 private:
  struct Level {
    Json value;
    std::string name;  // of the member whose value comes next
    std::set<std::string, std::less<>> names;
  };

  bool open(Json empty) {
    if (levels_.size() == kJsonDepth)
      return fail("deeper than " + std::to_string(kJsonDepth) + " levels");
    levels_.push_back({std::move(empty), {}, {}});
    return true;
  }
  bool close() {
    Json whole = std::move(levels_.back().value);
    levels_.pop_back();
    return put(std::move(whole));
  }
  bool put(Json value) {
    if (levels_.empty()) {
      *root_ = std::move(value);
      return true;
    }
    Level& level = levels_.back();
    if (level.value.is_array())
      level.value.push_back(std::move(value));
    else
      level.value.emplace(std::move(level.name), std::move(value));
    return true;
  }

  Json* root_;
  std::vector<Level> levels_;
};

void write_number(double value, std::string* out) {
  if (std::signbit(value) && value == 0) {  // "-0" is an integer and has lost its sign when read
    *out += "-0.0";
    return;
  }
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  out->append(text, end);
}

void write_string(const std::string& text, std::string* out) {
  *out += nlohmann::json(text).dump();
}

void write(const Json& from, std::string* out);

void write_members(const Json& from, std::string* out) {
  char separator = '{';
  for (const auto& [name, value] : from.members()) {
    *out += std::exchange(separator, ',');
    write_string(name, out);
    *out += ':';
    write(value, out);
  }
  *out += separator == '{' ? "{}" : "}";
}

void write_elements(const Json& from, std::string* out) {
  char separator = '[';
  for (const Json& value : from.elements()) {
    *out += std::exchange(separator, ',');
    write(value, out);
  }
  *out += separator == '[' ? "[]" : "]";
}

void write(const Json& from, std::string* out) {
  switch (from.kind()) {
    case Json::Kind::null: *out += "null"; break;
    case Json::Kind::boolean: *out += from.boolean() ? "true" : "false"; break;
    case Json::Kind::whole: *out += std::to_string(from.whole()); break;
    case Json::Kind::number: write_number(from.number(), out); break;
    case Json::Kind::string: write_string(from.string(), out); break;
    case Json::Kind::array: write_elements(from, out); break;
    case Json::Kind::object: write_members(from, out); break;
  }
}

}  // namespace

Status parse_json(std::string_view text, const std::string& where, Json* out) {
  const FloatEnvironment ieee;  // integers are rounded as well
  return Builder(out).read(text, where, 0);
}

std::string write_json(const Json& from) {
  std::string out;
  write(from, &out);
  return out;
}

Json json_number(double value) {
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return value;
}

bool read_number(const Json& from, double* out) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const FloatEnvironment ieee;
  if (from.is_whole())
    *out = double(from.whole());
  else if (from.kind() == Json::Kind::number)
    *out = from.number();
  else if (from.is_string() && (from.string() == "inf" || from.string() == "-inf"))
    *out = from.string() == "inf" ? kInfinity : -kInfinity;
  else
    return false;
  return true;
}

Json json_count(int64_t value) { return std::to_string(value); }

bool read_count(const Json& from, int64_t* out) {
  if (!from.is_string()) return false;
  const std::string& text = from.string();
  if (text.empty() || (text[0] == '0' && text.size() > 1) || text[0] == '-') return false;
  int64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last) return false;
  *out = value;
  return true;
}

}  // namespace talus
