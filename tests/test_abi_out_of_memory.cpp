// Every allocation of every call fails once: TALUS_E_MEMORY, nothing changed, and the same call
// succeeds afterwards with the same bits. The program replaces operator new, which the shared
// library then uses too.
#include "tests/abi/fixture.h"

#include <functional>

#if defined(TALUS_TEST_TSAN)
TEST_CASE("abi: each allocation of each call fails once, and nothing is lost") {
  SKIP("the thread sanitizer has an operator new of its own");
}
#else
#include "tests/failing_new.h"

using namespace talus::abi;
using talus::test::countdown;

namespace {

// A host with two groups, a 16-bit parameter and memory for state of its own.
struct Host {
  Handle opt{"adamw"};
  Model model;
  std::vector<float> late = {1, 2, 3}, grad = {1, -1, 0.5f}, moment = {0, 0}, moved = {7, 8};
  std::vector<uint16_t> half = std::vector<uint16_t>(70000, 0x3f80);
  std::vector<float> half_grad = std::vector<float>(70000, 0.25f);
  std::vector<float> table = std::vector<float>(12, 1), of_rows = {0.5f, 0.25f, -1, 2, 0.125f, 4};
  std::vector<int64_t> rows = {3, 1, 3};  // the repeat is summed, for which the step allocates
  int64_t three = 3, many = 70000, six_by_two[2] = {6, 2};
  int32_t group = -1, row_group = -1, last_group = -1;
  talus_allocator allocator{};
  std::vector<talus_schedule*> schedules;
  double value = 0;

  ~Host() {
    for (talus_schedule* schedule : schedules) talus_schedule_destroy(schedule);
  }
  Host() {
    schedules.reserve(16);  // later ones are the library's allocations alone

    model.add_to(opt);
    REQUIRE(talus_set_setting(opt, "threads", 3) == TALUS_OK);
  }
  talus_param late_param() {
    talus_param param = describe(TALUS_F32, late.data(), grad.data(), &three);
    param.name = "a name that is too long to be kept in place";
    return param;
  }
  talus_param table_param() {
    talus_param param = describe<float>(TALUS_F32, table.data(), nullptr, six_by_two);
    param.ndim = 2;
    return param;
  }
  talus_status bind_rows() {
    const talus_rows given = {sizeof given, TALUS_I64, 3, rows.data(), of_rows.data(), 0};
    return talus_bind_rows(opt, 4, &given);
  }
  talus_param half_param() {
    talus_param param = describe<uint16_t>(TALUS_BF16, half.data(), nullptr, &many);
    param.grad = half_grad.data();
    param.grad_dtype = TALUS_F32;
    return param;
  }
};

using Call = std::function<talus_status(Host&)>;

struct Step {
  const char* name;
  Call call;
};

// A life of an optimizer, every call of which allocates or might.
std::vector<Step> life() {
  return {
      {"set for all", [](Host& h) { return talus_set(h.opt, TALUS_ALL, "lr", 0.125); }},
      {"add group", [](Host& h) { return talus_add_group(h.opt, "fused_sgd", &h.group); }},
      {"set", [](Host& h) { return talus_set(h.opt, h.group, "momentum", 0.9); }},
      {"add two parameters",
       [](Host& h) {
         const talus_param params[] = {h.late_param(), h.half_param()};
         return talus_add_params(h.opt, h.group, 2, params, nullptr);
       }},
      {"bind state",
       [](Host& h) { return talus_bind_state(h.opt, 1, "exp_avg", h.moment.data(), 8); }},
      {"forget gradients",
       [](Host& h) { return talus_zero_grad(h.opt, TALUS_ZERO_UNBIND, nullptr); }},
      {"bind gradients",
       [](Host& h) {
         void* grads[] = {h.model.gw.data(), h.model.gb.data(), h.grad.data(), h.half_grad.data()};
         return talus_bind_grads(h.opt, 0, 4, grads);
       }},
      {"prepare", [](Host& h) { return talus_prepare(h.opt, nullptr); }},
      {"first step", [](Host& h) { return talus_step(h.opt, nullptr); }},
      {"step count", [](Host& h) { return talus_set_steps(h.opt, 0, 5); }},
      {"move data",
       [](Host& h) {
         const talus_status status = talus_bind_data(h.opt, 1, h.moved.data());
         return status;
       }},
      {"note",
       [](Host& h) { return talus_set_note(h.opt, "a key of some length", "a note of some"); }},
      {"measure", [](Host& h) { return talus_set_setting(h.opt, "stats", 1); }},
      {"threads", [](Host& h) { return talus_set_setting(h.opt, "threads", 4); }},
      {"step after changes", [](Host& h) { return talus_step(h.opt, nullptr); }},
      {"a loop of the host",
       [](Host& h) {
         return talus_set_parallel_for(
             h.opt,
             [](void*, int64_t count, talus_task task, void* context) {
               for (int64_t i = 0; i < count; ++i) task(context, i);
             },
             nullptr);
       }},
      {"step on it", [](Host& h) { return talus_step(h.opt, nullptr); }},
      {"group of rows",
       [](Host& h) { return talus_add_group(h.opt, "sparse_adam", &h.row_group); }},
      {"add a table",
       [](Host& h) {
         const talus_param param = h.table_param();
         return talus_add_params(h.opt, h.row_group, 1, &param, nullptr);
       }},
      {"bind rows", [](Host& h) { return h.bind_rows(); }},
      {"step of rows", [](Host& h) { return talus_step(h.opt, nullptr); }},
      {"last group", [](Host& h) { return talus_add_group(h.opt, nullptr, &h.last_group); }},
      {"bind rows again", [](Host& h) { return h.bind_rows(); }},
      {"move a parameter",
       [](Host& h) {
         const int64_t moved[] = {1, 0};
         return talus_move_params(h.opt, h.last_group, 2, moved);
       }},
      {"step after the move", [](Host& h) { return talus_step(h.opt, nullptr); }},
      {"remove parameters",
       [](Host& h) {
         const int64_t gone[] = {2, 0};
         return talus_remove_params(h.opt, 2, gone);
       }},
      {"step of those left", [](Host& h) { return talus_step(h.opt, nullptr); }},
  };
}

void leave_stale_detail(Host& host) {
  const talus_closure stop = [](void*, double*) -> int32_t { return 7; };
  REQUIRE(talus_step_closure(host.opt, stop, nullptr, nullptr, nullptr) == TALUS_E_CALLBACK);
}

std::vector<std::string> results(Host& host) {
  std::vector<std::string> lines;
  for (const auto& line : see(host.opt))  // addresses differ from run to run
    if (line.find(" 0x") == std::string::npos) lines.push_back(line);
  lines.push_back(hex(host.model.w.data(), host.model.w.size() * 4));
  lines.push_back(hex(host.moved.data(), 8));
  lines.push_back(hex(host.late.data(), 12));
  lines.push_back(hex(host.table.data(), host.table.size() * 4));
  lines.push_back(hex(host.half.data(), host.half.size() * 2));
  for (const talus_state& state : states(host.opt)) lines.push_back(hex(state.data, state.bytes));
  for (const talus_schedule* schedule : host.schedules) lines.push_back(text_of(schedule));
  lines.push_back(exact(host.value));
  return lines;
}

std::vector<std::string> undisturbed(const std::vector<Step>& steps) {
  Host host;
  for (const Step& step : steps) {
    CAPTURE(step.name);
    REQUIRE(step.call(host) == TALUS_OK);
  }
  return results(host);
}

// Schedules by themselves, in an optimizer, and shared with a group that comes later.
std::vector<Step> life_of_schedules() {
  const auto create = [](const char* kind) {
    return [kind](Host& h) {
      talus_schedule* made = nullptr;
      const talus_status status = talus_schedule_create(kind, &made);
      if (status == TALUS_OK) h.schedules.push_back(made);
      return status;
    };
  };
  const auto attach = [](size_t schedule, int32_t group, const char* hyper) {
    return [=](Host& h) {
      return talus_attach_schedule(h.opt, group, hyper, h.schedules[schedule], TALUS_CLOCK_CALLED);
    };
  };
  return {
      {"a sequence", create("sequential")},
      {"a chain", create("chained")},
      {"a product", create("multiplicative")},
      {"steps", create("multistep")},
      {"a plateau", create("plateau")},
      {"milestones",
       [](Host& h) {
         const int64_t list[] = {9, 1, 4};
         return talus_schedule_set_list(h.schedules[3], "milestones", list, 3);
       }},
      {"other milestones",
       [](Host& h) {
         const int64_t list[] = {2, 1, 2, 7, 0, 5};
         return talus_schedule_set_list(h.schedules[3], "milestones", list, 6);
       }},
      {"parameter", [](Host& h) { return talus_schedule_set(h.schedules[4], "patience", 0); }},
      {"function",
       [](Host& h) {
         const talus_schedule_function f = [](void*, int64_t) { return 0.5; };
         return talus_schedule_set_function(h.schedules[2], f, nullptr, nullptr);
       }},
      {"first piece", [](Host& h) { return talus_schedule_add(h.schedules[0], h.schedules[3]); }},
      {"milestone of it",
       [](Host& h) {
         const int64_t two = 2;
         return talus_schedule_set_list(h.schedules[0], "milestones", &two, 1);
       }},
      {"second piece", [](Host& h) { return talus_schedule_add(h.schedules[0], h.schedules[2]); }},
      {"chain it", [](Host& h) { return talus_schedule_add(h.schedules[1], h.schedules[0]); }},
      {"plateau last", [](Host& h) { return talus_schedule_add(h.schedules[1], h.schedules[4]); }},
      {"attach to all", attach(1, TALUS_ALL, "lr")},
      {"attach to one", attach(3, 0, "weight_decay")},
      {"group with schedules", [](Host& h) { return talus_add_group(h.opt, "sgd", &h.group); }},
      {"step", [](Host& h) { return talus_step(h.opt, nullptr); }},
      {"report", [](Host& h) { return talus_observe(h.opt, 1); }},
      {"bad report", [](Host& h) { return talus_observe(h.opt, 1); }},
      {"value", [](Host& h) { return talus_value_now(h.opt, 0, "lr", &h.value); }},
      {"alone", [](Host& h) { return talus_schedule_value(h.schedules[0], 1, 1, &h.value); }},
      {"ask for it",
       [](Host& h) {
         talus_schedule* found = nullptr;
         const talus_status status = talus_get_schedule(h.opt, 1, "lr", &found, nullptr);
         if (status == TALUS_OK) h.schedules.push_back(found);
         return status;
       }},
      {"ask for a piece",
       [](Host& h) {
         talus_schedule* found = nullptr;
         const talus_status status = talus_schedule_piece(h.schedules[1], 0, &found);
         if (status == TALUS_OK) h.schedules.push_back(found);
         return status;
       }},
      {"step after reports", [](Host& h) { return talus_step(h.opt, nullptr); }},
      {"take it from all",
       [](Host& h) { return talus_attach_schedule(h.opt, TALUS_ALL, "lr", nullptr, 0); }},
      {"step without", [](Host& h) { return talus_step(h.opt, nullptr); }},
  };
}

// Everything but memory that is got hold of and not used.
std::vector<std::string> seen(const Host& host) {
  std::vector<std::string> lines = see(host.opt, Reserved::overlooked);
  for (const talus_schedule* schedule : host.schedules) lines.push_back(text_of(schedule));
  return lines;
}

int64_t each_allocation_fails(const std::vector<Step>& steps) {
  const std::vector<std::string> expected = undisturbed(steps);
  int64_t failures = 0;
  for (size_t failing = 0; failing < steps.size(); ++failing) {
    for (int k = 0;; ++k) {
      CAPTURE(steps[failing].name, k);
      REQUIRE(k < 2000);
      Host host;
      for (size_t i = 0; i < failing; ++i) REQUIRE(steps[i].call(host) == TALUS_OK);
      const auto before = seen(host);
      leave_stale_detail(host);
      countdown = k;
      const talus_status status = steps[failing].call(host);
      const bool reached = countdown < 0;
      countdown = -1;
      if (status != TALUS_OK) {
        ++failures;
        CHECK(status == TALUS_E_MEMORY);
        CHECK(std::strlen(talus_last_error()) > 0);
        CHECK(talus_last_error_detail() == 0);
        REQUIRE(first_difference(before, seen(host)) == "");
        REQUIRE(steps[failing].call(host) == TALUS_OK);
      }
      for (size_t i = failing + 1; i < steps.size(); ++i) REQUIRE(steps[i].call(host) == TALUS_OK);
      REQUIRE(first_difference(expected, results(host)) == "");
      if (!reached) break;
    }
  }
  return failures;
}

}  // namespace

TEST_CASE("abi: each allocation of each call fails once, and nothing is lost") {
  CHECK(each_allocation_fails(life()) > 20);  // the library does use this program's operator new
}

TEST_CASE("abi: each allocation of each call about schedules fails once, and nothing is lost") {
  CHECK(each_allocation_fails(life_of_schedules()) > 20);
}

TEST_CASE("abi: create and destroy leave nothing when an allocation fails") {
  talus_optimizer* const untouched = reinterpret_cast<talus_optimizer*>(uintptr_t(0x10));
  for (int k = 0;; ++k) {
    CAPTURE(k);
    REQUIRE(k < 200);
    talus_optimizer* opt = untouched;
    countdown = k;
    const talus_status status = talus_create("adamw", TALUS_CPU, 0, &opt);
    const bool reached = countdown < 0;
    countdown = -1;
    CHECK(status == (reached ? TALUS_E_MEMORY : TALUS_OK));
    if (status != TALUS_OK) CHECK(opt == untouched);
    if (status == TALUS_OK) talus_destroy(opt);
    if (!reached) break;
  }
}

TEST_CASE("abi: an error whose text finds no memory is an error all the same") {
  Host host;
  const Step wrong[] = {
      {"name", [](Host& h) { return talus_set(h.opt, 0, "no such name", 1); }},
      {"range", [](Host& h) { return talus_set(h.opt, 0, "lr", -1); }},
      {"rule", [](Host& h) { return talus_add_group(h.opt, "no such rule", &h.group); }},
      {"slot", [](Host& h) { return talus_bind_state(h.opt, 0, "no such slot", &h, 8); }},
      {"overlap", [](Host& h) { return talus_bind_data(h.opt, 0, h.model.b.data()); }},
      {"rows",
       [](Host& h) {
         const talus_rows given = {sizeof given, TALUS_I64, 0, nullptr, nullptr, 0};
         return talus_bind_rows(h.opt, 0, &given);
       }},
      {"move",
       [](Host& h) {
         const int64_t none = 77;
         return talus_move_params(h.opt, 0, 1, &none);
       }},
      {"remove",
       [](Host& h) {
         const int64_t none = 77;
         return talus_remove_params(h.opt, 1, &none);
       }},
      {"param",
       [](Host& h) {
         talus_param param = h.late_param();
         param.master = 77;
         return talus_add_params(h.opt, 0, 1, &param, nullptr);
       }},
      {"kind",
       [](Host&) {
         talus_schedule* made = nullptr;
         return talus_schedule_create("no such kind", &made);
       }},
      {"schedule of no such name",
       [](Host& h) { return talus_attach_schedule(h.opt, 0, "no such name", nullptr, 0); }},
      {"report to nobody", [](Host& h) { return talus_observe(h.opt, 1); }},
  };
  const auto before = see(host.opt);
  for (const Step& each : wrong) {
    for (int k = 0;; ++k) {
      CAPTURE(each.name, k);
      REQUIRE(k < 200);
      countdown = k;
      const talus_status status = each.call(host);
      const bool reached = countdown < 0;
      countdown = -1;
      CHECK(status != TALUS_OK);
      CHECK(std::strlen(talus_last_error()) > 0);
      CHECK(first_difference(before, see(host.opt)) == "");
      if (!reached) break;
    }
  }
}
#endif
