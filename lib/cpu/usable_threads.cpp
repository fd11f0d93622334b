// How many processors this process may use, as the kernel says. Linux.
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "lib/cpu/chunk_runner.h"

namespace talus {
namespace {

struct CloseFile {
  void operator()(FILE* f) const { std::fclose(f); }
};
using File = std::unique_ptr<FILE, CloseFile>;

int affinity_count() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

// quota / period rounded up, or 0 for none. cgroup v2, then v1.
int quota_count() {
  long long quota = -1, period = 0;
  if (const File v2{std::fopen("/sys/fs/cgroup/cpu.max", "re")}) {
    if (std::fscanf(v2.get(), "%lld %lld", &quota, &period) != 2) quota = -1;  // "max 100000"
  } else {
    const File q{std::fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "re")};
    const File p{std::fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "re")};
    if (!q || !p || std::fscanf(q.get(), "%lld", &quota) != 1 ||
        std::fscanf(p.get(), "%lld", &period) != 1)
      quota = -1;
  }
  return quota > 0 && period > 0 ? int((quota + period - 1) / period) : 0;
}

}  // namespace

int usable_threads() {
  const int quota = quota_count();
  const int count = affinity_count();
  return std::clamp(quota > 0 ? std::min(quota, count) : count, 1, kMaxThreads);
}

}  // namespace talus
