// Elements of one dtype as another: exact where wider, else rounded once, also from f64.
#include <catch2/catch_test_macros.hpp>

#include "lib/base/convert.h"
#include "tests/amp/amp.h"
#include "tests/amp/thresholds.h"
#include "tests/golden_tables.h"

using namespace talus::test;
using talus::Dtype;

namespace {

constexpr std::pair<Dtype, int32_t> kDtypes[] = {{Dtype::f32, TALUS_F32},
                                                 {Dtype::bf16, TALUS_BF16},
                                                 {Dtype::f16, TALUS_F16},
                                                 {Dtype::f64, TALUS_F64}};

Dtype dtype_of(int32_t abi) {
  for (const auto& [dtype, number] : kDtypes)
    if (number == abi) return dtype;
  throw std::logic_error("no such dtype");
}

uint64_t converted(const Format& from, uint64_t bits, const Format& to) {
  uint64_t source = 0, target = 0;
  store_bits(from, bits, &source);
  talus::convert(&source, dtype_of(from.dtype), &target, dtype_of(to.dtype), 1);
  return load_bits(to, &target);
}

uint64_t from_f64(double x, int32_t to) {
  return converted(format_of(TALUS_F64), bits_of(x), format_of(to));
}

}  // namespace

TEST_CASE("f64 to 16 bits rounds once, where twice would be wrong") {
  for (const GoldenRow& row : golden_table("amp", "narrowing_f64")) {
    const double x = row.number("f64");
    INFO(row.text("f64"));
    if (row.has("bf16")) CHECK(from_f64(x, TALUS_BF16) == row.bits("bf16"));
    if (row.has("f16")) CHECK(from_f64(x, TALUS_F16) == row.bits("f16"));
    if (row.has("bf16")) CHECK(from_f64(-x, TALUS_BF16) == (row.bits("bf16") | 0x8000));
  }
}

TEST_CASE("f64 on both sides of every threshold goes to the right neighbour") {
  for (int32_t dtype : {TALUS_BF16, TALUS_F16}) {
    const Thresholds t(dtype);
    std::string wrong;
    for (uint32_t h = 0; h < t.infinity() && wrong.empty(); ++h) {
      // The tie between h and h + 1, and its neighbours in f64, far below an f32's distance.
      const uint32_t tie = t[h] - (h % 2 == 0 ? 1 : 0);
      float middle;
      std::memcpy(&middle, &tie, 4);
      const double at = double(middle), below = std::nextafter(at, 0),
                   above = std::nextafter(at, 1e39);
      for (double sign : {1., -1.}) {
        const uint64_t s = sign < 0 ? 0x8000 : 0;
        if (from_f64(sign * below, dtype) != (s | h) ||
            from_f64(sign * above, dtype) != (s | (h + 1)) ||
            from_f64(sign * at, dtype) != (s | (h + h % 2)))
          wrong = std::to_string(h);
      }
    }
    INFO(t.format().name);
    CHECK(wrong == "");
  }
}

TEST_CASE("f64 beyond f32 becomes infinite or zero of its sign, NaN stays one") {
  for (int32_t dtype : {TALUS_BF16, TALUS_F16}) {
    const Thresholds t(dtype);
    for (double x : {1e39, 1e300, std::numeric_limits<double>::max(), double(INFINITY)}) {
      CHECK(from_f64(x, dtype) == t.infinity());
      CHECK(from_f64(-x, dtype) == (t.infinity() | 0x8000));
    }
    for (double x : {0., 1e-46, 1e-300, 0x1p-1074}) {
      CHECK(from_f64(x, dtype) == 0);
      CHECK(from_f64(-x, dtype) == 0x8000);
    }
    CHECK((from_f64(NAN, dtype) & 0x7fff) > t.infinity());
  }
}

TEST_CASE("between all dtypes values are the nearest, and exact ones stay") {
  for (const auto& [from, from_abi] : kDtypes)
    for (const auto& [to, to_abi] : kDtypes) {
      const Format &source = format_of(from_abi), &target = format_of(to_abi);
      std::string wrong;
      for (int64_t i = 0; i < 40000 && wrong.empty(); ++i) {
        const uint64_t bits = draw(uint64_t(from_abi), uint64_t(to_abi), i);
        const double x = decode(source, source.bytes == 8 ? bits : bits >> (64 - 8 * source.bytes));
        const uint64_t want = encode(target, x);
        const uint64_t got = converted(source, encode(source, x), target);
        if (!same_bits(target, got, want)) wrong = describe("", i, target, got, want, 0);
      }
      INFO(source.name << " to " << target.name);
      CHECK(wrong == "");
    }
}

TEST_CASE("16-bit patterns come back from every dtype that is wider") {
  for (int32_t narrow : {TALUS_BF16, TALUS_F16})
    for (int32_t wide : {TALUS_F32, TALUS_F64}) {
      const Format &n = format_of(narrow), &w = format_of(wide);
      std::string wrong;
      for (uint32_t h = 0; h < 65536 && wrong.empty(); ++h)
        if (!same_bits(n, converted(w, converted(n, h, w), n), h)) wrong = std::to_string(h);
      CHECK(wrong == "");
    }
}

TEST_CASE(
    "the first element that is not the rounded one is found, NaN and signs of zero included") {
  const float value[] = {1, 1.00390625f, -0.f, NAN, 3};
  uint16_t rounded[] = {0x3f80, 0x3f80, 0x8000, 0x7fff, 0x4040};  // the second one: a tie to even
  const auto found = [&](uint64_t count) {
    return talus::find_unrounded(value, Dtype::f32, rounded, Dtype::bf16, count);
  };
  CHECK(found(5) == 5);
  CHECK(found(0) == 0);
  rounded[4] ^= 1;
  CHECK(found(5) == 4);
  CHECK(found(4) == 4);
  rounded[2] = 0;
  CHECK(found(5) == 2);
  rounded[1] = 0x3f81;
  CHECK(found(5) == 1);
}
