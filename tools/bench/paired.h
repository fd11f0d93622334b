// Pairs of roof and case: the method that keeps a shared machine from deciding.
//
// A sample is roof, case, roof, back to back. It is dropped when the process was preempted or when
// the two roofs differ; its ratio is the mean of the roofs over the case, and the result is the
// median of the kept ones. What is fast or slow about the machine in that minute is in all three.
#pragma once
#include <functional>
#include <vector>

namespace bench {

inline constexpr double kLeastCpuShare = 0.96;  // of threads x wall time; below: preempted
inline constexpr double kMostRoofSpread = 0.08;

struct Paired {
  std::function<void()> roof, work;
  int threads = 1;  // that both keep busy
  int repeats = 1;  // of each in a sample
  int pairs = 7;    // wanted
  double seconds = 30;
  std::function<void(int kept, int tried)> progress;
};

// In seconds for one repetition; NaN where nothing was kept, infinity where nothing was tried.
struct PairedResult {
  double ratio, roof_seconds, work_seconds;       // medians of the kept samples
  double least_roof_seconds, least_work_seconds;  // of all samples
  int kept = 0, tried = 0;
};

PairedResult measure_pairs(const Paired& paired);

// How often to repeat so that a sample is long enough to be timed: it runs both once.
int repeats_for(const Paired& paired, int least);

double wall_seconds();
double median(std::vector<double> values);  // NaN of none

}  // namespace bench
