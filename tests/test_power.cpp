// Powers and bias corrections of the host to the last bit, against exact integers and a table.
#include <catch2/catch_test_macros.hpp>

#include "lib/base/power.h"
#include "tests/compare.h"
#include "tests/reference/exact_power.hpp"

using namespace talus::test;

namespace {

struct Golden {
  double beta;
  int64_t t;
  double correction;
};
// The first four differ from the shorter (1 - high) - low. Each value is
//   python3 -c "import decimal as d; d.getcontext().prec = 120
//   print(float(1 - d.Decimal(BETA) ** T).hex())"
constexpr Golden kGolden[] = {
    {.9, 9, 0x1.39a4058be3ac1p-1},
    {.9, 14, 0x1.8adeee3b5f0adp-1},
    {.95, 16, 0x1.1ea7b7a016237p-1},
    {.98, 35, 0x1.038bb92bea5dfp-1},
    {.9, 1, 0x1.9999999999998p-4},
    {.9, 2, 0x1.851eb851eb850p-3},
    {.999, 1, 0x1.0624dd2f1aa00p-10},
    {.999, 2, 0x1.06034f3fd9342p-9},
    {.999, 1000, 0x1.43bd6cdf70947p-1},
    {.99, 69, 0x1.00155c5e819f0p-1},
    {.9999, 6932, 0x1.0005bba2d30dap-1},
    {.9, 12345, 0x1.0000000000000p+0},
    {.999, 12345, 0x1.ffff6ee370236p-1},
    {.99999, 12345, 0x1.dbb01269064b6p-4},
    {.9999, 100000, 0x1.fffa0d6487406p-1},
    {.99999, 1000000, 0x1.fffa0cb51254bp-1},
    {1 - 0x1p-30, 1000000000, 0x1.36416862de16cp-1},
    {1 - 0x1p-53, 2147483648, 0x1.fffffc0000056p-23},
    {1 - 0x1p-53, 9007199254740992, 0x1.43a54e4e98864p-1},
    {1 - 0x1p-53, 1000000000000000000, 0x1.0000000000000p+0},
    {.5, 1, 0x1.0000000000000p-1},
    {.5, 52, 0x1.ffffffffffffep-1},
    {.5, 53, 0x1.fffffffffffffp-1},
    {.5, 54, 0x1.0000000000000p+0},
    {0x1p-60, 1, 0x1.0000000000000p+0},
};

constexpr double kBetas[] = {0x1p-60, 1e-3,  .1,    .25,    .3,          .5,         .6,
                             .7,      .8,    .9,    .95,    .98,         .99,        .995,
                             .999,    .9995, .9999, .99999, 1 - 0x1p-30, 1 - 0x1p-50};

std::string mismatch(double beta, int64_t t, double got, double want) {
  char text[160];
  std::snprintf(text, sizeof text, "beta %a, t %lld: got %a, want %a", beta, (long long)t, got,
                want);
  return text;
}

// Calls check(t, beta^t as integer, shift) for t = 1 .. last: the power is integer * 2^-shift.
template <class Check>
void for_each_power(double beta, int64_t last, Check check) {
  using namespace talus::reference;
  int exponent;
  const uint64_t integer = uint64_t(std::ldexp(std::frexp(beta, &exponent), 53));
  const Natural factor = {uint32_t(integer), uint32_t(integer >> 32)};
  Natural power = {1};
  for (int64_t t = 1; t <= last; ++t) {
    power = product(power, factor);
    check(t, power, (53 - exponent) * t);
  }
}

std::string correction_mismatch(double beta, int64_t last) {
  std::string text;
  for_each_power(beta, last, [&](int64_t t, const talus::reference::Natural& power, int64_t shift) {
    const double want =
        talus::reference::scaled_nearest(talus::reference::power_of_two_minus(shift, power), shift);
    const double got = talus::bias_correction(beta, t);
    if (text.empty() && bits_of(got) != bits_of(want)) text = mismatch(beta, t, got, want);
  });
  return text;
}

}  // namespace

TEST_CASE("bias corrections have the golden bits") {
  for (const Golden& row : kGolden) {
    const double got = talus::bias_correction(row.beta, row.t);
    if (bits_of(got) != bits_of(row.correction))
      FAIL_CHECK(mismatch(row.beta, row.t, got, row.correction));
  }
}

TEST_CASE("bias corrections equal exact integer arithmetic for every t up to 1000") {
  for (double beta : kBetas) CHECK(correction_mismatch(beta, 1000) == "");
}

TEST_CASE("bias corrections equal exact integer arithmetic for odd betas") {
  uint64_t r = 2026;
  for (int i = 0; i < 200; ++i) {
    r = r * 6364136223846793005 + 1442695040888963407;
    const double beta = double(r >> 11) * 0x1p-53;
    CHECK(correction_mismatch(beta, 60) == "");
  }
}

TEST_CASE("the high part of a power is the power rounded once") {
  for (double beta : kBetas)
    for_each_power(beta, 300,
                   [&](int64_t t, const talus::reference::Natural& power, int64_t shift) {
                     const double want = talus::reference::scaled_nearest(power, shift);
                     if (want < 0x1p-900)
                       return;  // the low part needs another 100 bits above the subnormals
                     const double got = talus::power(beta, t).high;
                     if (bits_of(got) != bits_of(want)) FAIL_CHECK(mismatch(beta, t, got, want));
                   });
}

// 1 - (1 - 2^-53)^4 lies 2^-53 of an ulp beside a tie: 160 bits, more than a double-double has.
TEST_CASE("next to beta 1 a bias correction is at most one ulp off") {
  for (double beta : {1 - 0x1p-52, 1 - 0x1p-53})
    for_each_power(beta, 400,
                   [&](int64_t t, const talus::reference::Natural& power, int64_t shift) {
                     const double want = talus::reference::scaled_nearest(
                         talus::reference::power_of_two_minus(shift, power), shift);
                     const double got = talus::bias_correction(beta, t);
                     const int64_t ulps = int64_t(bits_of(got) - bits_of(want));
                     if (ulps < -1 || ulps > 1) FAIL_CHECK(mismatch(beta, t, got, want));
                   });
}

// [jax-ml/jax#2517]: beta1 = 0 given as an integer gave NaN.
TEST_CASE("beta 0 corrects nothing, step 0 everything, and the last step is finite") {
  for (int64_t t : {int64_t{1}, int64_t{2}, int64_t{1} << 62})
    CHECK(talus::bias_correction(0, t) == 1);
  for (double beta : kBetas) {
    CHECK(talus::bias_correction(beta, 0) == 0);
    CHECK(talus::power(beta, 0).high == 1);
    CHECK(talus::power(beta, 1).high == beta);
    CHECK(talus::bias_correction(beta, int64_t{1} << 62) == 1);
  }
}
