// `talus list`: the algorithms and aliases, or one with its hyperparameters and state; schedules, or
// one with its parameters; the loss scaler and the settings of an optimizer.
#include "command.hpp"
#include "table.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <string_view>

namespace command {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string name;
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

// Very large and very small powers of two by name: their digits say nothing.
std::string bound_text(double bound) {
  int exponent = 0;
  const bool is_power = std::frexp(bound, &exponent) == 0.5;
  return is_power && std::abs(exponent) > 50 ? fmt::format("2^{}", exponent - 1)
                                             : fmt::format("{}", bound);
}

// "[0, inf)": infinity itself is not accepted.
std::string format_range(const talus_hyper& hyper) {
  if (hyper.kind == TALUS_FLAG) return hyper.max == 0 ? "0" : "0 or 1";
  const bool min_open = hyper.flags & TALUS_HYPER_MIN_OPEN;
  const bool max_open = hyper.flags & TALUS_HYPER_MAX_OPEN;
  return fmt::format("{}{}, {}{}", min_open ? '(' : '[', bound_text(hyper.min),
                     bound_text(hyper.max), max_open ? ')' : ']');
}

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json hyper_json(const talus_hyper& hyper) {
  return {{"name", hyper.name},
          {"kind", kind_name(hyper.kind)},
          {"default", finite_or_null(hyper.def)},
          {"min", finite_or_null(hyper.min)},
          {"max", finite_or_null(hyper.max)},
          {"min_open", (hyper.flags & TALUS_HYPER_MIN_OPEN) != 0},
          {"max_open", (hyper.flags & TALUS_HYPER_MAX_OPEN) != 0},
          {"fixed", (hyper.flags & TALUS_HYPER_FIXED) != 0},
          {"doc", hyper.doc}};
}

// What a state tensor of an f32 parameter takes, counted by the library.
struct SlotBytes {
  bool per_tensor;
  uint64_t bytes;  // of an element, or of the tensor
};
using SlotTable = std::map<std::string, SlotBytes>;

SlotTable slot_table(const talus::Optimizer& optimizer, int64_t elements) {
  SlotTable table;
  for (const talus_state& state : optimizer.states()) {
    const bool per_tensor = state.count != elements;
    table[state.slot] = {per_tensor, per_tensor ? state.bytes : state.bytes / uint64_t(elements)};
  }
  return table;
}

// A value with which what the hyperparameter decides about is there.
double switched_on(const talus_hyper& hyper) {
  return hyper.kind == TALUS_FLAG ? hyper.max : std::max(hyper.min, std::min(0.5, hyper.max));
}

// At defaults; everything: with all that hyperparameters can switch on.
SlotTable slots_of(const std::string& name, bool everything) {
  talus::Optimizer optimizer(name);
  if (everything)
    for (const talus_hyper& hyper : talus::hypers(name))
      if (hyper.flags & TALUS_HYPER_FIXED) optimizer.set(hyper.name, switched_on(hyper));
  std::vector<float> weights(6);
  optimizer.add(weights, {.shape = {3, 2}});
  return slot_table(optimizer, 6);
}

uint64_t sum_bytes(const SlotTable& table, bool per_tensor) {
  uint64_t sum = 0;
  for (const auto& [name, slot] : table)
    if (slot.per_tensor == per_tensor) sum += slot.bytes;
  return sum;
}

Json state_json(const std::string& name) {
  const SlotTable least = slots_of(name, false), most = slots_of(name, true);
  return {{"default", sum_bytes(least, false)},
          {"most", sum_bytes(most, false)},
          {"per_tensor", sum_bytes(most, true)}};
}

// "8 to 12", "4 + 8 per tensor"
std::string state_text(const Json& state) {
  const uint64_t least = state["default"], most = state["most"], per_tensor = state["per_tensor"];
  return fmt::format("{}{}{}", least, least == most ? "" : fmt::format(" to {}", most),
                     per_tensor == 0 ? "" : fmt::format(" + {} per tensor", per_tensor));
}

// Choices of dtypes and what they cost, told by the library.
struct Storage {
  const char *param, *grad, *master;
  int32_t param_dtype, grad_dtype, master_choice;
};
constexpr Storage kStorages[] = {
    {"f32", "f32", "none", TALUS_F32, TALUS_F32, TALUS_MASTER_AUTO},
    {"f32", "bf16", "none", TALUS_F32, TALUS_BF16, TALUS_MASTER_AUTO},
    {"f32", "f16", "none", TALUS_F32, TALUS_F16, TALUS_MASTER_AUTO},
    {"bf16", "bf16", "f32", TALUS_BF16, TALUS_BF16, TALUS_MASTER_F32},
    {"bf16", "f32", "f32", TALUS_BF16, TALUS_F32, TALUS_MASTER_F32},
    {"bf16", "f16", "f32", TALUS_BF16, TALUS_F16, TALUS_MASTER_F32},
    {"f16", "f16", "f32", TALUS_F16, TALUS_F16, TALUS_MASTER_F32},
    {"f16", "f32", "f32", TALUS_F16, TALUS_F32, TALUS_MASTER_F32},
    {"f16", "bf16", "f32", TALUS_F16, TALUS_BF16, TALUS_MASTER_F32},
    {"bf16", "bf16", "none", TALUS_BF16, TALUS_BF16, TALUS_MASTER_NONE},
    {"bf16", "f32", "none", TALUS_BF16, TALUS_F32, TALUS_MASTER_NONE},
    {"f16", "f16", "none", TALUS_F16, TALUS_F16, TALUS_MASTER_NONE},
    {"f16", "f32", "none", TALUS_F16, TALUS_F32, TALUS_MASTER_NONE},
    {"f64", "f64", "none", TALUS_F64, TALUS_F64, TALUS_MASTER_AUTO},
    {"f64", "f32", "none", TALUS_F64, TALUS_F32, TALUS_MASTER_AUTO},
};

talus_bytes bytes_of(const talus::Optimizer& optimizer, const Storage& storage) {
  talus_param param{};
  param.struct_size = sizeof param;
  param.dtype = storage.param_dtype;
  param.grad_dtype = storage.grad_dtype;
  param.master = storage.master_choice;
  talus_bytes bytes{};
  bytes.struct_size = sizeof bytes;
  talus::check(talus_bytes_per_param(optimizer.handle(), 0, &param, &bytes));
  return bytes;
}

// At defaults.
Json bytes_json(const std::string& name) {
  const talus::Optimizer optimizer(name);
  Json rows = Json::array();
  for (const Storage& storage : kStorages) {
    const talus_bytes b = bytes_of(optimizer, storage);
    rows.push_back({{"param", storage.param},
                    {"grad", storage.grad},
                    {"master", storage.master},
                    {"stored", b.param + b.grad + b.master + b.state},
                    {"read", b.read},
                    {"written", b.written},
                    {"moved", b.read + b.written}});
  }
  return rows;
}

void print_bytes(const Json& bytes) {
  std::vector<std::vector<std::string>> rows = {
      {"parameter", "gradient", "master", "stored*", "read", "written", "moved"}};
  for (const Json& row : bytes) {
    std::vector<std::string> cells = {row["param"], row["grad"], row["master"]};
    for (const char* key : {"stored", "read", "written", "moved"})
      cells.push_back(fmt::format("{}", row[key].get<double>()));
    rows.push_back(std::move(cells));
  }
  fmt::print("\n{}", format_table(rows));
  fmt::print(
      "* bytes for each element at defaults, gradient included; moved: by a step, which reads the\n"
      "  gradient once more where its norm is measured, clipped or checked\n");
}

// What both forms of the list say of a name.
Json entry_json(const std::string& name) {
  const std::string rule = rule_of(name);
  // A rule may also be an alias of itself; what it is an algorithm for comes first.
  const char* doc = talus_name_doc("algorithms", name.c_str());
  const bool alias = doc == nullptr;
  return {{"name", name},
          {"alias_of", alias ? Json(rule) : Json(nullptr)},
          {"doc", alias ? talus::doc("aliases", name) : std::string(doc)},
          {"paper", talus::doc("papers", name)},
          {"purpose", talus::doc("purposes", name)},
          {"state_bytes", state_json(name)}};
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
  const SlotTable least = slots_of(name, false), most = slots_of(name, true);
  for (const std::string& slot : talus::names(slots)) {
    const SlotBytes bytes = most.at(slot);
    entry["slots"].push_back({{"name", slot},
                              {"doc", talus::doc(slots, slot)},
                              {"per", bytes.per_tensor ? "tensor" : "element"},
                              {"bytes", bytes.bytes},
                              {"by_default", least.count(slot) != 0}});
  }
  entry["bytes"] = bytes_json(name);
  return entry;
}

// Two lines of the table: what it is; whose, and what for.
void add_algorithm(const Json& entry, std::vector<std::vector<std::string>>* rows) {
  rows->push_back({entry["name"], state_text(entry["state_bytes"]), entry["doc"]});
  rows->push_back({"", "",
                   fmt::format("{}; for {}", entry["paper"].get<std::string>(),
                               entry["purpose"].get<std::string>())});
}

void print_all() {
  std::vector<std::vector<std::string>> algorithms = {{"algorithm", "state*", "what it is"}};
  std::vector<std::vector<std::string>> aliases = {{"alias", "", "state*", "what it is"}};
  for (const Json& entry : all_json()) {
    if (entry["alias_of"].is_null())
      add_algorithm(entry, &algorithms);
    else
      aliases.push_back({entry["name"], "= " + entry["alias_of"].get<std::string>(),
                         state_text(entry["state_bytes"]), entry["doc"]});
  }
  fmt::print("{}", format_table(algorithms));
  if (aliases.size() > 1) fmt::print("\n{}", format_table(aliases));
  fmt::print("\n* bytes for each element of an f32 parameter: at defaults, to all options on\n");
  fmt::print("also: talus list schedules; talus list scaler; talus list settings\n");
}

void print_rule(const std::string& name) {
  const Json entry = rule_json(name);
  const std::string doc = entry["doc"];
  const std::string rule =
      entry["alias_of"].is_null()
          ? ""
          : fmt::format(" (alias of {})", entry["alias_of"].get<std::string>());
  fmt::print("{}\n", format_table({{name + rule + ":", doc},
                                   {"paper:", entry["paper"]},
                                   {"for:", entry["purpose"]}}));

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

  std::vector<std::vector<std::string>> slots = {{"state slot", "bytes*", "doc"}};
  for (const Json& slot : entry["slots"])
    slots.push_back({slot["name"],
                     fmt::format("{}{}", slot["bytes"].get<uint64_t>(),
                                 slot["per"] == "tensor" ? " per tensor" : ""),
                     slot["doc"]});
  fmt::print("\n{}", format_table(slots));
  fmt::print("* for each element of an f32 parameter: {} in all\n",
             state_text(entry["state_bytes"]));
  print_bytes(entry["bytes"]);
}

// ---- schedules

constexpr std::string_view kSchedule = "schedule/";

bool is_schedule(const std::string& name) { return name.rfind(kSchedule, 0) == 0; }

bool has_milestones(const talus::Schedule& schedule) {
  int64_t count = 0;
  return talus_schedule_get_list(schedule.handle(), "milestones", nullptr, 0, &count) == TALUS_OK;
}

// name: as "schedule/cosine".
Json schedule_json(const std::string& name) {
  const std::string kind = name.substr(kSchedule.size());
  const talus::Schedule schedule(kind);  // the library's own text if unknown
  Json parameters = Json::array();
  for (const talus_hyper& hyper : talus::hypers(name)) {
    parameters.push_back(hyper_json(hyper));
    parameters.back().erase("fixed");
    parameters.back()["required"] = (hyper.flags & TALUS_HYPER_REQUIRED) != 0;
  }
  return {{"name", kind},
          {"doc", talus::doc("schedules", kind)},
          {"parameters", parameters},
          {"milestones", has_milestones(schedule)}};
}

Json schedules_json() {
  Json kinds = Json::array();
  for (const std::string& kind : talus::names("schedules"))
    kinds.push_back({{"name", kind}, {"doc", talus::doc("schedules", kind)}});
  return kinds;
}

void print_schedules() {
  std::vector<std::vector<std::string>> rows = {{"schedule", "what it is"}};
  for (const Json& kind : schedules_json()) rows.push_back({kind["name"], kind["doc"]});
  fmt::print(
      "{}\nparameters of one: talus list schedule/cosine; its values: talus schedule cosine\n",
      format_table(rows));
}

std::string default_text(const talus_hyper& hyper) {
  if (hyper.flags & TALUS_HYPER_REQUIRED) return "required";
  return std::isnan(hyper.def) ? "-" : fmt::format("{}", hyper.def);
}

void print_schedule(const std::string& name) {
  const Json entry = schedule_json(name);
  fmt::print("{}: {}\n", entry["name"].get<std::string>(), entry["doc"].get<std::string>());
  std::vector<std::vector<std::string>> rows = {{"parameter", "kind", "default", "range", "doc"}};
  for (const talus_hyper& hyper : talus::hypers(name))
    rows.push_back(
        {hyper.name, kind_name(hyper.kind), default_text(hyper), format_range(hyper), hyper.doc});
  if (entry["milestones"])
    rows.push_back({"milestones", "list", "empty", "[0, 2^63)",
                    "times of falls, or when pieces but the first begin"});
  if (rows.size() > 1) fmt::print("\n{}", format_table(rows));
}

// ---- what has parameters alone

bool has_parameters_alone(const std::string& name) {
  return name == "scaler" || name == "settings";
}

Json parameters_json(const std::string& name) {
  Json parameters = Json::array();
  for (const talus_hyper& hyper : talus::hypers(name)) {
    parameters.push_back(hyper_json(hyper));
    parameters.back().erase("fixed");
  }
  return {{"name", name}, {"parameters", parameters}};
}

void print_parameters(const std::string& name) {
  std::vector<std::vector<std::string>> rows = {
      {name == "scaler" ? "parameter" : "setting", "kind", "default", "range", "doc"}};
  for (const talus_hyper& hyper : talus::hypers(name))
    rows.push_back(
        {hyper.name, kind_name(hyper.kind), default_text(hyper), format_range(hyper), hyper.doc});
  fmt::print("{}", format_table(rows));
}

// ---- all

Json json_of(const std::string& name) {
  if (name.empty()) return all_json();
  if (name == "schedules") return schedules_json();
  if (has_parameters_alone(name)) return parameters_json(name);
  return is_schedule(name) ? schedule_json(name) : rule_json(name);
}

void print(const std::string& name) {
  if (name.empty()) return print_all();
  if (name == "schedules") return print_schedules();
  if (has_parameters_alone(name)) return print_parameters(name);
  return is_schedule(name) ? print_schedule(name) : print_rule(name);
}

int run(const Options& options) {
  if (options.json)
    fmt::print("{}\n", json_of(options.name).dump(2));
  else
    print(options.name);
  return kOk;
}

}  // namespace

std::string rule_of(const std::string& name) { return talus::Optimizer(name).group_algorithm(); }

Command add_list(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* line = app.add_subcommand(
      "list", "Lists algorithms and aliases, schedules, or what one of them has");
  line->add_option("NAME", options->name,
                   "An algorithm or alias, schedules, schedule/KIND, scaler or settings");
  line->add_flag("--json", options->json,
                 "Print JSON; an infinite bound is null, and a default that is not there");
  line->footer(
      "Ranges: [ and ] include the bound, ( and ) do not.\n"
      "Example: talus list fused_adam --json; talus list schedules; talus list schedule/cosine\n"
      "Exit codes: 0 success; 1 unknown name; 2 wrong usage.");
  return {line, [options] { return run(*options); }};
}

}  // namespace command
