// cos x for 0 <= x < 4 as the nearest double: its series in integers of 192 bits, no floating-point
// trick and no C library.
#pragma once
#include "tests/reference/exact_pow.hpp"

namespace talus::reference {

// x 2^176, for 0 <= x < 4; below 2^-124 bits are dropped.
inline Fixed fixed_of(double x) {
  int exponent;
  const auto integer = uint64_t(std::ldexp(std::frexp(x, &exponent), 53));
  return bits_from(std::array<uint64_t, 1>{integer}, 53 - exponent - 176);
}

inline double exact_cos(double x) {
  if (x < 0x1p-30) return 1;  // 1 - x^2 / 2 rounds to it
  const Fixed argument = fixed_of(x), square = times(argument, argument);
  Fixed even{}, odd{}, term = kOne;
  for (uint64_t n = 0; term != Fixed{}; n += 2) {
    Fixed& sum = n % 4 == 0 ? even : odd;
    sum = plus(sum, term);
    term = over(times(term, square), (n + 1) * (n + 2));
  }
  Fixed value = plus(even, negated(odd));
  const bool negative = is_negative(value);
  if (negative) value = negated(value);
  int64_t exponent = 0;
  for (; value[2] < kOne[2]; --exponent) value = plus(value, value);
  const double size = nearest_double(value, exponent);
  return negative ? -size : size;
}

}  // namespace talus::reference
