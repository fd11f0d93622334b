#include "tools/checkpoint/elements.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "lib/base/rounding.h"

namespace checkpoint {
namespace {

// A dtype: how its bits are stored, and the type that holds each of its numbers.
template <class Raw_, class Number_, bool kFloating_, Number_ (*kNumber)(Raw_)>
struct Element {
  using Raw = Raw_;
  using Number = Number_;
  // Sums of squares of 64-bit numbers leave the range of double.
  using Wide = std::conditional_t<sizeof(Raw) == 8, long double, double>;
  static constexpr bool kFloating = kFloating_;
  static Number number(Raw raw) { return kNumber(raw); }
};

template <class Raw, class Number>
Number same_bits(Raw raw) {
  return std::bit_cast<Number>(raw);
}
float from_f16(uint16_t raw) { return talus::widen(talus::F16{raw}); }
float from_bf16(uint16_t raw) { return talus::widen(talus::Bf16{raw}); }
float from_e5m2(uint8_t raw) { return from_f16(uint16_t(raw << 8)); }
// Without infinities: all ones are the one NaN (Micikevicius et al. 2022, arXiv 2209.05433).
float from_e4m3(uint8_t raw) {
  const int exponent = raw >> 3 & 15, mantissa = raw & 7;
  if ((raw & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  const float size =
      exponent ? std::ldexp(float(8 + mantissa), exponent - 10) : std::ldexp(float(mantissa), -9);
  return raw & 0x80 ? -size : size;
}

template <class Raw, class Number>
using Integer = Element<Raw, Number, false, same_bits<Raw, Number>>;

// Calls use with the dtype's Element. False: a dtype that is not known.
template <class Use>
bool visit(std::string_view dtype, Use use) {
  if (dtype == "F32") return use(Element<uint32_t, float, true, same_bits>{}), true;
  if (dtype == "BF16") return use(Element<uint16_t, float, true, from_bf16>{}), true;
  if (dtype == "F16") return use(Element<uint16_t, float, true, from_f16>{}), true;
  if (dtype == "F64") return use(Element<uint64_t, double, true, same_bits>{}), true;
  if (dtype == "F8_E4M3") return use(Element<uint8_t, float, true, from_e4m3>{}), true;
  if (dtype == "F8_E5M2") return use(Element<uint8_t, float, true, from_e5m2>{}), true;
  if (dtype == "I64") return use(Integer<uint64_t, int64_t>{}), true;
  if (dtype == "U64") return use(Integer<uint64_t, uint64_t>{}), true;
  if (dtype == "I32") return use(Integer<uint32_t, int32_t>{}), true;
  if (dtype == "U32") return use(Integer<uint32_t, uint32_t>{}), true;
  if (dtype == "I16") return use(Integer<uint16_t, int16_t>{}), true;
  if (dtype == "U16") return use(Integer<uint16_t, uint16_t>{}), true;
  if (dtype == "I8") return use(Integer<uint8_t, int8_t>{}), true;
  if (dtype == "U8" || dtype == "BOOL") return use(Integer<uint8_t, uint8_t>{}), true;
  return false;
}

template <class Raw>
Raw element(const void* data, uint64_t i) {
  Raw raw;
  std::memcpy(&raw, static_cast<const char*>(data) + i * sizeof raw, sizeof raw);
  return raw;
}

template <class E>
void measure_as(const void* data, uint64_t count, Statistics* into) {
  using Wide = typename E::Wide;
  Statistics more;
  Wide min = std::numeric_limits<Wide>::infinity(), max = -min, squares = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const Wide x = Wide(E::number(element<typename E::Raw>(data, i)));
    if (E::kFloating && !std::isfinite(x)) {
      ++more.non_finite;
      continue;
    }
    min = std::min(min, x);
    max = std::max(max, x);
    squares += x * x;
  }
  more.count = count;
  more.min = min;
  more.max = max;
  more.squares = squares;
  into->add(more);
}

// Neighbours among the numbers of a dtype have neighbouring places; both zeros have one.
template <class Raw>
int64_t place(Raw raw) {
  constexpr int kSign = sizeof(Raw) * 8 - 1;
  const int64_t size = int64_t(uint64_t(raw) & ((uint64_t{1} << kSign) - 1));
  return raw >> kSign ? -size : size;
}

template <class E>
void add_difference(typename E::Raw a, typename E::Raw b, Distance* into) {
  using Wide = long double;
  const Wide x = Wide(E::number(a)), y = Wide(E::number(b));
  if (std::isnan(x) || std::isnan(y)) {
    ++into->nan;
    return;
  }
  into->largest = std::max(into->largest, x < y ? y - x : x - y);
  if (!E::kFloating) return;
  const int64_t at = place(a), other = place(b);
  const uint64_t apart =
      at < other ? uint64_t(other) - uint64_t(at) : uint64_t(at) - uint64_t(other);
  into->ulps = std::max(into->ulps, apart);
}

template <class E>
void compare_as(const void* a, const void* b, uint64_t count, Distance* into) {
  using Raw = typename E::Raw;
  for (uint64_t i = 0; i < count; ++i) {
    const Raw x = element<Raw>(a, i), y = element<Raw>(b, i);
    if (x == y) continue;
    if (into->different++ == 0) into->first = into->count + i;
    add_difference<E>(x, y, into);
  }
}

}  // namespace

long double Statistics::norm() const { return std::sqrt(squares); }

void Statistics::add(const Statistics& more) {
  if (more.any()) {
    min = any() ? std::min(min, more.min) : more.min;
    max = any() ? std::max(max, more.max) : more.max;
    squares += more.squares;
  }
  count += more.count;
  non_finite += more.non_finite;
}

void measure(std::string_view dtype, const void* data, uint64_t count, Statistics* into) {
  visit(dtype, [&](auto kind) { measure_as<decltype(kind)>(data, count, into); });
}

void compare(std::string_view dtype, const void* a, const void* b, uint64_t count, Distance* into) {
  visit(dtype, [&](auto kind) {
    using E = decltype(kind);
    if (std::memcmp(a, b, count * sizeof(typename E::Raw)) != 0) compare_as<E>(a, b, count, into);
  });
  into->count += count;
}

bool is_floating(std::string_view dtype) {
  bool floating = false;
  visit(dtype, [&](auto kind) { floating = decltype(kind)::kFloating; });
  return floating;
}

bool is_unsigned(std::string_view dtype) {
  bool answer = false;
  visit(dtype, [&](auto kind) { answer = std::is_unsigned_v<typename decltype(kind)::Number>; });
  return answer;
}

}  // namespace checkpoint
