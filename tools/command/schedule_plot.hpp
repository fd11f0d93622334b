// The values of a schedule as a gnuplot script.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace command {

struct Curve {
  std::string title, x_name;
  int64_t from = 0;  // x of the first value
  std::vector<double> values;
};

// Of many values no more than a picture shows, every peak and dip among them.
std::string curve_script(const Curve& curve);

}  // namespace command
