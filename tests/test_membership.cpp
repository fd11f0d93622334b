// Parameters that move between groups or go: what follows them, what is freed, what is refused.
#include <cstdlib>

#include "tests/abi/fixture.h"
#include "tests/optimizer.h"

using namespace talus::abi;
namespace test = talus::test;

namespace {

talus_status move_one(talus_optimizer* opt, int64_t param, int32_t group) {
  return talus_move_params(opt, group, 1, &param);
}
talus_status remove_one(talus_optimizer* opt, int64_t param) {
  return talus_remove_params(opt, 1, &param);
}

uint64_t state_bytes(talus_optimizer* opt) {
  talus_stats stats{};
  stats.struct_size = sizeof stats;
  REQUIRE(talus_get_stats(opt, 1, &stats) == TALUS_OK);
  return stats.state_bytes;
}

// Two tensors in group 0, and group 1 with other values.
struct Two {
  Handle opt;
  Model model;
  int32_t other = -1;

  explicit Two(const char* algorithm = "adam", const char* second = nullptr) : opt(algorithm) {
    model.add_to(opt);
    REQUIRE(talus_add_group(opt, second, &other) == TALUS_OK);
  }
  void step() { REQUIRE(talus_step(opt, nullptr) == TALUS_OK); }
  void set(const char* name, double value, int32_t group) {
    REQUIRE(talus_set(opt, group, name, value) == TALUS_OK);
  }
};

int allocations, releases;

talus_allocator counting_allocator() {
  allocations = releases = 0;
  talus_allocator a{};
  a.struct_size = sizeof a;
  a.alloc = [](void*, uint64_t bytes, uint64_t alignment, void*) {
    ++allocations;
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  };
  a.release = [](void*, void* data, uint64_t, void*) { ++releases, std::free(data); };
  return a;
}

}  // namespace

// ---- move

TEST_CASE("membership: a moved parameter goes on as if its group's values had been set just then") {
  const std::vector<test::Values> settings = {{{"lr", .03}, {"weight_decay", .1}, {"beta1", .5}},
                                              {{"maximize", 1}, {"eps", .01}, {"beta2", .8}}};
  for (const char* algorithm : {"adam", "adamw", "sparse_adam"})
    for (const test::Mix& mix : test::all_mixes())
      for (const int moved_at : {0, 1, 4})
        for (const int which : {0, 1}) {
          const bool sparse = std::string(algorithm) == "sparse_adam";
          test::Values values = settings[size_t(which)];
          if (sparse)
            std::erase_if(values, [](const auto& v) { return v.first == "weight_decay"; });
          INFO(algorithm << ", " << test::name_of(mix) << ", moved after step " << moved_at);
          test::Optimizer opt(algorithm), alone(algorithm);
          const int32_t group = opt.add_group();
          opt.set(values, group);
          test::TestTensor x(mix, 67), stays(mix, 9), y(mix, 67);
          x.fill(5), y.fill(5), stays.fill(6);
          opt.add(stays), opt.add(x), alone.add(y);
          for (int step = 1; step <= 7; ++step) {
            if (step == moved_at + 1) {
              REQUIRE(move_one(opt.get(), x.index, group) == TALUS_OK);
              alone.set(values);
            }
            x.fill_grad(3, step), y.fill_grad(3, step), stays.fill_grad(4, step);
            opt.step();
            alone.step();
          }
          CHECK(test::difference(opt, x, alone, y) == "");
          CHECK(talus_param_group(opt.get(), x.index) == group);
          CHECK(talus_param_group(opt.get(), stays.index) == 0);
          CHECK(opt.steps(x) == 7);
        }
}

TEST_CASE("membership: step counts, state memory and gradients follow a move") {
  Two t;
  t.step();
  t.step();
  const auto before = states(t.opt);
  const int64_t both[] = {1, 0};
  REQUIRE(talus_move_params(t.opt, t.other, 2, both) == TALUS_OK);
  const auto after = states(t.opt);
  REQUIRE(before.size() == after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    CHECK(before[i].data == after[i].data);
    CHECK(std::string(before[i].slot) == after[i].slot);
  }
  CHECK((steps(t.opt, 0) == 2 && steps(t.opt, 1) == 2));
  const std::vector<float> w = t.model.w;
  t.step();
  CHECK(t.model.w != w);
  CHECK(steps(t.opt, 0) == 3);
  REQUIRE(move_one(t.opt, 0, t.other) == TALUS_OK);  // where it is already
  REQUIRE(talus_move_params(t.opt, 0, 0, nullptr) == TALUS_OK);
  const int64_t twice[] = {0, 0};
  REQUIRE(talus_move_params(t.opt, 0, 2, twice) == TALUS_OK);
  CHECK(talus_param_group(t.opt, 0) == 0);
  t.step();
}

TEST_CASE("membership: a layer that is frozen by lr 0 thaws in a group with an lr") {
  for (const bool by_lr : {true, false}) {  // else frozen by having no gradient
    CAPTURE(by_lr);
    test::Optimizer opt("adamw", {{"lr", .01}}), alone("adamw", {{"lr", .01}});
    const int32_t frozen = opt.add_group();
    opt.set("lr", 0, frozen);
    test::TestTensor base(test::kF32, 40), lora(test::kF32, 8), twin(test::kF32, 40);
    base.fill(1), lora.fill(2), twin.fill(1);
    base.has_grad = by_lr;
    opt.add(base, frozen), opt.add(lora);
    const test::Buffer start = base.param;
    for (int step = 1; step <= 3; ++step) {
      base.fill_grad(3, step), lora.fill_grad(4, step);
      opt.step();
    }
    CHECK(base.param.same_bytes(start));
    CHECK(opt.steps(base) == (by_lr ? 3 : 0));
    REQUIRE(move_one(opt.get(), base.index, 0) == TALUS_OK);
    if (!by_lr) opt.bind_grad(base, base.grad.data());
    twin.has_grad = true;
    alone.add(twin);
    if (by_lr) {  // its moments have run on
      alone.set("lr", 0);
      for (int step = 1; step <= 3; ++step) twin.fill_grad(3, step), alone.step();
      alone.set("lr", .01);
    }
    for (int step = 4; step <= 6; ++step) {
      base.fill_grad(3, step), twin.fill_grad(3, step), lora.fill_grad(4, step);
      opt.step();
      alone.step();
    }
    CHECK(test::difference(opt, base, alone, twin) == "");
    CHECK_FALSE(base.param.same_bytes(start));
  }
}

TEST_CASE("membership: a move to a group of another rule is refused") {
  Two t("adam", "sgd");
  refused(t.opt, TALUS_E_ARGUMENT, {"parameter 0", "\"w\"", "group 0 \"adam\"", "1 \"sgd\""},
          [&] { return move_one(t.opt, 0, t.other); });
  Two same("adam", "fused_adam");  // an alias is the same rule
  CHECK(move_one(same.opt, 0, same.other) == TALUS_OK);
}

TEST_CASE("membership: a move is refused where steps were taken and the state is another") {
  for (const bool gains : {true, false}) {
    CAPTURE(gains);
    Two t("sgd");
    t.set("momentum", 0.9, gains ? t.other : 0);
    t.step();
    refused(t.opt, TALUS_E_STATE, {"parameter 1", "\"b\"", "momentum_buffer", "1 steps"},
            [&] { return move_one(t.opt, 1, t.other); });
    const int64_t both[] = {0, 1};  // all or none
    refused(t.opt, TALUS_E_STATE, {"momentum_buffer"},
            [&] { return talus_move_params(t.opt, t.other, 2, both); });
    t.step();
  }
}

TEST_CASE("membership: of several, one that may not move keeps all of them where they are") {
  Two t("sgd");
  t.set("momentum", 0.9, t.other);
  void* none = nullptr;
  REQUIRE(talus_bind_grads(t.opt, 0, 1, &none) == TALUS_OK);
  t.step();  // "b" alone
  const int64_t both[] = {0, 1};
  refused(t.opt, TALUS_E_STATE, {"\"b\""},
          [&] { return talus_move_params(t.opt, t.other, 2, both); });
  CHECK(talus_param_group(t.opt, 0) == 0);
  CHECK(move_one(t.opt, 0, t.other) == TALUS_OK);
  CHECK(talus_state_count(t.opt) == 1);
}

TEST_CASE("membership: before its first step a parameter may move to other state") {
  for (const bool prepared : {false, true}) {
    CAPTURE(prepared);
    Two t("sgd");
    t.set("momentum", 0.9, 0);
    if (prepared) REQUIRE(talus_prepare(t.opt, nullptr) == TALUS_OK);
    std::vector<float> mine(5, 7);
    REQUIRE(talus_bind_state(t.opt, 0, "momentum_buffer", mine.data(), 20) == TALUS_OK);
    REQUIRE(move_one(t.opt, 0, t.other) == TALUS_OK);
    CHECK(talus_state_count(t.opt) == 1);  // "b" has one still
    CHECK(states(t.opt)[0].param == 1);
    t.step();
    CHECK(mine == std::vector<float>(5, 7));
    CHECK(t.model.w[0] == 1 - 1e-3f * 0.5f);
    // The bound memory is free for another use.
    void* grad = mine.data();
    CHECK(talus_bind_grads(t.opt, 0, 1, &grad) == TALUS_OK);

    Two back("sgd");
    back.set("momentum", 0.9, back.other);
    REQUIRE(move_one(back.opt, 1, back.other) == TALUS_OK);
    back.step();
    REQUIRE(states(back.opt).size() == 1);
    CHECK(static_cast<float*>(states(back.opt)[0].data)[0] == 0.75f);
  }
}

TEST_CASE("membership: a group that gets a parameter with steps has its fixed values fixed") {
  Two t("sgd");
  CHECK(talus_set(t.opt, t.other, "momentum", 0.5) == TALUS_OK);
  CHECK(talus_set(t.opt, t.other, "momentum", 0) == TALUS_OK);
  REQUIRE(move_one(t.opt, 0, t.other) == TALUS_OK);  // no steps: nothing is fixed
  CHECK(talus_set(t.opt, t.other, "momentum", 0.5) == TALUS_OK);
  CHECK(talus_set(t.opt, t.other, "momentum", 0) == TALUS_OK);
  REQUIRE(move_one(t.opt, 0, 0) == TALUS_OK);
  t.step();
  REQUIRE(move_one(t.opt, 0, t.other) == TALUS_OK);
  refused(t.opt, TALUS_E_STATE, {"momentum"},
          [&] { return talus_set(t.opt, t.other, "momentum", 0.5); });
}

namespace {

talus_rows two_rows(const int64_t* indices, const float* values) {
  return {sizeof(talus_rows), TALUS_I64, 2, indices, values, 0};
}

}  // namespace

TEST_CASE("membership: a gradient of rows follows a move, and goes with a removal") {
  Two t("sgd");
  t.set("lr", 1, t.other);
  const int64_t indices[] = {4, 1};
  const float values[] = {0.5f, 0.25f};
  const talus_rows rows = two_rows(indices, values);
  REQUIRE(talus_bind_rows(t.opt, 0, &rows) == TALUS_OK);
  REQUIRE(move_one(t.opt, 0, t.other) == TALUS_OK);
  t.step();
  CHECK(t.model.w == std::vector<float>{1, -2.25f, 3, -4, 4.5f});
  REQUIRE(talus_bind_rows(t.opt, 0, &rows) == TALUS_OK);
  REQUIRE(remove_one(t.opt, 0) == TALUS_OK);
  t.step();
  CHECK(t.model.w == std::vector<float>{1, -2.25f, 3, -4, 4.5f});
  CHECK(steps(t.opt, 1) == 2);
}

TEST_CASE("membership: rows of a removed parameter are no gradient any more") {
  Two t("sgd");
  REQUIRE(talus_zero_grad(t.opt, TALUS_ZERO_UNBIND, nullptr) == TALUS_OK);
  const int64_t indices[] = {4, 1};
  const float values[] = {0.5f, 0.25f};
  const talus_rows rows = two_rows(indices, values);
  REQUIRE(talus_bind_rows(t.opt, 0, &rows) == TALUS_OK);
  REQUIRE(remove_one(t.opt, 0) == TALUS_OK);
  refused(t.opt, TALUS_E_STATE, {"gradient"}, [&] { return talus_step(t.opt, nullptr); });
}

TEST_CASE("membership: indices, counts and groups that are not there are refused") {
  Two t;
  t.step();
  const int64_t zero = 0;
  for (const int64_t bad : {int64_t(2), int64_t(-1), INT64_MAX, INT64_MIN}) {
    const std::string text = std::to_string(bad);
    const int64_t list[] = {0, bad};
    refused(t.opt, TALUS_E_ARGUMENT, {text.c_str()},
            [&] { return talus_move_params(t.opt, t.other, 2, list); });
    refused(t.opt, TALUS_E_ARGUMENT, {text.c_str()},
            [&] { return talus_remove_params(t.opt, 2, list); });
  }
  for (const int32_t bad : {2, TALUS_ALL, INT32_MIN, INT32_MAX})
    refused(t.opt, TALUS_E_ARGUMENT, {"group"}, [&] { return move_one(t.opt, 0, bad); });
  for (const int64_t count : {int64_t(-1), INT64_MIN}) {
    refused(t.opt, TALUS_E_ARGUMENT, {"count"},
            [&] { return talus_move_params(t.opt, t.other, count, &zero); });
    refused(t.opt, TALUS_E_ARGUMENT, {"count"},
            [&] { return talus_remove_params(t.opt, count, &zero); });
  }
  refused(t.opt, TALUS_E_ARGUMENT, {"params"},
          [&] { return talus_move_params(t.opt, t.other, 1, nullptr); });
  refused(t.opt, TALUS_E_ARGUMENT, {"params"},
          [&] { return talus_remove_params(t.opt, 1, nullptr); });
  CHECK(talus_remove_params(t.opt, 0, nullptr) == TALUS_OK);
}

// ---- groups of different rules

TEST_CASE("membership: groups of different rules in one optimizer keep their own bits") {
  const std::vector<std::string> algorithms = {"adamw", "sgd", "adam", "fused_sgd"};
  test::Optimizer opt(algorithms[0]);
  std::deque<test::Optimizer> alone;
  std::deque<test::TestTensor> together, twins;
  for (size_t g = 0; g < algorithms.size(); ++g) {
    const int32_t group = g == 0 ? 0 : opt.add_group(algorithms[g].c_str());
    alone.emplace_back(algorithms[g]);
    for (const test::Mix& mix : test::all_mixes()) {
      together.emplace_back(mix, 33).fill(together.size());
      twins.emplace_back(mix, 33).fill(twins.size());
      opt.add(together.back(), group);
      alone.back().add(twins.back());
    }
  }
  for (int step = 1; step <= 3; ++step) {
    for (size_t i = 0; i < twins.size(); ++i)
      together[i].fill_grad(i, step), twins[i].fill_grad(i, step);
    opt.step();
    for (test::Optimizer& each : alone) each.step();
  }
  const size_t mixes = test::all_mixes().size();
  for (size_t i = 0; i < twins.size(); ++i) {
    INFO(algorithms[i / mixes] << ", " << test::name_of(twins[i].mix));
    CHECK(test::difference(opt, together[i], alone[i / mixes], twins[i]) == "");
  }
}

// ---- remove

TEST_CASE("membership: a removed parameter stays as it is, its index fails, others keep theirs") {
  Two t;
  t.step();
  const std::vector<float> w = t.model.w, b = t.model.b;
  REQUIRE(remove_one(t.opt, 0) == TALUS_OK);
  CHECK(talus_param_count(t.opt) == 2);
  CHECK(talus_find_param(t.opt, "w") == -1);
  CHECK(talus_find_param(t.opt, "b") == 1);
  CHECK(talus_param_group(t.opt, 0) == -1);
  CHECK(talus_param_group(t.opt, 1) == 0);
  CHECK(talus_state_count(t.opt) == 2);
  talus_state state{};
  state.struct_size = sizeof state;
  for (int64_t i = 0; i < 2; ++i) {
    REQUIRE(talus_state_info(t.opt, i, &state) == TALUS_OK);
    CHECK(state.param == 1);
  }
  CHECK(talus_state_info(t.opt, 2, &state) == TALUS_E_ARGUMENT);
  t.step();
  CHECK(t.model.w == w);
  CHECK(t.model.b != b);
  CHECK(steps(t.opt, 1) == 2);

  int64_t count = -7;
  talus_param info{};
  info.struct_size = sizeof info;
  const int64_t row = 0;
  const float value = 1;
  const talus_rows rows = {sizeof rows, TALUS_I64, 1, &row, &value, 0};
  void* grads[] = {t.model.gw.data(), t.model.gb.data()};
  const auto no = [&](talus_status status) {
    CHECK(status == TALUS_E_ARGUMENT);
    const std::string text = talus_last_error();
    CAPTURE(text);
    CHECK(text.find("parameter 0") != std::string::npos);
    CHECK(text.find("removed") != std::string::npos);
  };
  no(talus_param_info(t.opt, 0, &info));
  no(talus_bind_data(t.opt, 0, t.model.w.data()));
  no(talus_bind_grads(t.opt, 0, 2, grads));
  no(talus_bind_rows(t.opt, 0, &rows));
  no(talus_bind_rows(t.opt, 0, nullptr));
  no(talus_bind_state(t.opt, 0, "exp_avg", t.model.w.data(), 20));
  no(talus_steps(t.opt, 0, &count));
  no(talus_set_steps(t.opt, 0, 1));
  no(move_one(t.opt, 0, t.other));
  no(remove_one(t.opt, 0));
  const int64_t both[] = {1, 0};
  no(talus_move_params(t.opt, t.other, 2, both));
  no(talus_remove_params(t.opt, 2, both));
  CHECK(talus_param_group(t.opt, 1) == 0);
  CHECK(count == -7);
  grads[0] = nullptr;  // a whole range may be bound with NULL there
  CHECK(talus_bind_grads(t.opt, 0, 2, grads) == TALUS_OK);
  CHECK(talus_zero_grad(t.opt, TALUS_ZERO_FILL, nullptr) == TALUS_OK);
  CHECK(talus_prepare(t.opt, nullptr) == TALUS_OK);
}

TEST_CASE("membership: name and memory of a removed parameter may be added again, afresh") {
  Two t;
  t.step();
  t.step();
  REQUIRE(remove_one(t.opt, 0) == TALUS_OK);
  const int64_t five = 5;
  talus_param param = describe<float>(TALUS_F32, t.model.w.data(), t.model.gw.data(), &five);
  param.name = "w";
  CHECK(add(t.opt, param, t.other) == 2);
  CHECK(talus_find_param(t.opt, "w") == 2);
  CHECK(talus_param_count(t.opt) == 3);
  CHECK(steps(t.opt, 2) == 0);
  t.step();
  CHECK(steps(t.opt, 2) == 1);
  Handle fresh("adam");
  Model twin;
  twin.add_to(fresh);
  REQUIRE(talus_step(fresh, nullptr) == TALUS_OK);
  const auto got = states(t.opt), want = states(fresh);
  for (const char* slot : {"exp_avg", "exp_avg_sq"})
    CHECK(hex(find_state(got, 2, slot)->data, 20) == hex(find_state(want, 0, slot)->data, 20));
}

TEST_CASE("membership: state is freed when the last parameter that shares its block is removed") {
  Handle opt("adam");
  const talus_allocator allocator = counting_allocator();
  REQUIRE(talus_set_allocator(opt, &allocator) == TALUS_OK);
  Model first, second;
  first.add_to(opt);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  const uint64_t of_first = state_bytes(opt);
  const int64_t two = 2;
  const int64_t late =
      add(opt, describe<float>(TALUS_F32, second.b.data(), second.gb.data(), &two));
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  const uint64_t of_both = state_bytes(opt);
  CHECK(of_both > of_first);
  const int before = releases;
  REQUIRE(remove_one(opt, late) == TALUS_OK);
  CHECK(state_bytes(opt) == of_first);
  CHECK(releases == before + 1);
  const int64_t both[] = {0, 1};
  REQUIRE(talus_remove_params(opt, 2, both) == TALUS_OK);
  CHECK(state_bytes(opt) == 0);
  CHECK(releases == before + 2);
}

TEST_CASE("membership: bound state of a removed parameter is not touched and may be bound anew") {
  Two t;
  std::vector<float> moment(5, 7);
  REQUIRE(talus_bind_state(t.opt, 0, "exp_avg", moment.data(), 20) == TALUS_OK);
  t.step();
  const std::vector<float> w = t.model.w, after = moment;
  REQUIRE(remove_one(t.opt, 0) == TALUS_OK);
  CHECK(moment == after);
  CHECK(t.model.w == w);
  const int64_t five = 5;
  const int64_t again =
      add(t.opt, describe<float>(TALUS_F32, t.model.w.data(), t.model.gw.data(), &five));
  CHECK(talus_bind_state(t.opt, again, "exp_avg", moment.data(), 20) == TALUS_OK);
  moment.assign(5, 9);
  t.step();
  CHECK(moment == after);  // a first step like the other one
}

TEST_CASE("membership: with all parameters removed a step does nothing and is counted") {
  Two t;
  t.step();
  const std::vector<float> w = t.model.w, b = t.model.b;
  const int64_t all[] = {0, 1, 0};  // once more in the list is no fault
  REQUIRE(talus_remove_params(t.opt, 3, all) == TALUS_OK);
  CHECK(talus_state_count(t.opt) == 0);
  CHECK(state_bytes(t.opt) == 0);
  t.step();
  REQUIRE(talus_set_setting(t.opt, "stats", 1) == TALUS_OK);
  t.step();
  talus_stats stats{};
  stats.struct_size = sizeof stats;
  REQUIRE(talus_get_stats(t.opt, 1, &stats) == TALUS_OK);
  CHECK(stats.steps == 3);
  CHECK(stats.grad_norm == 0);
  CHECK(t.model.w == w);
  CHECK(t.model.b == b);
  REQUIRE(talus_set(t.opt, TALUS_ALL, "lr", 0.5) == TALUS_OK);
  t.model.add_to(t.opt, t.other);
  t.step();
  CHECK(t.model.w != w);
}

TEST_CASE("membership: a fixed value may change where no parameter with steps is left to mind") {
  Two t("sgd");
  REQUIRE(remove_one(t.opt, 0) == TALUS_OK);
  CHECK(talus_set(t.opt, 0, "momentum", 0.9) == TALUS_OK);  // before steps; one of its is gone
  t.step();
  CHECK(talus_state_count(t.opt) == 1);
  refused(t.opt, TALUS_E_STATE, {"momentum"}, [&] { return talus_set(t.opt, 0, "momentum", 0); });
}
