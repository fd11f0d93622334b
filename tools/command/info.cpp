// `talus info`: what this library is and what it can use on this machine.
#include "command.hpp"
#include "table.hpp"
#include "threads.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <memory>

namespace command {
namespace {

using Json = nlohmann::ordered_json;

Json features_json() {
  Json features = Json::array();
  for (const std::string& name : talus::names("features")) {
    std::string reason;
    const bool usable = talus::has_feature(name, &reason);
    features.push_back({{"name", name},
                        {"usable", usable},
                        {"reason", usable ? Json(nullptr) : Json(reason)},
                        {"doc", talus::doc("features", name)}});
  }
  return features;
}

// Names and lines of a list.
Json lines_json(const char* list) {
  Json lines = Json::array();
  for (const std::string& name : talus::names(list))
    lines.push_back({{"name", name}, {"doc", talus::doc(list, name)}});
  return lines;
}

// The one in use and why; null and the library's words where TALUS_CPU_TARGET asks for what is not
// there.
Json cpu_target_json() {
  std::string reason;
  if (!talus::has_feature("cpu", &reason)) return {{"name", nullptr}, {"reason", reason}};
  const std::string name = talus::names("cpu_target").at(0);
  return {{"name", name}, {"reason", talus::doc("cpu_target", name)}};
}

Json info_json() {
  const uint32_t version = talus_version(), abi = talus_abi_version();
  const Threads threads = usable_threads();
  return {{"version", fmt::format("{}.{}.{}", version >> 16, version >> 8 & 255, version & 255)},
          {"abi", {{"number", abi >> 16}, {"additions", abi & 0xffff}}},
          {"build", talus_build_info()},
          {"cpu_target", cpu_target_json()},
          {"cpu_targets", talus::names("cpu_targets")},
          {"threads",
           {{"usable", threads.usable},
            {"cores", threads.cores},
            {"affinity", threads.affinity},
            {"cgroup_quota", threads.quota ? Json(*threads.quota) : Json(nullptr)}}},
          {"backends", features_json()},
          {"plugins", lines_json("plugins")},
          {"devices", lines_json("devices")}};
}

std::string threads_text(const Json& threads) {
  const std::string quota =
      threads["cgroup_quota"].is_null()
          ? "no cgroup limit"
          : fmt::format("cgroup grants {}", threads["cgroup_quota"].get<double>());
  return fmt::format("{} usable ({} cores online, {} by affinity, {})",
                     threads["usable"].get<int>(), threads["cores"].get<int>(),
                     threads["affinity"].get<int>(), quota);
}

void print_text(const Json& info) {
  const Json &abi = info["abi"], &target = info["cpu_target"];
  std::vector<std::vector<std::string>> rows = {
      {"version", info["version"]},
      {"ABI",
       fmt::format("{}, {} additions", abi["number"].get<int>(), abi["additions"].get<int>())},
      {"build", info["build"]},
      {"CPU target",
       fmt::format("{}: {}", target["name"].is_null() ? "none" : target["name"].get<std::string>(),
                   target["reason"].get<std::string>())},
      {"CPU targets",
       fmt::format("{}", fmt::join(info["cpu_targets"].get<std::vector<std::string>>(), ", "))},
      {"threads", threads_text(info["threads"])}};
  for (const Json& feature : info["backends"]) {
    const std::string name = feature["name"], doc = feature["doc"];
    const std::string state = feature["usable"].get<bool>()
                                  ? "usable"
                                  : "not usable: " + feature["reason"].get<std::string>();
    rows.push_back({"backend " + name, fmt::format("{} ({})", state, doc)});
  }
  const auto add_lines = [&](const char* what, const Json& lines) {
    for (const Json& line : lines)
      rows.push_back({what, fmt::format("{}: {}", line["name"].get<std::string>(),
                                        line["doc"].get<std::string>())});
  };
  add_lines("plugin", info["plugins"]);
  add_lines("device", info["devices"]);
  if (info["devices"].empty()) rows.push_back({"device", "the CPU alone"});
  fmt::print("{}", format_table(rows));
}

}  // namespace

Command add_info(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  CLI::App* line = app.add_subcommand("info", "Shows version, CPU targets, threads and devices");
  line->add_flag("--json", *json, "Print JSON");
  line->footer(
      "Example: talus info --json\n"
      "Exit codes: 0 success; 1 TALUS_CPU_TARGET names no usable target (all else is shown);\n"
      "2 wrong usage.");
  return {line, [json] {
            const Json info = info_json();
            if (*json)
              fmt::print("{}\n", info.dump(2));
            else
              print_text(info);
            if (!info["cpu_target"]["name"].is_null()) return kOk;
            fmt::print(stderr, "talus: {}\n", info["cpu_target"]["reason"].get<std::string>());
            return kFailure;
          }};
}

}  // namespace command
