// A schedule as data: what golden files, random draws and the reference have of it. No library here.
#pragma once
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace talus::test {

struct ScheduleSpec {
  std::string kind;
  std::map<std::string, double> params = {};  // what differs from the defaults
  std::vector<int64_t> milestones = {};
  std::vector<ScheduleSpec> pieces = {};
  std::string function = "";  // of schedule_functions
};

// The functions of lambda and multiplicative, by name. Exact but for one rounding.
using ScheduleFunction = double (*)(void*, int64_t t);

inline const std::map<std::string, ScheduleFunction>& schedule_functions() {
  static const std::map<std::string, ScheduleFunction> functions = {
      {"1 / (t + 1)", [](void*, int64_t t) { return 1 / (double(t) + 1); }},
      {"0.95 at odd t, else 0.9", [](void*, int64_t t) { return t % 2 != 0 ? 0.95 : 0.9; }},
      {"1 + t / 4", [](void*, int64_t t) { return 1 + double(t) / 4; }},
      {"-1", [](void*, int64_t) { return -1.0; }},
      {"NaN from 3 on",
       [](void*, int64_t t) { return t < 3 ? 1 : std::numeric_limits<double>::quiet_NaN(); }},
      {"infinity", [](void*, int64_t) { return std::numeric_limits<double>::infinity(); }},
  };
  return functions;
}

inline std::string text_of(const ScheduleSpec& spec) {
  std::string text = spec.kind + "(";
  for (const auto& [name, value] : spec.params) {
    char number[40];
    std::snprintf(number, sizeof number, "%.17g", value);
    text += name + " " + number + ", ";
  }
  for (const int64_t m : spec.milestones) text += std::to_string(m) + ", ";
  for (const ScheduleSpec& piece : spec.pieces) text += text_of(piece) + ", ";
  return text + spec.function + ")";
}

}  // namespace talus::test
