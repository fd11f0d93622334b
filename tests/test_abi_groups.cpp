// Groups and hyperparameters over time: TALUS_ALL, groups that come late, what is fixed after the
// first step, values that exclude each other, and gradients that are not there.
#include "tests/abi/fixture.h"

using namespace talus::abi;

TEST_CASE("abi: TALUS_ALL sets every group that has the name, and groups added later") {
  Handle opt("adamw");
  int32_t sgd = -1, late = -1, later = -1;
  REQUIRE(talus_add_group(opt, "sgd", &sgd) == TALUS_OK);
  CHECK(sgd == 1);
  REQUIRE(talus_set(opt, TALUS_ALL, "lr", 0.25) == TALUS_OK);
  REQUIRE(talus_set(opt, TALUS_ALL, "momentum", 0.5) == TALUS_OK);  // only sgd has it
  REQUIRE(talus_set(opt, TALUS_ALL, "beta1", 0.75) == TALUS_OK);    // only adamw has it
  CHECK((get(opt, "lr", 0) == 0.25 && get(opt, "lr", 1) == 0.25));
  CHECK((get(opt, "beta1", 0) == 0.75 && get(opt, "momentum", 1) == 0.5));
  REQUIRE(talus_set(opt, 0, "lr", 0.125) == TALUS_OK);  // of one group: no default of later ones
  REQUIRE(talus_add_group(opt, "sgd", &late) == TALUS_OK);
  CHECK((get(opt, "lr", late) == 0.25 && get(opt, "momentum", late) == 0.5));
  REQUIRE(talus_set(opt, TALUS_ALL, "lr", 0.0625) == TALUS_OK);
  REQUIRE(talus_add_group(opt, nullptr, &later) == TALUS_OK);
  CHECK((get(opt, "lr", later) == 0.0625 && get(opt, "beta1", later) == 0.75));
  CHECK(std::string(talus_group_algorithm(opt, later)) == "adamw");
}

TEST_CASE("abi: TALUS_ALL changes no group where one refuses") {
  Handle opt("sgd");
  Model model;
  model.add_to(opt);
  int32_t second = -1;
  REQUIRE(talus_add_group(opt, "sgd", &second) == TALUS_OK);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  // Group 0 has started without momentum; group 1 could still take it.
  refused(opt, TALUS_E_STATE, {"momentum"},
          [&] { return talus_set(opt, TALUS_ALL, "momentum", 0.9); });
  CHECK(get(opt, "momentum", second) == 0);
  REQUIRE(talus_add_group(opt, "sgd", &second) == TALUS_OK);
  CHECK(get(opt, "momentum", second) == 0);  // what was refused is no default either
  CHECK(talus_set(opt, second, "momentum", 0.9) == TALUS_OK);
}

TEST_CASE("abi: a name that no group has is no default of later ones either") {
  Handle opt("adamw");
  refused(opt, TALUS_E_NAME, {"momentum"},
          [&] { return talus_set(opt, TALUS_ALL, "momentum", 0.9); });
  int32_t group = -1;
  REQUIRE(talus_add_group(opt, "sgd", &group) == TALUS_OK);
  CHECK(get(opt, "momentum", group) == 0);
}

TEST_CASE("abi: an alias brings its own defaults, both spellings and the rule's name") {
  Handle opt("fused_adam");
  CHECK(std::string(talus_group_algorithm(opt, 0)) == "adam");
  CHECK(get(opt, "decoupled_weight_decay") == 1);
  CHECK(get(opt, "adam_w_mode") == 1);
  REQUIRE(talus_set(opt, 0, "adam_w_mode", 0) == TALUS_OK);
  CHECK(get(opt, "decoupled_weight_decay") == 0);
  int32_t group = -1;
  REQUIRE(talus_add_group(opt, nullptr, &group) == TALUS_OK);
  CHECK(get(opt, "decoupled_weight_decay", group) == 1);  // NULL: what create was given
  for (int32_t i = 0; i < talus_hyper_count("fused_adam"); ++i) {
    talus_hyper hyper{};
    hyper.struct_size = sizeof hyper;
    REQUIRE(talus_hyper_info("fused_adam", i, &hyper) == TALUS_OK);
    CAPTURE(hyper.name);
    CHECK(get(opt, hyper.name, group) == hyper.def);
  }
}

TEST_CASE("abi: a flag that decides which state exists is fixed after the group's first step") {
  Handle opt("adamw");
  Model model;
  model.add_to(opt);
  REQUIRE(talus_set(opt, 0, "amsgrad", 1) == TALUS_OK);
  CHECK(talus_state_count(opt) == 6);
  REQUIRE(talus_set(opt, 0, "amsgrad", 0) == TALUS_OK);  // before the first step it moves freely
  CHECK(talus_state_count(opt) == 4);
  REQUIRE(talus_prepare(opt, nullptr) == TALUS_OK);
  REQUIRE(talus_set(opt, 0, "amsgrad", 1) == TALUS_OK);  // prepared is not stepped
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  CHECK(talus_state_count(opt) == 6);
  refused(opt, TALUS_E_STATE, {"amsgrad"}, [&] { return talus_set(opt, 0, "amsgrad", 0); });
  refused(opt, TALUS_E_STATE, {"amsgrad"}, [&] { return talus_set(opt, TALUS_ALL, "amsgrad", 0); });
  CHECK(talus_set(opt, 0, "amsgrad", 1) == TALUS_OK);  // to what it is
  int32_t other = -1;
  REQUIRE(talus_add_group(opt, nullptr, &other) == TALUS_OK);
  CHECK(talus_set(opt, other, "amsgrad", 1) == TALUS_OK);  // of another group
}

TEST_CASE("abi: momentum moves freely except between 0 and not 0") {
  for (const double start : {0.9, 0.0}) {
    Handle opt("sgd");
    Model model;
    model.add_to(opt);
    REQUIRE(talus_set(opt, 0, "momentum", start) == TALUS_OK);
    REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
    const double other = start == 0 ? 0.9 : 0;
    refused(opt, TALUS_E_STATE, {"momentum"}, [&] { return talus_set(opt, 0, "momentum", other); });
    if (start != 0) CHECK(talus_set(opt, 0, "momentum", 0.8) == TALUS_OK);
    CHECK(talus_step(opt, nullptr) == TALUS_OK);
  }
}

TEST_CASE("abi: nesterov without momentum is refused by prepare and step, and nothing moves") {
  Handle opt("sgd");
  Model model;
  model.add_to(opt);
  REQUIRE(talus_set(opt, 0, "nesterov", 1) == TALUS_OK);  // momentum may follow
  refused(opt, TALUS_E_RANGE, {"nesterov", "momentum"},
          [&] { return talus_prepare(opt, nullptr); });
  refused(opt, TALUS_E_RANGE, {"nesterov", "momentum"}, [&] { return talus_step(opt, nullptr); });
  REQUIRE(talus_set(opt, 0, "momentum", 0.9) == TALUS_OK);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  REQUIRE(talus_set(opt, 0, "dampening", 0.5) == TALUS_OK);
  refused(opt, TALUS_E_RANGE, {"nesterov", "dampening"}, [&] { return talus_step(opt, nullptr); });
  refused(opt, TALUS_E_RANGE, {"nesterov", "dampening"}, [&] { return talus_step(opt, nullptr); });
  REQUIRE(talus_set(opt, 0, "dampening", 0) == TALUS_OK);
  CHECK(talus_step(opt, nullptr) == TALUS_OK);
}

TEST_CASE("abi: values that exclude each other are refused by name until they fit") {
  struct Excluded {
    const char *algorithm, *set, *other;
    double value, fits;
  };
  for (const Excluded& x :
       {Excluded{"adam", "cautious_weight_decay", "decoupled_weight_decay", 1, 1},
        Excluded{"rprop", "step_size_min", "step_size_max", 60, 70}}) {
    INFO(x.algorithm);
    Handle opt(x.algorithm);
    Model model;
    model.add_to(opt);
    REQUIRE(talus_set(opt, 0, x.set, x.value) == TALUS_OK);
    refused(opt, TALUS_E_RANGE, {x.set, x.other}, [&] { return talus_prepare(opt, nullptr); });
    refused(opt, TALUS_E_RANGE, {x.set, x.other}, [&] { return talus_step(opt, nullptr); });
    REQUIRE(talus_set(opt, 0, x.other, x.fits) == TALUS_OK);
    CHECK(talus_step(opt, nullptr) == TALUS_OK);
  }
}

TEST_CASE("abi: a step with nothing bound is refused, in every way that it can be nothing") {
  Handle opt("adamw");
  Model model;
  std::vector<float>().swap(model.gw);  // data() is NULL
  std::vector<float>().swap(model.gb);
  model.add_to(opt);
  refused(opt, TALUS_E_STATE, {"gradient"}, [&] { return talus_step(opt, nullptr); });
  REQUIRE(talus_prepare(opt, nullptr) == TALUS_OK);
  refused(opt, TALUS_E_STATE, {"gradient"}, [&] { return talus_step(opt, nullptr); });
}

TEST_CASE("abi: an optimizer without parameters, or with empty ones alone, steps") {
  Handle none("adamw");
  CHECK(talus_prepare(none, nullptr) == TALUS_OK);
  CHECK(talus_step(none, nullptr) == TALUS_OK);
  talus_stats stats{};
  stats.struct_size = sizeof stats;
  REQUIRE(talus_get_stats(none, 0, &stats) == TALUS_OK);
  CHECK((stats.steps == 1 && stats.skipped == 0 && stats.state_bytes == 0));

  for (const int32_t dtype : {TALUS_F64, TALUS_F32, TALUS_BF16, TALUS_F16}) {
    Handle empty("adamw");
    const int64_t extents[] = {3, 0, 2};
    talus_param param = describe<float>(dtype, nullptr, nullptr, extents);
    param.ndim = 3;
    add(empty, param);
    CHECK(talus_step(empty, nullptr) == TALUS_OK);
    for (const talus_state& state : states(empty)) CHECK((state.count == 0 && state.bytes == 0));
  }
}

TEST_CASE("abi: an empty group is legal before, between and after steps") {
  Handle opt("adamw");
  int32_t group = -1;
  REQUIRE(talus_add_group(opt, "sgd", &group) == TALUS_OK);
  Model model;
  model.add_to(opt, group);  // group 0 stays empty
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  int32_t third = -1;
  REQUIRE(talus_add_group(opt, "adam", &third) == TALUS_OK);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  CHECK(steps(opt, 0) == 2);
  REQUIRE(talus_set(opt, 0, "amsgrad", 1) == TALUS_OK);  // a group without a step is not started
}

TEST_CASE("abi: what is added after steps starts at its own step 1") {
  Handle opt("adamw"), fresh("adamw");
  Model early, late, alone;
  early.add_to(opt);
  for (int i = 0; i < 3; ++i) REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  int32_t group = -1;
  REQUIRE(talus_add_group(opt, nullptr, &group) == TALUS_OK);
  const int64_t five = 5;
  add(opt, describe(TALUS_F32, late.w.data(), late.gw.data(), &five), group);
  add(fresh, describe(TALUS_F32, alone.w.data(), alone.gw.data(), &five));
  for (int i = 0; i < 2; ++i) {
    REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
    REQUIRE(talus_step(fresh, nullptr) == TALUS_OK);
  }
  CHECK(late.w == alone.w);
  CHECK((steps(opt, 0) == 5 && steps(opt, 2) == 2));
  CHECK(talus_param_group(opt, 2) == group);
}

TEST_CASE("abi: a NULL gradient leaves a parameter out whole") {
  Handle opt("adamw"), reference("adamw");
  Model model, twin;
  model.add_to(opt);
  const int64_t five = 5;
  add(reference, describe(TALUS_F32, twin.w.data(), twin.gw.data(), &five));
  void* none = nullptr;
  REQUIRE(talus_bind_grads(opt, 1, 1, &none) == TALUS_OK);
  const std::vector<float> b = model.b;
  for (int i = 0; i < 2; ++i) {
    REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
    REQUIRE(talus_step(reference, nullptr) == TALUS_OK);
  }
  CHECK((steps(opt, 0) == 2 && steps(opt, 1) == 0));
  CHECK(model.b == b);
  CHECK(model.w == twin.w);
  for (const talus_state& state : states(opt))
    if (state.param == 1) CHECK(state.data == nullptr);
  void* back = model.gb.data();
  REQUIRE(talus_bind_grads(opt, 1, 1, &back) == TALUS_OK);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  CHECK((steps(opt, 0) == 3 && steps(opt, 1) == 1));
  CHECK(model.b != b);
}

TEST_CASE("abi: stats count steps and bytes, and measure the norm only where asked") {
  Handle opt("adamw");
  Model model;
  model.add_to(opt);
  talus_stats stats{};
  stats.struct_size = sizeof stats;
  REQUIRE(talus_get_stats(opt, 0, &stats) == TALUS_OK);
  CHECK((stats.steps == 0 && stats.state_bytes == 0));
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  REQUIRE(talus_get_stats(opt, 1, &stats) == TALUS_OK);
  CHECK((stats.steps == 1 && stats.skipped == 0 && stats.found_inf == 0));
  CHECK((stats.grad_norm != stats.grad_norm && stats.clip_factor == 1 && stats.loss_scale == 1));
  CHECK(stats.state_bytes >= 2 * 7 * 4);
  REQUIRE(talus_set_setting(opt, "stats", 1) == TALUS_OK);
  model.gw = {3, 0, 0, 0, 0};
  model.gb = {0, 4};
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  REQUIRE(talus_get_stats(opt, 1, &stats) == TALUS_OK);
  CHECK(stats.grad_norm == 5);
  REQUIRE(talus_set_setting(opt, "stats", 0) == TALUS_OK);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  REQUIRE(talus_get_stats(opt, 1, &stats) == TALUS_OK);
  CHECK(stats.grad_norm != stats.grad_norm);
}

TEST_CASE(
    "abi: values set for TALUS_ALL reach later groups by the spelling and in the order given") {
  // decoupled_weight_decay of adam is adam_w_mode elsewhere; to lamb only the latter is known.
  Handle opt("adam");
  int32_t lamb = -1, late_lamb = -1, late_adam = -1;
  REQUIRE(talus_add_group(opt, "lamb", &lamb) == TALUS_OK);
  REQUIRE(talus_set(opt, TALUS_ALL, "adam_w_mode", 0) == TALUS_OK);
  REQUIRE(talus_set(opt, TALUS_ALL, "decoupled_weight_decay", 1) == TALUS_OK);
  REQUIRE(talus_set(opt, TALUS_ALL, "adam_w_mode", 0) == TALUS_OK);
  REQUIRE(talus_add_group(opt, "lamb", &late_lamb) == TALUS_OK);
  REQUIRE(talus_add_group(opt, "adamw", &late_adam) == TALUS_OK);
  for (const int32_t group : {lamb, late_lamb, late_adam}) {
    double value = -1;
    CAPTURE(group);
    REQUIRE(talus_get(opt, group, "adam_w_mode", &value) == TALUS_OK);
    CHECK(value == 0);
  }
}

TEST_CASE("abi: each alias is its rule with its own library's defaults and spellings") {
  struct Row {
    const char *alias, *rule, *hyper;
    double value;
  };
  const Row rows[] = {{"fused_adam", "adam", "adam_w_mode", 1},
                      {"fused_sgd", "sgd", "materialize_master_grads", 1},
                      {"fused_adagrad", "adagrad", "adagrad_w_mode", 0},
                      {"fused_lamb", "lamb", "max_grad_norm", 1},
                      {"fused_mixed_precision_lamb", "lamb", "eps", 1e-6},
                      {"fused_novograd", "novograd", "norm_type", 2}};
  CHECK(talus_name_count("aliases") == int32_t(std::size(rows)));
  for (const Row& row : rows) {
    CAPTURE(row.alias);
    Handle opt(row.alias);
    CHECK(std::string(talus_group_algorithm(opt, 0)) == row.rule);
    double value = -1;
    REQUIRE(talus_get(opt, 0, row.hyper, &value) == TALUS_OK);
    CHECK(value == row.value);
  }
}
