// Arithmetic with about 106 bits: a value is the sum of two doubles. Plain operations and fma, which
// are the same on every machine; callers hold a FloatEnvironment.
#pragma once
#include <cmath>

#include "lib/base/float_contract.h"

namespace talus {

// high + low, |low| at most half an ulp of high.
struct DoubleDouble {
  double high, low;
};

inline DoubleDouble multiply(DoubleDouble x, DoubleDouble y) {
  const double product = x.high * y.high;
  const double rest = std::fma(x.high, y.high, -product) + (x.high * y.low + x.low * y.high);
  const double high = product + rest;
  return {high, rest - (high - product)};
}

inline DoubleDouble exact_product(double a, double b) {
  const double product = a * b;
  return {product, std::fma(a, b, -product)};
}

inline DoubleDouble exact_sum(double a, double b) {
  const double sum = a + b, from_b = sum - a;
  return {sum, (a - (sum - from_b)) + (b - from_b)};
}

// As exact_sum, for |a| >= |b|.
inline DoubleDouble joined(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

inline DoubleDouble add(DoubleDouble x, DoubleDouble y) {
  const DoubleDouble high = exact_sum(x.high, y.high), low = exact_sum(x.low, y.low);
  const DoubleDouble sum = joined(high.high, high.low + low.high);
  return joined(sum.high, sum.low + low.low);
}

inline DoubleDouble divide(DoubleDouble x, DoubleDouble y) {
  const double quotient = x.high / y.high;
  const double rest = std::fma(-quotient, y.high, x.high) + (x.low - quotient * y.low);
  return joined(quotient, rest / y.high);
}

inline DoubleDouble divide(DoubleDouble x, int y) { return divide(x, {double(y), 0}); }

}  // namespace talus
