// `talus selftest`: does this library compute on this machine what it promises?
#include "command.hpp"
#include "selftest.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <memory>

namespace command {
namespace {

using Json = nlohmann::ordered_json;

int run(bool json) {
  int checks = 0, failed = 0;
  Json algorithms = Json::array();
  for (const char* list : {"algorithms", "aliases"}) {
    for (const std::string& name : talus::names(list)) {
      Outcome outcome;
      check_bits(name, outcome);
      check_worked_values(name, outcome);
      checks += outcome.checks;
      failed += int(outcome.failures.size());
      algorithms.push_back(
          {{"name", name}, {"checks", outcome.checks}, {"failures", outcome.failures}});
      if (json) continue;
      if (outcome.failures.empty())
        fmt::print("{:<28} {:>4} checks passed\n", name, outcome.checks);
      for (const std::string& failure : outcome.failures)
        fmt::print("{:<28} FAILED: {}\n", name, failure);
    }
  }
  const Json document = {{"checks", checks}, {"failed", failed}, {"algorithms", algorithms}};
  if (json)
    fmt::print("{}\n", document.dump(2));
  else if (failed == 0)
    fmt::print("selftest: {} checks passed\n", checks);
  else
    fmt::print("selftest: {} of {} checks failed\n", failed, checks);
  return failed == 0 && checks > 0 ? kOk : kFailure;
}

}  // namespace

Command add_selftest(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  CLI::App* line = app.add_subcommand(
      "selftest", "Checks results on this machine: equal bits for all threads, known values");
  line->add_flag("--json", *json, "Print JSON");
  line->footer(
      "Example: TALUS_CPU_TARGET=scalar talus selftest\n"
      "Exit codes: 0 all passed; 1 a check failed (what, where and both values are printed);\n"
      "2 wrong usage.");
  return {line, [json] { return run(*json); }};
}

}  // namespace command
