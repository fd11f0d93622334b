// The parts of `talus selftest`, each blind to the report that is made of them.
#pragma once
#include <utility>
#include <string>
#include <vector>

#include "dtype_mixes.hpp"

namespace command {

struct Outcome {
  int checks = 0;
  std::vector<std::string> failures;  // each says what differed, where, and both values in hex

  // Counts one check; an empty difference means that it passed.
  void add(const std::string& difference) {
    ++checks;
    if (!difference.empty()) failures.push_back(difference);
  }
};

// One way to set up an algorithm or alias, so that all kernels of the rule run.
struct Setup {
  std::string algorithm, what;  // "adamw", "amsgrad, maximize"
  std::vector<std::pair<std::string, double>> values;
  // Another flag of what is run in full: two ways of cutting and sharing suffice.
  bool brief = false;
};
std::vector<Setup> all_setups();
// Only of these, if this is said before all else here.
void leave_out_all_but(const std::vector<std::string>& algorithms);

// Runs one setup on 1 thread, which gives what is returned, and then on other counts of threads,
// in other chunks and in a host's own loop, which must all leave the same bits. `outcome` NULL: the
// first alone.
Buffers run_everywhere(const Setup& setup, Outcome* outcome);
inline constexpr int kThreadCounts[] = {1, 2, 3, 8};
inline constexpr int kChunkTiles[] = {1, 4, 7};  // of 4,096 elements

// Three steps of two f64 elements give the values of the formula sheet, to the last bit. Rules
// without a case have no check here.
void check_worked_values(const std::string& name, Outcome& outcome);

// Runs all setups on a CUDA device, in chunks of several sizes, and compares them with the CPU.
// Throws talus::Error where there is no such device.
Outcome check_device(int32_t device);

// What one target makes of one setup.
struct TargetResult {
  Outcome outcome;
  Buffers buffers;
};

// A process of its own that runs all setups, in order, on one CPU target: the library chooses its
// target once in a process. Start all before this process has created an optimizer.
class TargetRun {
 public:
  // The results alone, without the checks of threads and chunks, unless `checked`.
  TargetRun(const std::string& target, bool checked);
  TargetRun(TargetRun&& other) noexcept;
  ~TargetRun();

  // Waits for the next setup's. Throws std::runtime_error with the reason if the process ended.
  TargetResult next();

 private:
  std::string how_it_ended();

  std::string target_;
  int process_, pipe_;
};

}  // namespace command
