// JSON of people we do not trust: what a reader must refuse though a JSON library would take it.
#pragma once
#include <string>
#include <string_view>

#include "lib/base/status.h"
#include "lib/checkpoint/json_value.h"

namespace talus {

inline constexpr int kJsonDepth = 8;

// A whole document. TALUS_E_FORMAT naming `where` (file and key) and the byte of the text: no valid
// JSON or UTF-8, a NUL, two equal keys of one object, deeper than kJsonDepth, anything behind the end.
Status parse_json(std::string_view text, const std::string& where, Json* out);

// The text of a document that we made: no white space, UTF-8 as it is, doubles in their shortest form.
std::string write_json(const Json& from);

// The shortest text that reads back as the same double; "inf" and "-inf" are strings. No NaN.
Json json_number(double value);
// A number, or one of these strings. False: neither.
bool read_number(const Json& from, double* out);
// A count as a decimal string, since other readers round numbers above 2^53.
Json json_count(int64_t value);
bool read_count(const Json& from, int64_t* out);  // 0 .. 2^63 - 1, no sign, no leading 0

}  // namespace talus
