// The state of a scaler, as a checkpoint keeps it and gives it back.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>

#include "lib/cpu/backend.h"
#include "lib/optimizer/scaler.h"

using talus::ScalerState;

namespace {

struct Scaler : talus::Scaler {
  Scaler() : talus::Scaler(talus::cpu_backend()) {}
  Scaler(double min_scale, double max_scale, double scale) : Scaler() {
    REQUIRE(set("min_scale", std::min(min_scale, 65536.)).ok());
    REQUIRE(set("init_scale", scale).ok());
    REQUIRE(set("max_scale", max_scale).ok());
  }
};

}  // namespace

TEST_CASE("every state that a scaler gets into is taken back, at bounds that are no f32 too") {
  for (double bound : {.1, .3, 1e-30, 1000.1, 65536.}) {
    Scaler scaler(bound, bound, bound);
    for (bool found : {true, false, true}) {
      Scaler other;
      REQUIRE(other.restore(scaler.params(), scaler.state()).ok());
      CHECK(other.state() == scaler.state());
      CHECK(std::equal(other.params(), other.params() + talus::kScalerParamCount, scaler.params()));
      scaler.note(found);
      REQUIRE(scaler.update(nullptr).ok());
      CHECK(scaler.state().scale == float(bound));
    }
  }
}

TEST_CASE("a restored scaler goes on as the one that was saved") {
  Scaler first;
  REQUIRE(first.set("growth_interval", 3).ok());
  REQUIRE(first.set("hysteresis", 2).ok());
  const auto round = [](Scaler& s, int i) {
    s.note(i * 7 % 5 < 2);
    REQUIRE(s.update(nullptr).ok());
  };
  for (int i = 0; i < 11; ++i) round(first, i);
  Scaler second;
  second.note(true);  // in the middle of a round, which the restored state is not
  REQUIRE(second.restore(first.params(), first.state()).ok());
  CHECK_FALSE(second.round_is_open());
  for (int i = 11; i < 60; ++i) {
    round(first, i), round(second, i);
    REQUIRE(first.state() == second.state());
  }
}

TEST_CASE("states and parameters out of range are refused whole") {
  Scaler scaler(2, 4096, 64);
  const ScalerState good = scaler.state();
  const auto refuse = [&](auto spoil) {
    Scaler other(2, 4096, 64);
    double params[talus::kScalerParamCount];
    std::copy(scaler.params(), scaler.params() + talus::kScalerParamCount, params);
    ScalerState state = good;
    spoil(params, state);
    CHECK(other.restore(params, state).code() == TALUS_E_RANGE);
    CHECK(other.state() == good);
    CHECK(other.params()[talus::kInitScale] == 64);
  };
  refuse([](double*, ScalerState& s) { s.scale = 1; });
  refuse([](double*, ScalerState& s) { s.scale = 8192; });
  refuse([](double*, ScalerState& s) { s.scale = NAN; });
  refuse([](double*, ScalerState& s) { s.growth = -1; });
  refuse([](double*, ScalerState& s) { s.hysteresis = -1; });
  refuse([](double*, ScalerState& s) { s.consecutive_skips = -1; });
  refuse([](double*, ScalerState& s) { s.total_skips = -1; });
  refuse([](double* p, ScalerState&) { p[talus::kBackoffFactor] = 1; });
  refuse([](double* p, ScalerState&) { p[talus::kInitScale] = NAN; });
  refuse([](double* p, ScalerState&) { p[talus::kMaxScale] = 1; });
}
