#include "tools/bench/memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <new>
#include <string>

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace bench {
namespace {

constexpr uint64_t kHugePage = uint64_t{2} << 20;
constexpr uint64_t kCacheGuess = uint64_t{32} << 20;

}  // namespace

void* allocate_huge(uint64_t bytes) {
  if (bytes > uint64_t(std::numeric_limits<int64_t>::max())) return nullptr;
  bytes = std::max<uint64_t>((bytes + kHugePage - 1) / kHugePage, 1) * kHugePage;
  void* data = std::aligned_alloc(kHugePage, bytes);
#ifdef __linux__
  if (data) madvise(data, bytes, MADV_HUGEPAGE);  // a refusal costs 1-3 %, of roof and case alike
#endif
  return data;
}

HugeMemory huge_memory(uint64_t bytes) {
  HugeMemory data(static_cast<char*>(allocate_huge(bytes)));
  if (!data) throw std::bad_alloc();
  return data;
}

std::optional<uint64_t> available_bytes() {
  std::ifstream file("/proc/meminfo");
  uint64_t kib = 0;
  for (std::string word; file >> word;)
    if (word == "MemAvailable:" && file >> kib) return kib * 1024;
  return std::nullopt;
}

uint64_t cache_bytes() {
#ifdef _SC_LEVEL3_CACHE_SIZE
  if (const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE); bytes > 0) return uint64_t(bytes);
#endif
  return kCacheGuess;
}

}  // namespace bench
