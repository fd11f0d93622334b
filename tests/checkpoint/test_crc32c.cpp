// CRC-32C: published vectors, and both ways of computing it against a third, bit by bit.
#include <catch2/catch_test_macros.hpp>

#include <string>
#include <vector>

#include "lib/checkpoint/crc32c.h"
#include "tests/cases.h"

using talus::crc32c;
using talus::crc32c_by_table;

namespace {

using Bytes = std::vector<uint8_t>;

Bytes random_bytes(uint64_t seed, size_t count) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = uint8_t(talus::test::draw(seed, 0, int64_t(i)));
  return bytes;
}

// From the definition, a bit at a time.
uint32_t by_bits(const uint8_t* data, size_t bytes) {
  uint32_t crc = ~uint32_t{0};
  for (size_t i = 0; i < bytes; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
  }
  return ~crc;
}

Bytes counted(int first, int step) {
  Bytes bytes(32);
  for (int i = 0; i < 32; ++i) bytes[size_t(i)] = uint8_t(first + step * i);
  return bytes;
}

// Around the streams of 256 and 4,096 bytes, three of which run side by side.
constexpr size_t kSizes[] = {0,    1,     7,     8,     9,     255,   767,   768,   769,  1535,
                             1536, 12287, 12288, 12289, 13055, 13056, 13057, 24576, 25431};

std::string at(size_t size, size_t offset, uint32_t got, uint32_t want) {
  char text[128];
  std::snprintf(text, sizeof text, "%zu bytes at offset %zu: got %08x, want %08x", size, offset,
                got, want);
  return text;
}

}  // namespace

TEST_CASE("crc32c: the vectors of RFC 3720, B.4 and the check value of the catalogue") {
  // An iSCSI SCSI Read (10) Command PDU.
  const Bytes command = {0x01, 0xc0, 0, 0, 0, 0, 0,    0, 0,    0, 0, 0,    0, 0, 0, 0,
                         0x14, 0,    0, 0, 0, 0, 0x04, 0, 0,    0, 0, 0x14, 0, 0, 0, 0x18,
                         0x28, 0,    0, 0, 0, 0, 0,    0, 0x02, 0, 0, 0,    0, 0, 0, 0};
  const struct {
    const char* what;
    Bytes bytes;
    uint32_t crc;
  } vectors[] = {{"32 bytes of zeroes", counted(0, 0), 0x8a9136aa},
                 {"32 bytes of ones", counted(0xff, 0), 0x62a8ab43},
                 {"32 bytes counting up", counted(0, 1), 0x46dd794e},
                 {"32 bytes counting down", counted(31, -1), 0x113fdb5c},
                 {"a read command", command, 0xd9963a56},
                 {"nothing", {}, 0},
                 {"123456789", {'1', '2', '3', '4', '5', '6', '7', '8', '9'}, 0xe3069283}};
  for (const auto& v : vectors) {
    INFO(v.what);
    CHECK(crc32c(0, v.bytes.data(), v.bytes.size()) == v.crc);
    CHECK(crc32c_by_table(0, v.bytes.data(), v.bytes.size()) == v.crc);
  }
}

TEST_CASE("crc32c: the instruction, the tables and the definition agree at every alignment") {
  const Bytes bytes = random_bytes(1, 25431 + 16);
  std::string fault;
  for (const size_t size : kSizes)
    for (size_t offset = 0; offset < 16; ++offset) {
      const uint8_t* const data = bytes.data() + offset;
      const uint32_t want = by_bits(data, size);
      for (const uint32_t got : {crc32c(0, data, size), crc32c_by_table(0, data, size)})
        if (got != want && fault.empty()) fault = at(size, offset, got, want);
    }
  CHECK(fault == "");
}

TEST_CASE("crc32c: bytes in two parts give the digest of the whole, wherever they are cut") {
  const Bytes bytes = random_bytes(2, 13057);
  const uint32_t want = by_bits(bytes.data(), bytes.size());
  std::string fault;
  for (size_t cut = 0; cut <= bytes.size(); cut += cut < 40 ? 1 : 61) {
    const uint8_t* const rest = bytes.data() + cut;
    const size_t left = bytes.size() - cut;
    for (const auto& run : {crc32c, crc32c_by_table}) {
      const uint32_t got = run(run(0, bytes.data(), cut), rest, left);
      if (got != want && fault.empty()) fault = at(bytes.size(), cut, got, want);
    }
  }
  CHECK(fault == "");
}

TEST_CASE("crc32c: one bit more or less is seen") {
  Bytes bytes = random_bytes(3, 25000);
  const uint32_t before = crc32c(0, bytes.data(), bytes.size());
  for (size_t bit = 0; bit < 8 * bytes.size(); bit += 997) {
    bytes[bit / 8] ^= uint8_t(1 << bit % 8);
    INFO("bit " << bit);
    REQUIRE(crc32c(0, bytes.data(), bytes.size()) != before);
    bytes[bit / 8] ^= uint8_t(1 << bit % 8);
  }
}
