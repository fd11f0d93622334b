// beta^t and 1 - beta^t, rounded once: exact rational arithmetic on big integers, no floating-point
// trick.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace talus::reference {

using Natural = std::vector<uint32_t>;  // base 2^32, least significant limb first

inline Natural product(const Natural& a, const Natural& b) {
  Natural out(a.size() + b.size(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    uint64_t carry = 0;
    for (size_t j = 0; j < b.size(); ++j) {
      const uint64_t sum = out[i + j] + uint64_t(a[i]) * b[j] + carry;
      out[i + j] = uint32_t(sum);
      carry = sum >> 32;
    }
    out[i + b.size()] = uint32_t(carry);
  }
  while (!out.empty() && out.back() == 0) out.pop_back();
  return out;
}

// 2^exponent - a, for 0 < a <= 2^exponent.
inline Natural power_of_two_minus(int64_t exponent, const Natural& a) {
  Natural out(size_t(exponent / 32) + 1, 0);
  out.back() = uint32_t(1) << (exponent % 32);
  int64_t borrow = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    int64_t limb = int64_t(out[i]) - (i < a.size() ? a[i] : 0) - borrow;
    borrow = limb < 0;
    out[i] = uint32_t(limb + (borrow << 32));
  }
  return out;
}

inline bool bit(const Natural& a, int64_t i) {
  return size_t(i / 32) < a.size() && (a[size_t(i / 32)] >> (i % 32) & 1);
}

// a * 2^-shift as the nearest double, ties to even.
inline double scaled_nearest(const Natural& a, int64_t shift) {
  int64_t length = int64_t(a.size()) * 32;
  while (length > 0 && !bit(a, length - 1)) --length;
  const int64_t dropped = std::max({length - 53, shift - 1074, int64_t{0}});
  uint64_t kept = 0;
  for (int64_t i = length - 1; i >= dropped; --i) kept = kept << 1 | (bit(a, i) ? 1 : 0);
  if (dropped > 0 && bit(a, dropped - 1)) {
    bool above_half = false;
    for (int64_t i = 0; i < dropped - 1 && !above_half; ++i) above_half = bit(a, i);
    if (above_half || (kept & 1)) ++kept;
  }
  return std::ldexp(double(kept), int(dropped - shift));
}

// beta^t and 1 - beta^t, each rounded once, for 0 <= beta < 1 and t >= 1.
struct PowerPair {
  double power, one_minus;
};

inline PowerPair power_pair(double beta, int64_t t) {
  if (beta == 0) return {0, 1};
  static thread_local std::map<std::pair<double, int64_t>, PowerPair> known;
  const auto [entry, is_new] = known.try_emplace({beta, t}, PowerPair{});
  if (!is_new) return entry->second;
  int exponent;
  const uint64_t integer = uint64_t(std::ldexp(std::frexp(beta, &exponent), 53));
  const Natural factor = {uint32_t(integer), uint32_t(integer >> 32)};
  Natural power = {1};
  for (int64_t i = 0; i < t; ++i) power = product(power, factor);
  const int64_t shift = (53 - exponent) * t;
  return entry->second = {scaled_nearest(power, shift),
                          scaled_nearest(power_of_two_minus(shift, power), shift)};
}

inline double rounded_power(double beta, int64_t t) { return power_pair(beta, t).power; }
inline double one_minus_power(double beta, int64_t t) { return power_pair(beta, t).one_minus; }

}  // namespace talus::reference
