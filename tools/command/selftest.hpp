// The checks of `talus selftest`.
#pragma once
#include <string>
#include <vector>

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

// Parameters and state have the same bits for 1 to 4 threads and for a host's own loop run
// backwards, in every mix of dtypes; gradients are not written. `name` may be an alias.
void check_bits(const std::string& name, Outcome& outcome);

// Three steps of two f64 elements give the values of the formula sheet, to the last bit. Rules
// without a case have no check here.
void check_worked_values(const std::string& name, Outcome& outcome);

}  // namespace command
