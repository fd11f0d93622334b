// `talus bench`: the command line and the output; what is measured is in bench.cpp.
#include "tools/command/command.hpp"
#include "tools/command/table.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <memory>

#include "tools/bench/bench.h"
#include "tools/bench/plot.h"

namespace command {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  bench::Options options;
  bool json = false;
  std::string plot_file;
};

Json number_or_null(double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); }

Json row_json(const bench::Row& row) {
  return {{"preset", row.preset},
          {"rule", row.rule},
          {"param", row.param},
          {"grad", row.grad},
          {"master", row.master},
          {"state", row.state},
          {"check", row.check},
          {"threads", row.threads},
          {"ns_per_param", number_or_null(row.ns_per_param)},
          {"gb_per_s", number_or_null(row.gb_per_s)},
          {"roof_gb_per_s", number_or_null(row.roof_gb_per_s)},
          {"stream_gb_per_s", number_or_null(row.stream_gb_per_s)},
          {"ratio", number_or_null(row.ratio)},
          {"ns_per_tensor", number_or_null(row.ns_per_tensor)},
          {"ns_per_tensor_least", number_or_null(row.ns_per_tensor_least)},
          {"pairs_kept", row.pairs_kept},
          {"pairs_tried", row.pairs_tried},
          {"established", row.established()}};
}

std::string cell(double x, const char* format) {
  return std::isfinite(x) ? fmt::format(fmt::runtime(format), x) : "-";
}

std::string format_rows(const std::vector<bench::Row>& rows) {
  std::vector<std::vector<std::string>> cells = {{"preset", "rule", "p/g/master", "thr", "ns/param",
                                                  "GB/s", "roof", "stream", "ratio", "ns/tensor",
                                                  "pairs"}};
  for (const bench::Row& row : rows) {
    const std::string pairs = fmt::format("{} of {}", row.pairs_kept, row.pairs_tried);
    const std::string rule = row.check == "none" ? row.rule : row.rule + " + " + row.check;
    cells.push_back({row.preset, rule, fmt::format("{}/{}/{}", row.param, row.grad, row.master),
                     fmt::format("{}", row.threads), cell(row.ns_per_param, "{:.4f}"),
                     cell(row.gb_per_s, "{:.1f}"), cell(row.roof_gb_per_s, "{:.1f}"),
                     cell(row.stream_gb_per_s, "{:.1f}"), cell(row.ratio, "{:.3f}"),
                     cell(row.ns_per_tensor, "{:.4g}"),
                     row.established() ? pairs : pairs + " not established"});
  }
  return format_table(cells);
}

// One line that rewrites itself, on a terminal only.
class Progress {
 public:
  void show(const std::string& text) const {
    if (on_) fmt::print(stderr, "\r\033[K{}", text);
  }
  ~Progress() { show(""); }

 private:
  bool on_ = isatty(STDERR_FILENO) != 0;
};

int verdict(const std::vector<bench::Row>& rows) {
  int code = kOk;
  for (const bench::Row& row : rows)
    if (!row.established()) code = kNotEstablished;
  for (const bench::Row& row : rows) {
    if (row.fault.empty()) continue;
    fmt::print(stderr, "talus: bench {}: {}\n", row.preset, row.fault);
    code = kFailure;
  }
  return code;
}

int run(Arguments arguments) {
  if (!arguments.options.norm)
    rule_of(arguments.options.rule);  // the library's own words if unknown
  std::vector<bench::Row> rows;
  {
    const Progress progress;
    arguments.options.progress = [&](const std::string& text) { progress.show(text); };
    rows = bench::run(arguments.options);
  }
  if (arguments.json) {
    Json list = Json::array();
    for (const bench::Row& row : rows) list.push_back(row_json(row));
    fmt::print("{}\n", list.dump(2));
  } else {
    fmt::print("{}", format_rows(rows));
  }
  if (!arguments.plot_file.empty())
    if (const std::string reason = bench::plot(rows, arguments.plot_file); !reason.empty())
      fmt::print(stderr, "talus: bench: SKIPPED: {} is not drawn: {}\n", arguments.plot_file,
                 reason);
  return verdict(rows);
}

constexpr const char* kFooter =
    "A sample is roof, case, roof: the roof reads and writes what the rule does, with one cheap\n"
    "operation per store, over the same memory, plan and threads. ratio = roof time / case time, "
    "the\n"
    "median of the kept samples. Dropped: preempted, or the two roofs differ by more than 8 %.\n"
    "stream is the better of memcpy and a triad in the same run (with --norm, of what they read);\n"
    "'-' if the case may lie in the cache. Bytes are read + written. A ratio above 1 is noise.\n"
    "A check and a clip read the gradients once more, once for both, and so does their roof.\n"
    "A rule that takes gradients of rows alone is given 1 % of the rows of each tensor, others "
    "each\n"
    "time, and its ratio is case time / time of a dense step of adam over tensors of that shape.\n"
    "Example: talus bench --preset gpt2 --preset resnet50 --param bf16 --threads 2\n"
    "Exit codes: 0 success; 1 unknown preset or rule, no room in memory, or a roof under 0.9 of\n"
    "the stream; 2 wrong usage; 3 not established: fewer than 5 pairs kept in the time allowed.";

}  // namespace

Command add_bench(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  bench::Options& options = arguments->options;
  const CLI::IsMember dtypes({"f32", "bf16", "f16", "f64"});
  CLI::App* line =
      app.add_subcommand("bench", "Measures steps on tensor lists of real models against a roof");
  line->add_option("--preset", options.presets,
                   "Whose tensors; more than once for more rows (default gpt2)")
      ->allow_extra_args(false);
  line->add_option("--preset-dir", options.preset_dirs, "Where else presets lie, as NAME.json")
      ->allow_extra_args(false);
  line->add_option("--rule", options.rule, "An algorithm or alias")->capture_default_str();
  line->add_option("--param", options.param, "Dtype of the parameters")
      ->check(dtypes)
      ->capture_default_str();
  line->add_option("--grad", options.grad, "Dtype of the gradients (default: of the parameters)")
      ->check(dtypes);
  line->add_option("--master", options.master, "Master copy of 16-bit parameters")
      ->check(CLI::IsMember({"auto", "none", "f32"}))
      ->capture_default_str();
  line->add_option("--threads", options.threads, "Threads of a step")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  line->add_option("--pairs", options.pairs, "Samples to keep")
      ->check(CLI::Range(bench::kLeastPairs, 10000))
      ->capture_default_str();
  line->add_option("--seconds", options.seconds, "Most time for the samples of a row")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  line->add_flag("--norm", options.norm,
                 "The norm of the gradients against a read of them, instead of a step");
  line->add_flag("--check-finite", options.check_finite,
                 "With a loss scaler: gradients are scaled back and checked");
  line->add_option("--max-grad-norm", options.max_grad_norm,
                   "Clip the norm of all gradients; 0: off")
      ->check(CLI::NonNegativeNumber);
  line->add_flag("--json", arguments->json, "Print JSON, a list of rows");
  line->add_option("--plot", arguments->plot_file, "Draw the ratio of each preset as SVG");
  line->footer(kFooter);
  return {line, [arguments] { return run(*arguments); }};
}

}  // namespace command
