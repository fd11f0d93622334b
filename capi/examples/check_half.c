/* Checks half.h over all patterns of both formats: values, midpoints and their neighbours. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "half.h"

typedef struct Format {
  const char *name;
  int fraction_bits, bias;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
} Format;

static int failures = 0;

static void expect(const Format *format, uint32_t pattern, const char *what, uint32_t got,
                   uint32_t expected) {
  if (got == expected || ++failures > 10) return;
  printf("%s 0x%04x, %s: got 0x%08x, expected 0x%08x\n", format->name, (unsigned)pattern, what,
         (unsigned)got, (unsigned)expected);
}

/* By the definition of the format; infinity is the power of two above all finite numbers. */
static double magnitude(const Format *format, uint32_t pattern) {
  int exponent = (int)(pattern >> format->fraction_bits);
  int fraction = (int)(pattern & ((1u << format->fraction_bits) - 1));
  if (exponent == 0) return ldexp(fraction, 1 - format->bias - format->fraction_bits);
  return ldexp(fraction + (1 << format->fraction_bits),
               exponent - format->bias - format->fraction_bits);
}

static void check_finite(const Format *format, uint32_t pattern, uint32_t sign) {
  float direction = sign ? -1.0f : 1.0f;
  float value = (float)magnitude(format, pattern);
  float midpoint = (float)((magnitude(format, pattern) + magnitude(format, pattern + 1)) / 2);
  float below = nextafterf(midpoint, 0), above = nextafterf(midpoint, INFINITY);
  uint32_t up = sign | (pattern + 1), same = sign | pattern,
           even = sign | (pattern + (pattern & 1));
  expect(format, same, "widened", bits_of(format->widen((uint16_t)same)),
         bits_of(direction * value));
  expect(format, same, "there and back", format->narrow(direction * value), same);
  expect(format, same, "below the midpoint", format->narrow(direction * below), same);
  expect(format, same, "at the midpoint", format->narrow(direction * midpoint), even);
  expect(format, same, "above the midpoint", format->narrow(direction * above), up);
}

static void check_format(const Format *format) {
  uint32_t infinity = 0x7fffu >> format->fraction_bits << format->fraction_bits;
  for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000) {
    float unbounded = sign ? -INFINITY : INFINITY;
    for (uint32_t pattern = 0; pattern < infinity; ++pattern) check_finite(format, pattern, sign);
    expect(format, sign | infinity, "widened", bits_of(format->widen((uint16_t)(sign | infinity))),
           bits_of(unbounded));
    expect(format, sign | infinity, "narrowed", format->narrow(unbounded), sign | infinity);
    for (uint32_t nan = infinity + 1; nan < 0x8000; ++nan) {
      float value = format->widen((uint16_t)(sign | nan));
      expect(format, sign | nan, "is NaN", value != value, 1);
      expect(format, sign | nan, "stays NaN", (format->narrow(value) & 0x7fffu) > infinity, 1);
    }
  }
}

int main(void) {
  const Format formats[] = {{"bf16", 7, 127, bf16_widen, bf16_narrow},
                            {"f16", 10, 15, f16_widen, f16_narrow}};
  check_format(&formats[0]);
  check_format(&formats[1]);
  if (failures > 0) printf("%d failures\n", failures);
  return failures > 0;
}
