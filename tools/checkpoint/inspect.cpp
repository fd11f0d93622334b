// `talus inspect`: what a checkpoint holds, as text or JSON, and whether it is whole.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/checkpoint/contents.h"
#include "tools/checkpoint/elements.h"
#include "tools/checkpoint/progress_bar.h"
#include "tools/checkpoint/schedule_texts.h"
#include "tools/command/command.hpp"
#include "tools/command/table.hpp"

namespace command {
namespace {

using checkpoint::Digests;
using checkpoint::Entry;
using checkpoint::Statistics;
using Json = nlohmann::ordered_json;

constexpr size_t kMostRows = 40;  // more tensors than this are summed

struct Options {
  std::string file;
  bool all = false, json = false;
};

struct Measured {
  Statistics statistics;
  bool sound = true;
};

struct Report {
  const talus::Catalogue& file;
  std::vector<Entry> entries;
  std::map<std::string, Measured> measured;  // by key

  std::vector<std::string> damaged() const {
    std::vector<std::string> out;
    for (const auto& [key, m] : measured)
      if (!m.sound) out.push_back(key);
    return out;
  }
};

Measured measure(const talus::Catalogue& file, const Entry& entry, checkpoint::ProgressBar& bar) {
  Measured out;
  checkpoint::TensorStream stream(file, entry);
  const uint64_t size = talus::safetensors::dtype_bytes(entry.stored->dtype);
  while (stream.left() > 0) {
    const std::vector<char>& piece = stream.next();
    checkpoint::measure(entry.stored->dtype, piece.data(), piece.size() / size, &out.statistics);
    bar.add(piece.size());
  }
  out.sound = stream.sound();
  return out;
}

Report measure_all(const talus::Catalogue& file) {
  Report report{file, checkpoint::entries_of(file), {}};
  checkpoint::ProgressBar bar(file.bytes());
  for (const Entry* entry : checkpoint::in_file_order(report.entries))
    report.measured[entry->key] = measure(file, *entry, bar);
  return report;
}

// ---- what is not in tensors

std::string digest_state(const Report& report) {
  const std::vector<std::string> damaged = report.damaged();
  if (!damaged.empty()) return fmt::format("DAMAGED: {}", fmt::join(damaged, ", "));
  size_t none = 0, all = 0;
  for (const Entry& entry : report.entries) {
    none += checkpoint::digests_of(*entry.stored) == Digests::none;
    all += checkpoint::digests_of(*entry.stored) == Digests::all;
  }
  if (none == report.entries.size()) return "none";
  if (all == report.entries.size()) return "verified";
  return fmt::format("verified, but {} tensors have none", report.entries.size() - all);
}

// The library's defaults; empty for an algorithm that it does not know.
std::map<std::string, double> defaults_of(const std::string& algorithm) {
  std::map<std::string, double> out;
  if (talus_hyper_count(algorithm.c_str()) < 0) return out;
  for (const talus_hyper& hyper : talus::hypers(algorithm)) out[hyper.name] = hyper.def;
  return out;
}

std::string group_text(const talus::GroupRecord& group) {
  const std::map<std::string, double> defaults = defaults_of(group.algorithm);
  std::vector<std::string> values;
  for (const auto& [name, value] : group.hyper) {
    const auto found = defaults.find(name);
    const bool usual = found != defaults.end() && found->second == value;
    if (name == "lr" || !usual) values.push_back(fmt::format("{} {:g}", name, value));
  }
  if (group.mode != "train") values.push_back("mode " + group.mode);
  return fmt::format("{}: {}", group.algorithm, fmt::join(values, ", "));
}

std::string counts_text(const talus::Counts& counts) {
  std::string out = fmt::format("{} applied, {} called, {} skipped", counts.applied, counts.called,
                                counts.skipped);
  if (counts.clock != 0) out += fmt::format(", clock {}", counts.clock);
  return out;
}

std::string bytes_text(uint64_t bytes) {
  if (bytes < 10000) return fmt::format("{} bytes", bytes);
  double value = double(bytes);
  const char* unit = "";
  for (const char* each : {"kB", "MB", "GB", "TB"}) {
    if (value < 1000) break;
    value /= 1000;
    unit = each;
  }
  return fmt::format("{:.4g} {} ({} bytes)", value, unit, bytes);
}

using Rows = std::vector<std::vector<std::string>>;

Rows head_rows(const Report& report, size_t width) {
  const talus::Manifest& manifest = report.file.manifest();
  constexpr size_t kIndent = 12;  // of what follows the names below, which are shorter
  Rows rows = {{"file", cut_middle(printable(report.file.name()), width - kIndent)},
               {"size", bytes_text(report.file.bytes())}};
  if (report.file.file_count() > 1)
    rows.back().back() += fmt::format(", {} files", report.file.file_count());
  if (report.file.foreign()) {
    rows.push_back(
        {"format", "safetensors, no checkpoint by itself: a shard, or not written by talus"});
  } else {
    rows.push_back(
        {"format", fmt::format("{}, written by {}", manifest.version, printable(manifest.writer))});
    if (!manifest.required.empty())
      rows.push_back(
          {"requires", printable(fmt::format("{}", fmt::join(manifest.required, ", ")))});
    rows.push_back({"steps", counts_text(manifest.counts)});
  }
  rows.push_back({"digests", cut_middle(printable(digest_state(report)), 4 * width)});
  for (size_t g = 0; g < manifest.groups.size(); ++g)
    rows.push_back({fmt::format("group {}", g), printable(group_text(manifest.groups[g]))});
  for (const auto& [where, text] : checkpoint::schedule_texts(manifest))
    rows.push_back({"schedule", cut_middle(printable(where + ": " + text), 4 * width)});
  return rows;
}

Rows note_rows(const Report& report, size_t width) {
  Rows rows;
  size_t longest = 0;
  for (const auto& [key, text] : report.file.manifest().notes) {
    rows.push_back({cut_middle(printable("note " + key), width / 2)});
    longest = std::max(longest, rows.back()[0].size());
  }
  size_t i = 0;
  for (const auto& [key, text] : report.file.manifest().notes) {
    const size_t room = width - std::min(width / 2, longest) - 2;
    // Of a long text no more than can be shown is made printable.
    std::string shown = text.size() <= 8 * room
                            ? text
                            : text.substr(0, 4 * room) + text.substr(text.size() - 4 * room);
    rows[i++].push_back(cut_middle(printable(shown), room));
  }
  return rows;
}

// ---- tensors

std::string number_text(const Statistics& s, long double value) {
  return s.any() ? fmt::format("{:.4g}", double(value)) : "-";
}

std::vector<std::string> statistics_cells(const Statistics& s) {
  return {number_text(s, s.min), number_text(s, s.max), number_text(s, s.norm()),
          fmt::format("{}", s.non_finite)};
}

std::vector<std::string> joined(std::vector<std::string> cells,
                                const std::vector<std::string>& more) {
  cells.insert(cells.end(), more.begin(), more.end());
  return cells;
}

const std::vector<std::string> kStatisticsHead = {"min", "max", "2-norm", "nonfinite"};

Rows tensor_rows(const Report& report) {
  Rows rows = {joined({"tensor", "dtype", "shape"}, kStatisticsHead)};
  for (const Entry& entry : report.entries) {
    const Measured& m = report.measured.at(entry.key);
    rows.push_back(joined({printable(entry.key), entry.stored->dtype,
                           cut_middle(talus::safetensors::shape_text(entry.stored->shape), 16)},
                          statistics_cells(m.statistics)));
    if (!m.sound) rows.back().back() += " DAMAGED";
  }
  return rows;
}

// What has the same slot and dtype as one.
Rows slot_rows(const Report& report) {
  struct Sum {
    size_t tensors = 0;
    Statistics statistics;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;
  for (const Entry& entry : report.entries) {
    Sum& sum = sums[{entry.slot, entry.stored->dtype}];
    ++sum.tensors;
    sum.statistics.add(report.measured.at(entry.key).statistics);
  }
  Rows rows = {joined({"slot", "dtype", "tensors", "elements"}, kStatisticsHead)};
  const char* unnamed = report.file.foreign() ? "(all)" : "(parameters)";
  for (const auto& [name, sum] : sums)
    rows.push_back(joined({name.first.empty() ? unnamed : printable(name.first), name.second,
                           fmt::format("{}", sum.tensors), fmt::format("{}", sum.statistics.count)},
                          statistics_cells(sum.statistics)));
  return rows;
}

void print_text(const Report& report, bool all) {
  const size_t width = terminal_width();
  fmt::print("{}", format_table(head_rows(report, width), width));
  const Rows notes = note_rows(report, width);
  if (!notes.empty()) fmt::print("{}", fit_table(notes, width));
  if (report.entries.empty()) return;
  const bool sum = !all && report.entries.size() > kMostRows;
  fmt::print("\n{}", fit_table(sum ? slot_rows(report) : tensor_rows(report), width));
  if (sum) fmt::print("{} tensors; --all shows each\n", report.entries.size());
}

// ---- JSON

Json number_json(const Statistics& s, const std::string& dtype, long double value) {
  if (!s.any()) return nullptr;
  if (checkpoint::is_floating(dtype)) return double(value);
  return checkpoint::is_unsigned(dtype) ? Json(uint64_t(value)) : Json(int64_t(value));
}

Json hyper_json(double value) {
  return std::isfinite(value) ? Json(value) : Json(value > 0 ? "inf" : "-inf");
}

Json groups_json(const talus::Manifest& manifest) {
  Json out = Json::array();
  for (const talus::GroupRecord& group : manifest.groups) {
    Json hypers = Json::object();
    for (const auto& [name, value] : group.hyper) hypers[name] = hyper_json(value);
    out.push_back(
        {{"algorithm", group.algorithm}, {"mode", group.mode}, {"hyperparameters", hypers}});
  }
  return out;
}

Json schedules_json(const talus::Manifest& manifest) {
  Json out = Json::array();
  for (const auto& [where, text] : checkpoint::schedule_texts(manifest))
    out.push_back({{"of", where}, {"schedule", text}});
  return out;
}

Json params_json(const talus::Manifest& manifest) {
  Json out = Json::array();
  for (const talus::ParamRecord& p : manifest.params)
    out.push_back({{"name", p.name},
                   {"dtype", p.dtype},
                   {"shape", p.shape},
                   {"group", p.group},
                   {"slots", p.slots}});
  return out;
}

const char* digest_name(const Entry& entry, const Measured& m) {
  if (!m.sound) return "damaged";
  switch (checkpoint::digests_of(*entry.stored)) {
    case Digests::none: return "none";
    case Digests::some: return "verified in part";
    case Digests::all: return "verified";
  }
  return "";
}

Json tensors_json(const Report& report) {
  Json out = Json::array();
  for (const Entry& entry : report.entries) {
    const Measured& m = report.measured.at(entry.key);
    const Statistics& s = m.statistics;
    const std::string& dtype = entry.stored->dtype;
    out.push_back({{"key", entry.key},
                   {"slot", entry.slot.empty() ? Json(nullptr) : Json(entry.slot)},
                   {"dtype", dtype},
                   {"shape", entry.stored->shape},
                   {"elements", entry.count()},
                   {"min", number_json(s, dtype, s.min)},
                   {"max", number_json(s, dtype, s.max)},
                   {"norm", s.any() ? Json(double(s.norm())) : Json(nullptr)},
                   {"nonfinite", s.non_finite},
                   {"digest", digest_name(entry, m)}});
  }
  return out;
}

Json report_json(const Report& report) {
  const talus::Manifest& manifest = report.file.manifest();
  const talus::Counts& counts = manifest.counts;
  const bool ours = !report.file.foreign();
  return {{"file", report.file.name()},
          {"bytes", report.file.bytes()},
          {"files", report.file.file_count()},
          {"format_version", ours ? Json(manifest.version) : Json(nullptr)},
          {"writer", ours ? Json(manifest.writer) : Json(nullptr)},
          {"requires", manifest.required},
          {"counts",
           {{"applied", counts.applied},
            {"called", counts.called},
            {"skipped", counts.skipped},
            {"clock", counts.clock}}},
          {"notes", Json(manifest.notes)},
          {"groups", groups_json(manifest)},
          {"schedules", schedules_json(manifest)},
          {"parameters", params_json(manifest)},
          {"digests", digest_state(report)},
          {"damaged", report.damaged()},
          {"tensors", tensors_json(report)}};
}

int run(const Options& options) {
  const talus::Catalogue file = checkpoint::open(options.file);
  const Report report = measure_all(file);
  if (options.json)
    fmt::print("{}\n", report_json(report).dump(2, ' ', false, Json::error_handler_t::replace));
  else
    print_text(report, options.all);
  const std::vector<std::string> damaged = report.damaged();
  if (damaged.empty()) return kOk;
  std::fflush(stdout);
  for (const std::string& key : damaged)
    fmt::print(stderr, "talus: {}: tensor \"{}\" is damaged: its digest is another\n", options.file,
               printable(key));
  return kFailure;
}

}  // namespace

Command add_inspect(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* line =
      app.add_subcommand("inspect", "Shows what a checkpoint FILE holds, and checks it");
  line->add_option("FILE", options->file,
                   "A .safetensors file, also of other writers, or a .safetensors.index.json")
      ->required();
  line->add_flag("--all", options->all, "Each tensor, where more than 40 would be summed by slot");
  line->add_flag("--json", options->json, "Print JSON, with each tensor");
  line->footer(
      "Of a group lr is shown and what differs from the default. min, max and 2-norm are those of\n"
      "finite elements. All data is read, a piece at a time, and compared with its digests.\n"
      "COLUMNS says how wide the table may be where there is no terminal (100).\n"
      "Example: talus inspect model.safetensors --json\n"
      "Exit codes: 0 success; 1 damaged, unreadable or no such file; 2 wrong usage.");
  return {line, [options] { return run(*options); }};
}

}  // namespace command
