#include "tools/bench/plot.h"

#include <fmt/format.h>

#include <cmath>

#include "tools/command/gnuplot.hpp"

namespace bench {
namespace {

std::string script(const std::vector<Row>& rows) {
  std::string text = fmt::format(
      "set style fill solid 0.6\n"
      "set boxwidth 0.6\nset yrange [0:1.2]\nset ylabel 'ratio to the paired roof'\n"
      "set grid ytics\nunset key\nset title {}\nplot '-' using 0:2:xtic(1) with boxes, 1 lt -1\n",
      command::gnuplot_string(fmt::format("{}, {}/{}, {} thread(s); no bar: not established",
                                          rows[0].rule, rows[0].param, rows[0].grad,
                                          rows[0].threads)));
  for (const Row& row : rows)
    text += fmt::format("\"{}\" {:.3f}\n", row.preset, std::isnan(row.ratio) ? 0.0 : row.ratio);
  return text + "e\n";
}

}  // namespace

std::string plot(const std::vector<Row>& rows, const std::string& file) {
  return command::draw_svg(script(rows), file);
}

}  // namespace bench
