// Schedules give what the golden files say, worked values and a real PyTorch: without an optimizer, and
// attached to one.
#include <catch2/catch_test_macros.hpp>
#include <set>

#include "tests/golden_schedules.h"
#include "tests/reference/schedules.hpp"
#include "tests/schedule.h"

using namespace talus::test;

namespace {

// "" or what is wrong with value i of a curve. slack: what `got` may be off itself.
std::string difference(const GoldenCurve& c, size_t i, double got, double slack = 0) {
  const double want = c.value[i], off = std::abs(got - want);
  if (off <= c.tolerance * std::abs(want) + slack) return "";
  char text[200];
  std::snprintf(text, sizeof text, "t %" PRId64 ": got %a (%.17g), want %a (%.17g), off by %.3g",
                c.t[i], got, got, want, want, off / std::abs(want));
  return text;
}

std::vector<double> values_of(const GoldenCurve& c) {
  const Schedule schedule(c.schedule);
  std::vector<double> values;
  for (const int64_t t : c.t) values.push_back(schedule.value(c.base, t));
  return values;
}

// The same, as an optimizer sees it whose manual clock is set.
std::vector<double> attached_values_of(const GoldenCurve& c) {
  const Optimizer optimizer("sgd", {{"lr", c.base}});
  attach(optimizer.get(), "lr", Schedule(c.schedule), TALUS_CLOCK_MANUAL);
  std::vector<double> values;
  for (const int64_t t : c.t) {
    must(talus_set_clock(optimizer.get(), t));
    values.push_back(value_now(optimizer.get(), "lr"));
  }
  return values;
}

void list_kinds(const ScheduleSpec& spec, std::set<std::string>* kinds) {
  kinds->insert(spec.kind);
  for (const ScheduleSpec& piece : spec.pieces) list_kinds(piece, kinds);
}

std::set<std::string> kinds_of(const char* source) {
  std::set<std::string> kinds;
  for (const GoldenCurve& c : golden_curves())
    if (c.source.starts_with(source)) list_kinds(c.schedule, &kinds);
  for (const GoldenReports& r : golden_reports())
    if (r.source.starts_with(source)) list_kinds(r.schedule, &kinds);
  return kinds;
}

}  // namespace

TEST_CASE("schedules: every golden curve comes out as its file says") {
  for (const GoldenCurve& c : golden_curves()) {
    INFO(c.name);
    const std::vector<double> values = values_of(c);
    for (size_t i = 0; i < values.size(); ++i) CHECK(difference(c, i, values[i]) == "");
  }
}

TEST_CASE("the reference of schedules gives every golden curve as well") {
  for (const GoldenCurve& c : golden_curves()) {
    INFO(c.name);
    for (size_t i = 0; i < c.t.size(); ++i) {
      const auto value = talus::reference::value(c.schedule, c.base, c.t[i]);
      CHECK(difference(c, i, double(value.x), double(value.error)) == "");
    }
  }
}

TEST_CASE("schedules: attached and on the manual clock they have the same bits") {
  for (const GoldenCurve& c : golden_curves()) {
    INFO(c.name);
    const std::vector<double> alone = values_of(c), attached = attached_values_of(c);
    for (size_t i = 0; i < alone.size(); ++i) CHECK(bits_of(alone[i]) == bits_of(attached[i]));
  }
}

TEST_CASE("schedules: a curve is the same in whatever order its values are asked for") {
  for (const GoldenCurve& c : golden_curves()) {
    INFO(c.name);
    const std::vector<double> forwards = values_of(c);
    const Schedule schedule(c.schedule);
    for (size_t i = c.t.size(); i-- > 0;)
      CHECK(bits_of(schedule.value(c.base, c.t[i])) == bits_of(forwards[i]));
  }
}

TEST_CASE("schedules: reports to a plateau have the golden values, to the last bit") {
  for (const GoldenReports& r : golden_reports()) {
    INFO(r.name);
    const Optimizer optimizer("sgd", {{"lr", r.base}});
    attach(optimizer.get(), "lr", Schedule(r.schedule));
    CHECK(bits_of(value_now(optimizer.get(), "lr")) == bits_of(r.base));
    for (size_t i = 0; i < r.metric.size(); ++i) {
      INFO("report " << i + 1 << " of " << r.metric[i]);
      must(talus_observe(optimizer.get(), r.metric[i]));
      REQUIRE(bits_of(value_now(optimizer.get(), "lr")) == bits_of(r.value[i]));
    }
  }
}

TEST_CASE("schedules: every kind has a worked value, and a curve of PyTorch if that has it") {
  const std::set<std::string> worked = kinds_of("worked value"), torch = kinds_of("torch ");
  for (int32_t i = 0; i < talus_name_count("schedules"); ++i) {
    const std::string kind = talus_name_at("schedules", i);
    INFO(kind);
    CHECK(worked.contains(kind));
    CHECK(torch.contains(kind) == (kind != "inverse_sqrt" && kind != "wsd"));
  }
  CHECK(golden_reports().size() > 100);
}
