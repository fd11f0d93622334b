// The host shim itself, on small kernels.
#include "tests/cuda/emu/shim/host_shim.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>

using Catch::Matchers::ContainsSubstring;

namespace {

void reverse_kernel(const float* in, float* out) {
  TALUS_SHARED_ARRAY(float, x, 64);
  x[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = x[blockDim.x - 1 - threadIdx.x];
}

struct Seed {
  explicit Seed(uint64_t seed) { host_shim::scheduler.seed = seed; }
  ~Seed() { host_shim::scheduler.seed = 0; }
};

}  // namespace

TEST_CASE(
    "shim: a barrier lets every thread see what all wrote, in any order of warps and blocks") {
  for (const uint64_t seed : {0, 1, 2, 3}) {
    const Seed drawn(seed);
    float in[64], out[3 * 64] = {};
    for (int i = 0; i < 64; ++i) in[i] = float(i);
    host_shim::launch(3, 64, reverse_kernel, &in[0], &out[0]);
    for (int i = 0; i < 3 * 64; ++i) REQUIRE(out[i] == float(63 - i % 64));
  }
}

TEST_CASE("shim: without the barrier some thread reads NaN, in every block") {
  const auto kernel = [](float* out) {
    TALUS_SHARED_ARRAY(float, x, 64);
    x[threadIdx.x] = 1;
    if (x[63 - threadIdx.x] != 1) out[blockIdx.x] = x[63 - threadIdx.x];
  };
  float out[2] = {};
  host_shim::launch(2, 64, kernel, &out[0]);
  CHECK(std::isnan(out[0]));
  CHECK(std::isnan(out[1]));
}

TEST_CASE("shim: shuffles give the value of the lane they name") {
  const auto kernel = [](double* down, uint32_t* butterfly, int* first) {
    const unsigned lane = threadIdx.x % 32;
    down[threadIdx.x] = __shfl_down_sync(0xffffffff, double(threadIdx.x), 8);
    butterfly[threadIdx.x] = __shfl_xor_sync(0xffffffff, lane, 5);
    first[threadIdx.x] = __shfl_sync(0xffffffff, int(threadIdx.x), 0);
  };
  double down[64];
  uint32_t butterfly[64];
  int first[64];
  host_shim::launch(1, 64, kernel, &down[0], &butterfly[0], &first[0]);
  for (unsigned i = 0; i < 64; ++i) {
    CHECK(down[i] == double(i % 32 + 8 < 32 ? i + 8 : i));
    CHECK(butterfly[i] == (i % 32 ^ 5));
    CHECK(first[i] == int(i / 32 * 32));
  }
}

TEST_CASE("shim: a lane that stays away from a barrier or shuffle is a fault, not a hang") {
  const auto barrier = [] {
    if (threadIdx.x != 3) __syncthreads();
  };
  const auto shuffle = [] {
    if (threadIdx.x != 3) (void)__shfl_down_sync(0xffffffff, 1, 1);
  };
  const auto missing = [] { __syncwarp(); };
  CHECK_THROWS_WITH(host_shim::launch(1, 64, barrier), ContainsSubstring("divergent"));
  CHECK_THROWS_WITH(host_shim::launch(1, 64, shuffle), ContainsSubstring("divergent"));
  CHECK_THROWS_WITH(host_shim::launch(1, 16, missing), ContainsSubstring("does not have"));
  CHECK_NOTHROW(host_shim::launch(1, 64, [] { __syncthreads(); }));
}

TEST_CASE("shim: blocks run in a drawn order where a seed is given, each once") {
  int turn = 0, order[64] = {};
  const auto kernel = [&] { order[blockIdx.x] = turn++; };
  host_shim::launch(64, 1, kernel);
  for (int i = 0; i < 64; ++i) REQUIRE(order[i] == i);
  const Seed drawn(7);
  turn = 0;
  host_shim::launch(64, 1, kernel);
  int sum = 0, moved = 0;
  for (int i = 0; i < 64; ++i) sum += order[i], moved += order[i] != i;
  CHECK(sum == 63 * 32);
  CHECK(moved > 32);
}
