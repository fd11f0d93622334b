// Number formats of tensors by definition, in double: independent of the library's integer code.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "talus.h"

namespace talus::test {

// A binary format: values are integers of `precision` bits times a power of two.
struct Format {
  int32_t dtype;
  const char* name;
  size_t bytes;
  int precision;     // bits of the significand, the implicit one included
  int min_exponent;  // of the least normal number, 2^min_exponent
  double largest;    // finite
};

inline constexpr Format kFormats[] = {
    {TALUS_F16, "f16", 2, 11, -14, 65504},
    {TALUS_BF16, "bf16", 2, 8, -126, 0x1.fep127},
    {TALUS_F32, "f32", 4, 24, -126, 0x1.fffffep127},
    {TALUS_F64, "f64", 8, 53, -1022, std::numeric_limits<double>::max()},
};

inline const Format& format_of(int32_t dtype) {
  for (const Format& f : kFormats)
    if (f.dtype == dtype) return f;
  throw std::logic_error("no such dtype");
}

// The distance of neighbours around a finite x.
inline double ulp(const Format& f, double x) {
  const int exponent = x == 0 ? f.min_exponent : std::max(std::ilogb(x), f.min_exponent);
  return std::ldexp(1, exponent - (f.precision - 1));
}

// The value of the format that is nearest to x, ties to the even integer; needs round-to-nearest.
inline double nearest(const Format& f, double x) {
  if (f.dtype == TALUS_F64 || x == 0 || !std::isfinite(x)) return x;
  const double unit = ulp(f, x);
  const double y = std::nearbyint(x / unit) * unit;  // both scalings are exact
  return std::abs(y) > f.largest ? std::copysign(INFINITY, x) : y;
}

inline uint32_t bits_of(float x) {
  uint32_t u;
  std::memcpy(&u, &x, 4);
  return u;
}
inline uint64_t bits_of(double x) {
  uint64_t u;
  std::memcpy(&u, &x, 8);
  return u;
}

inline uint16_t f16_bits(double y) {  // y is a value of f16
  const int sign = std::signbit(y) ? 0x8000 : 0;
  const double a = std::abs(y);
  if (std::isnan(y)) return uint16_t(sign | 0x7e00);
  if (std::isinf(y)) return uint16_t(sign | 0x7c00);
  if (a < 0x1p-14) return uint16_t(sign | int(std::ldexp(a, 24)));
  const int exponent = std::ilogb(a);
  return uint16_t(sign | (exponent + 15) << 10 | (int(std::ldexp(a, 10 - exponent)) - 1024));
}

inline double f16_value(uint16_t h) {
  const int exponent = h >> 10 & 31, mantissa = h & 0x3ff;
  const double sign = h & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
  return sign * (exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24));
}

// The bits of x rounded to a format, right-aligned.
inline uint64_t encode(const Format& f, double x) {
  const double y = nearest(f, x);
  switch (f.dtype) {
    case TALUS_F16: return f16_bits(y);
    case TALUS_BF16: return bits_of(float(y)) >> 16;
    case TALUS_F32: return bits_of(float(y));
    default: return bits_of(y);
  }
}

inline double decode(const Format& f, uint64_t bits) {
  if (f.dtype == TALUS_F16) return f16_value(uint16_t(bits));
  if (f.dtype == TALUS_F64) {
    double x;
    std::memcpy(&x, &bits, 8);
    return x;
  }
  const uint32_t u = f.dtype == TALUS_BF16 ? uint32_t(bits) << 16 : uint32_t(bits);
  float x;
  std::memcpy(&x, &u, 4);
  return x;
}

inline uint64_t load_bits(const Format& f, const void* element) {
  uint16_t h;
  uint32_t u;
  uint64_t w;
  switch (f.bytes) {
    case 2: return std::memcpy(&h, element, 2), h;
    case 4: return std::memcpy(&u, element, 4), u;
    default: return std::memcpy(&w, element, 8), w;
  }
}

inline void store_bits(const Format& f, uint64_t bits, void* element) {
  const uint16_t h = uint16_t(bits);
  const uint32_t u = uint32_t(bits);
  switch (f.bytes) {
    case 2: std::memcpy(element, &h, 2); return;
    case 4: std::memcpy(element, &u, 4); return;
    default: std::memcpy(element, &bits, 8); return;
  }
}

inline double load(int32_t dtype, const void* element) {
  const Format& f = format_of(dtype);
  return decode(f, load_bits(f, element));
}

inline void store(int32_t dtype, double x, void* element) {
  const Format& f = format_of(dtype);
  store_bits(f, encode(f, x), element);
}

}  // namespace talus::test
