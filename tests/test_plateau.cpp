// The state machine of plateau, in every field: against PyTorch's and against its definition.
#include <catch2/catch_test_macros.hpp>
#include <cinttypes>
#include <cstdio>

#include "lib/schedule/kinds.h"
#include "lib/schedule/plateau.h"
#include "tests/golden_schedules.h"
#include "tests/reference/plateau.hpp"
#include "tests/schedule_draws.h"

using namespace talus;
using namespace talus::test;

namespace {

// As the library keeps them: its defaults, and what differs from them.
std::vector<double> params_of(const ScheduleSpec& spec) {
  const ScheduleKind& kind = *find_schedule_kind("plateau");
  std::vector<double> params;
  for (const Hyper& hyper : kind.params) {
    const auto given = spec.params.find(hyper.name);
    params.push_back(given == spec.params.end() ? hyper.def : given->second);
  }
  return params;
}

struct Run {
  explicit Run(const ScheduleSpec& spec, double base)
      : params(params_of(spec)), state(fresh_plateau(params.data())), value(base) {}
  void report(double metric) {
    if (report_metric(params.data(), metric, &state)) value = reduced_value(params.data(), value);
  }
  std::string difference(double best, double bad, int64_t cooling, double want) const {
    if (bits_of(state.best) == bits_of(best) && double(state.bad) == bad &&
        state.cooling == cooling && bits_of(value) == bits_of(want))
      return "";
    char text[300];
    std::snprintf(text, sizeof text,
                  "got best %.17g, bad %" PRId64 ", cooling %" PRId64
                  ", value %.17g; want %.17g, %g, %" PRId64 ", %.17g",
                  state.best, state.bad, state.cooling, value, best, bad, cooling, want);
    return text;
  }

  std::vector<double> params;
  PlateauState state;
  double value;
};

ScheduleSpec draw_plateau(Draws& d) {
  ScheduleSpec s{"plateau"};
  const auto often = [&](const char* name, double value) {
    if (!d.one_in(4)) s.params[name] = value;
  };
  often("mode", double(d.below(2)));
  often("factor", d.pick({0, 0.1, 0.5, 0.9}));
  often("patience", double(d.below(4)));
  often("threshold", d.pick({0, 1e-4, 0.1, 0.5}));
  often("threshold_mode", double(d.below(2)));
  often("cooldown", double(d.below(4)));
  often("min_value", d.pick({0, 1e-3, 0.3}));
  often("eps", d.pick({0, 1e-8, 0.05}));
  return s;
}

double draw_metric(Draws& d) {
  if (d.one_in(10)) return d.pick({NAN, INFINITY, -INFINITY, 0, -1, 1e300, -0.0});
  return double(d.below(40)) / 16 - 0.5;  // ties are common
}

}  // namespace

TEST_CASE("plateau: random reports leave what its definition says, in every field") {
  Draws d(1);
  for (int i = 0; i < 2000; ++i) {
    const ScheduleSpec spec = draw_plateau(d);
    const double base = d.pick({0, 0.1, 1, 1e-8, 3});
    Run run(spec, base);
    reference::Plateau want(spec, base);
    for (int report = 1; report <= 60; ++report) {
      const double metric = draw_metric(d);
      run.report(metric);
      want.report(metric);
      const std::string text = run.difference(want.best, want.bad, want.cooling, want.value);
      if (!text.empty())
        FAIL(text_of(spec) << ", base " << base << ", report " << report << " of " << metric << ": "
                           << text);
    }
  }
}

TEST_CASE("plateau: golden reports leave PyTorch's best, counts and value, to the last bit") {
  for (const GoldenReports& r : golden_reports()) {
    INFO(r.name);
    Run run(r.schedule, r.base);
    for (size_t i = 0; i < r.metric.size(); ++i) {
      INFO("report " << i + 1 << " of " << r.metric[i]);
      run.report(r.metric[i]);
      REQUIRE(run.difference(r.best[i], double(r.bad[i]), r.cooling[i], r.value[i]) == "");
    }
  }
}
