// Powers with any exponent: logarithm and exponential in double-double, rounded once. Loops of few
// lines instead of tables: a step takes a power or two, and each costs about a microsecond.
#include <limits>

#include "lib/base/power.h"

namespace talus {
namespace {

constexpr DoubleDouble kLn2{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};

// ln x = k ln 2 + 2 artanh((m - 1) / (m + 1)) for x = m 2^k, m within a factor of sqrt 2 around 1:
// next to x = 1, too, the error is one part in 2^100 of the logarithm.
DoubleDouble logarithm(double x) {
  int exponent;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752) m *= 2, --exponent;
  const DoubleDouble s = divide({m - 1, 0}, exact_sum(m, 1)), square = multiply(s, s);
  DoubleDouble series{0, 0};
  for (int n = 43; n >= 1; n -= 2)  // s^44 / 45 < 2^-117
    series = add(divide({1, 0}, n), multiply(square, series));
  const DoubleDouble half = multiply(s, series);
  return add(multiply({double(exponent), 0}, kLn2), {2 * half.high, 2 * half.low});
}

// x 2^exponent, 1 <= x.high < 2.
struct Scaled {
  DoubleDouble x;
  int exponent;
};

Scaled exponential(DoubleDouble x) {
  int n = int(x.high / kLn2.high + (x.high < 0 ? -0.5 : 0.5));
  const DoubleDouble r = add(x, multiply({-double(n), 0}, kLn2));
  DoubleDouble series{1, 0};
  for (int k = 26; k >= 1; --k)  // (ln 2 / 2)^27 / 27! < 2^-134
    series = add({1, 0}, divide(multiply(r, series), k));
  if (series.high < 1) series = {2 * series.high, 2 * series.low}, --n;
  return {series, n};
}

// Powers such as 262143^3 lie on the middle between two doubles: what is nearer to it than our
// error is taken for it, so that the tie goes to the even one.
double without_noise(double low) {
  constexpr double kMagic = 0.375;  // its ulp is 2^-54, which counts quarters of an ulp of [1, 2)
  const double grid = (low + kMagic) - kMagic;
  return std::abs(low - grid) < 0x1p-92 ? grid : low;
}

double rounded(Scaled power) {
  const DoubleDouble x{power.x.high, without_noise(power.x.low)};
  const int exponent = power.exponent;
  if (exponent >= -1022) return std::ldexp(x.high + x.low, exponent);
  if (exponent < -1076) return 0;
  const double unit_is_ulp = std::ldexp(1, -1022 - exponent);  // adding it cuts at 2^-1074
  const DoubleDouble cut = exact_sum(unit_is_ulp, x.high);
  return std::ldexp((cut.high + (cut.low + x.low)) - unit_is_ulp, exponent);
}

}  // namespace

double host_pow(double base, double exponent) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (exponent == 0 || base == 1) return 1;
  if (!(base >= 0)) return std::numeric_limits<double>::quiet_NaN();
  if (base == 0 || base == kInfinite) return (base == 0) == (exponent > 0) ? 0 : kInfinite;
  const DoubleDouble log = logarithm(base);
  const double estimate = exponent * log.high;
  if (estimate > 1000) return kInfinite;
  if (estimate < -1000) return 0;
  return rounded(exponential(multiply({exponent, 0}, log)));
}

}  // namespace talus
