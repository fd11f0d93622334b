// How many threads this process may use, from its affinity mask and cgroup (Linux; elsewhere the
// count of CPUs).
#include "threads.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>

#ifdef __linux__
#include <sched.h>
#include <unistd.h>
#endif

namespace command {
namespace {

int core_count() {
#ifdef __linux__
  if (const long online = sysconf(_SC_NPROCESSORS_ONLN); online > 0) return int(online);
#endif
  return int(std::max(1u, std::thread::hardware_concurrency()));
}

int affinity_count() {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  return std::max(1u, std::thread::hardware_concurrency());
}

// cgroup v2: "max 100000" or "200000 100000", quota and period in microseconds.
std::optional<double> quota_v2(const std::string& folder) {
  std::ifstream file("/sys/fs/cgroup" + folder + "/cpu.max");
  double quota = 0, period = 0;
  if (!(file >> quota >> period) || period <= 0) return std::nullopt;  // "max" is no number
  return quota / period;
}

std::optional<double> quota_v1(const std::string& folder) {
  const std::string path = "/sys/fs/cgroup/cpu" + folder;
  std::ifstream quota_file(path + "/cpu.cfs_quota_us"), period_file(path + "/cpu.cfs_period_us");
  double quota = 0, period = 0;
  if (!(quota_file >> quota) || !(period_file >> period) || quota <= 0 || period <= 0)
    return std::nullopt;
  return quota / period;
}

// The tightest limit from the process's own cgroup up to the root.
std::optional<double> cgroup_quota() {
  std::ifstream groups("/proc/self/cgroup");
  std::optional<double> tightest;
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    line[first] = line[second] = ',';  // ",cpu,cpuacct," whatever the order of controllers
    const bool v2 = second == first + 1;
    if (!v2 && line.find(",cpu,") > second) continue;
    std::string folder = line.substr(second + 1);
    for (;;) {
      if (folder == "/") folder.clear();
      const auto quota = v2 ? quota_v2(folder) : quota_v1(folder);
      if (quota && (!tightest || *quota < *tightest)) tightest = quota;
      if (folder.empty()) break;
      folder.erase(folder.rfind('/') == std::string::npos ? 0 : folder.rfind('/'));
    }
  }
  return tightest;
}

}  // namespace

Threads usable_threads() {
  Threads threads{core_count(), affinity_count(), cgroup_quota(), 0};
  threads.usable = threads.affinity;
  if (threads.quota) threads.usable = std::min(threads.usable, int(std::ceil(*threads.quota)));
  threads.usable = std::max(threads.usable, 1);
  return threads;
}

}  // namespace command
