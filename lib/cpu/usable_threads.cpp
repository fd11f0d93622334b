// How many processors this process may use, as the kernel says. Linux.
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "lib/cpu/chunk_runner.h"

namespace talus {
namespace {

constexpr int kNoQuota = kMaxThreads;

struct CloseFile {
  void operator()(FILE* f) const { std::fclose(f); }
};
using File = std::unique_ptr<FILE, CloseFile>;

int affinity_count() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

// quota / period rounded up; both in microseconds.
int processors(long long quota, long long period) {
  if (quota <= 0 || period <= 0) return kNoQuota;
  return int(std::min<long long>((quota + period - 1) / period, kNoQuota));
}

// "max 100000" or "150000 100000" (cgroup v2).
int quota_of(const std::string& folder) {
  const File file{std::fopen((folder + "/cpu.max").c_str(), "re")};
  long long quota = 0, period = 0;
  if (!file || std::fscanf(file.get(), "%lld %lld", &quota, &period) != 2) return kNoQuota;
  return processors(quota, period);
}

// This process's own group in cgroup v2, "/" if that cannot be told.
std::string own_group() {
  const File file{std::fopen("/proc/self/cgroup", "re")};
  char line[4096];
  while (file && std::fgets(line, sizeof line, file.get()))
    if (std::strncmp(line, "0::/", 4) == 0)
      return std::string(line + 3, std::strcspn(line + 3, "\n"));
  return "/";
}

int quota_v1() {
  const File q{std::fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "re")};
  const File p{std::fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "re")};
  long long quota = 0, period = 0;
  if (!q || !p || std::fscanf(q.get(), "%lld", &quota) != 1 ||
      std::fscanf(p.get(), "%lld", &period) != 1)
    return kNoQuota;
  return processors(quota, period);
}

// The tightest quota from the own group up to the root.
int quota_count() {
  std::string group = own_group();
  int tightest = std::min(quota_v1(), quota_of("/sys/fs/cgroup"));
  for (; group.size() > 1; group.erase(group.rfind('/')))
    tightest = std::min(tightest, quota_of("/sys/fs/cgroup" + group));
  return tightest;
}

}  // namespace

int usable_threads() {
  return std::clamp(std::min(affinity_count(), quota_count()), 1, kMaxThreads);
}

}  // namespace talus
