// Powers with any exponent against integers of 192 bits, a table, and cases that are exact.
#include <catch2/catch_test_macros.hpp>

#include "lib/base/power.h"
#include "tests/cases.h"
#include "tests/reference/exact_pow.hpp"

using namespace talus::test;
using talus::host_pow;

namespace {

struct Golden {
  double base, exponent, power;
};
// Each power is
//   python3 -c "import mpmath as m; m.mp.prec = 200
//   print(float(m.mpf(BASE) ** m.mpf(EXPONENT)).hex())"
constexpr Golden kGolden[] = {
    {.96, .004, 0x1.ffea9969757dbp-1},
    {.96, .008, 0x1.ffd533b7e9e2ep-1},
    {.96, 40.0, 0x1.901c20fd67615p-3},
    {.96, 4000.25, 0x1.54442ab0aa654p-236},
    {.96, .3, 0x1.f9c49a573df18p-1},
    {1.000001, .75, 0x1.00000c95399e2p+0},
    {1.01, .75, 0x1.01eae87c3c733p+0},
    {1.2, .5, 0x1.186f174f88472p+0},
    {1001, .75, 0x1.63ec2ee59d85ap+7},
    {2, -.8, 0x1.2611186bae674p-1},
    {3, -.8, 0x1.a935a16704c72p-2},
    {1e6, -.8, 0x1.09e6a4f05e626p-16},
    {2.5e-3, 1.5, 0x1.0624dd2f1a9fcp-13},
    {1e300, 1.02, 0x1.6c8e5ca239078p+1016},
    {1e-300, .99, 0x1.4ed8b04671dc9p-987},
    {0x1.fffffffffffffp-1, 0x1.8p+60, 0x1.0074096a5a31cp-277},
    {0x1.0000000000001p+0, -0x1.8p+60, 0x1.00e8476d3d2fep-554},
    {0x1p-1074, .5, 0x1.0000000000000p-537},
    {0x1.fffffffffffffp+1023, .999, 0x1.f78d9576fb57dp+1022},
};

struct Case {
  double base, exponent;
};

double unit(uint64_t seed, uint64_t stream, int64_t i) {
  return double(draw(seed, stream, i) >> 11) * 0x1p-53;
}

// What rules ask for: 0.96^(t psi), (1 + lambd lr (t - 1))^alpha, t^decay, lr^power.
Case rule_case(uint64_t seed, int64_t i) {
  const double a = unit(seed, 1, i), b = unit(seed, 2, i);
  const auto t = double(draw(seed, 3, i) % 10000000 + 1);
  switch (i % 4) {
    case 0: return {.96, (i % 8 == 0 ? .004 : a) * (i % 3 == 0 ? t : double(i % 1000))};
    case 1: return {1 + a * (.01 * b) * t, i % 8 == 1 ? .75 : 2 * unit(seed, 4, i)};
    case 2: return {t, i % 8 == 2 ? -.8 : 4 * a - 2};
    default: return {a, i % 8 == 3 ? 2 : 4 * b};
  }
}

// Any positive double, to an exponent whose power just fits in, or just does not. One in three next
// to 1, one in three to the largest subnormals, where a bit or two is cut.
Case any_case(uint64_t seed, int64_t i) {
  const double mantissa = 1 + unit(seed, 1, i), r = unit(seed, 4, i);
  const double base = std::ldexp(mantissa, int(draw(seed, 2, i) % 2098) - 1074);
  const int small = -1 - int(draw(seed, 3, i) % 52);
  if (i % 3 == 0)
    return {1 + std::ldexp(mantissa, small), (1600 * r - 800) / std::ldexp(mantissa, small)};
  return {base, (i % 3 == 1 ? -708 - 3 * r : 1600 * r - 800) / (std::log(base) + 1e-3)};
}

std::string mismatch(const Case& c, double want) {
  const double got = host_pow(c.base, c.exponent);
  if (bits_of(got) == bits_of(want)) return "";
  char text[160];
  std::snprintf(text, sizeof text, "%a ^ %a: got %a, want %a", c.base, c.exponent, got, want);
  return text;
}

std::string mismatch(const Case& c) {
  return mismatch(c, talus::reference::exact_pow(c.base, c.exponent));
}

}  // namespace

TEST_CASE("powers have the golden bits") {
  for (const Golden& row : kGolden) {
    CHECK(mismatch({row.base, row.exponent}, row.power) == "");
    CHECK(bits_of(talus::reference::exact_pow(row.base, row.exponent)) == bits_of(row.power));
  }
}

TEST_CASE("200,000 powers as rules take them are the exact ones rounded once") {
  for (int64_t i = 0; i < 200000; ++i) {
    const std::string text = mismatch(rule_case(1, i));
    if (!text.empty()) FAIL("seed 1, index " << i << ": " << text);
  }
}

TEST_CASE(
    "powers of any base and exponent are the exact ones, subnormal, 0 and infinite ones too") {
  int64_t subnormal = 0, zero = 0, infinite = 0;
  for (int64_t i = 0; i < 60000; ++i) {
    const Case c = any_case(2, i);
    const std::string text = mismatch(c);
    if (!text.empty()) FAIL("seed 2, index " << i << ": " << text);
    const double power = host_pow(c.base, c.exponent);
    subnormal += power > 0 && power < 0x1p-1022;
    zero += power == 0;
    infinite += std::isinf(power);
  }
  CHECK(subnormal > 10000);
  CHECK(zero > 500);
  CHECK(infinite > 500);
}

TEST_CASE("powers halfway between two doubles go to the even one") {
  for (uint64_t n = 208065; n < 262144; n += 2)  // n^3 has 54 bits, the last one set
    if (const std::string text = mismatch({double(n), 3}, double(n * n * n)); !text.empty())
      FAIL(text);
  CHECK(mismatch({2, -1075}, 0) == "");
  CHECK(mismatch({3 * 0x1p-1074, 1}, 3 * 0x1p-1074) == "");
}

TEST_CASE("what is exact comes out exact: x^0, 1^x, x^1, squares, roots, powers of two") {
  for (int64_t i = 0; i < 2000; ++i) {
    const Case c = any_case(3, i);
    CHECK(mismatch({c.base, 0}, 1) == "");
    CHECK(mismatch({1, c.exponent}, 1) == "");
    CHECK(mismatch({c.base, 1}, c.base) == "");
    const auto n = double(draw(3, 5, i) % 94906266);
    CHECK(mismatch({n, 2}, n * n) == "");
    CHECK(mismatch({n * n, .5}, n) == "");
  }
  for (int n = -1074; n < 1024; ++n) {
    CHECK(mismatch({2, double(n)}, std::ldexp(1, n)) == "");
    CHECK(mismatch({.5, double(-n)}, std::ldexp(1, n)) == "");
  }
}

TEST_CASE("powers of 0, of infinity and of what has none") {
  CHECK(host_pow(0, 2) == 0);
  CHECK(host_pow(0, .5) == 0);
  CHECK(host_pow(0, 0) == 1);
  CHECK(std::isinf(host_pow(0, -.5)));
  CHECK(std::isinf(host_pow(INFINITY, .5)));
  CHECK(host_pow(INFINITY, -.5) == 0);
  CHECK(std::isnan(host_pow(-1, .5)));
  CHECK(std::isnan(host_pow(NAN, .5)));
  for (double tiny : {5e-324, -5e-324, 1e-300}) CHECK(host_pow(.5, tiny) == 1);
  for (double huge : {1e4, 1e300, 1.7e308}) {
    CHECK(std::isinf(host_pow(2, huge)));
    CHECK(host_pow(2, -huge) == 0);
    CHECK(host_pow(.5, huge) == 0);
    CHECK(std::isinf(host_pow(.5, -huge)));
  }
}
