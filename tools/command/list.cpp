// `talus list`: the algorithms and aliases, or one with its hyperparameters and state.
#include "command.hpp"
#include "table.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>
#include <memory>

namespace command {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string rule;
  bool json = false;
};

const char* kind_name(int32_t kind) {
  switch (kind) {
    case TALUS_REAL: return "real";
    case TALUS_INTEGER: return "integer";
    case TALUS_FLAG: return "flag";
  }
  return "unknown";
}

// "[0, inf)": an infinite bound is never reached, so it is open.
std::string format_range(const talus_hyper& hyper) {
  if (hyper.kind == TALUS_FLAG) return hyper.max == 0 ? "0" : "0 or 1";
  const bool min_open = hyper.flags & TALUS_HYPER_MIN_OPEN || std::isinf(hyper.min);
  const bool max_open = hyper.flags & TALUS_HYPER_MAX_OPEN || std::isinf(hyper.max);
  return fmt::format("{}{}, {}{}", min_open ? '(' : '[', hyper.min, hyper.max,
                     max_open ? ')' : ']');
}

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json hyper_json(const talus_hyper& hyper) {
  return {{"name", hyper.name},
          {"kind", kind_name(hyper.kind)},
          {"default", hyper.def},
          {"min", finite_or_null(hyper.min)},
          {"max", finite_or_null(hyper.max)},
          {"min_open", (hyper.flags & TALUS_HYPER_MIN_OPEN) != 0},
          {"max_open", (hyper.flags & TALUS_HYPER_MAX_OPEN) != 0},
          {"fixed", (hyper.flags & TALUS_HYPER_FIXED) != 0},
          {"doc", hyper.doc}};
}

// What both forms of the list say of a name.
Json entry_json(const std::string& name) {
  const std::string rule = rule_of(name);
  // A rule may also be an alias of itself; what it is an algorithm for comes first.
  const char* doc = talus_name_doc("algorithms", name.c_str());
  const bool alias = doc == nullptr;
  return {{"name", name},
          {"alias_of", alias ? Json(rule) : Json(nullptr)},
          {"doc", alias ? talus::doc("aliases", name) : std::string(doc)}};
}

Json all_json() {
  Json entries = Json::array();
  for (const char* list : {"algorithms", "aliases"})
    for (const std::string& name : talus::names(list)) entries.push_back(entry_json(name));
  return entries;
}

Json rule_json(const std::string& name) {
  Json entry = entry_json(name);
  entry["hyperparameters"] = Json::array();
  for (const talus_hyper& hyper : talus::hypers(name))
    entry["hyperparameters"].push_back(hyper_json(hyper));
  entry["slots"] = Json::array();
  const std::string slots = "slots/" + name;
  for (const std::string& slot : talus::names(slots))
    entry["slots"].push_back({{"name", slot}, {"doc", talus::doc(slots, slot)}});
  return entry;
}

void print_all() {
  std::vector<std::vector<std::string>> algorithms, aliases;
  for (const Json& entry : all_json()) {
    const std::string name = entry["name"], doc = entry["doc"];
    if (entry["alias_of"].is_null())
      algorithms.push_back({name, doc});
    else
      aliases.push_back({name, "= " + entry["alias_of"].get<std::string>(), doc});
  }
  fmt::print("Algorithms\n{}", format_table(algorithms));
  if (!aliases.empty()) fmt::print("\nAliases\n{}", format_table(aliases));
}

void print_rule(const std::string& name) {
  const Json entry = rule_json(name);
  const std::string doc = entry["doc"];
  const std::string rule =
      entry["alias_of"].is_null()
          ? ""
          : fmt::format(" (alias of {})", entry["alias_of"].get<std::string>());
  fmt::print("{}{}: {}\n\n", name, rule, doc);

  std::vector<std::vector<std::string>> rows = {
      {"hyperparameter", "kind", "default", "range", "doc"}};
  bool any_fixed = false;
  for (const talus_hyper& hyper : talus::hypers(name)) {
    const bool fixed = hyper.flags & TALUS_HYPER_FIXED;
    any_fixed |= fixed;
    rows.push_back({hyper.name, fmt::format("{}{}", kind_name(hyper.kind), fixed ? "*" : ""),
                    fmt::format("{}", hyper.def), format_range(hyper), hyper.doc});
  }
  fmt::print("{}", format_table(rows));
  if (any_fixed) fmt::print("* decides which state exists: fixed after the group's first step\n");

  std::vector<std::vector<std::string>> slots = {{"state slot", "doc"}};
  for (const Json& slot : entry["slots"]) slots.push_back({slot["name"], slot["doc"]});
  fmt::print("\n{}", format_table(slots));
}

int run(const Options& options) {
  if (options.json)
    fmt::print("{}\n", (options.rule.empty() ? all_json() : rule_json(options.rule)).dump(2));
  else if (options.rule.empty())
    print_all();
  else
    print_rule(options.rule);
  return kOk;
}

}  // namespace

std::string rule_of(const std::string& name) { return talus::Optimizer(name).group_algorithm(); }

Command add_list(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* line = app.add_subcommand("list", "Lists algorithms and aliases, or what one RULE has");
  line->add_option("RULE", options->rule, "An algorithm or alias: show hyperparameters and state");
  line->add_flag("--json", options->json, "Print JSON; an infinite bound is null");
  line->footer(
      "Ranges: [ and ] include the bound, ( and ) do not.\n"
      "Example: talus list fused_adam --json\n"
      "Exit codes: 0 success; 1 unknown rule; 2 wrong usage.");
  return {line, [options] { return run(*options); }};
}

}  // namespace command
