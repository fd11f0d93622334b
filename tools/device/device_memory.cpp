// The plugin that libtalus uses, opened beside it for its memory: the one place of the command that
// knows the boundary to backends.
#include "tools/command/device_memory.hpp"

#include <talus.hpp>

#include "lib/device/plugin.h"

namespace command {
namespace {

const talus::Backend& table(const void* plugin) {
  return *static_cast<const talus::Backend*>(plugin);
}

[[noreturn]] void fail(const talus::Backend& plugin, const void* context, int32_t status) {
  int64_t detail = 0;
  const char* const why = plugin.last_error(context, &detail);
  throw talus::Error(status, std::string("memory of the device: ") + why, detail);
}

}  // namespace

DeviceMemory::DeviceMemory(int32_t device) {
  const std::vector<std::string> files = talus::names("plugins");
  if (files.empty()) {
    std::string reason;
    talus::has_feature("cuda", &reason);
    throw talus::Error(TALUS_E_UNSUPPORTED, reason);
  }
  const talus::Backend* plugin = nullptr;
  if (const talus::Status status = talus::open_plugin(files[0].c_str(), &plugin); !status.ok())
    throw talus::Error(status.code(), status.text());
  talus::BackendConfig config{};
  config.device = device;
  config.threads = 1;
  if (const int32_t status = plugin->create(&config, &context_); status != TALUS_OK)
    fail(*plugin, nullptr, status);
  plugin_ = plugin;
}

DeviceMemory::~DeviceMemory() {
  for (const auto& [data, bytes] : blocks_) table(plugin_).release(context_, data, bytes, nullptr);
  table(plugin_).destroy(context_);
}

void* DeviceMemory::allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  void* const data = table(plugin_).allocate(context_, bytes, 256, nullptr);
  if (!data) fail(table(plugin_), context_, TALUS_E_MEMORY);
  blocks_.emplace_back(data, bytes);
  return data;
}

void DeviceMemory::copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  if (const int32_t status = table(plugin_).copy(context_, to, from, bytes, nullptr);
      status != TALUS_OK)
    fail(table(plugin_), context_, status);
}

}  // namespace command
