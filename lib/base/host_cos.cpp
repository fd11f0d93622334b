// Cosines: x less a multiple of pi / 2, then a series in double-double, rounded once.
#include <cmath>
#include <cstdint>
#include <limits>

#include "lib/base/cosine.h"
#include "lib/base/double_double.h"

namespace talus {
namespace {

constexpr double kLargest = 0x1p30;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
// pi / 2 as a sum; what follows is below 2^-216.
constexpr double kHalfPi[] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110,
                              0x1.4cf98e804177dp-164};

// 1 - r^2 / (a (a + 1)) (1 - r^2 / ((a + 2) (a + 3)) ...), |r| at most pi / 4 and a bit: r^30 / 30! is
// below 2^-117.
DoubleDouble series(DoubleDouble r, int first) {
  const DoubleDouble square = multiply(r, r), minus{-square.high, -square.low};
  DoubleDouble sum{1, 0};
  for (int a = first + 28; a >= first; a -= 2)
    sum = add({1, 0}, divide(multiply(minus, sum), a * (a + 1)));
  return sum;
}

DoubleDouble less_multiple(double x, int64_t n) {
  DoubleDouble r{x, 0};
  for (const double part : kHalfPi) {
    const DoubleDouble product = exact_product(double(n), part);
    r = add(r, {-product.high, -product.low});
  }
  return r;
}

}  // namespace

double host_cos(double x) {
  const double size = std::abs(x);
  if (!(size <= kLargest)) return std::numeric_limits<double>::quiet_NaN();
  const auto n = int64_t(size * kTwoOverPi + 0.5);
  const DoubleDouble r = less_multiple(size, n);
  const DoubleDouble whole = n % 2 == 0 ? series(r, 1) : multiply(r, series(r, 2));
  const bool negative = n % 4 == 1 || n % 4 == 2;
  return negative ? -whole.high : whole.high;
}

}  // namespace talus
