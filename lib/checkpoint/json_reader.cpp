#include "lib/checkpoint/json_reader.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace talus {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// Walks a text and leaves behind how far it came: the parser does not say where a token was.
class Cursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor(const char* p, const char** reached) : p_(p), reached_(reached) {}
  reference operator*() const { return *p_; }
  Cursor& operator++() {
    *reached_ = p_++;
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(const Cursor& other) const { return p_ == other.p_; }
  bool operator!=(const Cursor& other) const { return p_ != other.p_; }

 private:
  const char* p_;
  const char** reached_;
};

// The reason in a text of the parser, without the token, which may be as long as the file and is
// not always UTF-8.
std::string_view reason(std::string_view what) {
  constexpr std::string_view kBegin = "while parsing ", kNumber = "number overflow";
  if (what.find(kNumber) != what.npos) return kNumber;
  const size_t begin = what.find(kBegin);
  if (begin != what.npos) what.remove_prefix(begin + kBegin.size());
  return what.substr(0, what.find("; last read"));
}

Status fault(const std::string& where, std::string_view why, uint64_t byte) {
  std::string text = where + ": ";
  text.append(why);
  return {TALUS_E_FORMAT, text + ", byte " + std::to_string(byte)};
}

}  // namespace

std::string shown(std::string_view name) {
  std::string out = quoted(name);
  for (char& c : out)
    if (is_control(c)) c = '?';
  return out;
}

bool JsonReader::fail(std::string_view why) {
  why_ = at();
  why_.append(why);
  return false;
}

bool JsonReader::parse_error(size_t, const std::string&, const nlohmann::detail::exception& e) {
  return fail("no valid JSON: " + std::string(reason(e.what())));
}

Status JsonReader::read(std::string_view text, const std::string& where, uint64_t first) {
  // The parser takes a NUL for the end of the text, and skips a byte order mark.
  if (const size_t nul = text.find('\0'); nul != text.npos)
    return fault(where, "a NUL in the JSON", first + nul);
  if (text.starts_with(kByteOrderMark)) return fault(where, "a byte order mark", first);
  const char* reached = text.data();
  const Cursor begin(text.data(), &reached), end(text.data() + text.size(), &reached);
  if (nlohmann::json::sax_parse(begin, end, this, nlohmann::json::input_format_t::json)) return {};
  return fault(where, why_, first + uint64_t(reached - text.data()));
}

}  // namespace talus
