// Exact conversions between f32 and the 16-bit floats, in integers. No include guard: compiled once
// for the host (rounding.h) and once in the namespace of each lane, which defines TALUS_FN first.
// Builtins, not std::, because an out-of-line inline function of a SIMD region could be linked for
// all. Independent of rounding mode and flush-to-zero.

TALUS_FN uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
TALUS_FN float float_of(uint32_t u) { return __builtin_bit_cast(float, u); }

TALUS_FN float widen(Bf16 x) { return float_of(uint32_t{x.bits} << 16); }

// Round to nearest, ties to even. NaN first: the rounding add would carry it into the sign.
TALUS_FN Bf16 to_bf16(float x) {
  const uint32_t u = bits_of(x);
  const uint32_t nan = (u >> 16) | 0x40;
  const uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  return {uint16_t((u & 0x7fffffff) > 0x7f800000 ? nan : rounded)};
}

// NaN becomes quiet and keeps its payload, as the F16C instruction does it.
TALUS_FN float widen(F16 x) {
  const uint32_t sign = uint32_t(x.bits & 0x8000) << 16;
  const uint32_t exponent = (x.bits >> 10) & 31, mantissa = x.bits & 0x3ff;
  if (exponent == 31)
    return float_of(sign | 0x7f800000 | (mantissa ? 0x400000u : 0u) | (mantissa << 13));
  if (exponent != 0) return float_of(sign | ((exponent + 112) << 23) | (mantissa << 13));
  if (mantissa == 0) return float_of(sign);
  const int shift = __builtin_clz(mantissa) - 21;  // brings the leading one to bit 10
  const uint32_t fraction = (mantissa << shift) & 0x3ff;
  return float_of(sign | (uint32_t(113 - shift) << 23) | (fraction << 13));
}

// Round to nearest, ties to even; overflow from 65520 on to infinity; NaN quiet with its payload.
TALUS_FN F16 to_f16(float x) {
  const uint32_t u = bits_of(x);
  const uint32_t sign = (u >> 16) & 0x8000, a = u & 0x7fffffff;
  if (a > 0x7f800000) return {uint16_t(sign | 0x7e00 | ((a >> 13) & 0x3ff))};
  if (a >= 0x477ff000) return {uint16_t(sign | 0x7c00)};
  if (a >= 0x38800000) {
    const uint32_t r = a - 0x38000000;
    return {uint16_t(sign | ((r + 0xfff + ((r >> 13) & 1)) >> 13))};
  }
  if (a < 0x33000000) return {uint16_t(sign)};
  const uint32_t m = (a & 0x7fffff) | 0x800000, k = 126 - (a >> 23);  // m / 2^k, k is 14 .. 24
  const uint32_t half = uint32_t{1} << (k - 1);
  return {uint16_t(sign | ((m + half - 1 + ((m >> k) & 1)) >> k))};
}
