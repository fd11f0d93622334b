// Comparison of tensors: each function returns "" for right, else one line on what is wrong.
#pragma once
#include <cinttypes>
#include <cstdio>
#include <optional>

#include "tests/buffer.h"

namespace talus::test {

// A tensor of the library as the tests look at it.
struct View {
  const Format* format = nullptr;
  const void* data = nullptr;
  int64_t count = 0;

  View(int32_t dtype, const void* first, int64_t n)
      : format(&format_of(dtype)), data(first), count(n) {}
  View(const Buffer& buffer) : View(buffer.dtype(), buffer.data(), buffer.size()) {}

  uint64_t bits(int64_t i) const {
    return load_bits(*format, static_cast<const char*>(data) + size_t(i) * format->bytes);
  }
  double get(int64_t i) const { return decode(*format, bits(i)); }
};

// ULPs between two values, measured where the larger of |want| and `scale` lies.
inline double ulps_between(const Format& f, double got, double want, double scale = 0) {
  if (std::isnan(got) && std::isnan(want)) return 0;
  if (got == want) return 0;
  if (!std::isfinite(got) || !std::isfinite(want)) return INFINITY;
  return std::abs(got - want) / ulp(f, std::max(std::abs(want), scale));
}

inline std::string describe(const std::string& what, int64_t i, const Format& f, uint64_t got,
                            uint64_t want, double distance) {
  char text[256];
  const int digits = int(2 * f.bytes);
  std::snprintf(text, sizeof text,
                " index %" PRId64 " (%s): got %0*" PRIx64 " (%.17g), want %0*" PRIx64
                " (%.17g), distance %.3g ULP",
                i, f.name, digits, got, decode(f, got), digits, want, decode(f, want), distance);
  return what + text;
}

// The same bits, except that any NaN equals any NaN: its sign and payload are not in the contract.
inline bool same_bits(const Format& f, uint64_t a, uint64_t b) {
  return a == b || (std::isnan(decode(f, a)) && std::isnan(decode(f, b)));
}

// want_bits(i): the bits of element i.
template <class Want>
std::string difference_from(const std::string& what, const View& got, Want want_bits) {
  for (int64_t i = 0; i < got.count; ++i) {
    const uint64_t g = got.bits(i), w = want_bits(i);
    if (same_bits(*got.format, g, w)) continue;
    const double distance = ulps_between(*got.format, got.get(i), decode(*got.format, w));
    return describe(what, i, *got.format, g, w, distance);
  }
  return "";
}

inline std::string difference(const std::string& what, const View& got, const View& want) {
  if (got.format != want.format || got.count != want.count) return what + ": another dtype or size";
  return difference_from(what, got, [&](int64_t i) { return want.bits(i); });
}

// The largest distance of a tensor from exact values, and where.
struct Worst {
  double distance = 0;
  int64_t index = -1;
};

// scale[i]: the largest magnitude that the quantity had on its way, where its rounding errors were
// made; a value that has come near 0 since cannot be better than that.
template <class Real>
Worst worst_distance(const View& got, const std::vector<Real>& want,
                     const std::vector<Real>& scale) {
  Worst worst;
  for (int64_t i = 0; i < got.count; ++i) {
    const double d =
        ulps_between(*got.format, got.get(i), double(want[size_t(i)]), double(scale[size_t(i)]));
    if (d > worst.distance) worst = {d, i};
  }
  return worst;
}

}  // namespace talus::test
