// base^exponent as the nearest double: logarithm and exponential by series in integers of 192 bits,
// no floating-point trick and no C library.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tests/reference/exact_power.hpp"

namespace talus::reference {

// value * 2^-176, least significant limb first; negative numbers by wrapping around.
using Fixed = std::array<uint64_t, 3>;
__extension__ typedef unsigned __int128 Wide;

inline Fixed plus(const Fixed& a, const Fixed& b) {
  Fixed out;
  Wide carry = 0;
  for (size_t i = 0; i < 3; ++i) {
    carry += Wide(a[i]) + b[i];
    out[i] = uint64_t(carry);
    carry >>= 64;
  }
  return out;
}
inline Fixed negated(const Fixed& a) { return plus({~a[0], ~a[1], ~a[2]}, {1, 0, 0}); }
inline bool is_negative(const Fixed& a) { return a[2] >> 63; }

// Bits [from, from + 192) of an integer.
template <size_t kLimbs>
Fixed bits_from(const std::array<uint64_t, kLimbs>& a, int from) {
  const auto limb = [&](int i) { return i >= 0 && i < int(kLimbs) ? a[size_t(i)] : 0; };
  const int whole = from >= 0 ? from / 64 : -((63 - from) / 64), part = from - 64 * whole;
  Fixed out;
  for (int i = 0; i < 3; ++i)
    out[size_t(i)] = uint64_t((Wide(limb(whole + i + 1)) << 64 | limb(whole + i)) >> part);
  return out;
}

// Of what is not negative.
inline Fixed times(const Fixed& a, const Fixed& b) {
  std::array<uint64_t, 6> out{};
  for (size_t i = 0; i < 3; ++i) {
    Wide carry = 0;
    for (size_t j = 0; j < 3; ++j) {
      carry += Wide(a[i]) * b[j] + out[i + j];
      out[i + j] = uint64_t(carry);
      carry >>= 64;
    }
    out[i + 3] = uint64_t(carry);
  }
  return bits_from(out, 176);
}

template <size_t kLimbs>
std::array<uint64_t, kLimbs> over(const std::array<uint64_t, kLimbs>& a, uint64_t divisor) {
  std::array<uint64_t, kLimbs> out;
  Wide rest = 0;
  for (size_t i = kLimbs; i-- > 0;) {
    rest = rest << 64 | a[i];
    out[i] = uint64_t(rest / divisor);
    rest %= divisor;
  }
  return out;
}

inline constexpr Fixed kOne = {0, 0, uint64_t(1) << 48};

// a * factor * 2^-shift; what is below 2^-176 is dropped.
inline Fixed times_power(const Fixed& a, uint64_t factor, int shift) {
  std::array<uint64_t, 4> out{};
  Wide carry = 0;
  for (size_t i = 0; i < 4; ++i) {
    if (i < 3) carry += Wide(a[i]) * factor;
    out[i] = uint64_t(carry);
    carry >>= 64;
  }
  return bits_from(out, shift);
}

inline Fixed multiple(const Fixed& a, int64_t n) {
  return n < 0 ? negated(times_power(a, uint64_t(-n), 0)) : times_power(a, uint64_t(n), 0);
}

// ln(m / 2^52) for 2^52 <= m <= 2^53: 2 artanh((m - 2^52) / (m + 2^52)).
inline Fixed log_of(uint64_t m) {
  const uint64_t one = uint64_t(1) << 52;
  const std::array<uint64_t, 4> difference = {0, 0, 0, m - one};
  const Fixed s = bits_from(over(difference, m + one), 192 - 176), square = times(s, s);
  Fixed sum{}, power = s;
  for (uint64_t n = 1; power != Fixed{}; n += 2) {
    sum = plus(sum, over(power, n));
    power = times(power, square);
  }
  return plus(sum, sum);
}

// e^r for 0 <= r < 1.
inline Fixed exp_of(const Fixed& r) {
  Fixed sum = kOne, term = kOne;
  for (uint64_t n = 1; term != Fixed{}; ++n) {
    term = over(times(term, r), n);
    sum = plus(sum, term);
  }
  return sum;
}

// a * 2^exponent for 1 <= a < 2, rounded to the nearest double, ties to even. What is nearer than
// 2^-105 to a tie is taken for one: the error of the series is below that.
inline double nearest_double(Fixed a, int64_t exponent) {
  a = plus(a, {0, 1 << 7, 0});
  const Natural bits = {0,
                        0,
                        uint32_t(a[1]) & 0xffffff00u,
                        uint32_t(a[1] >> 32),
                        uint32_t(a[2]),
                        uint32_t(a[2] >> 32)};
  return scaled_nearest(bits, 176 - exponent);
}

// For base > 0 and a finite exponent.
inline double exact_pow(double base, double exponent) {
  static const Fixed ln2 = log_of(uint64_t(1) << 53);
  int base_exponent, shift;
  const auto m = uint64_t(std::ldexp(std::frexp(base, &base_exponent), 53));
  const auto factor = uint64_t(std::ldexp(std::frexp(std::abs(exponent), &shift), 53));
  Fixed log = plus(log_of(m), multiple(ln2, base_exponent - 1));
  const bool grows = is_negative(log) == (exponent < 0);
  if (is_negative(log)) log = negated(log);
  const double size =
      std::abs(exponent) * (std::ldexp(double(log[2]), -48) + std::ldexp(double(log[1]), -112));
  if (size > 1000) return grows ? std::numeric_limits<double>::infinity() : 0;
  Fixed z = times_power(log, factor, 53 - shift);
  auto n = int64_t(size / 0.6931471805599453) + 2;
  if (!grows) z = negated(z), n = 3 - n;
  Fixed r = plus(z, multiple(ln2, -n));
  while (is_negative(r)) r = plus(r, ln2), --n;
  while (!is_negative(plus(r, negated(ln2)))) r = plus(r, negated(ln2)), ++n;
  return nearest_double(exp_of(r), n);
}

}  // namespace talus::reference
