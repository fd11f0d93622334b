#include "lib/base/status.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace talus {
namespace {

constexpr size_t kLongestText = 1024;  // talus_last_error cuts there as well

std::string format_text(const char* format, va_list arguments) {
  char buffer[kLongestText];
  const int length = std::vsnprintf(buffer, sizeof buffer, format, arguments);
  if (length < 0) return format;
  return std::string(buffer, utf8_prefix(buffer, sizeof buffer - 1));
}

}  // namespace

size_t utf8_prefix(const char* s, size_t bytes) {
  const size_t length = std::strlen(s);
  if (length < bytes) return length;
  size_t end = bytes;  // the cut may lie inside a character, also where snprintf made it
  while (end > 0 && (s[end - 1] & 0xc0) == 0x80) --end;  // back to its first byte
  if (end == 0) return bytes;
  const unsigned char lead = static_cast<unsigned char>(s[end - 1]);
  const size_t size = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  return end - 1 + size <= bytes ? bytes : end - 1;
}

std::string quoted(std::string_view name) {
  constexpr size_t kLongest = 96;
  if (name.size() <= kLongest) return '"' + std::string(name) + '"';
  const std::string start(name.substr(0, kLongest));
  return '"' + start.substr(0, utf8_prefix(start.c_str(), kLongest)) + "...\"";
}

bool is_utf8(std::string_view s) {
  const auto* p = reinterpret_cast<const unsigned char*>(s.data());
  const auto* const end = p + s.size();
  while (p != end) {
    const unsigned lead = *p++;
    if (lead < 0x80) continue;
    const int more = lead < 0xc2 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : lead < 0xf5 ? 3 : 0;
    if (more == 0 || end - p < more) return false;
    const unsigned least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;  // no long forms
    const unsigned most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;   // no surrogates
    if (*p < least || *p > most) return false;
    for (int i = 1; i < more; ++i)
      if ((p[i] & 0xc0) != 0x80) return false;
    p += more;
  }
  return true;
}

std::string text(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string out = format_text(format, arguments);
  va_end(arguments);
  return out;
}

Status failure(int32_t code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Status out(code, format_text(format, arguments));
  va_end(arguments);
  return out;
}

}  // namespace talus
