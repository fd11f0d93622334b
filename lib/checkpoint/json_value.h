// A JSON document in memory, in the order of its text. The parser's own kind of document takes memory
// when it is destroyed, and ends the process where there is none; this one does not.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace talus {

class Json {
 public:
  enum class Kind : uint8_t { null, boolean, whole, number, string, array, object };
  using Member = std::pair<std::string, Json>;

  Json() = default;
  explicit Json(bool value) : kind_(Kind::boolean), whole_(value) {}
  Json(uint64_t value) : kind_(Kind::whole), whole_(value) {}
  Json(double value) : kind_(Kind::number), number_(value) {}
  Json(std::string value) : kind_(Kind::string), string_(std::move(value)) {}
  Json(const char* value) : Json(std::string(value)) {}
  template <class T>
  Json(const std::vector<T>& values) : kind_(Kind::array) {
    for (const T& value : values) elements_.emplace_back(value);
  }
  Json(std::initializer_list<std::pair<const char*, Json>> members) : kind_(Kind::object) {
    for (const auto& [name, value] : members) members_.emplace_back(name, value);
  }
  static Json object() { return of(Kind::object); }
  static Json array() { return of(Kind::array); }

  Kind kind() const { return kind_; }
  bool is_object() const { return kind_ == Kind::object; }
  bool is_array() const { return kind_ == Kind::array; }
  bool is_string() const { return kind_ == Kind::string; }
  bool is_whole() const { return kind_ == Kind::whole; }  // 0 .. 2^64 - 1

  // Of the kind that they name.
  bool boolean() const { return whole_ != 0; }
  uint64_t whole() const { return whole_; }
  double number() const { return number_; }
  const std::string& string() const { return string_; }
  const std::vector<Json>& elements() const { return elements_; }
  const std::vector<Member>& members() const { return members_; }

  const Json* find(std::string_view name) const {  // NULL: no such member
    for (const Member& m : members_)
      if (m.first == name) return &m.second;
    return nullptr;
  }
  const Json& operator[](std::string_view name) const { return *find(name); }

  void push_back(Json value) { elements_.push_back(std::move(value)); }
  void emplace(std::string name, Json value) {
    members_.emplace_back(std::move(name), std::move(value));
  }

 private:
  static Json of(Kind kind) {
    Json out;
    out.kind_ = kind;
    return out;
  }

  Kind kind_ = Kind::null;
  uint64_t whole_ = 0;
  double number_ = 0;
  std::string string_;
  std::vector<Json> elements_;
  std::vector<Member> members_;
};

}  // namespace talus
