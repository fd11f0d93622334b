// The ground that the other rule tests stand on: the references and the number formats themselves.
#include <catch2/catch_test_macros.hpp>

#include "tests/reference/all.hpp"

using namespace talus;
using namespace talus::test;

TEST_CASE("the reference's bias correction has the sheet's known answers") {
  CHECK(reference::one_minus_power(.9, 9) == 0.61257951099999997);
  CHECK(reference::one_minus_power(.9, 14) == 0.77123207545038996);
  CHECK(reference::one_minus_power(.95, 16) == 0.55987333134823458);
  CHECK(reference::one_minus_power(.98, 35) == 0.50692537938192206);
}

TEST_CASE("the reference's bias correction is exact where the result is known without it") {
  CHECK(reference::one_minus_power(0, 1) == 1);
  CHECK(reference::one_minus_power(0, 1000) == 1);
  CHECK(reference::one_minus_power(.5, 1) == .5);
  CHECK(reference::one_minus_power(.5, 53) == 1 - 0x1p-53);
  CHECK(reference::one_minus_power(.5, 54) == 1);  // a tie, to even
  CHECK(reference::one_minus_power(.5, 60) == 1);
  CHECK(reference::one_minus_power(.75, 2) == .4375);
  for (double beta : {.1, .3, .9, .99, .999, .99999})
    CHECK(reference::one_minus_power(beta, 1) == 1 - beta);
  CHECK(reference::one_minus_power(1 - 0x1p-53, 1) == 0x1p-53);
  CHECK(reference::one_minus_power(1 - 0x1p-53, 2) == 0x1p-52 - 0x1p-106);
}

TEST_CASE("rounding to bf16 and f16 by definition has the sheet's golden values") {
  struct Row {
    uint32_t f32;
    uint16_t bf16, f16;
  };
  const Row rows[] = {
      {0x00000000, 0x0000, 0x0000}, {0x80000000, 0x8000, 0x8000}, {0x3f800000, 0x3f80, 0x3c00},
      {0xbf800000, 0xbf80, 0xbc00}, {0x3f808000, 0x3f80, 0x3c04}, {0x3f818000, 0x3f82, 0x3c0c},
      {0x3f808001, 0x3f81, 0x3c04}, {0x3f807fff, 0x3f80, 0x3c04}, {0x3f801000, 0x3f80, 0x3c00},
      {0x3f803000, 0x3f80, 0x3c02}, {0x3dcccccd, 0x3dcd, 0x2e66}, {0x40490fdb, 0x4049, 0x4248},
      {0xc2f6e979, 0xc2f7, 0xd7b7}, {0x477fe000, 0x4780, 0x7bff}, {0x477fefff, 0x4780, 0x7bff},
      {0x477ff000, 0x4780, 0x7c00}, {0x47800000, 0x4780, 0x7c00}, {0x7f7f7fff, 0x7f7f, 0x7c00},
      {0x7f7f8000, 0x7f80, 0x7c00}, {0x7f7fffff, 0x7f80, 0x7c00}, {0x7f800000, 0x7f80, 0x7c00},
      {0xff800000, 0xff80, 0xfc00}, {0x38800000, 0x3880, 0x0400}, {0x387fffff, 0x3880, 0x0400},
      {0x387fe000, 0x3880, 0x0400}, {0x33800000, 0x3380, 0x0001}, {0x33c00000, 0x33c0, 0x0002},
      {0x33000000, 0x3300, 0x0000}, {0x33000001, 0x3300, 0x0001}, {0xb3000001, 0xb300, 0x8001},
      {0x00000001, 0x0000, 0x0000}, {0x00008000, 0x0000, 0x0000}, {0x00008001, 0x0001, 0x0000},
      {0x00018000, 0x0002, 0x0000}, {0x007fffff, 0x0080, 0x0000}, {0x00110000, 0x0011, 0x0000},
      {0x80118000, 0x8012, 0x8000}, {0x7fc00000, 0x7fc0, 0x7e00}};
  for (const Row& row : rows) {
    const double x = decode(format_of(TALUS_F32), row.f32);
    INFO(std::hex << row.f32);
    CHECK(encode(format_of(TALUS_BF16), x) == row.bf16);
    CHECK(encode(format_of(TALUS_F16), x) == row.f16);
  }
  // Twice rounded, through f32, both would be even.
  CHECK(encode(format_of(TALUS_BF16), 0x1.0100000001p+0) == 0x3f81);
  CHECK(encode(format_of(TALUS_F16), 0x1.0020000001p+0) == 0x3c01);
}

TEST_CASE("every 16-bit value survives decoding and encoding") {
  for (int32_t dtype : {TALUS_F16, TALUS_BF16}) {
    const Format& f = format_of(dtype);
    for (uint32_t bits = 0; bits < 0x10000; ++bits)
      if (const double x = decode(f, bits); !std::isnan(x) && encode(f, x) != bits)
        FAIL(f.name << " " << std::hex << bits << " came back as " << encode(f, x));
  }
}
