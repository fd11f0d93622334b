// How many threads this process may use.
#pragma once
#include <optional>

namespace command {

struct Threads {
  int cores;                    // CPUs of the machine that are online
  int affinity;                 // CPUs that the process may run on
  std::optional<double> quota;  // CPUs' worth of time that its cgroup grants; absent: no limit
  int usable;                   // what follows from both
};

Threads usable_threads();

}  // namespace command
