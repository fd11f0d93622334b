// JSON of people we do not trust: what a reader must refuse though a JSON library would take it.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "lib/base/status.h"

namespace talus {

inline constexpr int kJsonDepth = 8;

// A whole document. TALUS_E_FORMAT naming `where` (file and key) and the byte: no valid JSON or UTF-8,
// a NUL, two equal keys of one object, deeper than kJsonDepth, anything behind the end.
Status parse_json(std::string_view text, const std::string& where, nlohmann::json* out);

// The shortest text that reads back as the same double; "inf" and "-inf" are strings.
nlohmann::json json_number(double value);
// A number, or one of these strings. False: neither.
bool read_number(const nlohmann::json& from, double* out);
// A count as a decimal string, since other readers round numbers above 2^53.
nlohmann::json json_count(int64_t value);
bool read_count(const nlohmann::json& from, int64_t* out);  // 0 .. 2^63 - 1, no sign, no leading 0

}  // namespace talus
