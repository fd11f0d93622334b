#include "tools/bench/paired.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace bench {
namespace {

constexpr double kSampleSeconds = 0.005;  // 1000 times the cost of reading the clocks
constexpr int kMostRepeats = 1'000'000;

double clock_seconds(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

struct Timed {
  double seconds;  // of one repetition
  bool undisturbed;
};

Timed time_repeats(const std::function<void()>& function, const Paired& paired) {
  const double cpu = clock_seconds(CLOCK_PROCESS_CPUTIME_ID), wall = wall_seconds();
  for (int i = 0; i < paired.repeats; ++i) function();
  const double seconds = wall_seconds() - wall;
  const double used = clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  return {seconds / paired.repeats, used >= kLeastCpuShare * paired.threads * seconds};
}

}  // namespace

double wall_seconds() { return clock_seconds(CLOCK_MONOTONIC); }

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int repeats_for(const Paired& paired, int least) {
  paired.roof();
  paired.work();
  const double start = wall_seconds();
  paired.work();
  const double once = std::max(wall_seconds() - start, 1e-9);
  return std::clamp(int(std::min(kSampleSeconds / once, double(kMostRepeats))) + 1, least,
                    kMostRepeats);
}

PairedResult measure_pairs(const Paired& paired) {
  constexpr double kUnseen = std::numeric_limits<double>::infinity();
  PairedResult result{0, 0, 0, kUnseen, kUnseen, 0, 0};
  std::vector<double> ratios, roofs, works;
  const double start = wall_seconds();
  while (result.kept < paired.pairs && wall_seconds() - start < paired.seconds) {
    const Timed before = time_repeats(paired.roof, paired);
    const Timed work = time_repeats(paired.work, paired);
    const Timed after = time_repeats(paired.roof, paired);
    ++result.tried;
    result.least_roof_seconds =
        std::min({result.least_roof_seconds, before.seconds, after.seconds});
    result.least_work_seconds = std::min(result.least_work_seconds, work.seconds);
    const double spread = std::abs(before.seconds - after.seconds);
    const double roof = (before.seconds + after.seconds) / 2;
    if (before.undisturbed && work.undisturbed && after.undisturbed &&
        spread <= kMostRoofSpread * std::min(before.seconds, after.seconds)) {
      ratios.push_back(roof / work.seconds);
      roofs.push_back(roof);
      works.push_back(work.seconds);
      ++result.kept;
    }
    if (paired.progress) paired.progress(result.kept, result.tried);
  }
  result.ratio = median(ratios);
  result.roof_seconds = median(roofs);
  result.work_seconds = median(works);
  return result;
}

}  // namespace bench
