// Loops that a host may bring, and how often each chunk of a run was run.
#pragma once
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "lib/cpu/chunk_runner.h"

namespace talus::test {

inline void run_forward(void*, int64_t count, talus_task task, void* context) {
  for (int64_t i = 0; i < count; ++i) task(context, i);
}
inline void run_reversed(void*, int64_t count, talus_task task, void* context) {
  for (int64_t i = count - 1; i >= 0; --i) task(context, i);
}
inline void run_on_threads(void*, int64_t count, talus_task task, void* context) {
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < count; ++i) threads.emplace_back(task, context, i);
  for (std::thread& t : threads) t.join();
}

struct Host {
  const char* name;
  talus_parallel_for loop;
};
inline constexpr Host kHosts[] = {{"own threads", nullptr},
                                  {"host forward", run_forward},
                                  {"host reversed", run_reversed},
                                  {"host threads", run_on_threads}};

struct Tally {
  std::vector<std::atomic<int>> times;
  std::atomic<int> outside{0};

  explicit Tally(int64_t chunks) : times(size_t(chunks)) {}
  static void body(void* context, int64_t chunk) {
    Tally& t = *static_cast<Tally*>(context);
    if (chunk < 0 || chunk >= int64_t(t.times.size()))
      ++t.outside;
    else
      ++t.times[size_t(chunk)];
  }
  // "" if each chunk ran exactly `want` times.
  std::string fault(int want = 1) const {
    if (outside != 0) return "chunks outside ran " + std::to_string(outside) + " times";
    for (size_t c = 0; c < times.size(); ++c)
      if (times[c] != want)
        return "chunk " + std::to_string(c) + " ran " + std::to_string(times[c]) + " times, want " +
               std::to_string(want);
    return "";
  }
};

inline std::string run_fault(ChunkRunner& runner, int64_t chunks, int64_t serial_below = 0) {
  Tally tally(chunks);
  runner.run(chunks, serial_below, Tally::body, &tally);
  return tally.fault();
}

}  // namespace talus::test
