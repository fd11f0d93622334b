// `talus selftest`: does this library compute on this machine what it promises?
#include "selftest.hpp"
#include "command.hpp"
#include "table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace command {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kReference = "scalar";
constexpr size_t kMostPrinted = 10;  // failures of one target

struct Target {
  std::string name;
  bool checked;  // not only what others are compared with
  TargetRun run;
  Outcome outcome;
  bool alive = true;
};

// The reference first. TALUS_CPU_TARGET, if set, names the only one that is checked.
std::vector<Target> start_targets() {
  std::vector<std::string> names = talus::names("cpu_targets");
  std::reverse(names.begin(), names.end());
  const char* const forced = std::getenv("TALUS_CPU_TARGET");
  if (forced && std::find(names.begin(), names.end(), forced) == names.end())
    talus::Optimizer("sgd");  // throws the library's own words
  problem();                  // made once, before the processes part
  std::vector<Target> targets;
  for (const std::string& name : names) {
    const bool checked = !forced || name == forced;
    if (checked || name == kReference)
      targets.push_back({name, checked, TargetRun(name, checked), {}});
  }
  return targets;
}

void take(Target& target, const Setup& setup, const Buffers* expected, Buffers* buffers) {
  const auto add = [&](const std::string& what) {
    target.outcome.add(what.empty() ? ""
                                    : fmt::format("{}: {} ({}): {}", target.name, setup.algorithm,
                                                  setup.what, what));
  };
  try {
    TargetResult result = target.run.next();
    for (const std::string& failure : result.outcome.failures) add(failure);
    target.outcome.checks += result.outcome.checks - int(result.outcome.failures.size());
    if (expected && !expected->empty() && !result.buffers.empty())
      for (const std::string& each : differences(result.buffers, *expected))
        add(each.empty() ? "" : fmt::format("against {}: {}", kReference, each));
    *buffers = std::move(result.buffers);
  } catch (const std::exception& error) {
    target.alive = false;
    add(error.what());
  }
}

void run_targets(std::vector<Target>& targets) {
  for (const Setup& setup : all_setups()) {
    Buffers expected, unused;
    for (Target& target : targets) {
      const bool reference = target.name == kReference;
      if (target.alive)
        take(target, setup, reference ? nullptr : &expected, reference ? &expected : &unused);
    }
  }
}

Json report_on(const std::vector<Target>& targets) {
  int checks = 0;
  size_t failed = 0;
  Json each = Json::array();
  for (const Target& target : targets) {
    checks += target.outcome.checks;
    failed += target.outcome.failures.size();
    const bool in_use = talus::names("cpu_target").at(0) == target.name;
    each.push_back({{"name", target.name},
                    {"in_use", in_use},
                    {"checked", target.checked},
                    {"compared_with", target.name == kReference ? Json() : Json(kReference)},
                    {"checks", target.outcome.checks},
                    {"failures", target.outcome.failures}});
  }
  Json algorithms = Json::array(), chunks = Json::array();
  int brief = 0;
  for (const Setup& setup : all_setups()) brief += setup.brief;
  for (const Setup& setup : all_setups())
    if (algorithms.empty() || algorithms.back() != setup.algorithm)
      algorithms.push_back(setup.algorithm);
  for (const int tiles : kChunkTiles) chunks.push_back(tiles * 4096);
  return {{"checks", checks},
          {"failed", failed},
          {"algorithms", algorithms},
          {"setups", all_setups().size()},
          {"brief_setups", brief},
          {"dtype_mixes", kMixCount},
          {"tensors", problem().tensors.size()},
          {"threads", kThreadCounts},
          {"chunk_elements", chunks},
          {"targets", each}};
}

std::string remark_on(const Json& target) {
  const std::string name = target["name"];
  if (!target["checked"].get<bool>()) return "only what the other is compared with";
  std::string text = target["compared_with"].is_null()
                         ? "threads and chunks; other targets are compared with it"
                         : "threads and chunks; against " + std::string(kReference);
  if (target["in_use"].get<bool>())
    text += fmt::format("; in use: {}", talus::doc("cpu_target", name));
  return text;
}

void print_failures(const std::string& name, const std::vector<std::string>& failures) {
  for (size_t i = 0; i < std::min(failures.size(), kMostPrinted); ++i)
    fmt::print("FAILED {}\n", failures[i]);
  if (failures.size() > kMostPrinted)
    fmt::print("FAILED {}: {} more, --json has all\n", name, failures.size() - kMostPrinted);
}

int verdict(int checks, size_t failed) {
  if (failed == 0)
    fmt::print("selftest: {} checks passed\n", checks);
  else
    fmt::print("selftest: {} of {} checks failed\n", failed, checks);
  return failed == 0 && checks > 0 ? kOk : kFailure;
}

void print_text(const Json& report) {
  const auto list = [&](const char* key) {
    return fmt::format("{}", fmt::join(report[key].get<std::vector<int>>(), ", "));
  };
  fmt::print(
      "{}\n",
      format_table(
          {{"algorithms",
            fmt::format("{}; {} setups of their flags",
                        fmt::join(report["algorithms"].get<std::vector<std::string>>(), ", "),
                        report["setups"].get<int>())},
           {"tensors", fmt::format("{}, of 0 to {} elements in {} mixes of dtypes, every other "
                                   "one off alignment, one a mix of special values",
                                   report["tensors"].get<int>(), largest_count(),
                                   report["dtype_mixes"].get<int>())},
           {"threads", list("threads") + ", and a host's own loop"},
           {"chunks", list("chunk_elements") + " elements"}}));
  std::vector<std::vector<std::string>> rows = {{"CPU target", "checks", "failed", ""}};
  for (const Json& target : report["targets"])
    rows.push_back({target["name"], fmt::format("{}", target["checks"].get<int>()),
                    fmt::format("{}", target["failures"].size()), remark_on(target)});
  fmt::print("{}", format_table(rows));
  for (const Json& target : report["targets"])
    print_failures(target["name"], target["failures"].get<std::vector<std::string>>());
  verdict(report["checks"], report["failed"]);
}

// "cuda" or "cuda:1", which the command line has looked at.
int run_device(const std::string& device, bool json) {
  const size_t colon = device.find(':');
  const int32_t id = colon == std::string::npos ? 0 : std::stoi(device.substr(colon + 1));
  talus::Optimizer("sgd", {}, TALUS_CUDA, id);  // throws the library's own words
  const std::string name = fmt::format("cuda:{}", id), doc = talus::doc("devices", name);
  const Outcome outcome = check_device(id);
  if (!json) {
    fmt::print("{}",
               format_table({{name, doc},
                             {"plugin", talus::names("plugins").at(0)},
                             {"setups", fmt::format("{} in {} mixes of dtypes, against the CPU",
                                                    all_setups().size(), kMixCount)}}));
    print_failures(name, outcome.failures);
    return verdict(outcome.checks, outcome.failures.size());
  }
  const Json report = {{"checks", outcome.checks},
                       {"failed", outcome.failures.size()},
                       {"device", name},
                       {"doc", doc},
                       {"setups", all_setups().size()},
                       {"dtype_mixes", kMixCount},
                       {"failures", outcome.failures}};
  fmt::print("{}\n", report.dump(2));
  return outcome.failures.empty() ? kOk : kFailure;
}

int run(bool json) {
  std::vector<Target> targets = start_targets();
  run_targets(targets);
  const Json report = report_on(targets);
  if (json)
    fmt::print("{}\n", report.dump(2));
  else
    print_text(report);
  return report["failed"] == 0 && report["checks"] > 0 ? kOk : kFailure;
}

}  // namespace

Command add_selftest(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  auto device = std::make_shared<std::string>("cpu");
  CLI::App* line = app.add_subcommand(
      "selftest",
      "Checks results on this machine: equal bits of all CPU targets, threads and chunks");
  line->add_option("--device", *device, "cpu, cuda or cuda:N, which is compared with the CPU")
      ->check([](const std::string& given) {
        const bool known =
            given == "cpu" || given == "cuda" ||
            (given.size() < 9 && given.substr(0, 5) == "cuda:" &&
             given.find_first_not_of("0123456789", 5) == std::string::npos && given.size() > 5);
        return known ? std::string() : "\"" + given + "\", expected cpu, cuda or cuda:N";
      });
  line->add_option_function<int64_t>(
          "--largest", leave_out_above,
          "Elements of the largest tensor, for a device that is emulated")
      ->check(CLI::PositiveNumber);
  std::vector<std::string> names = talus::names("algorithms");
  for (const std::string& alias : talus::names("aliases")) names.push_back(alias);
  line->add_option_function<std::vector<std::string>>(
          "--only", leave_out_all_but, "Algorithms and aliases to check; all others are left out")
      ->check(CLI::IsMember(names));
  line->add_flag("--json", *json, "Print JSON");
  line->footer(
      "Runs every CPU target of this machine; TALUS_CPU_TARGET picks one, which is compared with\n"
      "scalar.\n"
      "Example: TALUS_CPU_TARGET=avx2 talus selftest\n"
      "Exit codes: 0 all passed; 1 a check failed (what, where and both values are printed), or\n"
      "there is no such device; 2 wrong usage.");
  return {line,
          [json, device] { return *device == "cpu" ? run(*json) : run_device(*device, *json); }};
}

}  // namespace command
