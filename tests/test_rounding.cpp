// The 16-bit floats: every golden row, every pattern widened, ties narrowed; in host code and by
// the kernels of the target in use.
#include <catch2/catch_test_macros.hpp>

#include <cfenv>

#include "lib/base/rounding.h"
#include "lib/optimizer/optimizer.h"
#include "tests/float_control.h"
#include "tests/optimizer.h"

using namespace talus::test;
using talus::Bf16;
using talus::F16;
using talus::float_of;

namespace {

struct Golden {
  uint32_t f32;
  uint16_t bf16, f16;
};
constexpr Golden kGolden[] = {
    {0x00000000, 0x0000, 0x0000},  // +0
    {0x80000000, 0x8000, 0x8000},  // -0
    {0x3f800000, 0x3f80, 0x3c00},  // 1
    {0xbf800000, 0xbf80, 0xbc00},  // -1
    {0x3f808000, 0x3f80, 0x3c04},  // tie, even below
    {0x3f818000, 0x3f82, 0x3c0c},  // tie, odd below
    {0x3f808001, 0x3f81, 0x3c04},  // just above a tie
    {0x3f807fff, 0x3f80, 0x3c04},  // just below a tie
    {0x3f801000, 0x3f80, 0x3c00},  // f16 tie, even
    {0x3f803000, 0x3f80, 0x3c02},  // f16 tie, odd
    {0x3dcccccd, 0x3dcd, 0x2e66},  // 0.1
    {0x40490fdb, 0x4049, 0x4248},  // pi
    {0xc2f6e979, 0xc2f7, 0xd7b7},  // -123.456
    {0x477fe000, 0x4780, 0x7bff},  // 65504
    {0x477fefff, 0x4780, 0x7bff},  // just below 65520
    {0x477ff000, 0x4780, 0x7c00},  // 65520, the tie of f16 overflow
    {0x47800000, 0x4780, 0x7c00},  // 65536
    {0x7f7f7fff, 0x7f7f, 0x7c00},  // the largest that is finite in bf16
    {0x7f7f8000, 0x7f80, 0x7c00},  // the tie of bf16 overflow
    {0x7f7fffff, 0x7f80, 0x7c00},  // FLT_MAX
    {0x7f800000, 0x7f80, 0x7c00},  // +inf
    {0xff800000, 0xff80, 0xfc00},  // -inf
    {0x38800000, 0x3880, 0x0400},  // 2^-14
    {0x387fffff, 0x3880, 0x0400},  // just below 2^-14
    {0x387fe000, 0x3880, 0x0400},  // tie at the top of the f16 subnormals
    {0x33800000, 0x3380, 0x0001},  // 2^-24
    {0x33c00000, 0x33c0, 0x0002},  // 1.5 * 2^-24, tie
    {0x33000000, 0x3300, 0x0000},  // 2^-25, tie to 0
    {0x33000001, 0x3300, 0x0001},  // just above 2^-25
    {0xb3000001, 0xb300, 0x8001},  // its negative
    {0x00000001, 0x0000, 0x0000},  // least subnormal
    {0x00008000, 0x0000, 0x0000},  // subnormal tie, even
    {0x00008001, 0x0001, 0x0000},  // subnormal
    {0x00018000, 0x0002, 0x0000},  // subnormal tie, odd
    {0x007fffff, 0x0080, 0x0000},  // largest subnormal
    {0x00110000, 0x0011, 0x0000},  // subnormal, exact in bf16
    {0x80118000, 0x8012, 0x8000},  // negative subnormal tie, odd
    {0x7fc00000, 0x7fc0, 0x7e00},  // quiet NaN
    {0xffc00000, 0xffc0, 0xfe00},  // default NaN of x86
    {0x7fffffff, 0x7fff, 0x7fff},  // NaN of CUDA: the rounding add would make it -0
    {0xffffffff, 0xffff, 0xffff},  // NaN: the rounding add would make it +0
    {0x7f800001, 0x7fc0, 0x7e00},  // signalling NaN
    {0x7fa12345, 0x7fe1, 0x7f09},  // signalling NaN with a payload
};

// Lower halves on both sides of every tie: of bf16 (8000), of normal f16 (.000 odd multiples of
// 1000), and of subnormal f16, whose ties are single bits from 2000 up.
constexpr uint16_t kLower[] = {0x0000, 0x0001, 0x0fff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x2001,
                               0x2fff, 0x3000, 0x3001, 0x3fff, 0x4000, 0x4001, 0x4fff, 0x5000,
                               0x5001, 0x6000, 0x6fff, 0x7000, 0x7001, 0x7fff, 0x8000, 0x8001,
                               0x8fff, 0x9000, 0x9001, 0xafff, 0xb000, 0xb001, 0xbfff, 0xc000,
                               0xc001, 0xd000, 0xefff, 0xf000, 0xf001, 0xfffe, 0xffff};

bool is_nan(uint32_t f32) { return (f32 & 0x7fffffff) > 0x7f800000; }

// What a NaN becomes: quiet, with its sign and the upper part of its payload.
uint16_t narrowed_nan(const Format& f, uint32_t f32) {
  const int mantissa_bits = f.precision - 1;
  const uint32_t payload = (f32 & 0x3fffff) >> (23 - mantissa_bits);
  const uint32_t quiet = 1u << (mantissa_bits - 1);
  const uint32_t exponent = 0x7fffu >> mantissa_bits << mantissa_bits;
  return uint16_t((f32 >> 31) << 15 | exponent | quiet | payload);
}

uint16_t narrowed(const Format& f, uint32_t f32) {
  if (is_nan(f32)) return narrowed_nan(f, f32);
  return uint16_t(encode(f, double(float_of(f32))));
}

// The value of 16 bits: sign, exponent, then the mantissa (IEEE 754-2008, 3.4).
double value_of(const Format& f, uint16_t bits) {
  const int mantissa_bits = f.precision - 1;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int exponent = (bits & 0x7fff) >> mantissa_bits;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 0x7fff >> mantissa_bits) return mantissa ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, f.min_exponent - mantissa_bits);
  return sign *
         std::ldexp(mantissa + (1 << mantissa_bits), f.min_exponent + exponent - 1 - mantissa_bits);
}

const Format& kBf16 = format_of(TALUS_BF16);
const Format& kF16 = format_of(TALUS_F16);

uint16_t library_narrows(const Format& f, uint32_t f32) {
  const float x = float_of(f32);
  return f.dtype == TALUS_BF16 ? talus::to_bf16(x).bits : talus::to_f16(x).bits;
}
uint32_t library_widens(const Format& f, uint16_t bits) {
  const float x = f.dtype == TALUS_BF16 ? talus::widen(Bf16{bits}) : talus::widen(F16{bits});
  return talus::bits_of(x);
}

std::string mismatch(const Format& f, uint32_t from, uint32_t got, uint32_t want) {
  char text[96];
  std::snprintf(text, sizeof text, "%s: %08x gives %08x, want %08x", f.name, from, got, want);
  return text;
}

std::string golden_mismatch() {
  for (const Golden& row : kGolden) {
    if (const uint16_t h = library_narrows(kBf16, row.f32); h != row.bf16)
      return mismatch(kBf16, row.f32, h, row.bf16);
    if (const uint16_t h = library_narrows(kF16, row.f32); h != row.f16)
      return mismatch(kF16, row.f32, h, row.f16);
  }
  return "";
}

// Parameters of a 16-bit format behind given masters, after a step that changes none of them.
Buffer narrowed_by_kernels(int32_t dtype, const std::vector<uint32_t>& masters) {
  TestTensor tensor({dtype, dtype, TALUS_MASTER_AUTO}, int64_t(masters.size()));
  Buffer master(TALUS_F32, tensor.extent);
  for (int64_t i = 0; i < tensor.extent; ++i) master.set_bits(i, masters[size_t(i)]);
  tensor.set_all(7, 0);
  std::unique_ptr<talus::Optimizer> sgd;
  REQUIRE(talus::Optimizer::create(talus::find_algorithm("sgd"), &sgd).ok());
  REQUIRE(sgd->set(TALUS_ALL, "lr", 0).ok());
  const talus_param descriptor = tensor.descriptor();
  REQUIRE(sgd->add_params(0, {&descriptor, 1}, nullptr).ok());
  REQUIRE(sgd->bind_state(0, "master_param", master.data(), master.bytes()).ok());
  REQUIRE(sgd->step(nullptr).ok());
  return tensor.param;
}

// The masters that a first step makes of 16-bit parameters.
Buffer widened_by_kernels(int32_t dtype, int64_t count) {
  TestTensor tensor({dtype, dtype, TALUS_MASTER_AUTO}, count);
  for (int64_t i = 0; i < count; ++i) tensor.param.set_bits(i, uint16_t(i)), tensor.grad.set(i, 0);
  std::unique_ptr<talus::Optimizer> sgd;
  REQUIRE(talus::Optimizer::create(talus::find_algorithm("sgd"), &sgd).ok());
  REQUIRE(sgd->set(TALUS_ALL, "lr", 0).ok());
  const talus_param descriptor = tensor.descriptor();
  REQUIRE(sgd->add_params(0, {&descriptor, 1}, nullptr).ok());
  REQUIRE(sgd->step(nullptr).ok());
  Buffer master(TALUS_F32, count);
  int64_t param = -1;
  talus::StateSlot slot{};
  sgd->state_at(sgd->state_count() - 1, &param, &slot);
  REQUIRE(std::string(slot.name) == "master_param");
  std::memcpy(master.data(), sgd->state_data(param, slot), master.bytes());
  return master;
}

}  // namespace

TEST_CASE("narrowing gives the golden values, NaN and its traps included") {
  CHECK(golden_mismatch() == "");
}

TEST_CASE("narrowing does not depend on the rounding mode") {
  for (int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(mode);
    const std::string text = golden_mismatch();
    std::fesetround(FE_TONEAREST);
    INFO("mode " << mode);
    CHECK(text == "");
  }
}

TEST_CASE("narrowing does not depend on flush-to-zero") {
  const uint64_t before = float_control();
  set_float_control(before | kFlush);
  const std::string text = golden_mismatch();
  set_float_control(before);
  CHECK(text == "");
}

TEST_CASE("all 65536 patterns widen to the value that they stand for") {
  for (const Format* f : {&kBf16, &kF16}) {
    std::string text;
    for (uint32_t h = 0; h < 65536 && text.empty(); ++h) {
      const double value = value_of(*f, uint16_t(h));
      if (std::isnan(value)) continue;
      const uint32_t want = talus::bits_of(float(value));
      const uint32_t got = library_widens(*f, uint16_t(h));
      if (got != want) text = mismatch(*f, h, got, want);
    }
    CHECK(text == "");
  }
}

TEST_CASE("a widened NaN keeps sign and payload; of f16 it is quiet, of bf16 as it was") {
  for (const Format* f : {&kBf16, &kF16}) {
    const int shift = 24 - f->precision;
    std::string text;
    for (uint32_t h = 0; h < 65536 && text.empty(); ++h) {
      if (!std::isnan(value_of(*f, uint16_t(h)))) continue;
      const uint32_t payload = (h << shift) & 0x7fffff;
      const uint32_t quiet = f == &kF16 ? 0x400000 : 0;
      const uint32_t want = (h & 0x8000) << 16 | 0x7f800000 | quiet | payload;
      const uint32_t got = library_widens(*f, uint16_t(h));
      if (got != want) text = mismatch(*f, h, got, want);
    }
    CHECK(text == "");
  }
  CHECK(library_widens(kF16, 0x7c01) == 0x7fc02000);
}

TEST_CASE("all 65536 patterns survive widening and narrowing; signalling NaN become quiet") {
  for (const Format* f : {&kBf16, &kF16}) {
    std::string text;
    for (uint32_t h = 0; h < 65536 && text.empty(); ++h) {
      const bool nan = std::isnan(value_of(*f, uint16_t(h)));
      const uint32_t want = nan ? h | 1u << (f->precision - 2) : h;
      const uint16_t got = library_narrows(*f, library_widens(*f, uint16_t(h)));
      if (got != want) text = mismatch(*f, h, got, want);
    }
    CHECK(text == "");
  }
}

TEST_CASE("every upper half narrows to the nearest on both sides of the ties") {
  for (const Format* f : {&kBf16, &kF16}) {
    std::string text;
    for (uint32_t upper = 0; upper < 65536 && text.empty(); ++upper)
      for (const uint16_t lower : kLower) {
        const uint32_t from = upper << 16 | lower;
        const uint32_t got = library_narrows(*f, from), want = narrowed(*f, from);
        if (got != want) text = mismatch(*f, from, got, want);
      }
    CHECK(text == "");
  }
}

TEST_CASE("narrowing by the kernels of a step equals the definition") {
  std::vector<uint32_t> masters;
  for (const Golden& row : kGolden) masters.push_back(row.f32);
  for (uint32_t upper = 0; upper < 65536; ++upper)
    for (uint32_t k = 0; k < 5; ++k)
      masters.push_back(upper << 16 | kLower[(upper * 5 + k * 8) % std::size(kLower)]);
  for (const Format* f : {&kBf16, &kF16}) {
    const Buffer got = narrowed_by_kernels(f->dtype, masters);
    CHECK(difference_from("element", got, [&](int64_t i) {
            return uint64_t{narrowed(*f, masters[size_t(i)])};
          }) == "");
    CHECK(got.guards_intact());
  }
}

TEST_CASE("widening by the kernels of a step equals the definition") {
  for (const Format* f : {&kBf16, &kF16}) {
    const Buffer got = widened_by_kernels(f->dtype, 65536);
    CHECK(difference_from("pattern", got, [&](int64_t i) {
            return uint64_t{talus::bits_of(float(value_of(*f, uint16_t(i))))};
          }) == "");
  }
}

namespace {

// How often float(a * inverse), computed in double, is not a / divisor, over all a in [1, 2): other
// binades differ by an exact factor.
template <class Inverse>
int64_t wrong_quotients(float divisor, Inverse inverse) {
  int64_t wrong = 0;
  for (uint32_t bits = 0x3f800000; bits < 0x40000000; ++bits) {
    const float a = float_of(bits);
    wrong += float(double(a) * double(inverse)) != a / divisor;
  }
  return wrong;
}

}  // namespace

TEST_CASE("a product with the reciprocal in double rounds to the quotient of two floats") {
  // The ends of a binade, roots of bias corrections of Adam, and some mantissas with many ones.
  const uint32_t divisors[] = {0x3f800000, 0x3f7fffff, 0x3f800001, 0x3d018af0, 0x3d374bc7,
                               0x3e4c2a3f, 0x3f4b4a31, 0x3f7ffffd, 0x3f2aaaab, 0x3eb504f3};
  int64_t wrong_from_float = 0;
  for (const uint32_t bits : divisors) {
    const float d = float_of(bits);
    CHECK(wrong_quotients(d, 1 / double(d)) == 0);
    wrong_from_float += wrong_quotients(d, 1 / d);
  }
  CHECK(wrong_from_float > 0);  // a reciprocal rounded to f32 is not enough
}
