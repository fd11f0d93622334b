// The result of what can fail inside the library: a code of talus.h and a text. By value, no throw.
#pragma once
#include <talus.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace talus {

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(int32_t code, std::string text, int64_t detail = 0)
      : code_(code), detail_(detail), text_(std::move(text)) {}

  bool ok() const { return code_ == TALUS_OK; }
  int32_t code() const { return code_; }
  int64_t detail() const { return detail_; }
  const std::string& text() const { return text_; }

 private:
  int32_t code_ = TALUS_OK;
  int64_t detail_ = 0;
  std::string text_;  // what, where, got, expected
};

// A failure with a printf text.
[[gnu::format(printf, 2, 3)]] Status failure(int32_t code, const char* format, ...);
[[gnu::format(printf, 1, 2)]] std::string text(const char* format, ...);

// A name of the caller in quotes, cut where it is too long for a message that must say more.
std::string quoted(std::string_view name);

// Whether s is well-formed UTF-8 (Unicode 15, table 3-7).
bool is_utf8(std::string_view s);

// A control character of ASCII: none of a name or key has one.
inline bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

// Length of the longest start of s that has at most `bytes` and ends between two UTF-8 characters.
size_t utf8_prefix(const char* s, size_t bytes);

// "a, b, c" of anything that has a name; for messages that list what is known.
template <class Range, class NameOf>
std::string join_names(const Range& range, NameOf name_of) {
  std::string out;
  for (const auto& item : range) {
    if (!out.empty()) out += ", ";
    out += name_of(item);
  }
  return out;
}

#define TALUS_TRY(expression)                                   \
  do {                                                          \
    if (::talus::Status s_ = (expression); !s_.ok()) return s_; \
  } while (false)

}  // namespace talus
