// A real number, and how far a calculation in doubles may be away from it that takes the same steps and
// rounds each one to nearest: an expression of these bounds the double expression of the same text.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

namespace talus::reference {

struct Rounded {
  long double x = 0;
  long double error = 0;  // |double result - x| is no more

  Rounded() = default;
  Rounded(double exact) : x(exact) {}
  Rounded(long double value, long double bound) : x(value), error(bound) {}
};

// One more rounding; half an ulp is at most 2^-53 of x, or half the least subnormal number.
inline Rounded once_rounded(long double x, long double error) {
  constexpr long double kMost = std::numeric_limits<double>::max();
  const long double size = std::abs(x);
  if (size > kMost) x = std::copysign(std::numeric_limits<long double>::infinity(), x);
  return {x, error + (size + error) * 0x1p-53L + 0x1p-1075L};
}

inline Rounded operator+(Rounded a, Rounded b) {
  return once_rounded(a.x + b.x, a.error + b.error);
}
inline Rounded operator-(Rounded a, Rounded b) { return a + Rounded(-b.x, b.error); }
inline Rounded operator*(Rounded a, Rounded b) {
  const long double error = a.error * std::abs(b.x) + b.error * std::abs(a.x) + a.error * b.error;
  return once_rounded(a.x * b.x, error);
}
inline Rounded operator/(Rounded a, Rounded b) {
  const long double quotient = a.x / b.x;
  const long double error = (a.error + std::abs(quotient) * b.error) / (std::abs(b.x) - b.error);
  return once_rounded(quotient, error);
}

// Of a monotone function: the farthest that the ends of [x - error, x + error] are taken.
template <class F>
long double spread(Rounded a, F f) {
  const long double least = std::max(a.x - a.error, 0.0L), most = a.x + a.error;
  return std::max(std::abs(f(most) - f(a.x)), std::abs(f(least) - f(a.x)));
}

// For x >= 0.
inline Rounded root(Rounded a) {
  const auto f = [](long double x) { return std::sqrt(x); };
  return once_rounded(f(a.x), spread(a, f));
}

// For base >= 0. The power itself may be rounded twice: a double-double first.
inline Rounded power(Rounded base, Rounded exponent) {
  if (exponent.x == 0 && exponent.error == 0) return 1;
  const auto of_base = [&](long double x) { return std::pow(x, exponent.x); };
  const auto of_exponent = [&](long double x) { return std::pow(base.x, x); };
  const long double from_exponent = exponent.error == 0 ? 0 : spread(exponent, of_exponent);
  const long double from_base = base.error == 0 ? 0 : spread(base, of_base);
  return once_rounded(of_base(base.x), (from_base + from_exponent) * 1.001L);
}

inline Rounded cosine(Rounded a) {
  const long double slope = std::min(std::abs(std::sin(a.x)) + a.error, 1.0L);
  return once_rounded(std::cos(a.x), a.error * slope);
}

}  // namespace talus::reference
