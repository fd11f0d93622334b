// The cases of tests/golden/<rule>.json, which tools/golden/golden_file.py describes. No library here.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace talus::test {

struct GoldenRows {
  std::vector<int64_t> rows;
  std::vector<double> values;  // row after row
};

struct GoldenCase {
  std::string rule, name;  // of the file; of the case in messages
  std::string source, algorithm;
  std::vector<std::pair<std::string, double>> hypers;  // what differs from the defaults
  std::vector<std::string> needs;  // hyperparameters without which the case is left out
  double tolerance = 0;            // 0: to the last bit; else relative, of each element
  std::vector<int64_t> shape;
  std::vector<double> p0;
  std::vector<std::vector<double>> gradients;  // one a step; or rows
  std::vector<GoldenRows> rows;
  std::map<size_t, std::vector<double>> p;           // after some steps, counted from 1
  std::map<std::string, std::vector<double>> state;  // after the last one
  std::vector<std::string> unlisted;                 // slots that the source does not tell

  bool has_rows() const { return !rows.empty(); }
  size_t steps() const { return has_rows() ? rows.size() : gradients.size(); }
};

// Every case of every file, files by name. Throws where a file is not as described.
const std::vector<GoldenCase>& golden_cases();

// "" or the first element that is not what a case wants of it.
std::string golden_difference(const std::string& what, const std::vector<double>& got,
                              const std::vector<double>& want, double tolerance);

}  // namespace talus::test
