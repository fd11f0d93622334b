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

using nlohmann::json;
using nlohmann::ordered_json;

// The parser's strtod rounds as the caller's thread does, and its text has the locale's point.
double nearest(std::string text, double otherwise) {
  for (char& c : text)
    if (!std::strchr("0123456789+-eE", c)) c = '.';
  const FloatEnvironment ieee;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? value : otherwise;
}

// Builds a document. The library's own builder keeps the last of two equal keys without a word.
template <class Json>
class Builder final : public JsonReader {
 public:
  explicit Builder(Json* out) : root_(out) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    return put(nearest(text, value));
  }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool start_object(size_t) override { return open(Json::value_t::object); }
  bool start_array(size_t) override { return open(Json::value_t::array); }
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

  bool open(typename Json::value_t type) {
    if (levels_.size() == kJsonDepth)
      return fail("deeper than " + std::to_string(kJsonDepth) + " levels");
    levels_.push_back({Json(type), {}, {}});
    return true;
  }
  bool close() {
    Json whole = std::move(levels_.back().value);
    levels_.pop_back();
    return put(std::move(whole));
  }
  template <class T>
  bool put(T&& value) {
    if (levels_.empty()) {
      *root_ = std::forward<T>(value);
      return true;
    }
    Level& level = levels_.back();
    if (level.value.is_array())
      level.value.push_back(std::forward<T>(value));
    else
      append(level.value.template get_ref<typename Json::object_t&>(), std::move(level.name),
             std::forward<T>(value));
    return true;
  }
  // An ordered object would search all its members for the name.
  template <class T>
  static void append(json::object_t& to, std::string&& name, T&& value) {
    to.emplace(std::move(name), std::forward<T>(value));
  }
  template <class T>
  static void append(ordered_json::object_t& to, std::string&& name, T&& value) {
    to.emplace_back(std::move(name), std::forward<T>(value));
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

template <class Json>
void write(const Json& from, std::string* out);

template <class Json>
void write_members(const Json& from, std::string* out) {
  char separator = '{';
  for (const auto& [name, value] : from.template get_ref<const typename Json::object_t&>()) {
    *out += std::exchange(separator, ',');
    *out += Json(name).dump();
    *out += ':';
    write(value, out);
  }
  *out += separator == '{' ? "{}" : "}";
}

template <class Json>
void write_elements(const Json& from, std::string* out) {
  char separator = '[';
  for (const Json& value : from) {
    *out += std::exchange(separator, ',');
    write(value, out);
  }
  *out += separator == '[' ? "[]" : "]";
}

template <class Json>
void write(const Json& from, std::string* out) {
  if (from.is_object())
    write_members(from, out);
  else if (from.is_array())
    write_elements(from, out);
  else if (from.is_number_float())
    write_number(from.template get<double>(), out);
  else
    *out += from.dump();
}

}  // namespace

template <class Json>
Status parse_json(std::string_view text, const std::string& where, Json* out) {
  return Builder<Json>(out).read(text, where, 0);
}

template <class Json>
std::string write_json(const Json& from) {
  std::string out;
  write(from, &out);
  return out;
}

json json_number(double value) {
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return value;
}

template <class Json>
bool read_number(const Json& from, double* out) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const FloatEnvironment ieee;  // integers are rounded as well
  if (from.is_number())
    *out = from.template get<double>();
  else if (from == "inf" || from == "-inf")
    *out = from == "inf" ? kInfinity : -kInfinity;
  else
    return false;
  return true;
}

json json_count(int64_t value) { return std::to_string(value); }

template <class Json>
bool read_count(const Json& from, int64_t* out) {
  if (!from.is_string()) return false;
  const auto& text = from.template get_ref<const std::string&>();
  if (text.empty() || (text[0] == '0' && text.size() > 1) || text[0] == '-') return false;
  int64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last) return false;
  *out = value;
  return true;
}

template Status parse_json(std::string_view, const std::string&, json*);
template Status parse_json(std::string_view, const std::string&, ordered_json*);
template std::string write_json(const json&);
template std::string write_json(const ordered_json&);
template bool read_number(const json&, double*);
template bool read_number(const ordered_json&, double*);
template bool read_count(const json&, int64_t*);
template bool read_count(const ordered_json&, int64_t*);

}  // namespace talus
