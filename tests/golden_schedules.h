// The curves and reports of tests/golden/schedules*.json, which tools/golden/golden_file.py describes.
// No library here.
#pragma once
#include "tests/schedule_spec.h"

namespace talus::test {

struct GoldenCurve {
  std::string name, source;  // name: of the curve in messages
  ScheduleSpec schedule;
  double base = 0;
  double tolerance = 0;  // relative, of each value
  std::vector<int64_t> t;
  std::vector<double> value;
};

// A sequence of reports to a plateau schedule; vectors have an element for each.
struct GoldenReports {
  std::string name, source;
  ScheduleSpec schedule;
  double base = 0;
  std::vector<double> metric, value, best;
  std::vector<int64_t> bad, cooling;
};

// Throw where a file is not as described.
const std::vector<GoldenCurve>& golden_curves();
const std::vector<GoldenReports>& golden_reports();

}  // namespace talus::test
