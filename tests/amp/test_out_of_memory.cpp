// Every allocation of every call of mixed precision fails once: TALUS_E_MEMORY, nothing changed, and
// the same call succeeds afterwards with the same bits. The program replaces operator new.
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <functional>

#include "tests/abi/fixture.h"

#if defined(TALUS_TEST_TSAN)
TEST_CASE("amp: each allocation of each call fails once, and nothing is lost") {
  SKIP("the thread sanitizer has an operator new of its own");
}
#else
#include "tests/failing_new.h"

using namespace talus::abi;
using talus::test::countdown;

namespace {

constexpr int64_t kMany = 3001;

struct Host {
  talus_optimizer *opt = nullptr, *other = nullptr;
  talus_scaler* scaler = nullptr;
  std::vector<uint16_t> half = std::vector<uint16_t>(kMany, 0x3f80);
  std::vector<float> half_grad = std::vector<float>(kMany, .25f), fine, read;
  std::vector<float> data = {1, 2, 3}, grad = {64, -64, 32}, other_data = data, other_grad = grad;
  int64_t many = kMany, three = 3;
  int32_t group = -1;
  double norm = 0;

  Host() : fine(kMany, 1.001f), read(kMany) {
    REQUIRE(talus_create("adamw", TALUS_CPU, 0, &opt) == TALUS_OK);
    REQUIRE(talus_create("sgd", TALUS_CPU, 0, &other) == TALUS_OK);
    talus_param p = describe<uint16_t>(TALUS_BF16, half.data(), nullptr, &many);
    p.grad = half_grad.data(), p.grad_dtype = TALUS_F32;
    p.name = "a name that is too long to be kept in place";
    add(opt, p);
    add(opt, describe(TALUS_F32, data.data(), grad.data(), &three));
    add(other, describe(TALUS_F32, other_data.data(), other_grad.data(), &three));
  }
  ~Host() {
    talus_destroy(opt);
    talus_destroy(other);
    talus_scaler_destroy(scaler);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  talus_status import(const float* from) {
    return talus_import_param(opt, "master", 0, from, TALUS_F32, nullptr);
  }
  talus_status clip(int32_t of_group) {
    talus_optimizer* both[] = {opt, other};
    return talus_clip_grad_norm(both, of_group < 0 ? 2 : 1, of_group, .5, 2, &norm, nullptr);
  }
  talus_status step() {
    const talus_status status = talus_step(opt, nullptr);
    return status;
  }
};

struct Step {
  const char* name;
  std::function<talus_status(Host&)> call;
};

// A life of an optimizer with a scaler, every call of which allocates or might.
std::vector<Step> life() {
  const auto update = [](Host& h) { return talus_scaler_update(h.scaler, nullptr); };
  const auto step = [](Host& h) { return h.step(); };
  return {
      {"create a scaler",
       [](Host& h) {
         return h.scaler ? TALUS_E_STATE : talus_scaler_create(TALUS_CPU, 0, &h.scaler);
       }},
      {"set it", [](Host& h) { return talus_scaler_set(h.scaler, "init_scale", 64); }},
      {"attach it", [](Host& h) { return talus_attach_scaler(h.opt, h.scaler); }},
      {"to the other", [](Host& h) { return talus_attach_scaler(h.other, h.scaler); }},
      {"clip setting", [](Host& h) { return talus_set_setting(h.opt, "max_grad_norm", 3); }},
      {"cut setting", [](Host& h) { return talus_set_setting(h.opt, "max_grad_value", .5); }},
      {"set a master first", [](Host& h) { return h.import(h.fine.data()); }},
      {"norm before a step",
       [](Host& h) { return talus_grad_norm(&h.opt, 1, TALUS_ALL, 1, &h.norm, nullptr); }},
      {"clip both", [](Host& h) { return h.clip(TALUS_ALL); }},
      {"first step", step},
      {"step of the other", [](Host& h) { return talus_step(h.other, nullptr); }},
      {"update", update},
      {"another group", [](Host& h) { return talus_add_group(h.opt, nullptr, &h.group); }},
      {"clip a group", [](Host& h) { return h.clip(h.group); }},
      {"clip the first group", [](Host& h) { return h.clip(0); }},
      {"norm of a group",
       [](Host& h) { return talus_grad_norm(&h.opt, 1, 0, 2, &h.norm, nullptr); }},
      {"second step", step},
      {"second update", update},
      {"set a master", [](Host& h) { return h.import(h.fine.data()); }},
      {"reload a master", [](Host& h) { return h.import(nullptr); }},
      {"read a master",
       [](Host& h) {
         return talus_export_param(h.opt, "master", 0, h.read.data(), TALUS_F32, nullptr);
       }},
      {"copy a master out",
       [](Host& h) { return talus_export_param(h.opt, "master", 0, nullptr, TALUS_F32, nullptr); }},
      {"a bad gradient", [](Host& h) { return h.grad[1] = INFINITY, TALUS_OK; }},
      {"skipped step", step},
      {"third update", update},
      {"a good gradient", [](Host& h) { return h.grad[1] = 1, TALUS_OK; }},
      {"last step", step},
      {"bytes",
       [](Host& h) {
         talus_param p = describe<float>(TALUS_F32, nullptr, nullptr, &h.three);
         talus_bytes bytes{};
         bytes.struct_size = sizeof bytes;
         return talus_bytes_per_param(h.opt, 0, &p, &bytes);
       }},
  };
}

std::vector<std::string> seen(Host& h, Reserved reserved = Reserved::seen) {
  std::vector<std::string> lines = see(h.opt, reserved);
  for (const std::string& line : see(h.other, reserved)) lines.push_back(line);
  double value = 0;
  for (const char* name : {"scale", "growth_tracker", "consecutive_skips", "total_skips"})
    if (h.scaler && talus_scaler_get(h.scaler, name, &value) == TALUS_OK)
      lines.push_back(std::string(name) + " " + exact(value));
  return lines;
}

std::vector<std::string> results(Host& h) {
  std::vector<std::string> lines;
  for (const std::string& line : seen(h))  // addresses differ from run to run
    if (line.find(" 0x") == std::string::npos) lines.push_back(line);
  lines.push_back(hex(h.half.data(), 2 * h.half.size()));
  lines.push_back(hex(h.read.data(), 4 * h.read.size()));
  lines.push_back(hex(h.data.data(), 12) + hex(h.other_data.data(), 12) + exact(h.norm));
  for (const talus_state& state : states(h.opt)) lines.push_back(hex(state.data, state.bytes));
  return lines;
}

std::vector<std::string> undisturbed() {
  Host host;
  for (const Step& step : life()) {
    CAPTURE(step.name, talus_last_error());
    REQUIRE(step.call(host) == TALUS_OK);
  }
  return results(host);
}

}  // namespace

TEST_CASE("amp: each allocation of each call fails once, and nothing is lost") {
  const std::vector<std::string> expected = undisturbed();
  const std::vector<Step> steps = life();
  int64_t failures = 0;
  for (size_t failing = 0; failing < steps.size(); ++failing) {
    for (int k = 0;; ++k) {
      CAPTURE(steps[failing].name, k);
      REQUIRE(k < 200);
      Host host;
      for (size_t i = 0; i < failing; ++i) REQUIRE(steps[i].call(host) == TALUS_OK);
      const auto before = seen(host, Reserved::overlooked);
      countdown = k;
      const talus_status status = steps[failing].call(host);
      const bool reached = countdown < 0;
      countdown = -1;
      if (status != TALUS_OK) {
        ++failures;
        CHECK(status == TALUS_E_MEMORY);
        CHECK(std::strlen(talus_last_error()) > 0);
        REQUIRE(first_difference(before, seen(host, Reserved::overlooked)) == "");
        REQUIRE(steps[failing].call(host) == TALUS_OK);
      }
      for (size_t i = failing + 1; i < steps.size(); ++i) REQUIRE(steps[i].call(host) == TALUS_OK);
      REQUIRE(first_difference(expected, results(host)) == "");
      if (!reached) break;
    }
  }
  CHECK(failures > 15);  // the library does use this program's operator new
}

TEST_CASE("amp: an error whose text finds no memory is an error all the same") {
  Host host;
  REQUIRE(talus_scaler_create(TALUS_CPU, 0, &host.scaler) == TALUS_OK);
  REQUIRE(talus_set_setting(host.opt, "check_finite", 1) == TALUS_OK);
  REQUIRE(talus_set_setting(host.opt, "error_if_nonfinite", 1) == TALUS_OK);
  REQUIRE(talus_prepare(host.opt, nullptr) == TALUS_OK);
  host.grad[1] = INFINITY;
  const Step wrong[] = {
      {"step", [](Host& h) { return h.step(); }},
      {"name", [](Host& h) { return talus_scaler_set(h.scaler, "no such name", 1); }},
      {"range", [](Host& h) { return talus_scaler_set(h.scaler, "scale", -1); }},
      {"conflict", [](Host& h) { return talus_scaler_set(h.scaler, "max_scale", 2); }},
      {"update", [](Host& h) { return talus_scaler_update(h.scaler, nullptr); }},
      {"setting", [](Host& h) { return talus_set_setting(h.opt, "max_grad_norm", -1); }},
      {"norm", [](Host& h) { return talus_grad_norm(&h.opt, 1, 0, 3, &h.norm, nullptr); }},
      {"master",
       [](Host& h) { return talus_export_param(h.opt, "master", 1, nullptr, TALUS_F32, nullptr); }},
      {"view",
       [](Host& h) { return talus_import_param(h.opt, "x", 0, nullptr, TALUS_F32, nullptr); }},
  };
  const auto before = seen(host);
  for (const Step& each : wrong)
    for (int k = 0;; ++k) {
      CAPTURE(each.name, k);
      REQUIRE(k < 200);
      countdown = k;
      const talus_status status = each.call(host);
      const bool reached = countdown < 0;
      countdown = -1;
      CHECK(status != TALUS_OK);
      CHECK(std::strlen(talus_last_error()) > 0);
      CHECK(first_difference(before, seen(host)) == "");
      if (!reached) break;
    }
}
#endif
