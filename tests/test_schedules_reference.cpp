// Schedules against their definitions in long double, with random parameters, from t = 0 to the largest
// there is.
#include <catch2/catch_test_macros.hpp>

#include "tests/reference/schedules.hpp"
#include "tests/schedule.h"
#include "tests/schedule_draws.h"

using namespace talus::test;
using talus::reference::Rounded;

namespace {

constexpr double kMost = std::numeric_limits<double>::max();
// What nearly all values keep to; the others are differences of what is much larger.
constexpr double kNear = 4e-15, kNearZero = 1e-18;

struct Count {
  int values = 0, near = 0, refused = 0;
};

// "" or what is wrong with a value.
std::string difference(const Schedule& schedule, double base, int64_t t, Rounded want,
                       Count* count) {
  double got = 0;
  const talus_status status = talus_schedule_value(schedule, base, t, &got);
  const bool overflows = !(std::abs(want.x) + want.error <= kMost);
  count->refused += overflows;
  if (overflows && (status == TALUS_E_RANGE || std::abs(want.x) - want.error <= kMost)) return "";
  ++count->values;
  count->near += want.error <= kNear * std::abs(want.x) + kNearZero;
  const long double off = std::abs(got - want.x);
  if (status == TALUS_OK && off <= want.error * 1.001L) return "";
  char text[300];
  std::snprintf(text, sizeof text,
                "base %.17g, t %" PRId64
                ": %s, got %a (%.17g), want %.20Lg, off by %.3Lg, allowed %.3Lg",
                base, t, talus_status_name(status), got, got, want.x, off, want.error);
  return text;
}

void compare(const ScheduleSpec& spec, Draws& d, Count* count,
             int64_t latest = std::numeric_limits<int64_t>::max()) {
  const Schedule schedule(spec);
  const double base = d.one_in(3) ? d.pick(kLevels) : d.unit();
  for (const int64_t t : times_of(spec, d)) {
    if (t > latest) continue;
    const std::string text =
        difference(schedule, base, t, talus::reference::value(spec, base, t), count);
    if (!text.empty()) FAIL(text_of(spec) << ": " << text);
  }
}

}  // namespace

TEST_CASE("schedules: every closed kind is what its definition says, with random parameters") {
  for (const std::string& kind : closed_kinds()) {
    INFO(kind);
    Draws d(1);
    Count count;
    for (int i = 0; i < 1500; ++i) compare(draw_simple(d, kind), d, &count);
    INFO(count.values << " values, " << count.near << " near, " << count.refused << " refused");
    CHECK(count.values > 25000);
    CHECK(count.near > 0.85 * count.values);
  }
}

TEST_CASE("schedules: a product of a function's factors is that, up to t = 2000") {
  Draws d(2);
  Count count;
  for (int i = 0; i < 20; ++i) compare(draw_simple(d, "multiplicative"), d, &count, 2000);
  Schedule schedule(ScheduleSpec{"multiplicative", {}, {}, {}, "0.95 at odd t, else 0.9"});
  for (const int64_t t : {2000, 17, 1000, 1001, 3, 0, 1}) {
    const Rounded want =
        talus::reference::value({"multiplicative", {}, {}, {}, "0.95 at odd t, else 0.9"}, 0.1, t);
    CHECK(difference(schedule, 0.1, t, want, &count) == "");
  }
}

TEST_CASE("schedules: sequences and chains of random pieces, nested, are what they say") {
  Draws d(3);
  Count count;
  int compared = 0;
  while (compared < 3000) {
    const ScheduleSpec spec = draw_composite(d);
    if (!is_in_order(spec)) continue;
    compare(spec, d, &count);
    ++compared;
  }
  INFO(count.values << " values, " << count.near << " near, " << count.refused << " refused");
  CHECK(count.near > 0.85 * count.values);
}
