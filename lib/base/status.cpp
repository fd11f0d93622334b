#include "lib/base/status.h"

#include <cstdarg>
#include <cstdio>

namespace talus {
namespace {

constexpr size_t kLongestText = 1024;  // talus_last_error cuts there as well

std::string format_text(const char* format, va_list arguments) {
  char buffer[kLongestText];
  const int length = std::vsnprintf(buffer, sizeof buffer, format, arguments);
  if (length < 0) return format;
  return std::string(buffer);
}

}  // namespace

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
