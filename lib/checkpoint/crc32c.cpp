#include "lib/checkpoint/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <nmmintrin.h>
#endif

namespace talus {
namespace {

// A polynomial over GF(2) modulo Castagnoli's, the coefficient of x^31 in bit 0 (Castagnoli,
// Braeuer & Herrmann 1993). The digest's bytes run through it, inverted before and after.
using Poly = uint32_t;
constexpr Poly kModulus = 0x82f63b78, kOne = 0x80000000;

constexpr Poly times_x(Poly a) { return a & 1 ? a >> 1 ^ kModulus : a >> 1; }

constexpr Poly multiply(Poly a, Poly b) {
  Poly product = 0;
  for (Poly bit = kOne; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = times_x(b);
  }
  return product;
}

constexpr Poly power_of_x(uint64_t n) {
  Poly result = kOne, square = times_x(kOne);
  for (; n != 0; n >>= 1) {
    if (n & 1) result = multiply(result, square);
    square = multiply(square, square);
  }
  return result;
}

// Products with one factor, a table for each byte of the other.
template <size_t kBytes>
using Tables = std::array<std::array<Poly, 256>, kBytes>;

// ---- by tables: eight bytes at once (Kounavis & Berry 2005)

constexpr Tables<8> make_slices() {
  Tables<8> slices{};
  for (Poly byte = 0; byte < 256; ++byte) {
    Poly p = byte;
    for (int bit = 0; bit < 8; ++bit) p = times_x(p);
    slices[0][byte] = p;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t byte = 0; byte < 256; ++byte) {
      const Poly p = slices[k - 1][byte];
      slices[k][byte] = p >> 8 ^ slices[0][p & 0xff];
    }
  return slices;
}
constexpr Tables<8> kSlices = make_slices();

uint64_t load(const uint8_t* p) {
  uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

Poly run_by_table(Poly p, const uint8_t* data, size_t bytes) {
  for (; bytes >= 8; data += 8, bytes -= 8) {
    const uint64_t word = load(data) ^ p;
    p = 0;
    for (size_t k = 0; k < 8; ++k) p ^= kSlices[7 - k][word >> 8 * k & 0xff];
  }
  for (; bytes > 0; ++data, --bytes) p = p >> 8 ^ kSlices[0][(p ^ *data) & 0xff];
  return p;
}

#if defined(__x86_64__)
// ---- by the instruction: it takes three cycles and one may start in each, so three streams run
// side by side; a stream is carried over the bytes behind it by a product with a power of x.

constexpr Tables<4> make_products(Poly factor) {
  Tables<4> products{};
  for (size_t k = 0; k < 4; ++k)
    for (Poly byte = 1; byte < 256; ++byte) {
      const Poly rest = byte & (byte - 1);  // a product is linear: one bit and the others
      products[k][byte] = rest == 0 ? multiply(byte << 8 * k, factor)
                                    : products[k][rest] ^ products[k][byte ^ rest];
    }
  return products;
}

constexpr size_t kLongStream = 4096, kShortStream = 256;
constexpr Tables<4> kOverLong = make_products(power_of_x(8 * kLongStream));
constexpr Tables<4> kOverShort = make_products(power_of_x(8 * kShortStream));

Poly product(const Tables<4>& by, Poly p) {
  return by[0][p & 0xff] ^ by[1][p >> 8 & 0xff] ^ by[2][p >> 16 & 0xff] ^ by[3][p >> 24];
}

template <size_t kStream>
[[gnu::target("sse4.2")]] Poly run_streams(const Tables<4>& over, Poly p, const uint8_t** data,
                                           size_t* bytes) {
  for (; *bytes >= 3 * kStream; *data += 3 * kStream, *bytes -= 3 * kStream) {
    uint64_t a = p, b = 0, c = 0;
    for (const uint8_t *at = *data, *end = at + kStream; at != end; at += 8) {
      a = _mm_crc32_u64(a, load(at));
      b = _mm_crc32_u64(b, load(at + kStream));
      c = _mm_crc32_u64(c, load(at + 2 * kStream));
    }
    p = product(over, product(over, Poly(a)) ^ Poly(b)) ^ Poly(c);
  }
  return p;
}

[[gnu::target("sse4.2")]] Poly run_by_instruction(Poly p, const uint8_t* data, size_t bytes) {
  p = run_streams<kLongStream>(kOverLong, p, &data, &bytes);
  p = run_streams<kShortStream>(kOverShort, p, &data, &bytes);
  for (; bytes >= 8; data += 8, bytes -= 8) p = Poly(_mm_crc32_u64(p, load(data)));
  for (; bytes > 0; ++data, --bytes) p = _mm_crc32_u8(p, *data);
  return p;
}

// By hand, as in lib/cpu/targets.cpp: the compiler's own test brings a constructor.
bool has_instruction() {
  unsigned a, b, c = 0, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2);
}

Poly run(Poly p, const uint8_t* data, size_t bytes) {
  static const bool by_instruction = has_instruction();
  return by_instruction ? run_by_instruction(p, data, bytes) : run_by_table(p, data, bytes);
}
#else
Poly run(Poly p, const uint8_t* data, size_t bytes) { return run_by_table(p, data, bytes); }
#endif

}  // namespace

uint32_t crc32c(uint32_t before, const void* data, size_t bytes) {
  return ~run(~before, static_cast<const uint8_t*>(data), bytes);
}

uint32_t crc32c_by_table(uint32_t before, const void* data, size_t bytes) {
  return ~run_by_table(~before, static_cast<const uint8_t*>(data), bytes);
}

}  // namespace talus
