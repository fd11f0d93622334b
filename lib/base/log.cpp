#include "lib/base/log.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <mutex>

namespace talus {
namespace {

constexpr int32_t kSilent = -1;

// Constant-initialised: a library that is only loaded runs no code.
std::mutex g_mutex;
std::atomic<int32_t> g_level{kSilent};  // read without the lock: a silent log costs one load
talus_log g_log = nullptr;
void* g_user = nullptr;

}  // namespace

void set_log(talus_log log, int32_t level, void* user) {
  const std::lock_guard lock(g_mutex);
  g_log = log;
  g_user = user;
  g_level.store(log ? level : kSilent, std::memory_order_relaxed);
}

void log_line(int32_t level, const char* format, ...) {
  if (level > g_level.load(std::memory_order_relaxed)) return;
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  const std::lock_guard lock(g_mutex);
  if (g_log) g_log(g_user, level, line);
}

}  // namespace talus
