/* Conversions of bf16 and f16 numbers, given as their 16 bits, to f32 and back to nearest even. */
#ifndef TALUS_EXAMPLES_HALF_H
#define TALUS_EXAMPLES_HALF_H
#include <stdint.h>
#include <string.h>

static inline uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Adds half an ulp less one, and one more if the last bit kept is odd: nearest even. */
static inline uint32_t drop_bits(uint32_t bits, int count) {
  return (bits + (1u << (count - 1)) - 1 + (bits >> count & 1)) >> count;
}

static inline float bf16_widen(uint16_t half) { return float_of((uint32_t)half << 16); }

static inline uint16_t bf16_narrow(float value) {
  if (value != value) return 0x7fc0;
  return (uint16_t)drop_bits(bits_of(value), 16);
}

static inline float f16_widen(uint16_t half) {
  uint32_t exponent = half >> 10 & 31, fraction = half & 1023u, sign = (half & 0x8000u) << 16;
  if (exponent == 31) return float_of(sign | 0x7f800000u | fraction << 13);
  if (exponent > 0) return float_of(sign | (exponent + 112) << 23 | fraction << 13);
  return (sign ? -1.0f : 1.0f) * (float)fraction / 16777216.0f;
}

static inline uint16_t f16_narrow(float value) {
  uint32_t sign = bits_of(value) >> 16 & 0x8000u, bits = bits_of(value) & 0x7fffffffu;
  if (value != value) return 0x7e00;
  if (bits >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and more: infinity */
  if (bits >= 0x38800000u) return (uint16_t)(sign | (drop_bits(bits, 13) - (112u << 10)));
  /* Subnormal: the ulp of an f32 from 0.5 on is that of an f16 subnormal, so the sum rounds. */
  return (uint16_t)(sign | (bits_of(float_of(bits) + 0.5f) - bits_of(0.5f)));
}

static inline float bf16_round(float value) { return bf16_widen(bf16_narrow(value)); }
static inline float f16_round(float value) { return f16_widen(f16_narrow(value)); }

#endif
