// Rounding to a 16-bit float by its thresholds: the least f32 pattern that rounds to each magnitude or
// above, from the values of neighbours in real arithmetic. Shares nothing with integer rounding.
#pragma once
#include <vector>

#include "tests/numbers.h"

namespace talus::test {

class Thresholds {
 public:
  explicit Thresholds(int32_t dtype) : f_(format_of(dtype)) {
    for (uint32_t h = 0; h < infinity(); ++h) {
      const double middle = (magnitude(h) + magnitude(h + 1)) / 2;  // exact, and an f32
      // A tie goes to the even pattern; infinity's is even.
      first_.push_back(uint32_t(bits_of(float(middle))) + (h % 2 == 0 ? 1 : 0));
    }
    first_.push_back(0x7f800001);
  }
  const Format& format() const { return f_; }
  uint32_t infinity() const { return uint32_t(0x7fff >> mantissa_bits()) << mantissa_bits(); }

  // Where magnitude pattern h + 1 begins.
  uint32_t operator[](uint32_t h) const { return first_[h]; }

  // The 16-bit pattern of f32 pattern u, by a hint of the magnitude that is moved to the right one:
  // for inputs in order each call takes no time.
  uint16_t rounded(uint32_t u, uint32_t* hint) const {
    const uint32_t a = u & 0x7fffffff, sign = u >> 16 & 0x8000;
    if (a > 0x7f800000) return uint16_t(sign | nan(a));
    while (*hint > 0 && a < first_[*hint - 1]) --*hint;
    while (a >= first_[*hint]) ++*hint;
    return uint16_t(sign | *hint);
  }

 private:
  int mantissa_bits() const { return f_.precision - 1; }
  // Of infinity: the value that would come next.
  double magnitude(uint32_t h) const {
    const int bits = mantissa_bits();
    const int exponent = int(h >> bits), mantissa = int(h & ((1u << bits) - 1));
    if (exponent == 0) return std::ldexp(mantissa, f_.min_exponent - bits);
    return std::ldexp((1 << bits) + mantissa, f_.min_exponent + exponent - 1 - bits);
  }
  // Quiet, with the upper part of the payload.
  uint32_t nan(uint32_t a) const {
    const int bits = mantissa_bits();
    return infinity() | 1u << (bits - 1) | (a & 0x7fffff) >> (23 - bits);
  }

  const Format& f_;
  std::vector<uint32_t> first_;
};

}  // namespace talus::test
