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
