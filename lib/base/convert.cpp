#include "lib/base/convert.h"

#include <cmath>
#include <cstring>

#include "lib/base/rounding.h"

namespace talus {
namespace {

template <class F>
void with_type(Dtype dtype, F f) {
  switch (dtype) {
    case Dtype::f32: return f(float{});
    case Dtype::bf16: return f(Bf16{});
    case Dtype::f16: return f(F16{});
    case Dtype::f64: return f(double{});
  }
}

double wide(double x) { return x; }
double wide(float x) { return double(x); }
template <class T>
double wide(T x) {
  return double(widen(x));
}

// To odd: what is rounded again from it is as if rounded once.
float to_odd(double x) {
  const float near = float(x);
  if (double(near) == x || std::isnan(x) || std::isinf(near)) return near;
  uint32_t bits = bits_of(near);
  const bool outward = std::fabs(double(near)) > std::fabs(x);
  if (outward) --bits;
  return float_of(bits | 1);
}

template <class T>
T narrow(double x) {
  if constexpr (kDtypeOf<T> == Dtype::f64) return x;
  if constexpr (kDtypeOf<T> == Dtype::f32) return float(x);
  if constexpr (kDtypeOf<T> == Dtype::bf16) return to_bf16(to_odd(x));
  if constexpr (kDtypeOf<T> == Dtype::f16) return to_f16(to_odd(x));
}

template <class T>
T element(const void* data, uint64_t i) {
  T out;
  std::memcpy(&out, static_cast<const char*>(data) + i * sizeof(T), sizeof out);
  return out;
}

}  // namespace

void convert(const void* from, Dtype from_dtype, void* to, Dtype to_dtype, uint64_t count) {
  with_type(from_dtype, [&](auto source) {
    with_type(to_dtype, [&](auto target) {
      using From = decltype(source);
      using To = decltype(target);
      for (uint64_t i = 0; i < count; ++i) {
        const To made = narrow<To>(wide(element<From>(from, i)));
        std::memcpy(static_cast<char*>(to) + i * sizeof made, &made, sizeof made);
      }
    });
  });
}

uint64_t find_unrounded(const void* value, Dtype value_dtype, const void* rounded,
                        Dtype rounded_dtype, uint64_t count) {
  uint64_t found = count;
  with_type(value_dtype, [&](auto source) {
    with_type(rounded_dtype, [&](auto target) {
      using From = decltype(source);
      using To = decltype(target);
      for (uint64_t i = 0; i < count && found == count; ++i) {
        const double want = wide(narrow<To>(wide(element<From>(value, i))));
        const double got = wide(element<To>(rounded, i));
        const bool both_nan = std::isnan(want) && std::isnan(got);
        if (!both_nan && (want != got || std::signbit(want) != std::signbit(got))) found = i;
      }
    });
  });
  return found;
}

}  // namespace talus
