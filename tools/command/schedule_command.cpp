// `talus schedule`: the values that a schedule gives, as a table with a plot, JSON or a picture.
#include "command.hpp"
#include "gnuplot.hpp"
#include "schedule_plot.hpp"
#include "schedule_spec.hpp"
#include "table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <limits>
#include <memory>

namespace command {
namespace {

constexpr int64_t kMostValues = 10'000'000;
constexpr size_t kTableRows = 11;  // the first, the last, and in tenths between them
constexpr size_t kPlotHeight = 20;

struct Options {
  std::string kind, base = "1", steps, from = "0", milestones, metrics_file, plot_file;
  std::vector<std::string> settings, children;
  bool has_milestones = false, json = false;
};

// The options as read.
struct Request {
  ScheduleSpec spec;
  double base = 1;
  int64_t from = 0, count = kMostValues;
};

// ---- the command line

int64_t read_count(const char* option, const std::string& text, int64_t least, int64_t most) {
  int64_t count = 0;
  if (!read_integer(text, &count) || count < least || count > most)
    throw WrongUsage(
        fmt::format("{}: \"{}\", expected an integer in {} .. {}", option, text, least, most));
  return count;
}

// Says which child it is that something is wrong with.
template <class F>
auto of_child(size_t i, const std::string& text, F call) {
  const auto place = [&] {
    return fmt::format("--child {}, \"{}\"", i + 1, cut_end(printable(text), kLineWidth));
  };
  try {
    return call();
  } catch (const talus::Error& error) {
    throw talus::Error(error.code(), fmt::format("{}: {}", place(), error.what()));
  } catch (const WrongUsage& error) {
    throw WrongUsage(fmt::format("{}: {}", place(), error.what()));
  }
}

ScheduleSpec read_spec(const Options& options) {
  ScheduleSpec spec{options.kind, options.settings, {}};
  if (options.has_milestones) spec.settings.push_back("milestones=" + options.milestones);
  for (size_t i = 0; i < options.children.size(); ++i) {
    const std::string& text = options.children[i];
    spec.pieces.push_back(of_child(i, text, [&] { return parse_piece(text); }));
  }
  return spec;
}

Request read_request(const Options& options) {
  Request request;
  request.spec = read_spec(options);
  if (!read_number(options.base, &request.base))
    throw WrongUsage(fmt::format("--base: \"{}\" is not a number", options.base));
  const bool follows = has_plateau(request.spec), given = !options.metrics_file.empty();
  if (follows && !given)
    throw WrongUsage("a plateau follows reported metrics, expected --metrics FILE");
  if (!follows && given)
    throw WrongUsage(
        fmt::format("--metrics: {} follows no metrics, expected a plateau, or a "
                    "chain that ends in one",
                    options.kind));
  if (options.steps.empty() && !follows) throw WrongUsage("--steps is missing");
  if (!options.steps.empty()) request.count = read_count("--steps", options.steps, 1, kMostValues);
  const int64_t most = std::numeric_limits<int64_t>::max() - (request.count - 1);
  request.from = read_count("--from", options.from, 0, most);
  return request;
}

// As make_schedule, which does not know of options.
talus::Schedule make(const Options& options, const ScheduleSpec& spec) {
  talus::Schedule whole = make_schedule({spec.kind, spec.settings, {}});
  for (size_t i = 0; i < spec.pieces.size(); ++i)
    of_child(i, options.children[i], [&] { whole.add(make_schedule(spec.pieces[i])); });
  return whole;
}

// ---- values

std::vector<double> read_metrics(std::istream& in, const std::string& name) {
  std::vector<double> metrics;
  int64_t number = 0;
  for (std::string line; ++number, std::getline(in, line);) {
    line.erase(std::min(line.find('#'), line.size()));
    constexpr const char* kSpaces = " \t\r\v\f";
    line.erase(0, std::min(line.find_first_not_of(kSpaces), line.size()));
    line.erase(line.find_last_not_of(kSpaces) + 1);
    if (line.empty()) continue;
    if (!read_number(line, &metrics.emplace_back()))
      throw std::runtime_error(fmt::format("schedule: {}, line {}: \"{}\" is not a number", name,
                                           number, cut_end(printable(line), kLineWidth)));
    if (int64_t(metrics.size()) > kMostValues)
      throw std::runtime_error(
          fmt::format("schedule: {}: more than {} metrics", name, kMostValues));
  }
  if (in.bad()) throw std::runtime_error(fmt::format("schedule: {} cannot be read", name));
  return metrics;
}

std::vector<double> read_metrics(const std::string& file) {
  if (file == "-") return read_metrics(std::cin, "standard input");
  errno = 0;
  std::ifstream in(file);
  if (!in) throw std::runtime_error(fmt::format("schedule: {}: {}", file, std::strerror(errno)));
  return read_metrics(in, file);
}

// Values of t = from on, which is also the count of reports before them: those of lr of an optimizer
// without parameters.
std::vector<double> reported_values(const talus::Schedule& schedule, const Request& request,
                                    const std::vector<double>& metrics) try {
  const int64_t reports = int64_t(metrics.size());
  if (request.from > reports)
    throw WrongUsage(fmt::format("--from: {}, but there are {} reports", request.from, reports));
  talus::Optimizer optimizer("sgd", {{"lr", request.base}});
  optimizer.attach("lr", schedule, TALUS_ALL, TALUS_CLOCK_MANUAL);
  std::vector<double> values;
  const int64_t last = request.from + std::min(request.count - 1, reports - request.from);
  for (int64_t t = 0; t <= last; ++t) {
    if (t > 0) optimizer.observe(metrics[size_t(t - 1)]);
    optimizer.set_clock(t);
    if (t >= request.from) values.push_back(optimizer.value_now("lr"));
  }
  return values;
} catch (const talus::Error& error) {
  throw talus::Error(error.code(), fmt::format("a plateau is tried as an lr: {}", error.what()));
}

std::vector<double> pure_values(const talus::Schedule& schedule, const Request& request) {
  std::vector<double> values(static_cast<size_t>(request.count));
  int64_t t = request.from;
  for (double& value : values) value = schedule.value(request.base, t++);
  return values;
}

Curve curve_of(const Options& options) {
  const Request request = read_request(options);
  const talus::Schedule schedule = make(options, request.spec);
  const bool follows = has_plateau(request.spec);
  return {fmt::format("{}, base {}", spec_text(request.spec), request.base),
          follows ? "reports" : "t", request.from,
          follows ? reported_values(schedule, request, read_metrics(options.metrics_file))
                  : pure_values(schedule, request)};
}

// ---- output

// The shortest that is read as the same double, and not as an integer.
std::string number_json(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

void print_json(const std::vector<double>& values) {
  fmt::print("{{\"values\": [");
  for (size_t i = 0; i < values.size(); ++i)
    fmt::print("{}{}", i == 0 ? "" : ", ", number_json(values[i]));
  fmt::print("]}}\n");
}

void print_text(const Curve& curve) {
  std::string reason;
  const size_t width = std::min(terminal_width(), kLineWidth);
  fmt::print("{}", draw_text(curve_script(curve), width, kPlotHeight, &reason));
  if (!reason.empty())
    fmt::print(stderr, "talus: schedule: SKIPPED: the curve is not drawn: {}\n", reason);
  std::vector<std::vector<std::string>> rows = {{curve.x_name, "value"}};
  const size_t last = curve.values.size() - 1, parts = std::min(kTableRows - 1, last);
  for (size_t i = 0; i <= parts; ++i) {
    const size_t at = parts == 0 ? 0 : last * i / parts;
    rows.push_back(
        {fmt::format("{}", curve.from + int64_t(at)), fmt::format("{}", curve.values[at])});
  }
  fmt::print("{}", format_table(rows));
}

int run(const Options& options) try {
  const Curve curve = curve_of(options);
  if (!options.plot_file.empty())
    if (const std::string reason = draw_svg(curve_script(curve), options.plot_file);
        !reason.empty())
      throw std::runtime_error(
          fmt::format("schedule: {} is not drawn: {}", options.plot_file, reason));
  if (options.json)
    print_json(curve.values);
  else
    print_text(curve);
  return kOk;
} catch (const WrongUsage& error) {
  fmt::print(stderr, "talus: schedule: {}\n", error.what());
  return kUsage;
}

constexpr const char* kFooter =
    "Values are those of t = T, T + 1, ... as a step that takes t sees them, in double. Kinds and "
    "their\n"
    "parameters: talus list schedules, talus list schedule/cosine. lambda and multiplicative call "
    "a\n"
    "function of the program that trains, which a command line does not have.\n"
    "sequential and chained are made of children, each KIND NAME=VALUE ... milestones=A,B,..., "
    "whose\n"
    "own children stand in parentheses. A plateau, alone or last in a chain, follows --metrics: a "
    "number\n"
    "(also nan, inf) a line, # begins a comment. Its value 0 is the one before any report, value i "
    "the\n"
    "one after i reports; t of what stands before it counts reports; --steps is the most values "
    "shown.\n"
    "Examples:\n"
    "  talus schedule cosine --base 3e-4 --set T_max=1000 --set eta_min=3e-5 --steps 1001 --json\n"
    "  talus schedule sequential --milestones 100 --child 'linear total_iters=100' \\\n"
    "    --child 'chained (cosine T_max=900) (exponential gamma=0.999)' --steps 1000 --plot "
    "lr.svg\n"
    "  talus schedule plateau --base 0.1 --set patience=3 --metrics losses.txt\n"
    "Exit codes: 0 success; 1 an unknown kind or parameter, a value outside its range, a file "
    "that\n"
    "cannot be read or written; 2 wrong usage.";

}  // namespace

Command add_schedule(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* line = app.add_subcommand(
      "schedule", "Shows the values of a schedule, as a table, JSON or a picture");
  line->add_option("NAME", options->kind, "A kind of talus list schedules")->required();
  line->add_option("--base", options->base, "What the hyperparameter itself is set to")
      ->type_name("B")
      ->capture_default_str();
  line->add_option("--set", options->settings, "A parameter; more than once for more")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  line->add_option("--steps", options->steps, "How many values, 1 to 10000000")->type_name("N");
  line->add_option("--from", options->from, "The t of the first one")
      ->type_name("T")
      ->capture_default_str();
  line->add_option_function<std::string>(
          "--milestones",
          [options](const std::string& text) {
            options->milestones = text;
            options->has_milestones = true;
          },
          "Of multistep, or where each child of sequential but the first begins")
      ->type_name("A,B,...");
  line->add_option("--child", options->children, "A piece of sequential or chained; once for each")
      ->type_name("'KIND NAME=VALUE ... (CHILD) ...'")
      ->allow_extra_args(false);
  line->add_option("--metrics", options->metrics_file, "What is reported to a plateau; - is stdin")
      ->type_name("FILE");
  line->add_flag("--json", options->json, "Print {\"values\": [...]}");
  line->add_option("--plot", options->plot_file, "Draw the curve as SVG, with gnuplot")
      ->type_name("FILE");
  line->footer(kFooter);
  return {line, [options] { return run(*options); }};
}

}  // namespace command
