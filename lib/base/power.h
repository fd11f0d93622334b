// Powers and bias corrections of the host scalars, to the last bit on every machine: double-double
// arithmetic, no pow of a C library.
#pragma once
#include <cstdint>

#include "lib/base/double_double.h"

namespace talus {

// base^n by binary powering, n >= 0.
inline DoubleDouble power(double base, int64_t n) {
  DoubleDouble result{1, 0}, square{base, 0};
  for (; n > 0; n >>= 1) {
    if (n & 1) result = multiply(result, square);
    if (n > 1) square = multiply(square, square);
  }
  return result;
}

// base^exponent for base >= 0 and a finite exponent, rounded once: the nearest double, unless the
// power lies within 2^-39 of an ulp of the middle between two. 0^0 is 1; NaN for other bases.
double host_pow(double base, double exponent);

// 1 - beta^t, rounded once. 1 - high is not exact below 1/2: its error is taken along.
inline double bias_correction(double beta, int64_t t) {
  const DoubleDouble decayed = power(beta, t);
  const double difference = 1 - decayed.high;
  const double error = (1 - difference) - decayed.high;
  return difference + (error - decayed.low);
}

}  // namespace talus
