// What the host keeps of steps that a device decides on: how many are under way, who took part, and what
// is known of the last one. No calls of a backend here.
#pragma once
#include <cstdint>
#include <vector>

#include "lib/table/step_order.h"

namespace talus {

struct Orders {
  // Rows ahead are for one step more than are under way, and each has a report.
  static constexpr int64_t kMostUnderWay = 15;

  StepControl* control = nullptr;  // on the device
  int64_t call = 0;                // of the last step that was ordered
  int64_t under_way = 0;           // of the last ones, whose end is not known: counted as applied
  int64_t told_fault = 0;          // call
  StepControl last;                // as the newest report has it

  // Of the steps under way: the same for all of them.
  std::vector<uint8_t> members;  // by parameter, 1: has a gradient
  int64_t member_count = 0;
  int64_t moves = -1;  // of the classes, when they were noted
};

// What a captured step consists of; another one needs another graph.
struct StepShape {
  bool ordered = false, norm = false, check = false, total = false, cuts = false;
  double norm_type = 2, check_type = 2;  // of what is measured

  bool operator==(const StepShape&) const = default;
};

}  // namespace talus
