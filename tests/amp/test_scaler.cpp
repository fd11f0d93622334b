// The loss scaler as a host drives it: rounds of optimizers, what its parameters do to the scale, and
// which calls it refuses when.
#include <catch2/catch_test_macros.hpp>

#include "tests/abi/fixture.h"
#include "tests/amp/rounds.h"

using namespace talus::test;
using talus::abi::refused;

namespace {

constexpr const char* kReadings[] = {"scale", "growth_tracker", "hysteresis_tracker",
                                     "consecutive_skips", "total_skips"};

// Everything that can be read of a scaler.
std::string see(const Scaler& scaler) {
  std::string text;
  for (int32_t i = 0; i < talus_hyper_count("scaler"); ++i) {
    talus_hyper hyper{};
    hyper.struct_size = sizeof hyper;
    must(talus_hyper_info("scaler", i, &hyper));
    text += std::string(hyper.name) + " " + talus::abi::exact(scaler.get(hyper.name)) + ", ";
  }
  for (const char* name : kReadings)
    text += std::string(name) + " " + talus::abi::exact(scaler.get(name)) + ", ";
  return text;
}

// A call that fails, says why, and leaves the scaler as it was.
template <class Call>
void refused_by(const Scaler& scaler, talus_status expected,
                std::initializer_list<const char*> causes, Call call) {
  const std::string before = see(scaler);
  refused(nullptr, expected, causes, call);
  CHECK(see(scaler) == before);
}

void refuse_value(const Scaler& scaler, const char* name, double value, talus_status expected,
                  const char* cause) {
  INFO(name << " = " << value);
  refused_by(scaler, expected, {cause},
             [&] { return talus_scaler_set(scaler.get(), name, value); });
}

}  // namespace

TEST_CASE("a new scaler has the defaults that it describes, and PyTorch's scale") {
  const Scaler scaler;
  const std::pair<const char*, double> defaults[] = {
      {"init_scale", 65536},     {"growth_factor", 2}, {"backoff_factor", .5},
      {"growth_interval", 2000}, {"hysteresis", 1},    {"min_scale", 1},
      {"max_scale", 0x1p24},     {"dynamic", 1}};
  REQUIRE(talus_hyper_count("scaler") == int32_t(std::size(defaults)));
  for (int32_t i = 0; i < talus_hyper_count("scaler"); ++i) {
    talus_hyper hyper{};
    hyper.struct_size = sizeof hyper;
    must(talus_hyper_info("scaler", i, &hyper));
    INFO(hyper.name);
    CHECK(std::string(hyper.name) == defaults[i].first);
    CHECK(hyper.def == defaults[i].second);
    CHECK(scaler.get(hyper.name) == hyper.def);
  }
  CHECK(ScalerReference({}).difference(scaler) == "");
  CHECK(scaler.scale() == 65536);
}

TEST_CASE("rounds drawn at random do what the definition says, whatever the parameters") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    uint64_t n = 0;
    const auto pick = [&](std::initializer_list<double> from) {
      return from.begin()[draw(seed, n++, 0) % from.size()];
    };
    const Values values = {{"min_scale", pick({1, .3, 0x1p-126, 700})},
                           {"max_scale", pick({0x1p24, 1e5, 0x1p126, 70000.1})},
                           {"init_scale", pick({65536, 1000, 60000, 777.7})},
                           {"growth_factor", pick({2, 1.0000001, 1.3, 1e30})},
                           {"backoff_factor", pick({.5, .9, .99999999, 1e-30})},
                           {"growth_interval", pick({1, 2, 3, 7})},
                           {"hysteresis", pick({1, 2, 3, 5})},
                           {"dynamic", pick({1, 1, 1, 0})}};
    Scaler scaler(values);
    Finder finder(scaler);
    ScalerReference want(values);
    const uint64_t often = 1 + draw(seed, n++, 0) % 4;
    for (int round = 0; round < 60; ++round) {
      const bool found = draw(seed, 1000, round) % 5 < often;
      play_round(scaler, finder, found);
      want.update(found);
      INFO("seed " << seed << ", round " << round);
      REQUIRE(want.difference(scaler) == "");
    }
  }
}

TEST_CASE("the scale stops at its floor and at its cap, and skips go on being counted") {
  Scaler scaler({{"init_scale", 8}, {"min_scale", 3}, {"max_scale", 20}, {"growth_interval", 1}});
  Finder finder(scaler);
  CHECK(play_round(scaler, finder, true) == 4);
  for (int i = 2; i <= 5; ++i) {
    CHECK(play_round(scaler, finder, true) == 3);
    CHECK(scaler.get("consecutive_skips") == i);
  }
  CHECK(play_round(scaler, finder, false) == 6);
  CHECK(scaler.get("consecutive_skips") == 0);
  CHECK(scaler.get("total_skips") == 5);
  CHECK(play_round(scaler, finder, false) == 12);
  for (int i = 0; i < 4; ++i) CHECK(play_round(scaler, finder, false) == 20);
  CHECK(scaler.get("total_skips") == 5);
}

TEST_CASE(
    "hysteresis tolerates skips in a row, each one more backs off, a clean round restores it") {
  Scaler scaler({{"hysteresis", 3}, {"init_scale", 1024}});
  Finder finder(scaler);
  for (double want : {1024., 1024., 512., 256.}) CHECK(play_round(scaler, finder, true) == want);
  CHECK(play_round(scaler, finder, false) == 256);
  for (double want : {256., 256., 128.}) CHECK(play_round(scaler, finder, true) == want);
}

TEST_CASE("an interval lowered below the tracker does not stop the growth") {
  Scaler scaler({{"growth_interval", 100}, {"init_scale", 16}});
  Finder finder(scaler);
  for (int i = 0; i < 50; ++i) CHECK(play_round(scaler, finder, false) == 16);
  scaler.set("growth_interval", 5);
  CHECK(scaler.get("growth_tracker") == 50);
  CHECK(play_round(scaler, finder, false) == 32);
  CHECK(scaler.get("growth_tracker") == 0);
}

TEST_CASE("a static scale never moves, and steps are skipped all the same") {
  Scaler scaler({{"dynamic", 0}, {"init_scale", 1000}, {"growth_interval", 1}});
  Finder finder(scaler);
  for (bool found : {true, false, false, true, true})
    CHECK(play_round(scaler, finder, found) == 1000);
  CHECK(stats_of(finder.optimizer).steps == 2);
  CHECK(stats_of(finder.optimizer).skipped == 3);
  CHECK(scaler.get("total_skips") == 3);
}

TEST_CASE(
    "init_scale sets the scale too; scale alone leaves init_scale; bounds pull the scale in") {
  Scaler scaler;
  scaler.set("init_scale", 512);
  CHECK(scaler.scale() == 512);
  scaler.set("scale", 1024);
  CHECK(scaler.scale() == 1024);
  CHECK(scaler.get("init_scale") == 512);
  scaler.set("max_scale", 600);
  CHECK(scaler.scale() == 600);
  scaler.set("max_scale", 8192);
  scaler.set("scale", 500);
  scaler.set("min_scale", 511);
  CHECK(scaler.scale() == 511);
  scaler.set("min_scale", .1);
  scaler.set("scale", .1);
  CHECK(scaler.scale() == double(.1f));  // as it is held
}

// ---- what is refused

TEST_CASE("values outside of their ranges are refused by name, and change nothing") {
  const double inf = INFINITY, nan = NAN;
  Scaler scaler({{"init_scale", 64}, {"min_scale", 2}, {"max_scale", 4096}});
  for (const char* name : {"init_scale", "scale", "min_scale", "max_scale"})
    for (double value : {0., -0., -1., -65536., inf, -inf, nan, 0x1p127, 0x1p-127, 1e-300})
      refuse_value(scaler, name, value, TALUS_E_RANGE, "scale");
  for (double value : {1., 0., -2., .5, inf, nan})
    refuse_value(scaler, "growth_factor", value, TALUS_E_RANGE, "growth_factor");
  for (double value : {1., 0., -.5, 2., inf, nan})
    refuse_value(scaler, "backoff_factor", value, TALUS_E_RANGE, "backoff_factor");
  for (const char* name : {"growth_interval", "hysteresis"})
    for (double value : {0., -1., 1.5, 0x1p54, inf, nan})
      refuse_value(scaler, name, value, TALUS_E_RANGE, name);
  for (double value : {2., -1., .5, nan})
    refuse_value(scaler, "dynamic", value, TALUS_E_RANGE, "dynamic");
}

TEST_CASE("scales that exclude each other are refused, and change nothing") {
  Scaler scaler({{"init_scale", 64}, {"min_scale", 2}, {"max_scale", 4096}});
  refuse_value(scaler, "init_scale", 1, TALUS_E_RANGE, "min_scale");
  refuse_value(scaler, "init_scale", 8192, TALUS_E_RANGE, "max_scale");
  refuse_value(scaler, "scale", 1, TALUS_E_RANGE, "scale");
  refuse_value(scaler, "scale", 8192, TALUS_E_RANGE, "scale");
  refuse_value(scaler, "min_scale", 8192, TALUS_E_RANGE, "max_scale");
  refuse_value(scaler, "min_scale", 65, TALUS_E_RANGE, "init_scale");
  refuse_value(scaler, "max_scale", 63, TALUS_E_RANGE, "init_scale");
  refuse_value(scaler, "max_scale", 1, TALUS_E_RANGE, "min_scale");
}

TEST_CASE("scale and growth tracker of another scaler are taken over") {
  Scaler scaler({{"growth_interval", 5}, {"scale", 512}, {"growth_tracker", 3}});
  Finder finder(scaler);
  CHECK(scaler.get("growth_tracker") == 3);
  play_round(scaler, finder, false);
  CHECK(scaler.scale() == 512);
  play_round(scaler, finder, false);
  CHECK(scaler.scale() == 1024);
  for (double value : {-1., .5, double(NAN), double(INFINITY), 0x1p54})
    refuse_value(scaler, "growth_tracker", value, TALUS_E_RANGE, "growth_tracker");
  refuse_value(scaler, "scale", 1e300, TALUS_E_RANGE, "scale is");
  finder.step(false);
  refuse_value(scaler, "growth_tracker", 1, TALUS_E_STATE, "growth_tracker");
}

TEST_CASE("unknown names are refused with the known ones, and what is read only is not set") {
  Scaler scaler;
  double value = 7;
  refuse_value(scaler, "no such", 1, TALUS_E_NAME, "growth_interval");
  refuse_value(scaler, "total_skips", 1, TALUS_E_NAME, "growth_tracker");
  refused_by(scaler, TALUS_E_NAME, {"no such", "growth_interval"},
             [&] { return talus_scaler_get(scaler.get(), "no such", &value); });
  CHECK(value == 7);
}

TEST_CASE("an update needs a step of an attached optimizer, each time") {
  Scaler scaler;
  Finder finder(scaler);
  const auto update = [&] { return talus_scaler_update(scaler.get(), nullptr); };
  refused_by(scaler, TALUS_E_STATE, {"talus_step"}, update);
  play_round(scaler, finder, false);
  refused_by(scaler, TALUS_E_STATE, {"talus_step"}, update);
  // A step that fails is none.
  void* none = nullptr;
  must(talus_bind_grads(finder.optimizer.get(), 0, 1, &none));
  REQUIRE(talus_step(finder.optimizer.get(), nullptr) == TALUS_E_STATE);
  refused_by(scaler, TALUS_E_STATE, {"talus_step"}, update);
}

TEST_CASE("an optimizer steps once in a round, whether the first one was taken or skipped") {
  for (bool found : {false, true}) {
    Scaler scaler;
    Finder finder(scaler);
    finder.step(found);
    finder.bind(false);
    const auto step = [&] { return talus_step(finder.optimizer.get(), nullptr); };
    refused(finder.optimizer.get(), TALUS_E_STATE, {"talus_scaler_update"}, step);
    scaler.attach_to(finder.optimizer);  // the same again is no way round it
    refused(finder.optimizer.get(), TALUS_E_STATE, {"talus_scaler_update"}, step);
    must(talus_attach_scaler(finder.optimizer.get(), nullptr));
    scaler.attach_to(finder.optimizer);
    refused(finder.optimizer.get(), TALUS_E_STATE, {"talus_scaler_update"}, step);
    scaler.update();
    CHECK(step() == TALUS_OK);
  }
}

TEST_CASE("nothing of a scaler changes between a step and the update") {
  Scaler scaler;
  Finder finder(scaler);
  for (const bool found : {false, true}) {
    finder.step(found);
    for (int32_t i = 0; i < talus_hyper_count("scaler"); ++i) {
      talus_hyper hyper{};
      hyper.struct_size = sizeof hyper;
      must(talus_hyper_info("scaler", i, &hyper));
      refuse_value(scaler, hyper.name, hyper.def, TALUS_E_STATE, hyper.name);
    }
    refuse_value(scaler, "scale", 2, TALUS_E_STATE, "scale");
    scaler.update();
    scaler.set("scale", 2);
  }
}

// ---- several optimizers, ownership

TEST_CASE("optimizers that share a scaler skip alone; the scale falls where any of them found") {
  for (int mask = 0; mask < 8; ++mask) {
    Scaler scaler;
    std::deque<Finder> finders;
    for (int k = 0; k < 3; ++k) finders.emplace_back(scaler);
    for (int k = 0; k < 3; ++k) finders[size_t(k)].step(mask >> k & 1);
    scaler.update();
    INFO("mask " << mask);
    CHECK(scaler.scale() == (mask ? 32768 : 65536));
    CHECK(scaler.get("total_skips") == (mask ? 1 : 0));
    CHECK(scaler.get("growth_tracker") == (mask ? 0 : 1));
    for (int k = 0; k < 3; ++k) {
      const Finder& f = finders[size_t(k)];
      CHECK(stats_of(f.optimizer).found_inf == (mask >> k & 1));
      CHECK((f.x.param.get(0) == 0) == bool(mask >> k & 1));
      CHECK(f.optimizer.steps(f.x) == 1 - (mask >> k & 1));
    }
  }
}

TEST_CASE("an optimizer may leave out a round that others close") {
  Scaler scaler;
  Finder first(scaler), second(scaler);
  first.step(true);
  scaler.update();
  second.step(false);
  scaler.update();
  CHECK(scaler.get("growth_tracker") == 1);
  first.step(false), second.step(false);
  scaler.update();
  CHECK(scaler.get("growth_tracker") == 2);
}

TEST_CASE("a destroyed scaler serves on where it is attached") {
  auto scaler = std::make_unique<Scaler>(Values{{"init_scale", 4}});
  Finder finder(*scaler), other(*scaler);
  scaler.reset();
  CHECK(stats_of(finder.optimizer).loss_scale == 4);
  finder.step(false);
  CHECK(finder.x.param.get(0) == double(-(1e-3f * .25f)));
  other.step(true);
  CHECK(stats_of(other.optimizer).skipped == 1);
  must(talus_attach_scaler(finder.optimizer.get(), nullptr));
  CHECK(stats_of(finder.optimizer).loss_scale == 1);
  finder.step(false);
  CHECK(stats_of(finder.optimizer).steps == 2);
}

TEST_CASE("without its scaler an optimizer divides by nothing and checks nothing") {
  Scaler scaler;
  Finder finder(scaler);
  must(talus_attach_scaler(finder.optimizer.get(), nullptr));
  finder.step(true);
  CHECK(stats_of(finder.optimizer).found_inf == 0);
  CHECK(finder.x.param.get(0) == -INFINITY);
  refused_by(scaler, TALUS_E_STATE, {"talus_step"},
             [&] { return talus_scaler_update(scaler.get(), nullptr); });
}

TEST_CASE("a scaler and a scale of the caller's exclude each other, in either order") {
  Scaler scaler;
  const float scale = 2;
  TestTensor x(kF32, 3);
  Optimizer optimizer("sgd");
  optimizer.add(x);
  talus_optimizer* const opt = optimizer.get();
  const auto attach = [&] { return talus_attach_scaler(opt, scaler.get()); };
  const auto bind = [&] { return talus_bind_scale(opt, &scale, nullptr); };
  const auto set = [&] { return talus_set_setting(opt, "grad_scale", 2); };

  REQUIRE(attach() == TALUS_OK);
  refused(opt, TALUS_E_STATE, {"talus_bind_scale", "talus_attach_scaler"}, bind);
  refused(opt, TALUS_E_STATE, {"grad_scale", "scaler"}, set);
  must(talus_attach_scaler(opt, nullptr));
  REQUIRE(bind() == TALUS_OK);
  refused(opt, TALUS_E_STATE, {"talus_attach_scaler", "talus_bind_scale"}, attach);
  refused(opt, TALUS_E_STATE, {"grad_scale"}, set);
  must(talus_bind_scale(opt, nullptr, nullptr));
  REQUIRE(set() == TALUS_OK);
  refused(opt, TALUS_E_STATE, {"talus_attach_scaler", "grad_scale"}, attach);
  refused(opt, TALUS_E_STATE, {"talus_bind_scale", "grad_scale"}, bind);
  optimizer.setting("grad_scale", 1);
  CHECK(attach() == TALUS_OK);
}
