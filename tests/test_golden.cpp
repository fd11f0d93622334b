// The library reproduces every worked value of the optimizer sheet exactly.
#include <catch2/catch_test_macros.hpp>

#include "tests/golden.h"
#include "tests/optimizer.h"

using namespace talus::test;

namespace {

// "" or the first element of a pair that is not exactly the wanted one.
std::string pair_difference(const std::string& what, const View& got, const Pair& want) {
  return difference_from(what, got, [&](int64_t i) { return bits_of(want[size_t(i)]); });
}

}  // namespace

TEST_CASE("worked values of the optimizer sheet come out to the last bit") {
  for (const Golden& golden : golden_values()) {
    INFO(golden.set.algorithm << ", " << golden.set.name);
    TestTensor x({TALUS_F64, TALUS_F64, TALUS_MASTER_AUTO}, 2);
    for (int64_t i = 0; i < 2; ++i) x.param.set(i, kGoldenStart[size_t(i)]);
    Optimizer optimizer(golden.set.algorithm, golden.set.values);
    optimizer.add(x);
    for (int step = 0; step < 3; ++step) {
      INFO("step " << step + 1);
      for (int64_t i = 0; i < 2; ++i) x.grad.set(i, kGoldenGradients[step][size_t(i)]);
      optimizer.step();
      CHECK(pair_difference("p", x.param, golden.p[step]) == "");
    }
    CHECK(optimizer.steps(x) == 3);
    CHECK(optimizer.states(x).size() == golden.states.size());
    for (const auto& [slot, want] : golden.states) {
      const View state = optimizer.state(x, slot);
      REQUIRE(state.count == 2);
      CHECK(state.format->dtype == TALUS_F64);
      CHECK(pair_difference(slot, state, want) == "");
    }
  }
}
