// Refused calls on names, hyperparameters, groups and handles: the status, a text that names the
// cause, out parameters and optimizer as before.
#include "tests/abi/fixture.h"

#include <set>

using namespace talus::abi;

TEST_CASE("abi: version, ABI number and build line are there") {
  CHECK(talus_version() == TALUS_VERSION);
  CHECK(talus_abi_version() >> 16 == 0);
  CHECK(std::string(talus_build_info()).find('\n') == std::string::npos);
  CHECK(std::strlen(talus_build_info()) > 0);
}

TEST_CASE("abi: every status has its own name, every other number is unknown") {
  std::set<std::string> names;
  for (talus_status code = 0; code <= TALUS_E_INTERNAL; ++code) {
    CHECK(std::string(talus_status_name(code)).rfind("TALUS_", 0) == 0);
    names.insert(talus_status_name(code));
  }
  CHECK(names.size() == size_t(TALUS_E_INTERNAL) + 1);
  CHECK(std::string(talus_status_name(TALUS_OK)) == "TALUS_OK");
  CHECK(std::string(talus_status_name(TALUS_E_NONFINITE)) == "TALUS_E_NONFINITE");
  for (const talus_status code : {-1, TALUS_E_INTERNAL + 1, INT32_MIN, INT32_MAX})
    CHECK(std::string(talus_status_name(code)) == "unknown status");
}

TEST_CASE("abi: every list enumerates unique names that have one line each") {
  const int32_t lists = talus_name_count("lists");
  REQUIRE(lists > 0);
  for (int32_t l = 0; l < lists; ++l) {
    const char* list = talus_name_at("lists", l);
    CAPTURE(list);
    std::set<std::string> names;
    const int32_t count = talus_name_count(list);
    for (int32_t i = 0; i < count; ++i) {
      const char* name = talus_name_at(list, i);
      REQUIRE(name != nullptr);
      CAPTURE(name);
      CHECK(names.insert(name).second);
      const char* doc = talus_name_doc(list, name);
      REQUIRE(doc != nullptr);
      CHECK(std::strlen(doc) > 0);
      CHECK(std::strchr(doc, '\n') == nullptr);
    }
    CHECK(talus_name_at(list, count) == nullptr);
    CHECK(talus_name_at(list, -1) == nullptr);
    CHECK(talus_name_at(list, INT32_MAX) == nullptr);
    CHECK(talus_name_doc(list, "no such name") == nullptr);
    CHECK(talus_name_doc(list, nullptr) == nullptr);
  }
  for (const char* list : {"no such list", "", "slots/", "slots/no_such_rule", "slots"}) {
    CAPTURE(list);
    CHECK(talus_name_count(list) == -1);
    CHECK(talus_name_at(list, 0) == nullptr);
    CHECK(talus_name_doc(list, "adamw") == nullptr);
  }
  CHECK(talus_name_count(nullptr) == -1);
  CHECK(talus_name_at(nullptr, 0) == nullptr);
  CHECK(talus_name_doc(nullptr, "adamw") == nullptr);
}

TEST_CASE("abi: the fixed lists name what the header says") {
  std::set<std::string> lists;
  for (int32_t i = 0; i < talus_name_count("lists"); ++i) lists.insert(talus_name_at("lists", i));
  for (const char* list :
       {"algorithms", "aliases", "papers", "purposes", "settings", "features", "cpu_targets",
        "cpu_target", "plugins", "devices", "row_gradients", "lists"}) {
    CAPTURE(list);
    CHECK(lists.count(list) == 1);
  }
  std::set<std::string> settings;
  for (int32_t i = 0; i < talus_name_count("settings"); ++i)
    settings.insert(talus_name_at("settings", i));
  for (const char* name : {"threads", "stats", "check_pointers", "check_rows", "chunk_tiles"})
    CHECK(settings.count(name) == 1);
  CHECK(talus_name_count("slots/adamw") == talus_name_count("slots/adam"));
  CHECK(talus_name_count("cpu_targets") >= 1);
}

TEST_CASE("abi: a feature that is not there is 0 with a reason") {
  refused(nullptr, 0, {"no such feature"}, [] { return talus_has_feature("no such feature"); });
  refused(nullptr, 0, {}, [] { return talus_has_feature(nullptr); });
  for (int32_t i = 0; i < talus_name_count("features"); ++i) {
    const std::string stale = leave_stale_error();
    const char* feature = talus_name_at("features", i);
    const int32_t usable = talus_has_feature(feature);
    CAPTURE(feature);
    CHECK((usable == 1 || talus_last_error() != stale));
  }
}

TEST_CASE("abi: hyper_info refuses NULL, an unknown owner and an index that is not there") {
  talus_hyper out{};
  out.struct_size = sizeof out;
  out.kind = 77;
  out.def = -5;
  refused(nullptr, TALUS_E_ARGUMENT, {}, [&] { return talus_hyper_info(nullptr, 0, &out); });
  refused(nullptr, TALUS_E_NAME, {"nonsense", "adamw"},
          [&] { return talus_hyper_info("nonsense", 0, &out); });
  for (const int32_t i : {-1, talus_hyper_count("adamw"), INT32_MAX, INT32_MIN}) {
    refused(nullptr, TALUS_E_ARGUMENT, {std::to_string(i).c_str()},
            [&] { return talus_hyper_info("adamw", i, &out); });
  }
  refused(nullptr, TALUS_E_ARGUMENT, {}, [] { return talus_hyper_info("adamw", 0, nullptr); });
  CHECK(out.kind == 77);
  CHECK(out.def == -5);
  CHECK(talus_hyper_count(nullptr) == -1);
  CHECK(talus_hyper_count("nonsense") == -1);
  CHECK(talus_hyper_count("settings") == talus_name_count("settings"));
}

TEST_CASE("abi: every hyperparameter of every owner has a legal default, range, kind and line") {
  for (const char* list : {"algorithms", "aliases", "settings"}) {
    const bool settings = std::string(list) == "settings";
    for (int32_t n = 0; n < (settings ? 1 : talus_name_count(list)); ++n) {
      const char* owner = settings ? list : talus_name_at(list, n);
      std::set<std::string> names;
      REQUIRE(talus_hyper_count(owner) > 0);
      for (int32_t i = 0; i < talus_hyper_count(owner); ++i) {
        talus_hyper hyper{};
        hyper.struct_size = sizeof hyper;
        REQUIRE(talus_hyper_info(owner, i, &hyper) == TALUS_OK);
        CAPTURE(owner, hyper.name, hyper.def, hyper.min, hyper.max, hyper.flags);
        CHECK(names.insert(hyper.name).second);
        CHECK(std::strlen(hyper.doc) > 0);
        CHECK((hyper.kind >= TALUS_REAL && hyper.kind <= TALUS_FLAG));
        CHECK(
            (hyper.flags & TALUS_HYPER_MIN_OPEN ? hyper.def > hyper.min : hyper.def >= hyper.min));
        CHECK(
            (hyper.flags & TALUS_HYPER_MAX_OPEN ? hyper.def < hyper.max : hyper.def <= hyper.max));
        CHECK(hyper.reserved == 0);
        CHECK(hyper.struct_size == sizeof hyper);
        if (hyper.kind == TALUS_FLAG) CHECK((hyper.min == 0 && (hyper.max == 1 || hyper.max == 0)));
      }
    }
  }
}

TEST_CASE("abi: create refuses NULL, an unknown name and a device that is not there") {
  talus_optimizer* const untouched = reinterpret_cast<talus_optimizer*>(uintptr_t(0x10));
  talus_optimizer* out = untouched;
  refused(nullptr, TALUS_E_ARGUMENT, {}, [&] { return talus_create(nullptr, TALUS_CPU, 0, &out); });
  refused(nullptr, TALUS_E_ARGUMENT, {}, [] { return talus_create("sgd", TALUS_CPU, 0, nullptr); });
  refused(nullptr, TALUS_E_NAME, {"adamx", "adamw", "sgd"},
          [&] { return talus_create("adamx", TALUS_CPU, 0, &out); });
  refused(nullptr, TALUS_E_NAME, {}, [&] { return talus_create("", TALUS_CPU, 0, &out); });
  refused(nullptr, TALUS_E_NAME, {"settings"},
          [&] { return talus_create("settings", TALUS_CPU, 0, &out); });
  refused(nullptr, TALUS_E_ARGUMENT, {"1"},
          [&] { return talus_create("sgd", TALUS_CPU, 1, &out); });
  for (const int32_t device : {0, -1, 10, 99})
    refused(nullptr, TALUS_E_UNSUPPORTED, {std::to_string(device).c_str()},
            [&] { return talus_create("sgd", device, 0, &out); });
  CHECK(out == untouched);
}

TEST_CASE("abi: a name as long as the whole error text is cut, not overrun") {
  const std::string name(5000, 'x');
  talus_optimizer* out = nullptr;
  CHECK(talus_create(name.c_str(), TALUS_CPU, 0, &out) == TALUS_E_NAME);
  CHECK(std::strlen(talus_last_error()) <= 1023);
  CHECK(std::strlen(talus_last_error()) > 0);
  std::string accents;
  for (int i = 0; i < 2000; ++i) accents += "\xc3\xa9";
  for (const char* pad : {"", "a"}) {  // one of both would be cut inside a character
    CHECK(talus_create((pad + accents).c_str(), TALUS_CPU, 0, &out) == TALUS_E_NAME);
    const std::string text = talus_last_error();
    size_t tail = 0;
    while (tail < text.size() && (text[text.size() - 1 - tail] & 0xc0) == 0x80) ++tail;
    REQUIRE(tail < text.size());
    const unsigned char lead = static_cast<unsigned char>(text[text.size() - 1 - tail]);
    CHECK(tail == (lead < 0x80 ? 0u : lead < 0xe0 ? 1u : lead < 0xf0 ? 2u : 3u));
  }
}

TEST_CASE("abi: a NULL optimizer is refused by every function that takes one") {
  talus_optimizer* const none = nullptr;
  double value = -7;
  int32_t group = -7;
  int64_t first = -7;
  talus_param param{};
  param.struct_size = sizeof param;
  talus_state state{};
  state.struct_size = sizeof state;
  talus_stats stats{};
  stats.struct_size = sizeof stats;
  void* grad = nullptr;
  const auto no = [](auto call) { refused(nullptr, TALUS_E_ARGUMENT, {}, call); };
  no([&] { return talus_add_group(none, nullptr, &group); });
  no([&] { return talus_set(none, 0, "lr", 1); });
  no([&] { return talus_get(none, 0, "lr", &value); });
  no([&] { return talus_set_setting(none, "threads", 1); });
  no([&] { return talus_get_setting(none, "threads", &value); });
  no([&] { return talus_add_params(none, 0, 1, &param, &first); });
  no([&] { return talus_param_info(none, 0, &param); });
  no([&] { return talus_bind_data(none, 0, &value); });
  no([&] { return talus_bind_grads(none, 0, 1, &grad); });
  no([&] { return talus_bind_rows(none, 0, nullptr); });
  no([&] { return talus_move_params(none, 0, 1, &first); });
  no([&] { return talus_remove_params(none, 1, &first); });
  no([&] { return talus_zero_grad(none, TALUS_ZERO_FILL, nullptr); });
  no([&] { return talus_state_info(none, 0, &state); });
  no([&] { return talus_bind_state(none, 0, "exp_avg", &value, 8); });
  no([&] { return talus_steps(none, 0, &first); });
  no([&] { return talus_set_steps(none, 0, 1); });
  no([&] { return talus_prepare(none, nullptr); });
  no([&] { return talus_step(none, nullptr); });
  no([&] {
    return talus_step_closure(
        none, [](void*, double*) -> int32_t { return 0; }, nullptr, &value, nullptr);
  });
  no([&] { return talus_get_stats(none, 0, &stats); });
  no([&] { return talus_set_parallel_for(none, nullptr, nullptr); });
  no([&] { return talus_set_allocator(none, nullptr); });
  CHECK((value == -7 && group == -7 && first == -7));
  CHECK(talus_group_count(none) == -1);
  CHECK(talus_group_algorithm(none, 0) == nullptr);
  CHECK(talus_param_count(none) == -1);
  CHECK(talus_param_group(none, 0) == -1);
  CHECK(talus_find_param(none, "w") == -1);
  CHECK(talus_state_count(none) == -1);
  talus_destroy(none);
}

TEST_CASE("abi: set and get refuse NULL, unknown names, bad groups and values out of range") {
  Handle opt("adamw");
  Model model;
  model.add_to(opt);
  double value = -7;
  refused(opt, TALUS_E_ARGUMENT, {}, [&] { return talus_set(opt, 0, nullptr, 1); });
  refused(opt, TALUS_E_ARGUMENT, {}, [&] { return talus_get(opt, 0, nullptr, &value); });
  refused(opt, TALUS_E_ARGUMENT, {}, [&] { return talus_get(opt, 0, "lr", nullptr); });
  for (const int32_t group : {1, -2, INT32_MAX, INT32_MIN}) {
    const std::string index = std::to_string(group);
    refused(opt, TALUS_E_ARGUMENT, {index.c_str()}, [&] { return talus_set(opt, group, "lr", 1); });
    refused(opt, TALUS_E_ARGUMENT, {index.c_str()},
            [&] { return talus_get(opt, group, "lr", &value); });
  }
  for (const int32_t group : {0, TALUS_ALL})
    refused(opt, TALUS_E_NAME, {"momentum", "beta1"},
            [&] { return talus_set(opt, group, "momentum", 0.9); });
  refused(opt, TALUS_E_NAME, {"learning_rate", "lr"},
          [&] { return talus_get(opt, 0, "learning_rate", &value); });
  struct Bad {
    const char* name;
    double value;
  };
  for (const Bad& bad :
       {Bad{"lr", -1e-300}, Bad{"lr", kNaN}, Bad{"lr", -kInf}, Bad{"lr", kInf}, Bad{"beta1", 1},
        Bad{"beta1", -0.5}, Bad{"beta2", 1.5}, Bad{"amsgrad", 0.5}, Bad{"amsgrad", 2},
        Bad{"amsgrad", kNaN}, Bad{"maximize", -1}, Bad{"eps", -1}, Bad{"weight_decay", kNaN}}) {
    CAPTURE(bad.name, bad.value);
    for (const int32_t group : {0, TALUS_ALL})
      refused(opt, TALUS_E_RANGE, {bad.name},
              [&] { return talus_set(opt, group, bad.name, bad.value); });
  }
  CHECK(value == -7);
}

TEST_CASE("abi: settings refuse NULL, unknown names and values out of range") {
  Handle opt("adamw");
  double value = -7;
  refused(opt, TALUS_E_ARGUMENT, {}, [&] { return talus_set_setting(opt, nullptr, 1); });
  refused(opt, TALUS_E_ARGUMENT, {}, [&] { return talus_get_setting(opt, nullptr, &value); });
  refused(opt, TALUS_E_ARGUMENT, {}, [&] { return talus_get_setting(opt, "threads", nullptr); });
  refused(opt, TALUS_E_NAME, {"thread", "threads"},
          [&] { return talus_set_setting(opt, "thread", 1); });
  refused(opt, TALUS_E_NAME, {"lr", "threads"},
          [&] { return talus_get_setting(opt, "lr", &value); });
  for (const double bad : {-1.0, 1.5, kNaN, kInf, 1e300})
    refused(opt, TALUS_E_RANGE, {"threads"},
            [&] { return talus_set_setting(opt, "threads", bad); });
  for (const char* flag : {"stats", "check_pointers", "check_rows", "check_masters"})
    for (const double bad : {-1.0, 0.5, 2.0, kNaN})
      refused(opt, TALUS_E_RANGE, {flag}, [&] { return talus_set_setting(opt, flag, bad); });
  for (const double bad : {0.0, 1.5, 65537.0, kNaN})
    refused(opt, TALUS_E_RANGE, {"chunk_tiles"},
            [&] { return talus_set_setting(opt, "chunk_tiles", bad); });
  CHECK(value == -7);
}

TEST_CASE("abi: add_group refuses NULL and unknown algorithms, and adds nothing") {
  Handle opt("adamw");
  int32_t group = -7;
  refused(opt, TALUS_E_ARGUMENT, {}, [&] { return talus_add_group(opt, "sgd", nullptr); });
  refused(opt, TALUS_E_NAME, {"nonsense", "adamw"},
          [&] { return talus_add_group(opt, "nonsense", &group); });
  CHECK(group == -7);
  CHECK(talus_group_count(opt) == 1);
  for (const int32_t index : {1, -1, INT32_MAX})
    CHECK(talus_group_algorithm(opt, index) == nullptr);
}

TEST_CASE("abi: indices that are not there are refused by every function that takes one") {
  Handle opt("adamw");
  Model model;
  model.add_to(opt);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  int64_t count = -7;
  talus_param info{};
  info.struct_size = sizeof info;
  info.dtype = 77;
  talus_state state{};
  state.struct_size = sizeof state;
  state.dtype = 77;
  for (const int64_t index : {int64_t(2), int64_t(-1), INT64_MAX, INT64_MIN}) {
    const std::string text = std::to_string(index);
    const auto no = [&](auto call) { refused(opt, TALUS_E_ARGUMENT, {text.c_str()}, call); };
    no([&] { return talus_param_info(opt, index, &info); });
    no([&] { return talus_bind_data(opt, index, model.w.data()); });
    no([&] { return talus_bind_rows(opt, index, nullptr); });
    no([&] { return talus_move_params(opt, 0, 1, &index); });
    no([&] { return talus_remove_params(opt, 1, &index); });
    no([&] { return talus_bind_state(opt, index, "exp_avg", model.w.data(), 20); });
    no([&] { return talus_steps(opt, index, &count); });
    no([&] { return talus_set_steps(opt, index, 1); });
    CHECK(talus_param_group(opt, index) == -1);
  }
  for (const int64_t index : {int64_t(4), int64_t(-1), INT64_MAX, INT64_MIN})
    refused(opt, TALUS_E_ARGUMENT, {std::to_string(index).c_str()},
            [&] { return talus_state_info(opt, index, &state); });
  refused(opt, TALUS_E_ARGUMENT, {}, [&] { return talus_param_info(opt, 0, nullptr); });
  refused(opt, TALUS_E_ARGUMENT, {}, [&] { return talus_state_info(opt, 0, nullptr); });
  refused(opt, TALUS_E_ARGUMENT, {}, [&] { return talus_steps(opt, 0, nullptr); });
  refused(opt, TALUS_E_ARGUMENT, {}, [&] { return talus_get_stats(opt, 0, nullptr); });
  CHECK((count == -7 && info.dtype == 77 && state.dtype == 77));
  CHECK(talus_find_param(opt, nullptr) == -1);
  CHECK(talus_find_param(opt, "") == -1);
  CHECK(talus_find_param(opt, "b") == 1);
}

TEST_CASE("abi: a stream is refused on the CPU") {
  Handle opt("adamw");
  Model model;
  model.add_to(opt);
  void* const stream = &model;
  double loss = -7;
  const auto no = [&](auto call) { refused(opt, TALUS_E_ARGUMENT, {"stream"}, call); };
  no([&] { return talus_prepare(opt, stream); });
  no([&] { return talus_step(opt, stream); });
  no([&] { return talus_zero_grad(opt, TALUS_ZERO_FILL, stream); });
  no([&] {
    return talus_step_closure(
        opt, [](void*, double*) -> int32_t { return 0; }, nullptr, &loss, stream);
  });
  CHECK(loss == -7);
}
