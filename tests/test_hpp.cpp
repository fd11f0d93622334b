// The C++ layer over the ABI: what it adds (ownership, exceptions, spans, closures) and that it
// passes the rest through.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <talus.hpp>

#include <array>
#include <cmath>
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/hpp.h"

using Catch::Matchers::ContainsSubstring;
using talus::Optimizer;
using talus::test::code_of;

namespace {

// The least squares problem y = 2 x0 - 3 x1 + 1 over a grid.
struct Line {
  std::vector<float> weights = {0, 0, 0}, gradient = {0, 0, 0};

  double evaluate() {
    double loss = 0;
    double sum[3] = {0, 0, 0};
    for (int i = 0; i < 25; ++i) {
      const double x[3] = {i % 5 / 4.0, i / 5 / 4.0, 1};
      const double error =
          weights[0] * x[0] + weights[1] * x[1] + weights[2] - (2 * x[0] - 3 * x[1] + 1);
      loss += error * error / 25;
      for (int k = 0; k < 3; ++k) sum[k] += 2 * error * x[k] / 25;
    }
    for (int k = 0; k < 3; ++k) gradient[size_t(k)] = float(sum[k]);
    return loss;
  }
};

struct MyHalf {
  uint16_t bits;
};

}  // namespace

template <>
struct talus::dtype_of<MyHalf> : std::integral_constant<int32_t, TALUS_F16> {};

TEST_CASE("hpp: adamw with a lambda as closure fits a line") {
  Line line;
  Optimizer opt("adamw", {{"lr", 0.05}, {"weight_decay", 0}});
  opt.add(line.weights, line.gradient, {.name = "line"});
  const double first = opt.step([&] { return line.evaluate(); });
  double last = first;
  for (int i = 0; i < 600; ++i) last = opt.step([&] { return line.evaluate(); });
  INFO("loss " << first << " -> " << last);
  CHECK(last < 1e-4 * first);
  CHECK(opt.steps(0) == 601);
  CHECK(std::abs(line.weights[0] - 2) < 0.02);
  CHECK(std::abs(line.weights[1] + 3) < 0.02);
}

TEST_CASE("hpp: an Error carries code, name and the library's text") {
  Optimizer opt("sgd");
  try {
    opt.set("lr", -1);
    FAIL("a negative lr was accepted");
  } catch (const talus::Error& error) {
    CHECK(error.code() == TALUS_E_RANGE);
    CHECK(std::string(error.name()) == "TALUS_E_RANGE");
    CHECK_THAT(error.what(), ContainsSubstring("lr"));
    CHECK(std::string(error.what()) == talus_last_error());
  }
  CHECK(opt.get("lr") == 1e-3);
  CHECK(code_of([] { Optimizer("no_such_rule"); }) == TALUS_E_NAME);
  CHECK(code_of([] { Optimizer("sgd", {{"lr", NAN}}); }) == TALUS_E_RANGE);
  CHECK(code_of([&] { opt.group_algorithm(1); }) == TALUS_E_ARGUMENT);
  CHECK_NOTHROW(opt.step());  // an optimizer without parameters is legal
  CHECK(code_of([] { talus::names("no such list"); }) == TALUS_E_NAME);
  CHECK(code_of([] { talus::hypers("no_such_rule"); }) == TALUS_E_NAME);
}

TEST_CASE("hpp: an exception of the closure comes out, and no step was taken") {
  std::vector<float> weights = {1, 2}, gradient = {1, 1};
  Optimizer opt("sgd", {{"lr", 1}});
  opt.add(weights, gradient);
  struct Odd {
    int value;
  };
  CHECK_THROWS_AS(opt.step([]() -> double { throw std::runtime_error("no data"); }),
                  std::runtime_error);
  try {
    opt.step([]() -> double { throw Odd{7}; });
    FAIL("the exception is lost");
  } catch (const Odd& odd) {
    CHECK(odd.value == 7);
  }
  CHECK(weights == std::vector<float>{1, 2});
  CHECK(opt.steps(0) == 0);
  CHECK(opt.step([] { return 0.5; }) == 0.5);
  CHECK(weights == std::vector<float>{0, 1});
}

TEST_CASE("hpp: a moved optimizer keeps its parameters, and assignment frees the old one") {
  STATIC_REQUIRE(std::is_nothrow_move_constructible_v<Optimizer>);
  STATIC_REQUIRE(std::is_nothrow_move_assignable_v<Optimizer>);
  STATIC_REQUIRE_FALSE(std::is_copy_constructible_v<Optimizer>);
  std::vector<double> weights = {1, 2}, gradient = {1, 1};
  Optimizer a("sgd", {{"lr", 0.5}});
  a.add(weights, gradient);
  int tasks = 0;
  a.set_parallel_for([&](int64_t count, const Optimizer::Task& task) {
    for (int64_t i = 0; i < count; ++i, ++tasks) task(i);
  });
  Optimizer b = std::move(a);
  CHECK(a.handle() == nullptr);
  b.step();
  CHECK(weights == std::vector<double>{0.5, 1.5});
  Optimizer c("adam");
  c = std::move(b);
  CHECK(c.group_algorithm() == "sgd");
  c.step();
  CHECK(weights == std::vector<double>{0, 1});
  CHECK(c.param_count() == 1);
  talus_optimizer* raw = nullptr;
  REQUIRE(talus_create("adamw", TALUS_CPU, 0, &raw) == TALUS_OK);
  c = Optimizer(raw);
  CHECK(c.handle() == raw);
}

TEST_CASE("hpp: lists name algorithms, slots and hyperparameters with their lines") {
  const std::vector<std::string> algorithms = talus::names("algorithms");
  CHECK(std::count(algorithms.begin(), algorithms.end(), "adamw") == 1);
  CHECK(talus::names("slots/adamw").at(0) == "exp_avg");
  for (const char* list : {"algorithms", "aliases", "settings", "cpu_targets", "lists"})
    for (const std::string& name : talus::names(list)) CHECK_FALSE(talus::doc(list, name).empty());
  bool found = false;
  for (const talus_hyper& hyper : talus::hypers("adamw"))
    if (std::string(hyper.name) == "beta1") found = hyper.def == 0.9 && hyper.max == 1;
  CHECK(found);
  CHECK_FALSE(talus::hypers("settings").empty());
  std::string reason;
  CHECK_FALSE(talus::has_feature("no such feature", &reason));
  CHECK_FALSE(reason.empty());
}

TEST_CASE("hpp: groups, values and settings pass through") {
  Optimizer opt("adamw", {{"lr", 0.25}});
  const int32_t group = opt.add_group("sgd", {{"momentum", 0.9}});
  CHECK(group == 1);
  CHECK(opt.group_count() == 2);
  CHECK(opt.group_algorithm(group) == "sgd");
  CHECK(opt.group_algorithm(opt.add_group()) == "adamw");
  CHECK(opt.get("lr", group) == 0.25);  // what was set for all applies to later groups
  CHECK(opt.get("momentum", group) == 0.9);
  opt.set({{"lr", 0.5}, {"beta1", 0.8}}, 0);
  CHECK(opt.get("lr", 0) == 0.5);
  CHECK(opt.get("lr", group) == 0.25);
  opt.set_setting("threads", 1);
  CHECK(opt.get_setting("threads") == 1);
}

TEST_CASE("hpp: schedules of every sort are built, attached, read back and taken away") {
  using talus::Schedule;
  Schedule warmup("linear", {{"start_factor", 0.5}, {"total_iters", 2}});
  const Schedule decay = Schedule::lambda([](int64_t t) { return 1.0 / double(t + 1); });
  const Schedule whole = Schedule::sequential({warmup, decay}, {2});
  CHECK(whole.kind() == "sequential");
  CHECK(whole.milestones() == std::vector<int64_t>{2});
  CHECK(whole.piece_count() == 2);
  CHECK(whole.value(0.4, 1) == 0.4 * 0.75);
  CHECK(whole.value(0.4, 3) == 0.2);
  warmup.set("start_factor", 0.25);
  CHECK(whole.piece(0).get("start_factor") == 0.25);
  const int64_t milestones[] = {4, 2};
  CHECK(Schedule::multistep(milestones, {{"gamma", 0.5}}).value(1, 4) == 0.25);
  CHECK(Schedule::multiplicative([](int64_t) { return 0.5; }).value(1, 3) == 0.125);
  CHECK(Schedule::chained({Schedule("constant", {{"factor", 0.5}}), warmup}).value(1, 0) == 0.125);
  CHECK_THROWS_AS(Schedule("cosine").value(1, 0), talus::Error);

  std::vector<float> w{1}, g{1};
  talus::Optimizer opt("sgd", {{"lr", 0.4}});
  opt.add(w, g);
  opt.attach("lr", whole, TALUS_ALL, TALUS_CLOCK_MANUAL);
  CHECK(opt.schedule("lr")->kind() == "sequential");
  CHECK_FALSE(opt.schedule("momentum").has_value());
  opt.set_clock(3);
  CHECK(opt.clock() == 3);
  CHECK(opt.value_now("lr") == 0.2);
  opt.step();
  CHECK(w[0] == 1 - 0.2f);
  CHECK(opt.clock(TALUS_CLOCK_APPLIED) == 1);
  CHECK_THROWS_AS(opt.observe(1), talus::Error);
  opt.detach("lr");
  CHECK(opt.value_now("lr") == 0.4);
  opt.attach("lr", Schedule("plateau", {{"patience", 0}, {"factor", 0.5}}));
  opt.observe(1);
  opt.observe(2);
  CHECK(opt.value_now("lr") == 0.2);
}

TEST_CASE("hpp: a schedule's function that throws fails the step, and goes with its schedule") {
  auto alive = std::make_shared<int>(0);
  std::vector<float> w{1}, g{1};
  {
    talus::Optimizer opt("sgd");
    opt.add(w, g);
    opt.attach("lr", talus::Schedule::lambda([alive](int64_t t) -> double {
                 if (t == 0) throw std::runtime_error("no");
                 return 1;
               }));
    CHECK(alive.use_count() == 2);
    CHECK_THROWS_AS(opt.step(), talus::Error);
    CHECK(w[0] == 1);
  }
  CHECK(alive.use_count() == 1);
}

TEST_CASE("hpp: dtypes follow element types, with specialisation for a type of the user") {
  std::array<double, 2> f64{};
  std::array<talus::Float16, 2> f16{};
  std::array<talus::BFloat16, 2> bf16{};
  std::array<MyHalf, 2> mine{};
  const std::vector<float> grad = {1, 2};
  Optimizer opt("sgd");
  CHECK(opt.add(f64) == 0);
  CHECK(opt.add(f16, grad) == 1);
  CHECK(opt.add(bf16, std::span<const float>{}, {.master = TALUS_MASTER_NONE}) == 2);
  CHECK(opt.add(std::span(mine), {.name = "mine"}) == 3);
  CHECK(opt.param(0).dtype == TALUS_F64);
  CHECK(opt.param(1).dtype == TALUS_F16);
  CHECK(opt.param(1).grad_dtype == TALUS_F32);
  CHECK(opt.param(2).dtype == TALUS_BF16);
  CHECK(opt.param(2).grad == nullptr);
  CHECK(opt.param(2).master == TALUS_MASTER_NONE);
  CHECK(opt.param(3).dtype == TALUS_F16);
  CHECK(opt.find("mine") == 3);
  CHECK_FALSE(opt.find("other").has_value());
  CHECK(opt.param_group(3) == 0);
}

TEST_CASE("hpp: a shape or a span that does not fit is refused before the library sees it") {
  std::vector<float> data(6), grad(6), wrong(5);
  std::vector<double> other(6);
  Optimizer opt("sgd");
  CHECK(code_of([&] { opt.add(data, wrong); }) == TALUS_E_ARGUMENT);
  CHECK(code_of([&] { opt.add(data, grad, {.shape = {2, 2}}); }) == TALUS_E_ARGUMENT);
  CHECK(opt.param_count() == 0);
  opt.add(data, grad, {.name = "w", .shape = {2, 3}});
  CHECK(opt.param(0).ndim == 2);
  CHECK(opt.param(0).shape[1] == 3);
  CHECK(code_of([&] { opt.bind_grad(0, wrong); }) == TALUS_E_ARGUMENT);
  CHECK(code_of([&] { opt.bind_grad(0, other); }) == TALUS_E_ARGUMENT);
  CHECK(code_of([&] { opt.bind_data(0, other); }) == TALUS_E_ARGUMENT);
  CHECK(code_of([&] { opt.add(wrong, {.shape = {-5}}); }) == TALUS_E_ARGUMENT);
  CHECK(opt.param(0).grad == grad.data());
}

TEST_CASE("hpp: several parameters and columns of gradients in one call") {
  std::vector<float> a = {1}, b = {2}, ga = {1}, gb = {1};
  int64_t extent = 1;
  std::array<talus_param, 2> params = {talus::sized<talus_param>(), talus::sized<talus_param>()};
  for (talus_param& param : params) param.dtype = TALUS_F32, param.shape = &extent, param.ndim = 1;
  params[0].data = a.data();
  params[1].data = b.data();
  Optimizer opt("sgd", {{"lr", 1}});
  CHECK(opt.add(params) == 0);
  const std::array<void*, 2> column = {ga.data(), gb.data()};
  opt.bind_grads(column);
  opt.step();
  CHECK(a[0] == 0);
  CHECK(b[0] == 1);
  opt.zero_grad();
  CHECK(ga[0] == 0);
  opt.zero_grad(TALUS_ZERO_UNBIND);
  CHECK(code_of([&] { opt.step(); }) == TALUS_E_STATE);
}

TEST_CASE("hpp: rows with indices of either width, checked against dtype and row length") {
  std::vector<float> table(8, 1);
  const std::vector<float> values = {1, 2, 3, 4};
  std::vector<int64_t> wide = {3, 0};
  const std::vector<int32_t> narrow = {1, 1};
  Optimizer opt("sgd", {{"lr", 1}});
  opt.add(table, {.shape = {4, 2}});
  opt.bind_rows(0, std::span(wide), values);
  opt.step();
  CHECK(table == std::vector<float>{-2, -3, 1, 1, 1, 1, 0, -1});
  opt.bind_rows(0, std::span(narrow), values);
  opt.step();
  CHECK(table == std::vector<float>{-2, -3, -3, -5, 1, 1, 0, -1});
  const std::vector<double> other(4);
  const std::vector<float> wrong(3);
  CHECK(code_of([&] { opt.bind_rows(0, std::span(wide), other); }) == TALUS_E_ARGUMENT);
  CHECK(code_of([&] { opt.bind_rows(0, std::span(wide), wrong); }) == TALUS_E_ARGUMENT);
  wide[0] = 4;
  CHECK(code_of([&] { opt.bind_rows(0, std::span(wide), values); }) == TALUS_E_ARGUMENT);
}

TEST_CASE("hpp: parameters move to another group and are removed") {
  std::vector<float> a = {1}, b = {1}, gradient = {1}, other = {1};
  Optimizer opt("sgd", {{"lr", 1}});
  const int32_t slow = opt.add_group("", {{"lr", 0.25}});
  const std::array<int64_t, 2> both = {opt.add(a, gradient), opt.add(b, other)};
  opt.move(std::span(both).first(1), slow);
  CHECK(opt.param_group(0) == slow);
  opt.step();
  CHECK(a[0] == 0.75f);
  CHECK(b[0] == 0);
  opt.remove(both);
  CHECK(opt.param_count() == 2);
  CHECK(code_of([&] { opt.param(1); }) == TALUS_E_ARGUMENT);
  CHECK(code_of([&] { opt.remove(both); }) == TALUS_E_ARGUMENT);
  CHECK(code_of([&] { opt.move(both, slow); }) == TALUS_E_ARGUMENT);
}

TEST_CASE("hpp: states are views of the live memory, and can live in the caller's") {
  std::vector<float> data = {1, 2}, grad = {0.5f, 0.25f}, moment(2), moved = {5, 6};
  Optimizer opt("adamw");
  opt.add(data, grad);
  CHECK(opt.state<float>(0, "exp_avg").empty());
  opt.bind_state(0, "exp_avg", moment);
  opt.step();
  REQUIRE(opt.states().size() == 2);
  CHECK(opt.state<float>(0, "exp_avg").data() == moment.data());
  CHECK(moment[0] > 0);
  CHECK(opt.state<float>(0, "exp_avg_sq").size() == 2);
  CHECK(code_of([&] { opt.state<float>(0, "no_slot"); }) == TALUS_E_NAME);
  CHECK(code_of([&] { opt.state<double>(0, "exp_avg"); }) == TALUS_E_ARGUMENT);
  opt.bind_data(0, moved);
  opt.step();
  CHECK(moved[0] < 5);
  opt.set_steps(0, 10);
  CHECK(opt.steps(0) == 10);
  CHECK(opt.stats().steps == 2);
}

TEST_CASE("hpp: hooks of the host are called, and an allocator goes with its last release") {
  auto held = std::make_shared<int>(0);
  int64_t balance = 0, allocations = 0;
  std::vector<float> data(100, 1), grad(100, 1);
  {
    Optimizer opt("adamw");
    opt.set_allocator({[&, held](uint64_t bytes, uint64_t alignment, void*) {
                         ++allocations, balance += int64_t(bytes);
                         return std::aligned_alloc(alignment,
                                                   (bytes + alignment - 1) / alignment * alignment);
                       },
                       [&](void* memory, uint64_t bytes, void*) {
                         balance -= int64_t(bytes);
                         std::free(memory);
                       }});
    CHECK(held.use_count() == 2);
    int64_t tasks = 0;
    opt.set_parallel_for([&](int64_t count, const Optimizer::Task& task) {
      for (int64_t i = 0; i < count; ++i, ++tasks) task(i);
    });
    opt.add(data, grad);
    opt.step();
    CHECK(allocations > 0);
    CHECK(balance > 0);
    opt.set_parallel_for({});
    opt.step();
    CHECK(code_of([&] { opt.set_allocator({}); }) == TALUS_E_STATE);
  }
  CHECK(balance == 0);
  CHECK(held.use_count() == 1);
}

TEST_CASE("hpp: a log receives lines while it lives") {
  std::vector<std::string> lines;
  {
    const talus::Log log([&](int32_t, std::string_view text) { lines.emplace_back(text); },
                         TALUS_LOG_DEBUG);
    Optimizer opt("sgd");
  }
  const size_t count = lines.size();
  Optimizer opt("sgd");
  CHECK(lines.size() == count);
}

TEST_CASE("hpp: checkpoints to memory and to a file, notes, and a progress that cancels") {
  std::vector<float> p(5, 1), g(5, 2), q(5, 1);
  talus::Optimizer from("adam"), to("adam");
  from.add(p, g);
  to.add(q, g);
  from.step();
  from.set_note("epoch", "7");
  to.load_bytes(from.save_bytes(TALUS_SAVE_PARAMS), TALUS_LOAD_PARAMS);
  CHECK(p == q);
  CHECK(to.note("epoch") == "7");
  to.remove_note("epoch");
  CHECK(!to.note("epoch"));
  CHECK(to.save_bytes() != from.save_bytes());
  CHECK_THROWS_AS(to.save("/nowhere/x.safetensors"), talus::Error);
  uint64_t seen = 0;
  try {
    from.save("x.safetensors", 0, [&](uint64_t, uint64_t total) { return seen = total, false; });
    FAIL("a save that was cancelled");
  } catch (const talus::Error& e) {
    CHECK(e.code() == TALUS_E_CANCELLED);
  }
  CHECK(seen == from.save_bytes().size());
}
