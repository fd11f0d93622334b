// The process-wide log hook. Silent until a host sets one.
#pragma once
#include <talus.h>

namespace talus {

void set_log(talus_log log, int32_t level, void* user);
[[gnu::format(printf, 2, 3)]] void log_line(int32_t level, const char* format, ...);

}  // namespace talus
