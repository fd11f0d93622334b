// Conversions between types; 16-bit floats by value, not by the bit tricks of the library under test.
#include <cmath>

#include "tests/cuda/emu/ptx/arithmetic.h"

namespace ptx {

namespace {

template <class F>
F to_integral(Rounding r, F f) {
  switch (r) {
    case Rounding::rzi: return std::trunc(f);
    case Rounding::rni: return std::nearbyint(f);
    case Rounding::rmi: return std::floor(f);
    case Rounding::rpi: return std::ceil(f);
    default: return f;
  }
}

// Saturates; NaN gives 0 (of the targets in use some give 0, some the minimum).
uint64_t float_to_integer(double f, Type t) {
  if (f != f) return 0;
  const int width = int(8 * size_of(t));
  if (is_signed(t)) {
    const double limit = std::ldexp(1.0, width - 1);
    if (f >= limit) return (uint64_t(1) << (width - 1)) - 1;
    if (f <= -limit) return uint64_t(1) << (width - 1);
    return uint64_t(int64_t(f));
  }
  if (f <= 0) return 0;
  if (f >= std::ldexp(1.0, width)) return ~uint64_t(0);
  return uint64_t(f);
}

template <class F>
uint64_t convert_float(const Instruction& ins, F f) {
  const bool nearest = ins.rounding == Rounding::rn;
  if (is_integer(ins.type)) return float_to_integer(double(to_integral(ins.rounding, f)), ins.type);
  if (ins.type == Type::f64) return bits_of(double(to_integral(ins.rounding, f)));
  if (ins.type == Type::f32 && (nearest || sizeof(F) == 4))
    return bits_of(float(to_integral(ins.rounding, f)));
  if constexpr (sizeof(F) == 4) {
    if (ins.type == Type::bf16 && nearest) return f32_to_bf16(f);
    if (ins.type == Type::f16 && nearest) return f32_to_f16(f);
  }
  unsupported(ins);
}

uint64_t convert_integer(const Instruction& ins, uint64_t a) {
  const uint64_t v = extend(a, ins.source_type);
  const bool sign = is_signed(ins.source_type);
  if (ins.type == Type::f32) return bits_of(sign ? float(int64_t(v)) : float(v));
  if (ins.type == Type::f64) return bits_of(sign ? double(int64_t(v)) : double(v));
  if (is_integer(ins.type)) return v;
  unsupported(ins);
}

}  // namespace

uint64_t f32_to_bf16(float f) {
  const uint32_t u = uint32_t(bits_of(f));
  if ((u & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return (u + 0x7fff + ((u >> 16) & 1)) >> 16;
}

uint64_t f32_to_f16(float f) {
  if (f != f) return 0x7fff;
  const uint64_t sign = std::signbit(f) ? 0x8000 : 0;
  const double a = std::fabs(double(f));
  if (a >= 65520) return sign | 0x7c00;  // halfway between the largest one and 2^16
  const int exponent = a < 0x1p-14 ? -14 : std::ilogb(a);
  const uint64_t units = uint64_t(std::nearbyint(std::ldexp(a, 10 - exponent)));
  return sign | (units + (uint64_t(exponent + 14) << 10));  // a carry moves to the next exponent
}

float f16_to_f32(uint64_t bits) {
  const int exponent = int(bits >> 10) & 31;
  const double fraction = double(bits & 0x3ff), sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return as_f32((bits & 0x8000) << 16 | 0x7f800000 | (bits & 0x3ff) << 13);
  if (exponent == 0) return float(sign * std::ldexp(fraction, -24));
  return float(sign * std::ldexp(1024 + fraction, exponent - 25));
}

uint64_t convert(const Instruction& ins, uint64_t a, uint64_t b) {
  if (ins.type == Type::bf16x2 || ins.type == Type::f16x2) {
    if (ins.rounding != Rounding::rn || ins.source_type != Type::f32) unsupported(ins);
    const auto narrow = ins.type == Type::bf16x2 ? f32_to_bf16 : f32_to_f16;
    return narrow(as_f32(a)) << 16 | narrow(as_f32(b));
  }
  switch (ins.source_type) {
    case Type::f32: return convert_float(ins, as_f32(a));
    case Type::f64: return convert_float(ins, as_f64(a));
    case Type::bf16:
      if (ins.type == Type::f32) return (a & 0xffff) << 16;
      break;
    case Type::f16:
      if (ins.type == Type::f32) return bits_of(f16_to_f32(a));
      break;
    default:
      if (is_integer(ins.source_type)) return convert_integer(ins, a);
  }
  unsupported(ins);
}

}  // namespace ptx
