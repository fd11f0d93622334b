// Reads the golden files of schedules.
#include "tests/golden_schedules.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

namespace talus::test {
namespace {

using Json = nlohmann::ordered_json;

ScheduleSpec spec_of(const Json& json) {
  ScheduleSpec spec{json.at("kind")};
  spec.params = json.value("params", spec.params);
  spec.milestones = json.value("milestones", spec.milestones);
  spec.function = json.value("function", spec.function);
  if (json.contains("pieces"))
    for (const Json& piece : json.at("pieces")) spec.pieces.push_back(spec_of(piece));
  return spec;
}

void check(bool right, const std::string& name, const char* fault) {
  if (!right) throw std::runtime_error(name + ": " + fault);
}

GoldenCurve curve_of(const Json& json, const std::string& where) {
  GoldenCurve c;
  c.source = json.at("source");
  c.schedule = spec_of(json.at("schedule"));
  c.name = where + c.source + " of " + text_of(c.schedule);
  c.base = json.at("base");
  c.tolerance = json.at("tolerance");
  c.t = json.at("t").get<std::vector<int64_t>>();
  c.value = json.at("value").get<std::vector<double>>();
  check(!c.t.empty() && c.t.size() == c.value.size(), c.name, "t and value do not fit");
  return c;
}

// {"4": x} is x from the 4th on.
std::vector<double> held(const Json& changes, double first, size_t count) {
  std::vector<double> out;
  for (size_t i = 1; i <= count; ++i) {
    first = changes.value(std::to_string(i), first);
    out.push_back(first);
  }
  return out;
}

GoldenReports reports_of(const Json& json, const std::string& where) {
  GoldenReports r;
  r.source = json.at("source");
  r.schedule = {"plateau", json.at("params").get<std::map<std::string, double>>()};
  r.name = where + r.source + " of " + text_of(r.schedule);
  r.base = json.at("base");
  for (const Json& metric : json.at("metric"))
    r.metric.push_back(metric.is_null() ? NAN : metric.get<double>());
  const bool most = r.schedule.params["mode"] != 0;
  r.value = held(json.at("value"), r.base, r.metric.size());
  r.best = held(json.at("best"), most ? -INFINITY : INFINITY, r.metric.size());
  r.bad = json.at("bad").get<std::vector<int64_t>>();
  r.cooling = json.at("cooling").get<std::vector<int64_t>>();
  check(r.bad.size() == r.metric.size() && r.cooling.size() == r.metric.size(), r.name,
        "columns of other lengths");
  return r;
}

struct Golden {
  std::vector<GoldenCurve> curves;
  std::vector<GoldenReports> reports;
};

Golden read() {
  Golden golden;
  for (const char* file : {"schedules.json", "schedules_torch.json"}) {
    std::ifstream stream(std::filesystem::path(TALUS_GOLDEN_FOLDER) / file);
    const Json json = Json::parse(stream);
    const std::string where = std::string(file) + ", ";
    for (const Json& curve : json.at("curves"))
      golden.curves.push_back(
          curve_of(curve, where + "curve " + std::to_string(golden.curves.size()) + ": "));
    for (const Json& reports : json.at("reports"))
      golden.reports.push_back(
          reports_of(reports, where + "reports " + std::to_string(golden.reports.size()) + ": "));
  }
  return golden;
}

const Golden& golden() {
  static const Golden read_once = read();
  return read_once;
}

}  // namespace

const std::vector<GoldenCurve>& golden_curves() { return golden().curves; }
const std::vector<GoldenReports>& golden_reports() { return golden().reports; }

}  // namespace talus::test
