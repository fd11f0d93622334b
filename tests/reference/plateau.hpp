// ReduceLROnPlateau as PyTorch defines it, in its doubles. No library here.
#pragma once
#include <algorithm>
#include <limits>

#include "tests/schedule_spec.h"

namespace talus::reference {

class Plateau {
 public:
  Plateau(const test::ScheduleSpec& spec, double base) : p_(spec.params), value(base) {
    if (is_max()) best = -best;
  }

  void report(double a) {
    if (is_better(a))
      best = a, bad = 0;
    else
      bad += 1;
    if (cooling > 0) cooling -= 1, bad = 0;
    if (!(bad > get("patience", 10))) return;
    const double fallen = std::max(value * get("factor", 0.1), get("min_value", 0));
    if (value - fallen > get("eps", 1e-8)) value = fallen;
    cooling = int64_t(get("cooldown", 0));
    bad = 0;
  }

 private:
  double get(const char* name, double otherwise) const {
    const auto found = p_.find(name);
    return found == p_.end() ? otherwise : found->second;
  }
  bool is_max() const { return get("mode", 0) == 1; }
  bool is_better(double a) const {
    const double threshold = get("threshold", 1e-4);
    const bool absolute = get("threshold_mode", 0) == 1;
    if (is_max()) return a > (absolute ? best + threshold : best * (threshold + 1));
    return a < (absolute ? best - threshold : best * (1 - threshold));
  }

  std::map<std::string, double> p_;

 public:
  double best = std::numeric_limits<double>::infinity(), value;
  double bad = 0;
  int64_t cooling = 0;
};

}  // namespace talus::reference
