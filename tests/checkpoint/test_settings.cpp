// Scaler, clipping and their settings in checkpoints: a run that is stopped within its backoff goes on
// with the same bits, and what does not fit is refused with nothing changed.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/checkpoint/model.h"

using namespace talus;
using namespace talus::test;
using Catch::Matchers::ContainsSubstring;

namespace {

class Scaler {
 public:
  explicit Scaler(const Values& values = {}) {
    must(talus_scaler_create(TALUS_CPU, 0, &handle_));
    for (const auto& [name, value] : values) must(talus_scaler_set(handle_, name.c_str(), value));
  }
  ~Scaler() { talus_scaler_destroy(handle_); }
  Scaler(const Scaler&) = delete;

  talus_scaler* get() const { return handle_; }
  double operator[](const char* name) const {
    double value = NAN;
    must(talus_scaler_get(handle_, name, &value));
    return value;
  }

 private:
  talus_scaler* handle_ = nullptr;
};

const Values kScaling = {{"init_scale", 1024}, {"growth_interval", 3}, {"hysteresis", 2}};

// bf16 parameters with masters, gradients times the scale; now and then one overflows.
struct Run {
  Scaler scaler{kScaling};
  Model model{{{"w", {3, 2}, TALUS_BF16}, {"b", {5}, TALUS_BF16}}, {{"adamw", {{"lr", 0.1}}}}};
  std::vector<uint16_t> grad = std::vector<uint16_t>(6);

  explicit Run(bool attached = true) {
    if (attached) must(talus_attach_scaler(opt(), scaler.get()));
  }
  talus_optimizer* opt() const { return model.get(); }
  void clip(double norm) { must(talus_set_setting(opt(), "max_grad_norm", norm)); }
  void steps(int64_t first, int64_t last) {
    for (int64_t s = first; s < last; ++s) {
      if (s % 5 == 2 || s % 5 == 3) overflow();
      model.step(s);
      must(talus_scaler_update(scaler.get(), nullptr));
      if (s % 5 == 2 || s % 5 == 3) model.rebind_grads();
    }
  }
  void overflow() {
    grad.assign(6, 0x7f80);
    void* p = grad.data();
    must(talus_bind_grads(opt(), 0, 1, &p));
  }
};

void finish_round(Run& run) {
  must(talus_scaler_update(run.scaler.get(), nullptr));
  run.model.rebind_grads();
}

double setting(talus_optimizer* opt, const char* name) {
  double value = NAN;
  must(talus_get_setting(opt, name, &value));
  return value;
}

void refuse(const Run& live, const std::string& saved, int kind, const std::string& text) {
  const std::string before = live.model.bytes();
  CHECK(load_bytes(live.opt(), saved, TALUS_LOAD_PARAMS) == TALUS_E_MISMATCH);
  CHECK(talus_last_error_detail() == kind);
  CHECK_THAT(talus_last_error(), ContainsSubstring(text));
  CHECK((live.model.bytes() == before));
}

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

}  // namespace

TEST_CASE("saved scaler: stopped after any round, a run goes on with the same bits") {
  constexpr int64_t kRounds = 17;
  Run whole;
  whole.clip(0.5);
  std::vector<std::string> saved;
  for (int64_t t = 0; t < kRounds; ++t) {
    saved.push_back(whole.model.bytes());
    whole.steps(t, t + 1);
  }
  REQUIRE(whole.scaler["total_skips"] > 3);
  const std::string end = whole.model.bytes();
  for (int64_t t = 0; t < kRounds; ++t) {
    INFO("stopped at " << t);
    Run resumed;
    REQUIRE(load_bytes(resumed.opt(), saved[size_t(t)], TALUS_LOAD_PARAMS) == TALUS_OK);
    CHECK(setting(resumed.opt(), "max_grad_norm") == 0.5);
    resumed.steps(t, kRounds);
    REQUIRE((resumed.model.bytes() == end));
    for (const char* name : {"scale", "growth_tracker", "hysteresis_tracker", "total_skips"})
      CHECK(resumed.scaler[name] == whole.scaler[name]);
  }
}

TEST_CASE("saved scaler: parameters are the file's; KEEP_HYPER keeps scaler and settings") {
  Run file, live, kept;
  file.clip(0.25);
  must(talus_set_setting(file.opt(), "grad_norm_type", INFINITY));
  must(talus_set_setting(live.opt(), "max_grad_value", 3));
  file.steps(0, 4);
  for (Run* r : {&live, &kept}) must(talus_scaler_set(r->scaler.get(), "backoff_factor", 0.125));
  must(load_bytes(live.opt(), file.model.bytes(), TALUS_LOAD_PARAMS));
  CHECK(live.scaler["backoff_factor"] == 0.5);
  CHECK(live.scaler["scale"] == file.scaler["scale"]);
  CHECK(setting(live.opt(), "max_grad_norm") == 0.25);
  CHECK(setting(live.opt(), "grad_norm_type") == INFINITY);
  CHECK(setting(live.opt(), "max_grad_value") == 0);
  must(load_bytes(kept.opt(), file.model.bytes(), TALUS_LOAD_PARAMS | TALUS_LOAD_KEEP_HYPER));
  CHECK(kept.scaler["backoff_factor"] == 0.125);
  CHECK(kept.scaler["scale"] == 1024);
  CHECK(setting(kept.opt(), "max_grad_norm") == 0);
}

TEST_CASE("saved scaler: without one, and with settings at rest, the file is as it was before") {
  const Run none(false);
  CHECK_THAT(none.model.bytes(), ContainsSubstring(R"("talus.requires":"")"));
  CHECK_THAT(none.model.bytes(), ContainsSubstring(R"("talus.settings":"{}")"));
}

TEST_CASE("saved scaler: one side without it is a difference") {
  const Run with, without(false);
  refuse(with, without.model.bytes(), TALUS_M_SCALER,
         "a scaler in the optimizer, none in the file");
  refuse(without, with.model.bytes(), TALUS_M_SCALER,
         "no scaler in the optimizer, one in the file");
}

TEST_CASE("saved scaler: a step that waits for its update cannot be saved") {
  Run run;
  run.model.step(1);
  CHECK_THROWS_WITH(run.model.bytes(), ContainsSubstring("a step waits for its scaler's update"));
  must(talus_scaler_update(run.scaler.get(), nullptr));
  CHECK_NOTHROW(run.model.bytes());
}

TEST_CASE("saved scaler: values that no scaler or optimizer can have are named") {
  Run file, live;
  file.clip(0.5);
  const std::string saved = file.model.bytes(TALUS_SAVE_NO_DIGEST | TALUS_SAVE_PARAMS);
  const auto refused = [&](const char* old, const char* text, int kind, const char* why) {
    INFO(old << " -> " << text);
    refuse(live, edited(saved, old, text), kind, why);
  };
  refused(R"(\"scale\":1024)", R"(\"scale\":0.5)", TALUS_M_SCALER, "outside of its range");
  refused(R"(\"scale\":1024)", R"(\"scale\":1024.00000001)", TALUS_M_SCALER, "is no f32");
  refused(R"(\"growth_factor\":2)", R"(\"growth_factor\":1)", TALUS_M_SCALER, "growth_factor");
  refused("growth_factor", "growth_factory", TALUS_M_SCALER, "\"growth_factory\"");
  refused(R"(\"min_scale\":1)", R"(\"min_scale\":2048)", TALUS_M_SCALER, "init_scale must lie");
  refused(R"({\"max_grad_norm\":0.5})", R"({\"max_grad_norm\":-1})", TALUS_M_HYPER,
          "max_grad_norm");
  refused(R"({\"max_grad_norm\":0.5})", R"({\"grad_norm_type\":3})", TALUS_M_HYPER,
          "grad_norm_type");
  refused(R"({\"max_grad_norm\":0.5})", R"({\"grad_scale\":2})", TALUS_M_HYPER, "grad_scale");
  refused("max_grad_norm", "threads", TALUS_M_HYPER, "the file has \"threads\"");
  CHECK(load_bytes(live.opt(), edited(saved, R"(\"total_skips\":\"0\")", R"(\"total_skips\":0)")) ==
        TALUS_E_FORMAT);
  CHECK(load_bytes(live.opt(), saved, TALUS_LOAD_PARAMS) == TALUS_OK);
}

TEST_CASE("a load between a step and the scaler's update is refused, and the round goes on") {
  Run from, into;
  from.steps(0, 3);
  const std::string saved = save_bytes(from.opt(), TALUS_SAVE_PARAMS);
  into.overflow();
  into.model.step(0);
  const double before = into.model.data(0).get(3);
  CHECK(load_bytes(into.opt(), saved, TALUS_LOAD_PARAMS) == TALUS_E_STATE);
  CHECK_THAT(talus_last_error(), ContainsSubstring("talus_scaler_update"));
  CHECK(into.model.data(0).get(3) == before);
  finish_round(into);
  CHECK(into.scaler["total_skips"] == 1);
  CHECK(load_bytes(into.opt(), saved, TALUS_LOAD_PARAMS) == TALUS_OK);
  CHECK(into.model.data(0).get(3) != before);
}
