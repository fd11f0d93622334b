// Where closed forms go wrong: ends, lengths of 0, restarts, and the largest times there are.
#include <catch2/catch_test_macros.hpp>
#include <limits>

#include "tests/schedule.h"

using namespace talus::test;

namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kBeyond[] = {1000000,          int64_t(1) << 31, (int64_t(1) << 53) + 1,
                               int64_t(1) << 62, kMost - 1,        kMost};

struct Value {
  int64_t t;
  double value;
};

// To the last bit.
void check(const ScheduleSpec& spec, double base, const std::vector<Value>& values) {
  const Schedule schedule(spec);
  for (const Value& v : values) {
    const double got = schedule.value(base, v.t);
    INFO(text_of(spec) << " at t = " << v.t << ": got " << got << ", want " << v.value);
    CHECK(bits_of(got) == bits_of(v.value));
  }
}

// From `end` on it stays at `value`.
void check_end(const ScheduleSpec& spec, double base, int64_t end, double value) {
  check(spec, base, {{end, value}, {end + 1, value}, {2 * end, value}});
  for (const int64_t t : kBeyond) check(spec, base, {{t, value}});
  if (end > 0) CHECK(bits_of(Schedule(spec).value(base, end - 1)) != bits_of(value));
}

void refuse(const char* kind, const char* param, double value) {
  Schedule schedule(kind);
  const double before = schedule.get(param);
  INFO(kind << ": " << param << " = " << value);
  CHECK(talus_schedule_set(schedule, param, value) == TALUS_E_RANGE);
  CHECK(std::string(talus_last_error()).find(param) != std::string::npos);
  CHECK(std::string(talus_last_error()).find(kind) != std::string::npos);
  CHECK(bits_of(schedule.get(param)) == bits_of(before));
}

}  // namespace

TEST_CASE("schedules: ends are exact, and last for ever") {
  check_end({"constant"}, 0.3, 5, 0.3);
  check_end({"linear"}, 0.3, 5, 0.3);
  check_end({"linear", {{"end_factor", 0.7}}}, 0.3, 5, 0.3 * 0.7);
  check_end({"polynomial", {{"eta_min", 0.1}}}, 0.3, 5, 0.1);
  check_end({"polynomial", {{"eta_min", 0.1}, {"power", 0.3}, {"total_iters", 77}}}, 0.3, 77, 0.1);
  check_end({"cosine", {{"T_max", 9}, {"eta_min", 0.1}}}, 0.3, 9, 0.1);
  check_end({"cosine", {{"T_max", 9}, {"eta_min", 0.7}}}, 0.3, 9, 0.7);  // rises
  check_end({"one_cycle", {{"total_steps", 9}}}, 0.3, 8, 0.3 / 25 / 1e4);
  check_end({"one_cycle", {{"total_steps", 9}, {"anneal", 1}, {"final_value", 0.2}}}, 0.3, 8, 0.2);
  check_end({"one_cycle", {{"total_steps", 9}, {"three_phase", 1}}}, 0.3, 8, 0.3 / 25 / 1e4);
  check_end({"wsd", {{"warmup_steps", 2}, {"stable_steps", 3}, {"decay_steps", 4}}}, 0.3, 9, 0);
  check_end({"wsd", {{"stable_steps", 3}, {"decay_steps", 4}, {"end_factor", 0.1}, {"decay", 3}}},
            0.3, 7, 0.3 * 0.1);
  check_end({"multistep", {}, {4, 7}}, 0.3, 7, 0.3 * 0x1.47ae147ae147cp-7);  // the power of 0.1
  check_end({"exponential", {{"gamma", 0.0}}}, 0.3, 1, 0);
  check({"linear", {{"start_factor", 0.0}, {"total_iters", 0x1p53}}}, 0.3,
        {{int64_t(1) << 52, 0.15}, {int64_t(1) << 53, 0.3}, {kMost, 0.3}});
  check({"constant", {{"total_iters", 0x1p53}}}, 0.3,
        {{(int64_t(1) << 53) - 1, 0.3 * (1.0 / 3)}, {int64_t(1) << 53, 0.3}});
}

TEST_CASE("schedules: at t = 0 all that begin at the base are exactly there") {
  for (const ScheduleSpec& spec :
       std::vector<ScheduleSpec>{{"step", {{"step_size", 3}, {"gamma", 0.0}}},
                                 {"exponential", {{"gamma", 0.0}}},
                                 {"multistep", {}, {1}},
                                 {"polynomial", {{"eta_min", 0.1}, {"power", 0.7}}},
                                 {"cosine", {{"T_max", 7}, {"eta_min", 0.1}}},
                                 {"cosine_restarts", {{"T_0", 7}, {"eta_min", 0.1}}},
                                 {"cyclic", {{"max_value", 0.7}}},
                                 {"multiplicative", {}, {}, {}, "infinity"},  // f(0) is never asked
                                 {"wsd"}})
    check(spec, 0.3, {{0, 0.3}});
  check({"linear", {{"start_factor", 0.0}}}, 0.3, {{0, 0}});
  check({"multistep", {{"gamma", 0.5}}, {0, 0, 3}}, 0.3, {{0, 0.075}, {2, 0.075}, {3, 0.0375}});
}

TEST_CASE("schedules: what has no length has ended, and divides by nothing") {
  const auto always = [](const ScheduleSpec& spec, double value) {
    check(spec, 0.3, {{0, value}, {1, value}, {kMost, value}});
  };
  always({"constant", {{"total_iters", 0}, {"factor", 0.0}}}, 0.3);
  always({"linear", {{"total_iters", 0}, {"end_factor", 0.5}}}, 0.15);
  always({"polynomial", {{"total_iters", 0}, {"eta_min", 0.1}}}, 0.1);
  always({"multistep"}, 0.3);
  always({"chained"}, 0.3);
  always({"wsd", {{"warmup_steps", 0}, {"stable_steps", 0}}}, 0.3);  // D = 0: never decays
  always({"wsd", {{"warmup_steps", 0}, {"decay_steps", 5}}}, 0.3);   // no end of S yet
  check({"wsd", {{"warmup_steps", 0}, {"stable_steps", 0}, {"decay_steps", 1}}}, 0.3,
        {{0, 0.3}, {1, 0}});
  check({"wsd", {{"warmup_steps", 2}, {"stable_steps", 0}, {"decay_steps", 0}}}, 0.3,
        {{0, 0}, {1, 0.15}, {2, 0.3}, {kMost, 0.3}});
  refuse("step", "step_size", 0);
  refuse("cosine", "T_max", 0);
  refuse("cosine_restarts", "T_0", 0);
  refuse("cosine_restarts", "T_mult", 0);
  refuse("cyclic", "step_size_up", 0);
  refuse("one_cycle", "total_steps", 1);
  refuse("one_cycle", "total_steps", 0);
  refuse("inverse_sqrt", "warmup_steps", -1);
  refuse("wsd", "stable_steps", -2);
}

TEST_CASE("schedules: warm restarts are found by integers, at every length") {
  for (const int64_t first : {1, 2, 7, 1024})
    for (const int64_t mult : {1, 2, 3, 10}) {
      const ScheduleSpec spec = {
          "cosine_restarts", {{"T_0", double(first)}, {"T_mult", double(mult)}, {"eta_min", .1}}};
      const Schedule schedule(spec);
      int64_t start = 0, length = first;
      for (int i = 0; i < 40 && length < kMost / 32; ++i, length *= mult) {
        check(spec, 0.3, {{start, 0.3}});
        start += length;
        const double last = schedule.value(0.3, start - 1);
        CHECK((length == 1) == (last == 0.3));  // only the first of a cycle is at the base
        CHECK(last >= 0.1);
        if (length > 2) CHECK(last < schedule.value(0.3, start - length + 1));
      }
    }
  const ScheduleSpec huge = {"cosine_restarts", {{"T_0", 0x1p53}, {"T_mult", 0x1p53}}};
  check(huge, 0.3, {{int64_t(1) << 53, 0.3}, {int64_t(1) << 52, 0.15}});
  const double late = Schedule(huge).value(0.3, kMost);  // 2^63 of a cycle of 2^106
  CHECK((late > 0.29 && late <= 0.3));
}

TEST_CASE("schedules: a periodic cosine comes back to its ends exactly, without drift") {
  const ScheduleSpec spec = {"cosine", {{"T_max", 7}, {"eta_min", 0.1}, {"periodic", 1}}};
  for (const int64_t n : {int64_t(1), int64_t(1000), int64_t(1) << 40, kMost / 14}) {
    check(spec, 0.3, {{14 * n, 0.3}});
    check(spec, 0.3, {{14 * n - 7, 0.1}});
    CHECK(Schedule(spec).value(0.3, 14 * n - 3) == Schedule(spec).value(0.3, 11));
  }
}

TEST_CASE("schedules: cycles halve until nothing is left, and gamma^0 is 1") {
  const ScheduleSpec halving = {
      "cyclic", {{"max_value", 1.0}, {"step_size_up", 1}, {"step_size_down", 1}, {"mode", 1}}};
  check(halving, 0, {{1, 1}, {3, 0.5}, {5, 0.25}, {2 * 1074 + 1, 0x1p-1074}, {2 * 1075 + 1, 0}});
  check(halving, 0.3, {{2 * 100000 + 1, 0.3}, {kMost, 0.3}});
  const ScheduleSpec falling = {
      "cyclic", {{"max_value", 1.0}, {"step_size_up", 2}, {"mode", 2}, {"gamma", 0.0}}};
  check(falling, 0.3, {{0, 0.3}, {1, 0.3}, {2, 0.3}});
  check({"cyclic", {{"max_value", 1.0}, {"step_size_up", 2}, {"mode", 2}, {"gamma", 0.5}}}, 0,
        {{1, 0.25}, {2, 0.25}, {3, 0.0625}, {4, 0}});
  check({"cyclic", {{"max_value", 1.0}, {"step_size_up", 4}}}, 0,  // down as long as up
        {{3, 0.75}, {4, 1}, {5, 0.75}, {8, 0}, {9, 0.25}});
}

TEST_CASE("schedules: empty phases of one_cycle are skipped") {
  const auto of = [](std::map<std::string, double> params) {
    params.insert({"max_value", 1.0});
    params.insert({"div_factor", 4.0});
    params.insert({"final_value", 0.125});
    return ScheduleSpec{"one_cycle", params};
  };
  check(of({{"total_steps", 2}}), 9, {{0, 1}, {1, 0.125}});
  check(of({{"total_steps", 2}, {"pct_start", 0.5}}), 9, {{0, 1}, {1, 0.125}});  // end at exactly 0
  check(of({{"total_steps", 2}, {"pct_start", 1}}), 9, {{0, 0.25}, {1, 0.125}});
  check(of({{"total_steps", 9}, {"pct_start", 0}}), 9, {{0, 1}, {8, 0.125}});
  check(of({{"total_steps", 9}, {"pct_start", 1}}), 9, {{0, 0.25}, {8, 0.125}});
  check(of({{"total_steps", 9}, {"pct_start", 0}, {"three_phase", 1}, {"anneal", 1}}), 9,
        {{0, 0.25}, {4, 0.1875}, {8, 0.125}});  // one way left, from the start to the end
  check(of({{"total_steps", 4}, {"pct_start", 0.5}, {"three_phase", 1}, {"anneal", 1}}), 9,
        {{0, 0.25}, {1, 1}, {2, 0.25}, {3, 0.125}});
  check(of({{"total_steps", 12}, {"pct_start", 0.25}, {"anneal", 1}}), 9,
        {{0, 0.25}, {1, 0.625}, {2, 1}, {11, 0.125}});
}

TEST_CASE("schedules: milestones count twice, in any order, and from 0") {
  check({"multistep", {{"gamma", 0.5}}, {8, 3, 8, kMost, 3}}, 1,
        {{2, 1}, {3, 0.25}, {7, 0.25}, {8, 0.0625}, {kMost - 1, 0.0625}, {kMost, 0.03125}});
  const ScheduleSpec half = {"constant", {{"factor", 0.5}, {"total_iters", 0x1p53}}},
                     quarter = {"constant", {{"factor", 0.25}, {"total_iters", 2}}},
                     whole = {"chained"};
  check({"sequential", {}, {0}, {half, quarter}}, 1, {{0, 0.25}, {1, 0.25}, {2, 1}});
  check({"sequential", {}, {3, 3}, {quarter, half, quarter}}, 1,
        {{1, 0.25}, {2, 1}, {3, 0.25}, {4, 0.25}, {5, 1}});
  check({"sequential", {}, {0, 0}, {half, half, quarter}}, 1, {{0, 0.25}, {2, 1}});
  check({"sequential", {}, {kMost}, {half, whole}}, 1, {{kMost - 1, 1}, {kMost, 1}});
  check({"sequential", {}, {}, {quarter}}, 1, {{0, 0.25}, {2, 1}});
}

TEST_CASE("schedules: a stable stage without an end is closed while it lasts") {
  Schedule schedule("wsd", {{"warmup_steps", 10}, {"decay_steps", 4}});
  CHECK(schedule.value(1, 1000) == 1);
  schedule.set("stable_steps", 990);  // now is 1000
  CHECK(schedule.value(1, 999) == 1);
  CHECK(schedule.value(1, 1000) == 1);
  CHECK(schedule.value(1, 1001) == 0.75);
  CHECK(schedule.value(1, 1004) == 0);
  schedule.set("stable_steps", -1);
  CHECK(schedule.value(1, 1004) == 1);
}

TEST_CASE("schedules: levels fall to 0 and grow to an error, nothing else") {
  check({"exponential", {{"gamma", 0.5}}}, 1, {{1074, 0x1p-1074}, {1075, 0}, {kMost, 0}});
  check({"step", {{"step_size", 2}, {"gamma", 0.0}}}, 1, {{1, 1}, {2, 0}, {kMost, 0}});
  check({"step", {{"step_size", 2}, {"gamma", 2}}}, 1, {{3, 2}, {2046, 0x1p1023}});
  check({"exponential", {{"gamma", 1}}}, 0.3, {{kMost, 0.3}});
  double value = 7;
  CHECK(talus_schedule_value(Schedule("exponential", {{"gamma", 2}}), 1, 1024, &value) ==
        TALUS_E_RANGE);
  CHECK(talus_schedule_value(Schedule("step", {{"step_size", 2}, {"gamma", 2}}), 1, 2048, &value) ==
        TALUS_E_RANGE);
  CHECK(value == 7);
}

TEST_CASE("schedules: an inverse square root neither overflows its count nor divides by 0") {
  check({"inverse_sqrt", {{"warmup_steps", 1}, {"offset", 0x1p53}}}, 1,
        {{int64_t(7) << 53, 0x1p-28}, {kMost, std::sqrt(1 / 0x1.004p+63)}});
  check({"inverse_sqrt", {{"warmup_steps", 0}}}, 1,
        {{0, 1}, {3, 0.5}, {(int64_t(1) << 62) - 1, 0x1p-31}});
  check({"inverse_sqrt", {{"warmup_steps", 4}, {"offset", 0}}}, 1,
        {{0, 0}, {1, 0.25}, {4, 1}, {16, 0.5}});
  check({"inverse_sqrt", {{"warmup_steps", 4}, {"offset", 16}}}, 1, {{0, 0.5}});
  const Schedule empty("inverse_sqrt", {{"warmup_steps", 0}, {"offset", 0}});
  double value = 7;
  CHECK(talus_schedule_value(empty, 1, 0, &value) == TALUS_E_RANGE);
  CHECK(value == 7);
}

TEST_CASE("schedules: parameters that are no such number are refused, and the old one stays") {
  for (const double wrong : {std::nan(""), double(INFINITY), -double(INFINITY)})
    for (int32_t k = 0; k < talus_name_count("schedules"); ++k) {
      const std::string kind = talus_name_at("schedules", k), owner = "schedule/" + kind;
      for (int32_t i = 0; i < talus_hyper_count(owner.c_str()); ++i) {
        talus_hyper hyper{};
        hyper.struct_size = sizeof hyper;
        must(talus_hyper_info(owner.c_str(), i, &hyper));
        refuse(kind.c_str(), hyper.name, wrong);
        if (hyper.kind == TALUS_REAL) continue;
        refuse(kind.c_str(), hyper.name, 0.5);
        refuse(kind.c_str(), hyper.name, hyper.max + 2);
        refuse(kind.c_str(), hyper.name, hyper.min - 1);
      }
    }
  for (const char* kind : {"step", "multistep", "exponential", "cyclic"})
    refuse(kind, "gamma", -0.1);
  refuse("constant", "factor", -0.1);
  refuse("linear", "start_factor", -0.1);
  refuse("linear", "end_factor", -0.1);
  refuse("polynomial", "power", 0);
  refuse("one_cycle", "pct_start", 1.001);
  refuse("one_cycle", "div_factor", 0);
  refuse("one_cycle", "final_div_factor", 0);
  refuse("wsd", "end_factor", -0.1);
  refuse("plateau", "factor", 1);
  refuse("plateau", "threshold", -0.1);
  refuse("plateau", "eps", -0.1);
}
