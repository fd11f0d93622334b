// Schedules of the ABI by themselves: kinds, parameters, milestones, and what is refused. How long they
// live: test_schedule_life.cpp; what they do to an optimizer: test_abi_attached.cpp.
#include "tests/abi/fixture.h"

#include <map>
#include <utility>

#include "tests/schedule.h"

using namespace talus::abi;
using talus::test::must;
using talus::test::Schedule;

namespace {

double half(void*, int64_t) { return 0.5; }

// A refused call leaves the schedule as it was, and a value as well.
template <class Call>
void refused_by(talus_schedule* schedule, talus_status expected,
                std::initializer_list<const char*> causes, Call call) {
  const std::string before = text_of(schedule);
  refused(nullptr, expected, causes, call);
  CHECK(text_of(schedule) == before);
}

void no_value(const Schedule& schedule, talus_status expected,
              std::initializer_list<const char*> causes, double base = 1, int64_t t = 1) {
  double value = 7;
  refused(nullptr, expected, causes,
          [&] { return talus_schedule_value(schedule, base, t, &value); });
  CHECK(value == 7);
}

// As attach says: the same, with nothing attached.
void not_attachable(const Schedule& schedule, talus_status expected,
                    std::initializer_list<const char*> causes) {
  const Handle opt("sgd");
  refused(opt, expected, causes, [&] {
    return talus_attach_schedule(opt, TALUS_ALL, "lr", schedule, TALUS_CLOCK_APPLIED);
  });
}

void incomplete(const Schedule& schedule, talus_status expected,
                std::initializer_list<const char*> causes) {
  no_value(schedule, expected, causes);
  not_attachable(schedule, expected, causes);
}

talus_hyper info(const std::string& owner, int32_t i) {
  talus_hyper hyper{};
  hyper.struct_size = sizeof hyper;
  REQUIRE(talus_hyper_info(owner.c_str(), i, &hyper) == TALUS_OK);
  return hyper;
}

}  // namespace

TEST_CASE("abi: every kind of schedule and its parameters are listed, with defaults as they are") {
  constexpr double kRequired = kInf, kUnset = kNaN;  // no default is infinite
  const std::map<std::string, std::vector<std::pair<std::string, double>>> kinds = {
      {"step", {{"step_size", kRequired}, {"gamma", 0.1}}},
      {"multistep", {{"gamma", 0.1}}},
      {"exponential", {{"gamma", kRequired}}},
      {"lambda", {}},
      {"multiplicative", {}},
      {"constant", {{"factor", 1.0 / 3}, {"total_iters", 5}}},
      {"linear", {{"start_factor", 1.0 / 3}, {"end_factor", 1}, {"total_iters", 5}}},
      {"polynomial", {{"total_iters", 5}, {"power", 1}, {"eta_min", 0}}},
      {"cosine", {{"T_max", kRequired}, {"eta_min", 0}, {"periodic", 0}}},
      {"cosine_restarts", {{"T_0", kRequired}, {"T_mult", 1}, {"eta_min", 0}}},
      {"cyclic",
       {{"max_value", kRequired},
        {"step_size_up", 2000},
        {"step_size_down", 0},
        {"mode", 0},
        {"gamma", 1}}},
      {"one_cycle",
       {{"total_steps", kRequired},
        {"max_value", kUnset},
        {"pct_start", 0.3},
        {"anneal", 0},
        {"div_factor", 25},
        {"final_div_factor", 1e4},
        {"three_phase", 0},
        {"initial_value", kUnset},
        {"final_value", kUnset}}},
      {"inverse_sqrt", {{"warmup_steps", 4000}, {"offset", 1}}},
      {"wsd",
       {{"warmup_steps", 0},
        {"stable_steps", -1},
        {"decay_steps", 0},
        {"start_factor", 0},
        {"end_factor", 0},
        {"decay", 0}}},
      {"sequential", {}},
      {"chained", {}},
      {"plateau",
       {{"mode", 0},
        {"factor", 0.1},
        {"patience", 10},
        {"threshold", 1e-4},
        {"threshold_mode", 0},
        {"cooldown", 0},
        {"min_value", 0},
        {"eps", 1e-8}}}};
  CHECK(talus_name_count("schedules") == int32_t(kinds.size()));
  for (const auto& [kind, params] : kinds) {
    CAPTURE(kind);
    REQUIRE(talus_name_doc("schedules", kind.c_str()) != nullptr);
    CHECK(std::strlen(talus_name_doc("schedules", kind.c_str())) > 8);
    const Schedule schedule(kind);
    CHECK(talus_schedule_kind(schedule) == kind);
    const std::string owner = "schedule/" + kind;
    REQUIRE(talus_hyper_count(owner.c_str()) == int32_t(params.size()));
    for (size_t i = 0; i < params.size(); ++i) {
      const auto& [name, value] = params[i];
      const talus_hyper hyper = info(owner, int32_t(i));
      CAPTURE(name);
      CHECK(hyper.name == name);
      CHECK(std::strlen(hyper.doc) > 3);
      CHECK(std::strchr(hyper.doc, '\n') == nullptr);
      CHECK(hyper.min < hyper.max);
      CHECK(((hyper.flags & TALUS_HYPER_REQUIRED) != 0) == (value == kRequired));
      const double fresh = schedule.get(hyper.name);
      if (value == kRequired || value != value) {
        CHECK(hyper.def != hyper.def);
        CHECK(fresh != fresh);
      } else {
        CHECK(hyper.def == value);
        CHECK(fresh == value);
      }
    }
  }
  for (const char* owner : {"schedule/none", "schedule/", "schedule", "schedules", "cosine"})
    CHECK(talus_hyper_count(owner) == -1);
  talus_hyper out{};
  out.struct_size = sizeof out;
  CHECK(talus_hyper_info("schedule/none", 0, &out) == TALUS_E_NAME);
  CHECK(talus_hyper_info("schedule/lambda", 0, &out) == TALUS_E_ARGUMENT);
}

TEST_CASE("abi: what no schedule is, and NULL, are refused") {
  talus_schedule* const untouched = reinterpret_cast<talus_schedule*>(uintptr_t(0x10));
  talus_schedule* out = untouched;
  refused(nullptr, TALUS_E_NAME, {"\"cosinus\"", "cosine", "plateau"},
          [&] { return talus_schedule_create("cosinus", &out); });
  refused(nullptr, TALUS_E_ARGUMENT, {"kind"},
          [&] { return talus_schedule_create(nullptr, &out); });
  refused(nullptr, TALUS_E_ARGUMENT, {"out"},
          [] { return talus_schedule_create("step", nullptr); });
  CHECK(out == untouched);
  talus_schedule_destroy(nullptr);
  CHECK(talus_schedule_kind(nullptr) == nullptr);
  CHECK(talus_schedule_piece_count(nullptr) == -1);

  Schedule s("multistep"), all("chained");
  double value = 7;
  int64_t list[2] = {7, 7}, count = 7;
  const auto null = [&](const char* what, auto call) {
    refused_by(s, TALUS_E_ARGUMENT, {what}, call);
  };
  null("schedule", [&] { return talus_schedule_set(nullptr, "gamma", 1); });
  null("name", [&] { return talus_schedule_set(s, nullptr, 1); });
  null("schedule", [&] { return talus_schedule_get(nullptr, "gamma", &value); });
  null("name", [&] { return talus_schedule_get(s, nullptr, &value); });
  null("value", [&] { return talus_schedule_get(s, "gamma", nullptr); });
  null("schedule", [&] { return talus_schedule_set_list(nullptr, "milestones", list, 2); });
  null("name", [&] { return talus_schedule_set_list(s, nullptr, list, 2); });
  null("values", [&] { return talus_schedule_set_list(s, "milestones", nullptr, 2); });
  null("count", [&] { return talus_schedule_set_list(s, "milestones", list, -1); });
  null("schedule", [&] { return talus_schedule_get_list(nullptr, "milestones", list, 2, &count); });
  null("name", [&] { return talus_schedule_get_list(s, nullptr, list, 2, &count); });
  null("values", [&] { return talus_schedule_get_list(s, "milestones", nullptr, 2, &count); });
  null("capacity", [&] { return talus_schedule_get_list(s, "milestones", list, -1, &count); });
  null("count", [&] { return talus_schedule_get_list(s, "milestones", list, 2, nullptr); });
  null("schedule", [&] { return talus_schedule_set_function(nullptr, half, &value, nullptr); });
  null("schedule", [&] { return talus_schedule_add(nullptr, s); });
  null("piece", [&] { return talus_schedule_add(all, nullptr); });
  null("schedule", [&] { return talus_schedule_piece(nullptr, 0, &out); });
  null("schedule", [&] { return talus_schedule_value(nullptr, 1, 0, &value); });
  null("value", [&] { return talus_schedule_value(s, 1, 0, nullptr); });
  CHECK(value == 7);
  CHECK((list[0] == 7 && list[1] == 7 && count == 7));
  CHECK(talus_schedule_piece_count(all) == 0);
}

TEST_CASE("abi: parameters by name; those against each other are seen when the schedule is used") {
  Schedule s("one_cycle");
  double value = 7;
  refused_by(s, TALUS_E_NAME, {"one_cycle", "\"lr\"", "max_value"},
             [&] { return talus_schedule_set(s, "lr", 1); });
  refused_by(s, TALUS_E_NAME, {"one_cycle", "\"lr\""},
             [&] { return talus_schedule_get(s, "lr", &value); });
  refused_by(s, TALUS_E_RANGE, {"one_cycle", "pct_start", "1.5"},
             [&] { return talus_schedule_set(s, "pct_start", 1.5); });
  CHECK(value == 7);
  Schedule none("lambda");
  refused_by(none, TALUS_E_NAME, {"lambda", "\"factor\"", "no parameters"},
             [&] { return talus_schedule_set(none, "factor", 1); });

  incomplete(s, TALUS_E_STATE, {"one_cycle", "total_steps"});
  s.set("total_steps", 10);
  s.set("three_phase", 1);  // in either order
  s.set("pct_start", 0.75);
  incomplete(s, TALUS_E_RANGE, {"one_cycle", "pct_start", "three_phase"});
  s.set("three_phase", 0);
  CHECK(s.value(1, 9) == 1 / 25.0 / 1e4);

  incomplete(Schedule("cosine"), TALUS_E_STATE, {"cosine", "T_max"});
  incomplete(Schedule("inverse_sqrt", {{"warmup_steps", 0}, {"offset", 0}}), TALUS_E_RANGE,
             {"inverse_sqrt", "offset", "warmup_steps"});
  incomplete(Schedule("wsd", {{"decay", 3}}), TALUS_E_RANGE, {"wsd", "decay", "end_factor"});
  not_attachable(Schedule("plateau", {{"threshold", 1}}), TALUS_E_RANGE,
                 {"plateau", "threshold", "threshold_mode"});
}

TEST_CASE("abi: milestones are copied, sorted for multistep, and read in pieces") {
  Schedule s("multistep");
  int64_t list[] = {30, 10, 20}, got[4] = {-1, -1, -1, -1}, count = -1;
  REQUIRE(talus_schedule_set_list(s, "milestones", list, 3) == TALUS_OK);
  list[0] = 99;
  REQUIRE(talus_schedule_get_list(s, "milestones", nullptr, 0, &count) == TALUS_OK);
  CHECK(count == 3);
  REQUIRE(talus_schedule_get_list(s, "milestones", got, 2, &count) == TALUS_OK);
  CHECK((count == 3 && got[0] == 10 && got[1] == 20 && got[2] == -1));
  REQUIRE(talus_schedule_get_list(s, "milestones", got, 4, &count) == TALUS_OK);
  CHECK((count == 3 && got[2] == 30 && got[3] == -1));

  const int64_t negative[] = {3, -1};
  refused_by(s, TALUS_E_RANGE, {"multistep", "milestones[1]", "-1"},
             [&] { return talus_schedule_set_list(s, "milestones", negative, 2); });
  refused_by(s, TALUS_E_NAME, {"multistep", "\"stones\"", "milestones"},
             [&] { return talus_schedule_set_list(s, "stones", list, 3); });
  const std::vector<int64_t> many(65537, 1);
  refused_by(s, TALUS_E_RANGE, {"65537", "65536"}, [&] {
    return talus_schedule_set_list(s, "milestones", many.data(), int64_t(many.size()));
  });
  CHECK(talus_schedule_set_list(s, "milestones", many.data(), 65536) == TALUS_OK);
  REQUIRE(talus_schedule_set_list(s, "milestones", nullptr, 0) == TALUS_OK);
  CHECK(s.value(1, 100) == 1);

  Schedule other("step"), order("sequential");
  for (talus_schedule* schedule : {static_cast<talus_schedule*>(other)}) {
    refused_by(schedule, TALUS_E_NAME, {"step", "milestones"},
               [&] { return talus_schedule_set_list(schedule, "milestones", list, 1); });
    refused_by(schedule, TALUS_E_NAME, {"step", "milestones"},
               [&] { return talus_schedule_get_list(schedule, "milestones", got, 4, &count); });
  }
  const int64_t falling[] = {3, 5, 4}, level[] = {3, 3};
  refused_by(order, TALUS_E_RANGE, {"sequential", "milestones[2]", "4", "5"},
             [&] { return talus_schedule_set_list(order, "milestones", falling, 3); });
  CHECK(talus_schedule_set_list(order, "milestones", level, 2) == TALUS_OK);
}

TEST_CASE("abi: a sequence wants pieces, and a milestone between each two") {
  Schedule s("sequential");
  const Schedule piece("constant");
  incomplete(s, TALUS_E_STATE, {"sequential", "no pieces"});
  s.milestones({5});
  s.add(piece);
  incomplete(s, TALUS_E_STATE, {"sequential", "1 milestones", "1 pieces", "0"});
  s.add(piece);
  CHECK(s.value(3, 5) == 1);
  s.milestones({5, 6});
  incomplete(s, TALUS_E_STATE, {"sequential", "2 milestones", "2 pieces", "1"});
}

TEST_CASE("abi: pieces stand where they may") {
  const auto chain = [](const char* first, const char* second, Schedule third) {
    Schedule s("chained");
    s.add(Schedule(first));
    s.add(Schedule(second));
    s.add(third);
    return s;
  };
  Schedule cycle("one_cycle", {{"total_steps", 9}});
  CHECK(
      chain("constant", "linear", Schedule(chain("wsd", "linear", std::move(cycle)))).value(1, 9) >
      0);
  for (const char* given : {"max_value", "initial_value"}) {
    Schedule fixed("one_cycle", {{"total_steps", 9}, {given, 1}});
    incomplete(chain("constant", "linear", Schedule(std::move(fixed))), TALUS_E_STATE,
               {"chained", "piece 2", "one_cycle", "first"});
  }
  Schedule fixed("one_cycle", {{"total_steps", 9}, {"max_value", 1}}), first("chained"),
      inner("sequential"), outer("chained");
  first.add(fixed);
  first.add(Schedule("constant"));
  CHECK(first.value(1, 9) > 0);
  inner.add(Schedule("constant"));
  inner.add(fixed);
  inner.milestones({3});
  outer.add(Schedule("linear"));
  outer.add(inner);
  incomplete(outer, TALUS_E_STATE, {"chained", "piece 1", "sequential", "first"});

  Schedule sequence("sequential");
  sequence.add(Schedule("plateau"));
  not_attachable(sequence, TALUS_E_STATE, {"sequential", "piece 0", "plateau"});
  not_attachable(chain("plateau", "constant", Schedule("linear")), TALUS_E_STATE,
                 {"chained", "piece 0", "plateau", "last"});
  not_attachable(chain("constant", "linear", chain("plateau", "linear", Schedule("wsd"))),
                 TALUS_E_STATE, {"chained", "piece 0", "plateau"});
  const Schedule last = chain("constant", "linear", Schedule("plateau"));
  no_value(last, TALUS_E_UNSUPPORTED, {"chained", "plateau", "talus_value_now"});
  no_value(Schedule("plateau"), TALUS_E_UNSUPPORTED, {"plateau", "talus_value_now"});
}

TEST_CASE("abi: a schedule is evaluated for a finite base and t of 0 and more") {
  const Schedule s("constant");
  no_value(s, TALUS_E_RANGE, {"constant", "t is -1"}, 1, -1);
  for (const double base : {kNaN, kInf, -kInf})
    no_value(s, TALUS_E_RANGE, {"constant", "base"}, base);
  no_value(Schedule("exponential", {{"gamma", 10}}), TALUS_E_RANGE,
           {"exponential", "t = 400", "inf", "base 2"}, 2, 400);
  Schedule wrong("lambda");
  incomplete(wrong, TALUS_E_STATE, {"lambda", "function"});
  wrong.function([](void*, int64_t) { return kNaN; });
  no_value(wrong, TALUS_E_RANGE, {"lambda", "t = 3", "nan"}, 1, 3);
  CHECK(Schedule("constant").value(-2, 9) == -2);
}
