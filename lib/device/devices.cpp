#include "lib/device/devices.h"

#include <algorithm>
#include <cstdio>
#include <mutex>

#include "lib/cpu/backend.h"
#include "lib/cpu/kernels.h"
#include "lib/device/plugin.h"

namespace talus {
namespace {

// The plugin's own words, which say driver and runtime too.
Status usable(const Backend& plugin, int32_t device, DeviceReport* report) {
  const int32_t status = plugin.probe(device, report);
  if (status == TALUS_OK) return {};
  int64_t detail = 0;
  plugin.last_error(nullptr, &detail);
  return Status(status, text("CUDA device %d: %s", device, report->text), detail);
}

// The ordinal is looked at where the driver has told how many there are.
Status find_cuda(int32_t device, const Backend** out) {
  const Backend* plugin = nullptr;
  TALUS_TRY(cuda_plugin(&plugin));
  DeviceReport report{};
  TALUS_TRY(usable(*plugin, 0, &report));
  if (device < 0 || device >= report.device_count)
    return failure(TALUS_E_ARGUMENT, "device_id is %d, expected 0 .. %d: there are %d CUDA devices",
                   device, report.device_count - 1, report.device_count);
  if (device > 0) TALUS_TRY(usable(*plugin, device, &report));
  *out = plugin;
  return {};
}

constexpr int32_t kMostDevices = 64;  // that a list tells of

// Constant-initialised, filled once.
struct Lines {
  std::once_flag once;
  const char* file = nullptr;
  char plugin[512] = "";
  int32_t devices = 0;
  char name[kMostDevices][16] = {};
  char doc[kMostDevices][448] = {};
};
Lines g_lines;

void tell(const DeviceReport& report, char* doc, size_t room) {
  constexpr double kGiB = 1 << 30;
  if (report.status == TALUS_OK)
    std::snprintf(doc, room, "%s, compute capability %d.%d, %.1f GiB", report.name,
                  report.capability / 10, report.capability % 10,
                  double(report.memory_total) / kGiB);
  else
    std::snprintf(doc, room, "not usable: %s", report.text);
}

void fill_lines() {
  const Backend* plugin = nullptr;
  if (!cuda_plugin(&plugin, &g_lines.file).ok()) return;
  DeviceReport report{};
  if (plugin->probe(0, &report) != TALUS_OK) {
    std::snprintf(g_lines.plugin, sizeof g_lines.plugin, "CUDA: %s", report.text);
    return;
  }
  std::snprintf(g_lines.plugin, sizeof g_lines.plugin, "CUDA: driver %d.%d, runtime %d.%d",
                report.driver / 1000, report.driver % 1000 / 10, report.runtime / 1000,
                report.runtime % 1000 / 10);
  g_lines.devices = std::min(report.device_count, kMostDevices);
  for (int32_t i = 0; i < g_lines.devices; ++i) {
    if (i > 0) report.status = plugin->probe(i, &report);
    std::snprintf(g_lines.name[i], sizeof g_lines.name[i], "cuda:%d", i);
    tell(report, g_lines.doc[i], sizeof g_lines.doc[i]);
  }
}

// Without memory for the search there is nothing to tell; the next question tries again.
const Lines& lines() {
  try {
    std::call_once(g_lines.once, fill_lines);
  } catch (...) {}
  return g_lines;
}

}  // namespace

Status find_backend(int32_t device_type, int32_t device, const Backend** out) {
  if (device_type == TALUS_CUDA) return find_cuda(device, out);
  if (device_type != TALUS_CPU)
    return failure(TALUS_E_UNSUPPORTED, "device_type is %d, expected TALUS_CPU (%d) or _CUDA (%d)",
                   device_type, TALUS_CPU, TALUS_CUDA);
  if (device != 0)
    return failure(TALUS_E_ARGUMENT, "device_id is %d, expected 0 for the CPU", device);
  const TargetInfo* target = nullptr;
  TALUS_TRY(choose_cpu_target(&target));
  *out = &cpu_backend();
  return {};
}

bool plugin_line(int32_t i, Line* out) {
  const Lines& all = lines();
  if (i != 0 || !all.file) return false;
  *out = {all.file, all.plugin};
  return true;
}

bool device_line(int32_t i, Line* out) {
  const Lines& all = lines();
  if (i < 0 || i >= all.devices) return false;
  *out = {all.name[i], all.doc[i]};
  return true;
}

}  // namespace talus
