// What the core knows of devices: which backend runs one, and what can be told of it without
// touching it. No CUDA here.
#pragma once
#include "lib/base/status.h"
#include "lib/table/backend.h"

namespace talus {

// The backend of a device that is there and usable, or why not: TALUS_E_UNSUPPORTED (device type,
// plugin, driver), TALUS_E_ARGUMENT (no such ordinal), TALUS_E_DEVICE. Makes no context.
Status find_backend(int32_t device_type, int32_t device, const Backend** out);

// Lines for people, made at the first question; static. False past the end of the list.
struct Line {
  const char* name;
  const char* doc;
};
bool plugin_line(int32_t i, Line* out);  // file of a plugin in use; versions, or what it misses
bool device_line(int32_t i, Line* out);  // "cuda:0"; name, capability, memory

}  // namespace talus
