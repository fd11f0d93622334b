// Where a value of a JSON document stands, for texts, and what those share who take such values.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "lib/base/status.h"
#include "lib/checkpoint/json_value.h"

namespace talus {

// The file, the key of its metadata, the way to the value.
class Place {
 public:
  Place(const std::string& file, std::string_view key) : text_(file + ": " + std::string(key)) {}

  Place member(std::string_view name) const { return Place(text_ + '.' + std::string(name)); }
  Place element(size_t i) const { return Place(text_ + '[' + std::to_string(i) + ']'); }
  Place named(std::string_view name) const;
  const std::string& text() const { return text_; }

  Status fault(const std::string& why) const { return {TALUS_E_FORMAT, text_ + ": " + why}; }

 private:
  explicit Place(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

using Names = std::initializer_list<std::string_view>;

// An object of exactly these members, and of any of the optional ones. A newer writer that adds one
// asks for a feature too.
Status check_members(const Json& json, const Place& at, Names expected, Names optional = {});

Status read_string(const Json& json, const Place& at, std::string* out);
// An integer from 0 on and below count; what: of what it is the number.
Status read_index(const Json& json, const Place& at, const char* what, size_t count, int32_t* out);

}  // namespace talus
