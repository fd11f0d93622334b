// Schedules in checkpoints: a run that is stopped at any time goes on with the same bits, and what
// does not fit is refused with nothing changed.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <functional>

#include "tests/checkpoint/model.h"
#include "tests/checkpoint/schedules.h"

using namespace talus;
using namespace talus::test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr int64_t kSteps = 34, kStops = 31;

int calls = 0;
double falling(void*, int64_t t) { return ++calls, 1 / double(t + 1); }
double alternating(void*, int64_t t) { return ++calls, t % 2 ? 0.95 : 0.9; }

struct Case {
  const char* name;
  std::function<ScheduleRef()> make;
};

ScheduleRef warm_up() {
  return ScheduleRef("linear", {{"start_factor", 0.01}, {"total_iters", 5}});
}

std::vector<Case> closed_forms() {
  return {
      {"step",
       [] {
         return ScheduleRef("step", {{"step_size", 7}});
       }},
      {"multistep",
       [] {
         return ScheduleRef("multistep", {{"gamma", 0.5}}).milestones({9, 3, 9});
       }},
      {"exponential",
       [] {
         return ScheduleRef("exponential", {{"gamma", 0.95}});
       }},
      {"constant", [] { return ScheduleRef("constant"); }},
      {"linear", [] { return warm_up(); }},
      {"polynomial",
       [] {
         return ScheduleRef("polynomial", {{"total_iters", 20}, {"power", 0.9}});
       }},
      {"cosine",
       [] {
         return ScheduleRef("cosine", {{"T_max", 25}, {"eta_min", 1e-5}});
       }},
      {"cosine, periodic",
       [] {
         return ScheduleRef("cosine", {{"T_max", 6}, {"periodic", 1}});
       }},
      {"cosine_restarts",
       [] {
         return ScheduleRef("cosine_restarts", {{"T_0", 4}, {"T_mult", 2}});
       }},
      {"cyclic",
       [] {
         return ScheduleRef("cyclic", {{"max_value", 0.3}, {"step_size_up", 4}, {"mode", 1}});
       }},
      {"one_cycle",
       [] {
         return ScheduleRef("one_cycle", {{"max_value", 0.2}, {"total_steps", 24}});
       }},
      {"inverse_sqrt",
       [] {
         return ScheduleRef("inverse_sqrt", {{"warmup_steps", 4}});
       }},
      {"wsd",
       [] {
         return ScheduleRef("wsd", {{"warmup_steps", 4}, {"stable_steps", 10}, {"decay_steps", 9}});
       }},
      {"sequential",
       [] {
         return ScheduleRef("sequential")
             .piece(warm_up())
             .piece(ScheduleRef("sequential")
                        .piece(ScheduleRef("cosine", {{"T_max", 20}}))
                        .piece(ScheduleRef("constant"))
                        .milestones({12}))
             .milestones({5});
       }},
      {"chained",
       [] {
         const ScheduleRef twice("exponential", {{"gamma", 0.9}});
         return ScheduleRef("chained").piece(warm_up()).piece(twice).piece(twice);
       }},
      {"empty chain", [] { return ScheduleRef("chained"); }},
  };
}

std::vector<Case> functions() {
  return {
      {"lambda", [] { return ScheduleRef("lambda").function(falling); }},
      {"multiplicative", [] { return ScheduleRef("multiplicative").function(alternating); }},
      {"in a chain",
       [] {
         return ScheduleRef("chained").piece(warm_up()).piece(
             ScheduleRef("multiplicative").function(alternating));
       }},
  };
}

std::vector<Case> all_cases() {
  std::vector<Case> out = closed_forms();
  for (const Case& c : functions()) out.push_back(c);
  return out;
}

Model::Groups two_groups() {
  const Values values = {{"momentum", 0.9}, {"lr", 0.1}};
  return {{"sgd", values}, {"sgd", values}};
}

// Two groups; the schedule on lr of the first by one clock, on momentum of the other by another.
struct Run {
  Model model{{{"w"}, {"b", {5}, TALUS_F32, TALUS_MASTER_AUTO, 1}}, two_groups()};

  talus_optimizer* opt() const { return model.get(); }
  void attach_both(const ScheduleRef& schedule) {
    attach(opt(), "lr", schedule, TALUS_CLOCK_MANUAL);
    attach(opt(), "dampening", ScheduleRef("linear", {{"total_iters", 20}}), TALUS_CLOCK_CALLED, 1);
    must(talus_set(opt(), 1, "dampening", 0.5));
  }
  void steps(int64_t first, int64_t last) {
    for (int64_t s = first; s < last; ++s) {
      must(talus_set_clock(opt(), s));
      model.step(s);
    }
  }
};

// Functions are given anew where they were: to what the load has put there.
void give_functions(talus_schedule* s, talus_schedule_function call) {
  const std::string kind = talus_schedule_kind(s);
  if (kind == "lambda" || kind == "multiplicative")
    must(talus_schedule_set_function(s, kind == "lambda" ? falling : call, nullptr, nullptr));
  for (int32_t i = 0; i < talus_schedule_piece_count(s); ++i) {
    talus_schedule* piece = nullptr;
    must(talus_schedule_piece(s, i, &piece));
    const ScheduleRef held(piece);
    give_functions(piece, call);
  }
}

}  // namespace

TEST_CASE("saved schedules: stopped at any step, each kind goes on with the same bits") {
  for (const Case& c : all_cases()) {
    INFO(c.name);
    Run whole;
    whole.attach_both(c.make());
    std::vector<std::string> saved;
    for (int64_t t = 0; t < kSteps; ++t) {
      if (t < kStops) saved.push_back(whole.model.bytes());
      whole.steps(t, t + 1);
    }
    const std::string end = whole.model.bytes();
    for (int64_t t = 0; t < kStops; ++t) {
      INFO("stopped at " << t);
      Run resumed;  // without any schedule: the file's are taken
      REQUIRE(load_bytes(resumed.opt(), saved[size_t(t)], TALUS_LOAD_PARAMS) == TALUS_OK);
      REQUIRE((resumed.model.bytes() == saved[size_t(t)]));
      give_functions(attached(resumed.opt(), "lr").get(), alternating);
      resumed.steps(t, kSteps);
      REQUIRE((resumed.model.bytes() == end));
    }
  }
}

TEST_CASE("saved schedules: the reports of a plateau, its values and where it stands last") {
  const double metrics[] = {1,    0.9,  0.9,  0.95, 0.89995, 0.9,  0.91, 0.92,
                            0.93, 0.94, 0.95, 0.96, 0.8,     0.85, NAN,  0.87};
  const Values values = {{"factor", 0.5}, {"patience", 2}, {"cooldown", 2}, {"min_value", 0.02}};
  for (const bool chained : {false, true}) {
    INFO((chained ? "in a chain" : "alone"));
    const auto run = [&](Run& r, size_t first, size_t last) {
      for (size_t i = first; i < last; ++i) {
        r.steps(int64_t(i), int64_t(i) + 1);
        must(talus_observe(r.opt(), metrics[i]));
      }
    };
    const auto start = [&](Run& r) {
      const ScheduleRef plateau("plateau", values);
      const ScheduleRef chain = ScheduleRef("chained").piece(warm_up()).piece(plateau);
      const ScheduleRef& schedule = chained ? chain : plateau;
      attach(r.opt(), "lr", schedule);
      must(talus_set(r.opt(), 1, "lr", 0.3));
      attach(r.opt(), "lr", schedule, TALUS_CLOCK_APPLIED, 1);  // one state, a value for each
    };
    Run whole;
    start(whole);
    run(whole, 0, std::size(metrics));
    const std::string end = whole.model.bytes();
    CHECK_THAT(end,
               ContainsSubstring(R"(\"plateau\":{\"best\":0.8,\"bad\":\"0\",\"cooling\":\"2\"})"));
    for (size_t t = 0; t <= std::size(metrics); ++t) {
      INFO("stopped after " << t);
      Run stopped, resumed;
      start(stopped);
      start(resumed);  // of the same kind: what it has is the file's then
      run(stopped, 0, t);
      run(resumed, 0, 3);
      REQUIRE(load_bytes(resumed.opt(), stopped.model.bytes(), TALUS_LOAD_PARAMS) == TALUS_OK);
      run(resumed, t, std::size(metrics));
      REQUIRE((resumed.model.bytes() == end));
    }
  }
}

TEST_CASE("saved schedules: a product is not multiplied anew, whoever gives its function back") {
  Run run;
  attach(run.opt(), "lr", ScheduleRef("multiplicative").function(alternating));
  run.steps(0, 21);  // P(20) was the last to be asked for
  const std::string saved = run.model.bytes();
  for (const bool by_attaching : {false, true}) {
    INFO(by_attaching);
    Run resumed;
    must(load_bytes(resumed.opt(), saved, TALUS_LOAD_PARAMS));
    if (by_attaching)
      attach(resumed.opt(), "lr", ScheduleRef("multiplicative").function(alternating));
    else
      give_functions(attached(resumed.opt(), "lr").get(), alternating);
    calls = 0;
    resumed.steps(21, 22);
    CHECK(calls == 1);
    CHECK(value_now(resumed.opt(), "lr") == value_now(run.opt(), "lr") * 0.9);
  }
}

TEST_CASE("saved schedules: a step without its function fails, named, until it is given") {
  for (const Case& c : functions()) {
    INFO(c.name);
    Run run;
    run.attach_both(c.make());
    run.steps(0, 3);
    Run resumed;
    resumed.attach_both(c.make());
    must(load_bytes(resumed.opt(), run.model.bytes(), TALUS_LOAD_PARAMS));
    const std::string before = resumed.model.bytes();
    CHECK(talus_step(resumed.opt(), nullptr) == TALUS_E_STATE);
    CHECK_THAT(talus_last_error(), ContainsSubstring("group 0 \"sgd\": lr, schedule"));
    CHECK_THAT(talus_last_error(), ContainsSubstring("has no function since it was loaded"));
    CHECK((resumed.model.bytes() == before));
    // Saved without its function it still is one.
    Run third;
    must(load_bytes(third.opt(), before, TALUS_LOAD_PARAMS));
    CHECK(talus_step(third.opt(), nullptr) == TALUS_E_STATE);
    const ScheduleRef other("constant");
    CHECK(talus_attach_schedule(third.opt(), 0, "lr", other.get(), TALUS_CLOCK_APPLIED) ==
          TALUS_OK);
    CHECK(talus_step(third.opt(), nullptr) == TALUS_OK);
    attach(resumed.opt(), "lr", c.make(), TALUS_CLOCK_MANUAL);
    run.steps(3, 6);
    resumed.steps(3, 6);
    CHECK((run.model.bytes() == resumed.model.bytes()));
  }
}

TEST_CASE("saved schedules: one that serves all groups serves those added after the load") {
  Run run, resumed;
  attach(run.opt(), "lr", ScheduleRef("exponential", {{"gamma", 0.5}}), TALUS_CLOCK_APPLIED,
         TALUS_ALL);
  run.steps(0, 2);
  must(load_bytes(resumed.opt(), run.model.bytes(), TALUS_LOAD_PARAMS));
  int32_t group = 0;
  must(talus_add_group(resumed.opt(), "adamw", &group));
  must(talus_set(resumed.opt(), group, "lr", 8));
  CHECK(value_now(resumed.opt(), "lr", group) == 2);
  CHECK(value_now(resumed.opt(), "lr", 1) == 0.1 * 0.25);
}

TEST_CASE("saved schedules: equal schedules give equal bytes, whatever the order of attaching") {
  Run a, b;
  const auto cosine = [] { return ScheduleRef("cosine", {{"T_max", 10}}); };
  attach(a.opt(), "lr", cosine());
  attach(a.opt(), "weight_decay", warm_up());
  attach(a.opt(), "lr", warm_up(), TALUS_CLOCK_CALLED, 1);
  attach(b.opt(), "lr", warm_up(), TALUS_CLOCK_CALLED, 1);
  attach(b.opt(), "weight_decay", warm_up());
  attach(b.opt(), "lr", cosine());
  CHECK((a.model.bytes() == b.model.bytes()));
  Run none;
  CHECK_THAT(a.model.bytes(), ContainsSubstring(R"("talus.requires":"schedules")"));
  CHECK_THAT(none.model.bytes(), !ContainsSubstring("schedules"));
}

TEST_CASE("saved schedules: of the same kind those of the file; KEEP_HYPER keeps the optimizer's") {
  Run file, live, kept;
  attach(file.opt(), "lr", ScheduleRef("exponential", {{"gamma", 0.5}}), TALUS_CLOCK_CALLED);
  file.steps(0, 1);
  for (Run* r : {&live, &kept})
    attach(r->opt(), "lr", ScheduleRef("exponential", {{"gamma", 0.25}}), TALUS_CLOCK_MANUAL);
  must(load_bytes(live.opt(), file.model.bytes(), TALUS_LOAD_PARAMS));
  must(load_bytes(kept.opt(), file.model.bytes(), TALUS_LOAD_PARAMS | TALUS_LOAD_KEEP_HYPER));
  CHECK(value_now(live.opt(), "lr") == 0.1 * 0.5);
  CHECK(value_now(kept.opt(), "lr") == 0.1);
  must(talus_set_clock(kept.opt(), 2));
  CHECK(value_now(kept.opt(), "lr") == 0.1 * 0.0625);
}

TEST_CASE("saved schedules: a plateau that a load has made is the optimizer's own") {
  Run file, live, other;
  attach(file.opt(), "lr", ScheduleRef("plateau", {{"patience", 0}, {"factor", 0.5}}));
  must(load_bytes(live.opt(), file.model.bytes(), TALUS_LOAD_PARAMS));
  const ScheduleRef plateau = attached(live.opt(), "lr");
  CHECK(talus_attach_schedule(other.opt(), 0, "lr", plateau.get(), TALUS_CLOCK_APPLIED) ==
        TALUS_E_STATE);
  CHECK(talus_attach_schedule(live.opt(), 1, "lr", plateau.get(), TALUS_CLOCK_APPLIED) == TALUS_OK);
  must(talus_observe(live.opt(), 1));
  must(talus_observe(live.opt(), 1));
  CHECK(value_now(live.opt(), "lr", 1) == 0.05);
  CHECK(value_now(file.opt(), "lr") == 0.1);
}

// ---- refusals -----------------------------------------------------------------------------------

namespace {

// Of a file with another text in its header.
std::string edited(const std::string& file, const std::string& old, const std::string& text) {
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  std::string header = file.substr(sizeof length, length);
  const size_t at = header.find(old);
  REQUIRE(at != std::string::npos);
  header.replace(at, old.size(), text);
  const uint64_t now = header.size();
  return std::string(reinterpret_cast<const char*>(&now), sizeof now) + header +
         file.substr(sizeof length + length);
}

void refuse(const Run& live, const std::string& saved, const std::string& text) {
  const std::string before = live.model.bytes();
  for (const uint64_t flags : {uint64_t{0}, uint64_t{TALUS_LOAD_IN_PLACE}}) {
    CHECK(load_bytes(live.opt(), saved, flags) == TALUS_E_MISMATCH);
    CHECK(talus_last_error_detail() == TALUS_M_SCHEDULE);
    CHECK_THAT(talus_last_error(), ContainsSubstring(text));
  }
  CHECK((live.model.bytes() == before));
}

}  // namespace

TEST_CASE("saved schedules: what the optimizer has and the file lacks, or has as another kind") {
  Run none, live, other, later;
  attach(live.opt(), "lr", ScheduleRef("cosine", {{"T_max", 9}}));
  attach(other.opt(), "lr", ScheduleRef("step", {{"step_size", 9}}));
  attach(later.opt(), "lr", ScheduleRef("cosine", {{"T_max", 9}}), TALUS_CLOCK_APPLIED, TALUS_ALL);
  refuse(live, none.model.bytes(0),
         "group 0 \"sgd\": lr: schedule \"cosine\" in the optimizer, none in the file");
  refuse(live, other.model.bytes(0), "schedule \"cosine\" in the optimizer, \"step\" in the file");
  refuse(later, live.model.bytes(0),
         "groups added later: lr: schedule \"cosine\" in the optimizer");
}

TEST_CASE("saved schedules: what this library does not know is named, and where it stands") {
  Run file, live;
  attach(file.opt(), "lr",
         ScheduleRef("chained")
             .piece(ScheduleRef("step", {{"step_size", 7}, {"gamma", 0.5}}))
             .piece(ScheduleRef("multistep").milestones({3, 4})));
  attach(file.opt(), "weight_decay", ScheduleRef("lambda").function(falling));
  file.steps(0, 1);
  const std::string saved = file.model.bytes(TALUS_SAVE_NO_DIGEST);
  const auto refused = [&](const char* old, const char* text, const char* why) {
    INFO(old << " -> " << text);
    refuse(live, edited(saved, old, text), why);
  };
  refused(R"(\"kind\":\"step\")", R"(\"kind\":\"stop\")",
          "schedule 0 of the file: no schedule \"stop\", expected one of: step,");
  refused("step_size", "stop_size", "schedule \"step\" has no parameter \"stop_size\"");
  refused(R"(\"step_size\":7)", R"(\"step_size\":0)", "step_size");
  refused(R"(\"step_size\":7,)", "", "step_size is not set");
  refused(R"(\"gamma\":0.5)", R"(\"gamma\":-0.5)", "gamma");
  refused(R"(\"pieces\":[0,1])", R"(\"milestones\":[\"1\"])", "has no list");
  refused(R"(\"kind\":\"lambda\")", R"(\"kind\":\"chained\")", "has no function");
  refused(R"(\"function\":\"unbound\")",
          R"(\"plateau\":{\"best\":1,\"bad\":\"0\",\"cooling\":\"0\"})", "state of a plateau");
  refused(R"(\"hyper\":\"lr\")", R"(\"hyper\":\"rl\")",
          "\"chained\" in the file, which is no real");
  refused(R"(\"hyper\":\"lr\")", R"(\"hyper\":\"nesterov\")", "no real hyperparameter here");
  refused(R"(\"hyper\":\"lr\")", R"(\"hyper\":\"weight_decay\")", "a second schedule in the file");
  refused(R"(\"object\":2)", R"(\"object\":2,\"value\":1)", "which only a plateau has");
  INFO(saved);
  CHECK(load_bytes(live.opt(), saved) == TALUS_OK);
}

TEST_CASE("saved schedules: a product that no function can have made is refused") {
  Run file, live;
  attach(file.opt(), "lr", ScheduleRef("multiplicative").function(alternating));
  file.steps(0, 3);
  const std::string saved = file.model.bytes(TALUS_SAVE_NO_DIGEST);
  const std::string bad =
      edited(saved, R"(\"t\":\"2\",\"value\":)", R"(\"t\":\"2\",\"value\":1e999,\"x\":)");
  CHECK(load_bytes(live.opt(), bad) == TALUS_E_FORMAT);
  refuse(live, edited(saved, R"(\"function\":\"unbound\",)", R"(\"milestones\":[\"1\"],)"),
         "has no list \"milestones\"");
}
