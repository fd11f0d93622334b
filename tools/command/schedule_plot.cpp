#include "schedule_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "gnuplot.hpp"
#include "table.hpp"

namespace command {
namespace {

constexpr size_t kMostDots = 50;      // values that are marked one by one
constexpr size_t kMostSpans = 1000;   // 720 units are as wide as the picture is
constexpr size_t kTitleLength = 100;  // that much of it stands above the picture

// Indices to draw: all, or the first, least, greatest and last of each span.
std::vector<size_t> drawn(const std::vector<double>& values) {
  const size_t span = std::max<size_t>(1, (values.size() + kMostSpans - 1) / kMostSpans);
  std::vector<size_t> out;
  for (size_t start = 0; start < values.size(); start += span) {
    const auto begin = values.begin() + int64_t(start);
    const auto end = values.begin() + int64_t(std::min(start + span, values.size()));
    const auto [least, greatest] = std::minmax_element(begin, end);
    size_t of_span[] = {start, size_t(least - values.begin()), size_t(greatest - values.begin()),
                        size_t(end - values.begin()) - 1};
    std::sort(std::begin(of_span), std::end(of_span));
    out.insert(out.end(), std::begin(of_span), std::unique(std::begin(of_span), std::end(of_span)));
  }
  return out;
}

}  // namespace

std::string curve_script(const Curve& curve) {
  std::string text = fmt::format(
      "set title {}\nset xlabel {}\nset grid\nunset key\nplot '-' using 1:2 with {}\n",
      gnuplot_string(cut_end(curve.title, kTitleLength)), gnuplot_string(curve.x_name),
      curve.values.size() <= kMostDots ? "linespoints pointtype 7 pointsize 0.4" : "lines");
  for (const size_t i : drawn(curve.values))
    fmt::format_to(std::back_inserter(text), "{} {}\n", curve.from + int64_t(i), curve.values[i]);
  return text + "e\n";
}

}  // namespace command
