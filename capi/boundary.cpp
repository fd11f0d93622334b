#include "capi/boundary.h"

#include <cstdio>

namespace talus::capi {
namespace {

// A plain array: nothing to destroy at thread exit or dlclose, and two threads cannot mix texts.
thread_local char last_error[8192] = "";
thread_local int64_t last_detail = 0;

constexpr const char* kStatusNames[] = {
    "TALUS_OK",         "TALUS_E_ARGUMENT",     "TALUS_E_NAME",      "TALUS_E_RANGE",
    "TALUS_E_STATE",    "TALUS_E_NOT_PREPARED", "TALUS_E_MEMORY",    "TALUS_E_UNSUPPORTED",
    "TALUS_E_DEVICE",   "TALUS_E_DEVICE_LOST",  "TALUS_E_IO",        "TALUS_E_FORMAT",
    "TALUS_E_MISMATCH", "TALUS_E_VERSION",      "TALUS_E_CANCELLED", "TALUS_E_CALLBACK",
    "TALUS_E_COMM",     "TALUS_E_FORKED",       "TALUS_E_NONFINITE", "TALUS_E_INTERNAL"};

}  // namespace

namespace {

talus_status keep(talus_status code, const char* text, int64_t detail) {
  const size_t length = utf8_prefix(text, sizeof last_error - 1);
  std::memcpy(last_error, text, length);
  last_error[length] = 0;
  last_detail = detail;
  return code;
}

}  // namespace

talus_status report(talus_status code, const char* function, const char* text) noexcept {
  char line[sizeof last_error];
  std::snprintf(line, sizeof line, "%s: %s", function, text);
  return keep(code, line, 0);
}

talus_status report(const Status& status) noexcept {
  return keep(status.code(), status.text().c_str(), status.detail());
}

}  // namespace talus::capi

extern "C" {

const char* talus_last_error(void) { return talus::capi::last_error; }
int64_t talus_last_error_detail(void) { return talus::capi::last_detail; }

const char* talus_status_name(talus_status status) {
  using talus::capi::kStatusNames;
  if (status < 0 || status >= talus_status(std::size(kStatusNames))) return "unknown status";
  return kStatusNames[status];
}

}  // extern "C"
