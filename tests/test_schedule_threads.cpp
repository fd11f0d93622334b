// Schedules around threads: optimizers that share one, and what the calling thread has set for its
// floating-point arithmetic.
#include <catch2/catch_test_macros.hpp>
#include <cfenv>
#include <thread>

#include "tests/float_control.h"
#include "tests/schedule.h"
#include "tests/schedule_draws.h"

using namespace talus::test;

namespace {

constexpr int kSteps = 50;

double inverse(void*, int64_t t) { return 1 / double(t + 1); }

// Bits of everything that a schedule gives: by itself, attached, after reports, and in a step.
std::vector<uint64_t> bits_of_all() {
  std::vector<uint64_t> bits;
  for (const std::string& kind : closed_kinds()) {
    Draws d(7);
    for (int i = 0; i < 40; ++i) {
      const ScheduleSpec spec = draw_simple(d, kind);
      const Schedule schedule(spec);
      const Optimizer optimizer("sgd", {{"lr", 0.3}});
      attach(optimizer.get(), "lr", schedule, TALUS_CLOCK_MANUAL);
      for (const int64_t t : {0, 1, 2, 3, 7, 50, 1999}) {
        double alone = -1, attached = -1;  // -1: refused
        (void)talus_schedule_value(schedule, 0.3, t, &alone);
        must(talus_set_clock(optimizer.get(), t));
        (void)talus_value_now(optimizer.get(), 0, "lr", &attached);
        bits.push_back(bits_of(alone));
        bits.push_back(bits_of(attached));
      }
    }
  }
  return bits;
}

// As above, of a plateau whose numbers lie around the least normal one.
std::vector<uint64_t> bits_of_plateau() {
  std::vector<uint64_t> bits;
  for (const double base : {0.3, 0x1.8p-1022}) {
    const Optimizer optimizer("sgd", {{"lr", base}});
    attach(optimizer.get(), "lr",
           Schedule("plateau", {{"patience", 0}, {"factor", 0.3}, {"eps", 0}, {"threshold", 0.1}}));
    for (const double metric : {1.0, 0.9, 0.95, 0.85, 0x1p-1030, 0x1p-1031, 0.0, 1.0}) {
      must(talus_observe(optimizer.get(), metric));
      bits.push_back(bits_of(value_now(optimizer.get(), "lr")));
    }
  }
  return bits;
}

// Steps of p - lr * g alone, so that all of lr shows; one of them is a subnormal number.
std::vector<uint64_t> bits_of_steps() {
  std::vector<uint64_t> bits;
  for (const ScheduleSpec& spec :
       {ScheduleSpec{"cosine_restarts", {{"T_0", 7}, {"T_mult", 2}, {"eta_min", 1e-5}}},
        ScheduleSpec{"exponential", {{"gamma", 0.97}}},
        ScheduleSpec{"exponential", {{"gamma", 0x1.5p-515}}}}) {
    Optimizer optimizer("sgd", {{"lr", 0.3}});
    TestTensor x(kF64, 1);
    optimizer.add(x);
    attach(optimizer.get(), "lr", Schedule(spec));
    for (int t = 0; t < 7; ++t) {
      x.set_all(0, t == 2 ? 0x1p1000 : 1);
      optimizer.step();
      bits.push_back(x.param.bits(0));
    }
  }
  return bits;
}

struct Everything {
  std::vector<uint64_t> values = bits_of_all(), plateau = bits_of_plateau(),
                        steps = bits_of_steps();
  bool operator==(const Everything&) const = default;
};

// What an optimizer has become with shared schedules; statuses are the caller's to check.
struct Trained {
  Optimizer optimizer{"adamw"};
  TestTensor x = TestTensor(kF32, 5000).fill(1);
  talus_status status = TALUS_OK;

  void train(talus_schedule* cosine, talus_schedule* lambda) {
    optimizer.add(x);
    attach(optimizer.get(), "lr", cosine);
    attach(optimizer.get(), "beta1", lambda);
    for (int t = 0; t < kSteps && status == TALUS_OK; ++t) {
      x.fill_grad(1, t + 1);
      status = talus_step(optimizer.get(), nullptr);
      double value = 0;
      if (status == TALUS_OK) status = talus_value_now(optimizer.get(), 0, "lr", &value);
      if (t % 10 != 9) continue;  // come and go
      attach(optimizer.get(), "lr", nullptr);
      attach(optimizer.get(), "lr", cosine);
    }
  }
};

}  // namespace

TEST_CASE("schedules: two threads step optimizers that share a cosine and a lambda") {
  const Schedule cosine("cosine", {{"T_max", kSteps}});
  Schedule lambda("lambda");
  lambda.function(inverse);
  Trained alone, first, second;
  alone.train(cosine, lambda);
  std::thread one([&] { first.train(cosine, lambda); });
  std::thread two([&] { second.train(cosine, lambda); });
  one.join();
  two.join();
  for (const Trained* each : {&alone, &first, &second}) CHECK(each->status == TALUS_OK);
  CHECK(difference(alone.optimizer, alone.x, first.optimizer, first.x) == "");
  CHECK(difference(alone.optimizer, alone.x, second.optimizer, second.x) == "");
}

TEST_CASE("schedules: the caller's rounding mode changes no value, and stays") {
  const Everything usual;
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    CAPTURE(mode);
    REQUIRE(std::fesetround(mode) == 0);
    const Everything got;
    const int after = std::fegetround();
    std::fesetround(FE_TONEAREST);
    CHECK(after == mode);
    CHECK((got.values == usual.values));
    CHECK((got.plateau == usual.plateau));
    CHECK((got.steps == usual.steps));
  }
}

TEST_CASE(
    "schedules: flush-to-zero and denormals-are-zero of the caller change no value, and stay") {
  const uint64_t control = float_control();
  const Everything usual;
  for (const uint64_t ways : kFlushWays) {
    CAPTURE(ways);
    set_float_control(control | ways);
    const Everything got;
    const uint64_t after = float_control();
    set_float_control(control);
    CHECK((after & kFlush) == ways);
    CHECK((got.values == usual.values));
    CHECK((got.plateau == usual.plateau));
    CHECK((got.steps == usual.steps));
  }
}
