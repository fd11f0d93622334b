// The ratio of each preset as a picture; needs gnuplot.
#pragma once
#include <string>
#include <vector>

#include "tools/bench/bench.h"

namespace bench {

// Writes an SVG. Returns the reason where it cannot, else "".
std::string plot(const std::vector<Row>& rows, const std::string& file);

}  // namespace bench
