// Plugins: where one is looked for, how it is opened, and which are refused. Nothing is loaded
// before the first question for its device, and nothing is ever unloaded. No CUDA here.
#pragma once
#include "lib/base/status.h"
#include "lib/table/backend.h"

namespace talus {

inline constexpr const char* kCudaPlugin = "libtalus_cuda.so";

// Absolute folders, separated by ':', that are looked into first; NULL: none. Of the whole process.
// TALUS_E_STATE once a plugin has been looked for.
Status set_plugin_path(const char* folders);

// Opens one file and shakes hands with it: TALUS_E_UNSUPPORTED says which of both failed and how.
Status open_plugin(const char* file, const Backend** out);

// The CUDA plugin, looked for once in a process: whoever asks later gets the same answer. Any
// thread. *file: where it lies, as long as the library is loaded.
Status cuda_plugin(const Backend** out, const char** file = nullptr);

// The same without a search: NULL where none has been loaded yet.
const Backend* loaded_cuda_plugin();

}  // namespace talus
