// Reads the golden files. Apart from the tests that use them, for JSON is slow to compile.
#include "tests/golden_file.h"

#include <bit>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

namespace talus::test {
namespace {

using Json = nlohmann::ordered_json;
using Numbers = std::vector<double>;

GoldenRows rows_of(const Json& json) {
  GoldenRows step{json.at("rows").get<std::vector<int64_t>>(), {}};
  for (const Json& row : json.at("values")) {
    const auto values = row.get<Numbers>();
    step.values.insert(step.values.end(), values.begin(), values.end());
  }
  return step;
}

GoldenCase case_of(const Json& json) {
  GoldenCase c;
  c.source = json.at("source");
  c.algorithm = json.at("algorithm");
  for (const auto& [name, value] : json.at("hypers").items()) c.hypers.emplace_back(name, value);
  c.needs = json.value("needs", c.needs);
  c.tolerance = json.at("tolerance");
  c.shape = json.at("shape").get<std::vector<int64_t>>();
  c.p0 = json.at("p0").get<Numbers>();
  c.gradients = json.value("gradients", c.gradients);
  if (json.contains("rows"))
    for (const Json& step : json.at("rows")) c.rows.push_back(rows_of(step));
  for (const auto& [step, p] : json.at("p").items()) c.p[std::stoul(step)] = p.get<Numbers>();
  for (const auto& [slot, values] : json.at("state").items()) c.state[slot] = values.get<Numbers>();
  c.unlisted = json.value("unlisted", c.unlisted);
  return c;
}

// What is wrong with a case that reads well, or "".
std::string fault(const GoldenCase& c) {
  const size_t count =
      size_t(std::accumulate(c.shape.begin(), c.shape.end(), int64_t{1}, std::multiplies<>()));
  const auto whole = [&](const Numbers& x) { return x.size() == count; };
  if (!whole(c.p0) || !std::all_of(c.gradients.begin(), c.gradients.end(), whole))
    return "p0 or a gradient is not of the shape";
  for (const GoldenRows& step : c.rows)
    if (step.values.size() != step.rows.size() * size_t(c.shape.back()))
      return "rows and values do not fit";
  if (c.gradients.empty() == c.rows.empty()) return "wants either gradients or rows";
  for (const auto& [step, p] : c.p)
    if (step < 1 || step > c.steps() || !whole(p)) return "p of no step, or not of the shape";
  if (!c.p.contains(c.steps())) return "p of the last step is missing";
  return "";
}

void read_file(const std::filesystem::path& path, std::vector<GoldenCase>& cases) {
  std::ifstream stream(path);
  const Json file = Json::parse(stream);
  const std::string rule = file.at("rule");
  if (rule != path.stem()) throw std::runtime_error("another rule than the file's name says");
  for (const Json& json : file.at("cases")) {
    GoldenCase c = case_of(json);
    const auto index = std::to_string(&json - &file.at("cases").front());
    c.rule = rule;
    c.name = rule + ".json, case " + index + ": " + c.source + " of " + c.algorithm + " " +
             json.at("hypers").dump();
    if (const std::string text = fault(c); !text.empty())
      throw std::runtime_error(c.name + ": " + text);
    cases.push_back(std::move(c));
  }
}

// Those of schedules are golden_schedules.cpp's.
bool is_of_rule(const std::filesystem::path& path) {
  return path.extension() == ".json" && !path.stem().string().starts_with("schedules");
}

std::vector<GoldenCase> read_folder(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (is_of_rule(entry.path())) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<GoldenCase> cases;
  for (const auto& path : paths) {
    try {
      read_file(path, cases);
    } catch (const std::exception& error) {
      throw std::runtime_error(path.string() + ": " + error.what());
    }
  }
  return cases;
}

bool is_near(double got, double want, double tolerance) {
  if (tolerance == 0) return std::bit_cast<uint64_t>(got) == std::bit_cast<uint64_t>(want);
  return std::abs(got - want) <= tolerance * std::abs(want);
}

}  // namespace

const std::vector<GoldenCase>& golden_cases() {
  static const std::vector<GoldenCase> cases = read_folder(TALUS_GOLDEN_FOLDER);
  return cases;
}

std::string golden_difference(const std::string& what, const std::vector<double>& got,
                              const std::vector<double>& want, double tolerance) {
  char text[256];
  std::snprintf(text, sizeof text, " has %zu elements, not %zu", got.size(), want.size());
  if (got.size() != want.size()) return what + text;
  for (size_t i = 0; i < got.size(); ++i) {
    if (is_near(got[i], want[i], tolerance)) continue;
    std::snprintf(text, sizeof text,
                  " index %zu: got %016" PRIx64 " (%.17g), want %016" PRIx64
                  " (%.17g), off by %.3g of it, allowed %g",
                  i, std::bit_cast<uint64_t>(got[i]), got[i], std::bit_cast<uint64_t>(want[i]),
                  want[i], std::abs((got[i] - want[i]) / want[i]), tolerance);
    return what + text;
  }
  return "";
}

}  // namespace talus::test
