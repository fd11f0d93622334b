// The scaler and the clips against a real PyTorch's GradScaler, clip_grad_norm_ and clip_grad_value_.
#include <catch2/catch_test_macros.hpp>

#include "tests/amp/rounds.h"
#include "tests/golden_tables.h"

using namespace talus::test;

namespace {

// PyTorch sums f32 norms in f32, and in its own order.
double tolerance_of(const Mix& mix) { return mix.param == TALUS_F64 ? 1e-14 : 1e-6; }

// Parameters at 0 that a step with lr 1 moves by the gradients as it saw them.
struct Clipped {
  const Mix mix;
  std::deque<TestTensor> tensors;
  Optimizer optimizer{"sgd", {{"lr", 1}}};

  explicit Clipped(const GoldenRow& row) : mix(row.text("dtype") == "64" ? kF64 : kF32) {
    const std::vector<double> gradients = row.numbers("gradients");
    size_t next = 0;
    for (double size : row.numbers("sizes")) {
      TestTensor& x = tensors.emplace_back(mix, int64_t(size));
      for (int64_t i = 0; i < x.extent; ++i) x.param.set(i, 0), x.grad.set(i, gradients[next++]);
    }
    optimizer.add_all(tensors);
  }
  std::vector<double> seen() {
    optimizer.step();
    std::vector<double> gradients;
    for (const TestTensor& x : tensors)
      for (int64_t i = 0; i < x.extent; ++i) gradients.push_back(-x.param.get(i));
    return gradients;
  }
};

void check_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("element " << i << ": got " << got[i] << ", want " << want[i]);
    REQUIRE(std::abs(got[i] - want[i]) <= tolerance * std::abs(want[i]));
  }
}

std::string name_of(const GoldenRow& row) {
  return "f" + row.text("dtype") + ", sizes " + std::to_string(row.numbers("sizes").size()) +
         " from " + std::to_string(row.numbers("sizes")[0]);
}

}  // namespace

TEST_CASE("rounds move the scale and the tracker as GradScaler's, bit for bit") {
  for (const GoldenRow& row : golden_table("amp_torch", "scaler")) {
    Scaler scaler({{"min_scale", 0x1p-126}, {"max_scale", 0x1p126}});
    for (const auto& [name, value] : row.values("settings")) scaler.set(name, value);
    Finder finder(scaler);
    const std::string& rounds = row.text("rounds");
    const std::vector<double> scales = row.numbers("scales"), trackers = row.numbers("trackers");
    REQUIRE((rounds.size() == scales.size() && rounds.size() == trackers.size()));
    for (size_t i = 0; i < rounds.size(); ++i) {
      INFO(rounds.substr(0, i + 1) << ", growth_factor " << scaler.get("growth_factor"));
      REQUIRE(play_round(scaler, finder, rounds[i] == 'X') == scales[i]);
      REQUIRE(scaler.get("growth_tracker") == trackers[i]);
    }
  }
}

TEST_CASE("rounds have the golden scales and trackers, hysteresis and bounds included") {
  for (const GoldenRow& row : golden_table("amp", "scaler")) {
    Scaler scaler(row.values("settings"));
    Finder finder(scaler);
    const std::string& rounds = row.text("rounds");
    const std::vector<double> scales = row.numbers("scales");
    REQUIRE(rounds.size() == scales.size());
    for (size_t i = 0; i < rounds.size(); ++i) {
      INFO(rounds.substr(0, i + 1));
      CHECK(float(play_round(scaler, finder, rounds[i] == 'X')) == float(scales[i]));
    }
    INFO(rounds);
    CHECK(scaler.get("growth_tracker") == row.number("growth"));
    CHECK(scaler.get("hysteresis_tracker") == row.number("hysteresis"));
    CHECK(scaler.get("consecutive_skips") == row.number("consecutive"));
    CHECK(scaler.get("total_skips") == double(std::count(rounds.begin(), rounds.end(), 'X')));
  }
}

TEST_CASE("the norm clip is clip_grad_norm_, as a setting and by call") {
  for (const GoldenRow& row : golden_table("amp_torch", "clip_norm"))
    for (bool by_call : {false, true}) {
      Clipped c(row);
      INFO(name_of(row) << ", type " << row.text("type") << ", max_norm " << row.number("max_norm")
                        << ", by call " << by_call);
      double norm = 0;
      if (by_call) {
        talus_optimizer* const opt = c.optimizer.get();
        must(talus_clip_grad_norm(&opt, 1, TALUS_ALL, row.number("max_norm"), row.number("type"),
                                  &norm, nullptr));
      } else {
        c.optimizer.setting("max_grad_norm", row.number("max_norm"));
        c.optimizer.setting("grad_norm_type", row.number("type"));
      }
      const std::vector<double> seen = c.seen();
      if (!by_call) norm = stats_of(c.optimizer).grad_norm;
      check_near({norm}, {row.number("norm")}, tolerance_of(c.mix));
      check_near(seen, row.numbers("clipped"), tolerance_of(c.mix));
    }
}

TEST_CASE("the value clip is clip_grad_value_, bit for bit") {
  for (const GoldenRow& row : golden_table("amp_torch", "clip_value")) {
    Clipped c(row);
    c.optimizer.setting("max_grad_value", row.number("max_value"));
    INFO(name_of(row) << ", max_value " << row.number("max_value"));
    check_near(c.seen(), row.numbers("clipped"), 0);
  }
}
