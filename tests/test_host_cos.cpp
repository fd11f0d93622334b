// Cosines against their series in integers of 192 bits, and a table for large arguments.
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <string>

#include "lib/base/cosine.h"
#include "tests/cases.h"
#include "tests/reference/exact_cos.hpp"

using namespace talus::test;
using talus::host_cos;

namespace {

constexpr double kPi = 0x1.921fb54442d18p+1;

struct Golden {
  double x, cosine;
};
// Each cosine is
//   python3 -c "import mpmath as m; m.mp.prec = 400; print(float(m.cos(m.mpf(X))).hex())"
// Those of the middle are the smallest at odd multiples of pi / 2, the first 20,000.
constexpr Golden kGolden[] = {
    {0x1.0000000000000p+30, 0x1.92cb46a920144p-1},
    {0x1.fffffffffffffp+29, 0x1.92cb4430fba6ap-1},
    {0x1.dcd6500000000p+29, 0x1.acff8c7364234p-1},
    {0x1.d6f3454800000p+26, 0x1.019b317c2d95ep-6},
    {0x1.8000000000000p+1, -0x1.fae04be85e5d2p-1},
    {0x1.0000000000000p+0, 0x1.14a280fb5068cp-1},
    {0x1.0000000000000p-1, 0x1.c1528065b7d50p-1},
    {0x1.12e0be826d695p-30, 0x1.0000000000000p+0},
    {0x0.0000000000001p-1022, 0x1.0000000000000p+0},
    {0x1.921fb54442d18p+1, -0x1.0000000000000p+0},
    {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54},
    {0x1.921fb54442d17p+0, 0x1.469898cc51702p-52},
    {0x1.921fb54442d19p+0, -0x1.72cece675d1fdp-53},
    {0x1.921fb54442d17p+1, -0x1.0000000000000p+0},
    {0x1.921fb54442d19p+1, -0x1.0000000000000p+0},
    {0x1.6c6cbc45dc8dep+5, -0x1.6d61b58c99c43p-61},
    {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54},
    {0x1.67e57cdd4dc54p+15, 0x1.396f53352c401p-53},
    {0x1.635e3d74befcap+14, -0x1.a15417e407485p-53},
    {0x1.2d97c7f3321d2p+2, -0x1.a79394c9e8a0ap-53},
    {0x1.9eb0b2ee64e81p+5, 0x1.19abb2567f739p-52},
    {0x1.3a28c59d5433bp+5, -0x1.1b19140c0c0d5p-52},
    {0x1.f6a7a2955385ep+2, 0x1.60fafbfd97309p-52},
    {0x1.5a4fbea3a16b6p+13, -0x1.875ae6b850864p-52},
    {0x1.fe691f24548fdp+12, -0x1.b5071d69e3becp-52},
    {0x1.4832c1016648ep+12, -0x1.e2b3541b76f75p-52},
    {0x1.5fdbbe9bba775p+3, -0x1.ee2c2d963a10cp-52},
    {0x1.e54e9bc9a7834p+10, 0x1.ec9f4a61476e4p-1},
    {0x1.4d474883171ffp+12, -0x1.8d2f6df84d6a6p-2},
    {0x1.a47e10624be40p+2, 0x1.eb0e7b5c34dd1p-1},
    {0x1.767727ca98cc2p+2, 0x1.d0ed83793346bp-1},
    {0x1.d1c4bb2079d3bp+1, -0x1.c2008665be71cp-1},
    {0x1.332a1858028d0p+2, 0x1.6420d73f03131p-4},
    {0x1.ac355208f105cp+12, -0x1.c5e49def45224p-1},
    {0x1.738f7d1a22dd8p+4, -0x1.54ecacf682361p-2},
    {0x1.e43bb74eb2520p+9, 0x1.4f997dcafb3c4p-1},
    {0x1.fb17c3e518208p+15, -0x1.b0eb74eb458a6p-1},
    {0x1.42e1666827ddap+7, -0x1.60d891136c789p-2},
    {0x1.e53a1b43f58c3p+18, -0x1.2bf181e50dbb8p-2},
    {0x1.2bcc15d963368p+18, -0x1.295a9a6e86207p-1},
    {0x1.f3d7b58e26346p+1, -0x1.71e7a05761061p-1},
    {0x1.1d032e76f125bp+1, -0x1.383d6c811978ap-1},
    {0x1.288f5635a6592p+3, -0x1.f9ae28a8d7531p-1},
    {0x1.14d4c7c789e87p+4, 0x1.7be3eb1531444p-6},
    {0x1.3be2a8c7b682ap+17, -0x1.1a20eea23ed19p-1},
    {0x1.5d2f750b91056p+26, -0x1.ffffa7a2ac585p-1},
    {0x1.29c77f248e9cdp+3, -0x1.fc5e4f1497f03p-1},
    {0x1.80c2865f55720p+18, 0x1.8d9206e0c8d65p-1},
    {0x1.1871f66d93390p+3, -0x1.9434302613e3cp-1},
    {0x1.20f4e183d0816p+2, -0x1.91bd89b79b512p-3},
    {0x1.a5cdae7f15050p+17, -0x1.4e412a1abc58ap-1},
    {0x1.103da2db5dac1p+21, 0x1.377a3a452b75bp-3},
    {0x1.41afcbbb98d78p+23, 0x1.ff445eac35e8ep-1},
    {0x1.d8cd4f1d00f90p+18, -0x1.2e3df0766d1dbp-5},
    {0x1.32f61e9fcc712p+10, -0x1.bd0ea42372c53p-1},
    {0x1.70298cb2f14c8p+23, 0x1.de4388f1dcc76p-1},
    {0x1.f3e8df14f4730p+22, -0x1.0b57b9e206a85p-2},
};

std::string mismatch(double x, double want) {
  const double got = host_cos(x);
  if (bits_of(got) == bits_of(want)) return "";
  char text[160];
  std::snprintf(text, sizeof text, "cos %a: got %a, want %a", x, got, want);
  return text;
}

void compare(double x, int64_t index) {
  const std::string text = mismatch(x, talus::reference::exact_cos(x));
  if (!text.empty()) FAIL("index " << index << ": " << text);
}

}  // namespace

TEST_CASE("cosines have the golden bits, and those of -x are the same") {
  for (const Golden& row : kGolden) {
    CHECK(mismatch(row.x, row.cosine) == "");
    CHECK(mismatch(-row.x, row.cosine) == "");
    if (row.x < 4) CHECK(bits_of(talus::reference::exact_cos(row.x)) == bits_of(row.cosine));
  }
}

TEST_CASE("cosines as schedules take them are the exact ones rounded once") {
  for (const int64_t length : {1, 2, 3, 7, 10, 100, 1000, 4096, 10000, 30001})
    for (int64_t t = 0; t <= length; ++t) compare(kPi * double(t) / double(length), t);
  for (int64_t i = 0; i < 50000; ++i) {
    const auto length = double(draw(1, 1, i) >> (11 + draw(1, 2, i) % 40)) + 1;
    const double t = std::floor(length * (double(draw(1, 3, i) >> 11) * 0x1p-53));
    compare(kPi * t / length, i);
    compare(kPi * (t / length), i);
  }
}

TEST_CASE("cosines of any number below 4 are the exact ones rounded once") {
  for (int64_t i = 0; i < 50000; ++i) compare(4 * (double(draw(2, 1, i) >> 11) * 0x1p-53), i);
  for (int i = 0; i < 1100; ++i) compare(std::ldexp(1.9, -i), i);
  for (double near : {kPi / 2, kPi, kPi / 4, 3 * kPi / 4, 1.0})
    for (int64_t i = 0; i < 1000; ++i, near = std::nextafter(near, 4)) compare(near, i);
}

TEST_CASE("cosines of 0, of pi and of what has none") {
  CHECK(host_cos(0) == 1);
  CHECK(host_cos(-0.0) == 1);
  CHECK(host_cos(kPi) == -1);
  CHECK(host_cos(kPi / 2) == 6.123233995736766e-17);
  for (double x : {0x1.00001p30, 1e300, double(INFINITY), double(NAN)}) {
    CHECK(std::isnan(host_cos(x)));
    CHECK(std::isnan(host_cos(-x)));
  }
}
