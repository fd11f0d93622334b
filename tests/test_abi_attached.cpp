// Schedules where they act: attaching, clocks, groups that come later, plateaus, and steps that are
// refused, after which nothing has changed.
#include "tests/abi/fixture.h"

#include "tests/schedule.h"

using namespace talus::abi;
using talus::test::attach;
using talus::test::clock_of;
using talus::test::must;
using talus::test::Schedule;
using talus::test::value_now;

namespace {

Schedule lambda(talus_schedule_function f, void* user = nullptr) {
  Schedule made("lambda");
  made.function(f, user);
  return made;
}
Schedule constant(double factor) {
  return Schedule("constant", {{"factor", factor}, {"total_iters", 0x1p53}});
}

// An sgd with two groups that have a tensor each.
struct Host {
  Handle opt{"sgd"};
  Model model, second;
  int32_t group = -1;

  Host() {
    REQUIRE(talus_add_group(opt, nullptr, &group) == TALUS_OK);
    const int64_t extents[] = {5, 5};
    add(opt, describe(TALUS_F32, model.w.data(), model.gw.data(), &extents[0]));
    add(opt, describe(TALUS_F32, second.w.data(), second.gw.data(), &extents[1]), group);
  }
  void set(const char* name, double value, int32_t g = TALUS_ALL) {
    must(talus_set(opt, g, name, value));
  }
  void step() { must(talus_step(opt, nullptr)); }
  talus_status attach_to(const char* hyper, const Schedule& s, int32_t g = 0,
                         int32_t clock = TALUS_CLOCK_APPLIED) {
    return talus_attach_schedule(opt, g, hyper, s, clock);
  }
};

// The step fails and names all of that; parameters, counts, values, clocks and schedules stay.
void step_refused(Host& host, talus_status expected, std::initializer_list<const char*> causes) {
  refused(host.opt, expected, causes, [&] { return talus_step(host.opt, nullptr); });
}

}  // namespace

TEST_CASE("abi: attach refuses what is wrong with its arguments") {
  Host host;
  const Schedule s("constant");
  const auto refuse = [&](talus_status expected, std::initializer_list<const char*> causes,
                          talus_optimizer* opt, int32_t group, const char* hyper, int32_t clock) {
    refused(host.opt, expected, causes,
            [&] { return talus_attach_schedule(opt, group, hyper, s, clock); });
  };
  refuse(TALUS_E_ARGUMENT, {"opt"}, nullptr, 0, "lr", 0);
  refuse(TALUS_E_ARGUMENT, {"hyper"}, host.opt, 0, nullptr, 0);
  for (const int32_t group : {2, -2, 77})
    refuse(TALUS_E_ARGUMENT, {"group", std::to_string(group).c_str()}, host.opt, group, "lr", 0);
  for (const int32_t clock : {-1, 3})
    refuse(TALUS_E_ARGUMENT, {"clock", std::to_string(clock).c_str()}, host.opt, 0, "lr", clock);
  for (const int32_t group : {0, TALUS_ALL}) {
    refuse(TALUS_E_NAME, {"\"beta1\"", "momentum"}, host.opt, group, "beta1", 0);
    refuse(TALUS_E_UNSUPPORTED, {"group 0 \"sgd\"", "nesterov", "flag"}, host.opt, group,
           "nesterov", 0);
  }
  int32_t other = -1;
  REQUIRE(talus_add_group(host.opt, "novograd", &other) == TALUS_OK);
  refuse(TALUS_E_UNSUPPORTED, {"group 2 \"novograd\"", "norm_type", "integer"}, host.opt, TALUS_ALL,
         "norm_type", 0);
}

TEST_CASE("abi: the questions about schedules and clocks refuse what is wrong") {
  Host host;
  talus_schedule* const untouched = reinterpret_cast<talus_schedule*>(uintptr_t(0x10));
  talus_schedule* out = untouched;
  int32_t clock = 7;
  int64_t t = 7;
  double value = 7;
  const auto refuse = [&](talus_status expected, const char* cause, auto call) {
    refused(host.opt, expected, {cause}, call);
  };
  talus_optimizer* const opt = host.opt;
  refuse(TALUS_E_ARGUMENT, "opt",
         [&] { return talus_get_schedule(nullptr, 0, "lr", &out, &clock); });
  refuse(TALUS_E_ARGUMENT, "group",
         [&] { return talus_get_schedule(opt, -1, "lr", &out, &clock); });
  refuse(TALUS_E_ARGUMENT, "hyper",
         [&] { return talus_get_schedule(opt, 0, nullptr, &out, &clock); });
  refuse(TALUS_E_ARGUMENT, "schedule",
         [&] { return talus_get_schedule(opt, 0, "lr", nullptr, &clock); });
  refuse(TALUS_E_NAME, "\"rate\"",
         [&] { return talus_get_schedule(opt, 0, "rate", &out, &clock); });
  refuse(TALUS_E_UNSUPPORTED, "maximize",
         [&] { return talus_get_schedule(opt, 0, "maximize", &out, &clock); });
  refuse(TALUS_E_ARGUMENT, "opt", [&] { return talus_value_now(nullptr, 0, "lr", &value); });
  refuse(TALUS_E_ARGUMENT, "group", [&] { return talus_value_now(opt, 2, "lr", &value); });
  refuse(TALUS_E_ARGUMENT, "name", [&] { return talus_value_now(opt, 0, nullptr, &value); });
  refuse(TALUS_E_ARGUMENT, "value", [&] { return talus_value_now(opt, 0, "lr", nullptr); });
  refuse(TALUS_E_NAME, "\"rate\"", [&] { return talus_value_now(opt, 0, "rate", &value); });
  refuse(TALUS_E_ARGUMENT, "opt", [&] { return talus_set_clock(nullptr, 0); });
  refuse(TALUS_E_RANGE, "t is -1", [&] { return talus_set_clock(opt, -1); });
  refuse(TALUS_E_ARGUMENT, "opt", [&] { return talus_get_clock(nullptr, 0, &t); });
  refuse(TALUS_E_ARGUMENT, "clock is 3", [&] { return talus_get_clock(opt, 3, &t); });
  refuse(TALUS_E_ARGUMENT, "clock is -1", [&] { return talus_get_clock(opt, -1, &t); });
  refuse(TALUS_E_ARGUMENT, "t", [&] { return talus_get_clock(opt, 0, nullptr); });
  refuse(TALUS_E_ARGUMENT, "opt", [&] { return talus_observe(nullptr, 1); });
  refuse(TALUS_E_STATE, "no plateau", [&] { return talus_observe(opt, 1); });
  CHECK((out == untouched && clock == 7 && t == 7 && value == 7));
  must(talus_get_schedule(opt, 0, "lr", &out, &clock));  // none
  CHECK((out == nullptr && clock == 7));
  must(talus_value_now(opt, 0, "nesterov", &value));  // what has none is as it was set
  CHECK(value == 0);
}

TEST_CASE("abi: a hyperparameter has one schedule, and a second one is refused whole") {
  Host host;
  const Schedule first("constant"), second("linear");
  REQUIRE(host.attach_to("lr", first, host.group) == TALUS_OK);
  for (const int32_t group : {host.group, int32_t(TALUS_ALL)})
    refused(host.opt, TALUS_E_STATE, {"group 1 \"sgd\"", "lr", "\"constant\""},
            [&] { return host.attach_to("lr", second, group); });
  CHECK(host.attach_to("weight_decay", second, host.group) == TALUS_OK);
  attach(host.opt, "lr", nullptr, TALUS_CLOCK_APPLIED, host.group);
  REQUIRE(host.attach_to("lr", second, TALUS_ALL) == TALUS_OK);
  attach(host.opt, "lr", nullptr, TALUS_CLOCK_APPLIED, 0);
  attach(host.opt, "lr", nullptr, TALUS_CLOCK_APPLIED, host.group);
  refused(host.opt, TALUS_E_STATE, {"groups added later", "lr", "\"linear\""},
          [&] { return host.attach_to("lr", first, TALUS_ALL); });
  CHECK(host.attach_to("lr", first, 0) == TALUS_OK);
}

TEST_CASE("abi: a schedule reads the base and never writes it") {
  Host host;
  host.set("lr", 0.5);
  REQUIRE(host.attach_to("lr", constant(0.5)) == TALUS_OK);
  for (int i = 0; i < 3; ++i) {
    CHECK(get(host.opt, "lr") == 0.5);
    CHECK(value_now(host.opt, "lr") == 0.25);
    CHECK(value_now(host.opt, "lr", host.group) == 0.5);
    const float before = host.model.w[0];
    host.step();
    CHECK(host.model.w[0] == before - 0.25f * host.model.gw[0]);
  }
  host.set("lr", 2);  // a new base, at once
  CHECK(get(host.opt, "lr") == 2);
  CHECK(value_now(host.opt, "lr") == 1);
  attach(host.opt, "lr", nullptr);
  CHECK(value_now(host.opt, "lr") == 2);
  const float before = host.model.w[0];
  host.step();
  CHECK(host.model.w[0] == before - 2 * host.model.gw[0]);
}

TEST_CASE("abi: a parameter that changes while the schedule is attached acts on the next step") {
  Host host;
  host.set("lr", 1);
  Schedule s = constant(0.5);
  REQUIRE(host.attach_to("lr", s) == TALUS_OK);
  host.step();
  s.set("factor", 0.125);
  const float before = host.model.w[0];
  host.step();
  CHECK(host.model.w[0] == before - 0.125f * host.model.gw[0]);
}

TEST_CASE("abi: groups added later get the schedules of all, each with its own base") {
  const Handle opt("sgd");
  must(talus_set(opt, TALUS_ALL, "lr", 1));
  attach(opt, "lr", constant(0.5));
  attach(opt, "weight_decay", constant(0.25), TALUS_CLOCK_MANUAL);
  attach(opt, "momentum", constant(0.75), TALUS_CLOCK_APPLIED, 0);  // of this one alone
  int32_t second = -1, third = -1;
  must(talus_add_group(opt, nullptr, &second));
  must(talus_add_group(opt, "rprop", &third));  // which has no weight_decay
  must(talus_set(opt, second, "lr", 4));
  must(talus_set(opt, second, "weight_decay", 1));
  CHECK(value_now(opt, "lr", 0) == 0.5);
  CHECK(value_now(opt, "lr", second) == 2);
  CHECK(value_now(opt, "lr", third) == 0.5);
  CHECK(value_now(opt, "weight_decay", second) == 0.25);
  talus_schedule* found = nullptr;
  int32_t clock = -1;
  must(talus_get_schedule(opt, second, "weight_decay", &found, &clock));
  CHECK((found != nullptr && clock == TALUS_CLOCK_MANUAL));
  talus_schedule_destroy(found);
  must(talus_get_schedule(opt, second, "momentum", &found, &clock));
  CHECK(found == nullptr);

  attach(opt, "lr", nullptr);  // of all, and of those to come
  int32_t fourth = -1;
  must(talus_add_group(opt, nullptr, &fourth));
  for (const int32_t group : {0, second, third, fourth})
    CHECK(value_now(opt, "lr", group) == get(opt, "lr", group));
  CHECK(value_now(opt, "weight_decay", fourth) == 0);
  must(talus_set(opt, fourth, "weight_decay", 1));
  CHECK(value_now(opt, "weight_decay", fourth) == 0.25);
}

TEST_CASE("abi: clocks count completed steps, or say what they were told") {
  Host host;
  host.set("lr", 1);
  std::vector<int64_t> seen[3];
  const char* const names[] = {"lr", "weight_decay", "dampening"};
  for (int32_t clock = 0; clock < 3; ++clock)
    REQUIRE(host.attach_to(names[clock],
                           lambda(
                               [](void* user, int64_t t) {
                                 static_cast<std::vector<int64_t>*>(user)->push_back(t);
                                 return 1.0;
                               },
                               &seen[clock]),
                           0, clock) == TALUS_OK);
  const auto clocks = [&] {
    return std::vector<int64_t>{clock_of(host.opt, 0), clock_of(host.opt, 1),
                                clock_of(host.opt, 2)};
  };
  CHECK(clocks() == std::vector<int64_t>{0, 0, 0});
  host.step();
  host.step();
  must(talus_set_clock(host.opt, 500));
  CHECK(clocks() == std::vector<int64_t>{2, 2, 500});
  host.step();
  must(talus_set_clock(host.opt, 3));  // also back
  must(talus_prepare(host.opt, nullptr));
  host.step();
  must(talus_set_steps(host.opt, 0, 77));  // of a parameter: no clock
  host.step();
  CHECK(clocks() == std::vector<int64_t>{5, 5, 3});
  const std::vector<int64_t> counted = {0, 1, 2, 3, 4};
  CHECK(seen[0] == counted);  // once for each step, and not by prepare
  CHECK(seen[1] == counted);
  CHECK(seen[2] == std::vector<int64_t>{0, 0, 500, 3, 3});
  must(talus_set_clock(host.opt, std::numeric_limits<int64_t>::max()));
  CHECK(value_now(host.opt, "dampening") == 0);
  CHECK(seen[2].back() == std::numeric_limits<int64_t>::max());
}

TEST_CASE("abi: a step whose value is no value of the hyperparameter fails and changes nothing") {
  struct Case {
    const char *hyper, *shown;
    talus_schedule_function f;
  };
  for (const Case& c :
       {Case{"lr", "nan", [](void*, int64_t t) { return t < 2 ? 1 : kNaN; }},
        Case{"lr", "inf", [](void*, int64_t t) { return t < 2 ? 1 : kInf; }},
        Case{"lr", "-2", [](void*, int64_t t) { return t < 2 ? 1.0 : -2.0; }},
        Case{"weight_decay", "-1", [](void*, int64_t t) { return double(1 - t); }},
        Case{"dampening", "-inf", [](void*, int64_t t) { return t < 2 ? 1 : -kInf; }}})
    for (const int32_t clock : {TALUS_CLOCK_APPLIED, TALUS_CLOCK_CALLED}) {
      CAPTURE(c.hyper, c.shown, clock);
      Host host;
      for (const char* name : {"lr", "weight_decay", "dampening", "momentum"}) host.set(name, 1);
      // Another schedule is evaluated before it, another group behind it.
      REQUIRE(host.attach_to("momentum", constant(0.5)) == TALUS_OK);
      REQUIRE(host.attach_to(c.hyper, lambda(c.f), 0, clock) == TALUS_OK);
      REQUIRE(host.attach_to("lr", constant(0.5), host.group) == TALUS_OK);
      host.step();
      host.step();
      for (int i = 0; i < 2; ++i)  // as often as it is tried
        step_refused(host, TALUS_E_RANGE,
                     {"group 0 \"sgd\"", c.hyper, "\"lambda\"", "t = 2", c.shown});
      double value = 7;
      refused(host.opt, TALUS_E_RANGE, {"group 0 \"sgd\"", c.hyper, "\"lambda\"", "t = 2", c.shown},
              [&] { return talus_value_now(host.opt, 0, c.hyper, &value); });
      CHECK(value == 7);
      attach(host.opt, c.hyper, nullptr, TALUS_CLOCK_APPLIED, 0);
      host.step();
      CHECK(clock_of(host.opt, TALUS_CLOCK_APPLIED) == 3);
      CHECK(clock_of(host.opt, TALUS_CLOCK_CALLED) == 3);
    }
}

TEST_CASE("abi: a value outside the range, by any kind, names schedule, place, time and value") {
  const Handle adam("adamw");
  Model model;
  model.add_to(adam);
  attach(adam, "beta1", Schedule("cyclic", {{"max_value", 1}, {"step_size_up", 2}}),
         TALUS_CLOCK_MANUAL);
  attach(adam, "lr", Schedule("exponential", {{"gamma", 100}}), TALUS_CLOCK_MANUAL);
  must(talus_step(adam, nullptr));
  must(talus_set_clock(adam, 2));
  refused(adam, TALUS_E_RANGE,
          {"group 0 \"adamw\"", "beta1", "\"cyclic\"", "t = 2", "is 1", "[0, 1)"},
          [&] { return talus_step(adam, nullptr); });
  must(talus_set_clock(adam, 200));
  refused(adam, TALUS_E_RANGE, {"group 0 \"adamw\"", "lr", "\"exponential\"", "t = 200", "inf"},
          [&] { return talus_step(adam, nullptr); });
  must(talus_set_clock(adam, 0));
  must(talus_step(adam, nullptr));
}

TEST_CASE("abi: values of schedules that exclude another value fail the step, by name") {
  Host host;
  host.set("momentum", 0.5);
  host.set("nesterov", 1);
  REQUIRE(host.attach_to("dampening", Schedule("cyclic", {{"max_value", .5}, {"step_size_up", 1}}),
                         host.group) == TALUS_OK);
  host.step();
  step_refused(host, TALUS_E_RANGE,
               {"group 1 \"sgd\"", "nesterov", "dampening = 0.5", "\"cyclic\"", "t = 1"});
  host.set("nesterov", 0);
  host.step();
}

TEST_CASE("abi: a schedule may pass through 0, but not bring in state that the base has left out") {
  Host host;
  host.set("momentum", 0.5, 0);
  const Schedule falling("cyclic", {{"max_value", 0}, {"step_size_up", 1}});
  REQUIRE(host.attach_to("momentum", falling) == TALUS_OK);
  for (int i = 0; i < 4; ++i) host.step();  // 0.5, 0, 0.5, 0
  CHECK(find_state(states(host.opt), 0, "momentum_buffer") != nullptr);
  const Schedule rising("cyclic", {{"max_value", 0.5}, {"step_size_up", 1}});
  REQUIRE(host.attach_to("momentum", rising, host.group) == TALUS_OK);
  host.step();  // t = 4: still 0
  CHECK(find_state(states(host.opt), 1, "momentum_buffer") == nullptr);
  step_refused(host, TALUS_E_RANGE,
               {"group 1 \"sgd\"", "momentum = 0.5", "base 0", "\"cyclic\"", "t = 5"});
  refused(host.opt, TALUS_E_STATE, {"momentum"},
          [&] { return talus_set(host.opt, host.group, "momentum", 0.5); });
  attach(host.opt, "momentum", nullptr, TALUS_CLOCK_APPLIED, host.group);
  host.step();
}

TEST_CASE("abi: a norm of all gradients that the base leaves out is not asked for by a schedule") {
  const Handle opt("lamb");
  Model model;
  model.add_to(opt);
  must(talus_set(opt, 0, "max_grad_norm", 0));
  const Schedule rising("cyclic", {{"max_value", 1}, {"step_size_up", 1}});
  attach(opt, "max_grad_norm", rising);
  must(talus_step(opt, nullptr));
  refused(opt, TALUS_E_RANGE,
          {"group 0 \"lamb\"", "norm", "max_grad_norm = 1", "\"cyclic\"", "t = 1"},
          [&] { return talus_step(opt, nullptr); });
  must(talus_set(opt, 0, "max_grad_norm", 1e-3));
  must(talus_step(opt, nullptr));
}

TEST_CASE("abi: gradients of rows go by the value of their own step") {
  std::vector<float> table = {1, 2, 3, 4, 5, 6}, grad = {1, 1, 1, 1, 1, 1}, values = {1, 1};
  const int64_t shape[] = {3, 2}, row = 1;
  const Handle opt("sgd");
  talus_param param = describe(TALUS_F32, table.data(), grad.data(), shape);
  param.ndim = 2;
  add(opt, param);
  // 0.5, then 0 from t = 1 on.
  attach(opt, "weight_decay",
         Schedule("one_cycle", {{"total_steps", 2}, {"max_value", 0.5}, {"final_value", 0}}),
         TALUS_CLOCK_MANUAL);
  const auto bind = [&] {
    const talus_rows rows = {sizeof rows, TALUS_I64, 1, &row, values.data(), 0};
    must(talus_bind_rows(opt, 0, &rows));
  };
  must(talus_step(opt, nullptr));  // dense
  bind();
  refused(opt, TALUS_E_UNSUPPORTED, {"weight_decay"}, [&] { return talus_step(opt, nullptr); });
  must(talus_set_clock(opt, 1));
  must(talus_step(opt, nullptr));
  must(talus_set_clock(opt, 0));
  must(talus_step(opt, nullptr));  // dense
  must(talus_set_clock(opt, 1));
  bind();
  must(talus_step(opt, nullptr));
  CHECK(steps(opt, 0) == 4);
}

TEST_CASE("abi: a piece that is in use cannot be made to throw away what stands before it") {
  Host host;
  Schedule chain("chained"), inner("one_cycle", {{"total_steps", 9}}), first = constant(0.5);
  Schedule nested("sequential");
  nested.add(inner);
  chain.add(first);
  chain.add(nested);
  REQUIRE(host.attach_to("lr", chain) == TALUS_OK);
  for (const char* name : {"max_value", "initial_value"})
    refused(host.opt, TALUS_E_RANGE, {"one_cycle", "before it in a chain", name},
            [&] { return talus_schedule_set(inner, name, 1); });
  host.step();
  // Where it stands first, or on its own, there is nothing to throw away.
  attach(host.opt, "lr", nullptr);
  REQUIRE(host.attach_to("lr", nested) == TALUS_OK);
  inner.set("max_value", 1);
  host.step();
}

TEST_CASE("abi: a function that is given back may use the optimizer that lets it go") {
  struct Back {
    Host* host;
    bool called = false;
  };
  Host host;
  Back back{&host};
  for (const int32_t g : {0, 1}) {
    Schedule s("lambda");
    must(talus_schedule_set_function(
        s, [](void*, int64_t) { return 0.5; }, &back,
        [](void* user) {
          Back& b = *static_cast<Back*>(user);
          b.called = true;
          const Schedule other = constant(0.25);
          for (const char* hyper : {"momentum", "weight_decay", "dampening"})
            if (talus_attach_schedule(b.host->opt, TALUS_ALL, hyper, other, TALUS_CLOCK_CALLED) !=
                TALUS_OK)
              b.called = b.called && talus_attach_schedule(b.host->opt, TALUS_ALL, hyper, nullptr,
                                                           TALUS_CLOCK_CALLED) == TALUS_OK;
        }));
    REQUIRE(host.attach_to("lr", s, g) == TALUS_OK);
  }
  attach(host.opt, "lr", nullptr);
  CHECK(back.called);
  host.step();
}

TEST_CASE("abi: each of a few clocks multiplies on from where it was") {
  Host host;
  int calls = 0;
  Schedule product("multiplicative");
  product.function(
      [](void* user, int64_t t) {
        ++*static_cast<int*>(user);
        return t % 2 != 0 ? 0.5 : 2.0;
      },
      &calls);
  host.set("momentum", 0.5);
  REQUIRE(host.attach_to("lr", product) == TALUS_OK);
  REQUIRE(host.attach_to("momentum", product, 0, TALUS_CLOCK_MANUAL) == TALUS_OK);
  must(talus_set_clock(host.opt, 3));
  for (int step = 0; step < 100; ++step) host.step();
  CHECK(calls == 99 + 3);
  CHECK(product.value(1, 0) == 1);  // asked for a plan in between
  CHECK(product.value(1, 1) == 0.5);
  calls = 0;
  host.step();
  CHECK(calls == 1);
  CHECK(value_now(host.opt, "momentum") == 0.25);
}
