#include "tools/bench/plot.h"

#include <fmt/format.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace bench {
namespace {

// As a gnuplot string in single quotes.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

std::string script(const std::vector<Row>& rows, const std::string& file) {
  std::string text = fmt::format(
      "set terminal svg size 720,420 noenhanced\nset output {}\nset style fill solid 0.6\n"
      "set boxwidth 0.6\nset yrange [0:1.2]\nset ylabel 'ratio to the paired roof'\n"
      "set grid ytics\nunset key\nset title {}\nplot '-' using 0:2:xtic(1) with boxes, 1 lt -1\n",
      quoted(file),
      quoted(fmt::format("{}, {}/{}, {} thread(s); no bar: not established", rows[0].rule,
                         rows[0].param, rows[0].grad, rows[0].threads)));
  for (const Row& row : rows)
    text += fmt::format("\"{}\" {:.3f}\n", row.preset, std::isnan(row.ratio) ? 0.0 : row.ratio);
  return text + "e\n";
}

}  // namespace

std::string plot(const std::vector<Row>& rows, const std::string& file) {
  if (std::system("gnuplot --version >/dev/null 2>&1") != 0) return "gnuplot was not found";
  std::FILE* gnuplot = popen("gnuplot", "w");
  if (!gnuplot) return "gnuplot could not be started";
  const std::string text = script(rows, file);
  std::fwrite(text.data(), 1, text.size(), gnuplot);
  return pclose(gnuplot) == 0 ? "" : "gnuplot failed";
}

}  // namespace bench
