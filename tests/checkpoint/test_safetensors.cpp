// The container beyond single files: limits, damage at every place, and what is written is read.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "lib/checkpoint/safetensors.h"
#include "tests/checkpoint/tiling.h"

using namespace talus::safetensors;
using talus::Status;
using talus::test::tiling_fault;

namespace {

using Bytes = std::vector<uint8_t>;

Bytes with_length(uint64_t length, const std::string& json, size_t data = 0) {
  Bytes out;
  for (int i = 0; i < 8; ++i) out.push_back(uint8_t(length >> 8 * i));
  out.insert(out.end(), json.begin(), json.end());
  out.resize(out.size() + data);
  return out;
}
Bytes file_of(const std::string& json, size_t data = 0) {
  return with_length(json.size(), json, data);
}

Status parse_all(const Bytes& file, Header* out, const Limits& limits = {}) {
  return parse(file, file.size(), "file", out, limits);
}

Bytes good_file() {
  std::ifstream in(TALUS_CHECKPOINT_FILES "/two_tensors.safetensors", std::ios::binary);
  Bytes bytes(std::istreambuf_iterator<char>(in), {});
  REQUIRE(bytes.size() > 100);
  return bytes;
}

Status read_back(const Layout& layout, Header* out) {
  const auto* const head = reinterpret_cast<const uint8_t*>(layout.head.data());
  return parse({head, layout.head.size()}, layout.total, "file", out);
}

Entry entry(const std::string& name, const char* dtype = "F32", std::vector<uint64_t> shape = {2}) {
  return {name, dtype, std::move(shape)};
}

std::string text_of_layout(const std::vector<Entry>& entries, const Strings& metadata = {}) {
  Layout layout;
  const Status status = lay_out(entries, metadata, "", &layout);
  CHECK(status.code() == TALUS_E_ARGUMENT);
  CHECK(layout.head.empty());
  return status.text();
}

bool has(const std::string& text, const std::string& piece) {
  UNSCOPED_INFO(text << " | wanted: " << piece);
  return text.find(piece) != text.npos;
}

}  // namespace

TEST_CASE("safetensors: what a file says is what is read") {
  const Bytes file = good_file();
  Header header;
  REQUIRE(parse_all(file, &header).text() == "");
  CHECK(header.metadata == Strings{{"k", "v"}});
  REQUIRE(header.tensors.size() == 2);
  const Tensor &a = header.tensors.at("a"), &b = header.tensors.at("b");
  CHECK(a.dtype == "F32");
  CHECK(a.shape == std::vector<uint64_t>{2});
  CHECK((a.begin == 0 && a.end == 8));
  CHECK(b.dtype == "U8");
  CHECK(b.shape == std::vector<uint64_t>{1, 3});
  CHECK((b.begin == 8 && b.end == 11));
  CHECK(header.data_begin == file.size() - 11);
}

TEST_CASE("safetensors: escapes in metadata are what they stand for") {
  Header header;
  REQUIRE(parse_all(file_of(R"({"__metadata__":{"\u00e9":"\"\\\/\n\u0000\ud83d\ude00"}})"), &header)
              .text() == "");
  CHECK(header.metadata == Strings{{"\xc3\xa9", std::string("\"\\/\n\0\xf0\x9f\x98\x80", 9)}});
}

TEST_CASE("safetensors: a header of 100,000,000 bytes is read, one byte more is not") {
  const uint64_t most = 100'000'000;
  uint64_t length = 0;
  CHECK(header_length(with_length(most, ""), most + 8, "file", &length).text() == "");
  CHECK(length == most);
  length = 7;
  const Status more = header_length(with_length(most + 1, ""), most + 9, "file", &length);
  CHECK(more.code() == TALUS_E_FORMAT);
  CHECK(has(more.text(), "100000001"));
  CHECK(length == 7);

  std::string json = "{}";
  json.resize(most, ' ');
  Header header;
  CHECK(parse_all(file_of(json), &header).text() == "");
  CHECK(parse_all(file_of(json += ' '), &header).code() == TALUS_E_FORMAT);
}

TEST_CASE("safetensors: the length may reach the end of the file and not a byte further") {
  uint64_t length = 0;
  for (const uint64_t n : {uint64_t{0}, uint64_t{2}, uint64_t{99'999'999}}) {
    CHECK(header_length(with_length(n, ""), n + 8, "file", &length).ok());
    CHECK(length == n);
    if (n > 0) CHECK_FALSE(header_length(with_length(n, ""), n + 7, "file", &length).ok());
  }
  // Sums that wrap around to something small, where no limit is before them.
  const Limits no_limit = {.header_bytes = ~uint64_t{0}};
  for (uint64_t below = 1; below <= 16; ++below)
    CHECK_FALSE(header_length(with_length(0 - below, ""), 100, "file", &length, no_limit).ok());
}

TEST_CASE("safetensors: a head that is shorter than it says is refused, whatever the file's size") {
  Bytes file = good_file();
  Header header;
  const size_t head = file.size() - 11;
  CHECK(parse({file.data(), head}, file.size(), "file", &header).ok());
  for (size_t n = 0; n < head; ++n)
    CHECK_FALSE(parse({file.data(), n}, file.size(), "file", &header).ok());
}

TEST_CASE("safetensors: a file that was cut anywhere is refused") {
  const Bytes file = good_file();
  for (size_t n = 0; n < file.size(); ++n) {
    const Bytes cut(file.begin(), file.begin() + ptrdiff_t(n));
    Header header;
    INFO(n << " of " << file.size() << " bytes");
    CHECK(parse_all(cut, &header).code() == TALUS_E_FORMAT);
    CHECK(header.tensors.empty());
  }
}

TEST_CASE("safetensors: a header with any bit flipped is refused, or its tensors tile the file") {
  const Bytes file = good_file();
  size_t accepted = 0;
  for (size_t bit = 0; bit < 8 * (file.size() - 11); ++bit) {
    Bytes damaged = file;
    damaged[bit / 8] ^= uint8_t(1 << bit % 8);
    Header header;
    INFO("bit " << bit);
    const Status status = parse_all(damaged, &header);
    if (status.ok()) CHECK(tiling_fault(header, damaged.size()) == "");
    CHECK(status.ok() == status.text().empty());
    accepted += status.ok();
  }
  // Names, values and dtypes of equal size survive a flip: if nothing did, the file was not good.
  CHECK(accepted > 0);
}

TEST_CASE("safetensors: counts at their limits are read, one more is not") {
  const std::string tensors = R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)"
                              R"("b":{"dtype":"U8","shape":[1,1],"data_offsets":[1,2]},)"
                              R"("__metadata__":{"k":"12345","l":""}})";
  const struct {
    const char* what;
    Limits limits;
    bool good;
  } cases[] = {{"two tensors", {.tensors = 2}, true},
               {"a second tensor", {.tensors = 1}, false},
               {"rank 2", {.rank = 2}, true},
               {"rank above 1", {.rank = 1}, false},
               {"two entries", {.metadata = 2}, true},
               {"a second entry", {.metadata = 1}, false},
               {"names of a byte", {.name_bytes = 1}, true},
               {"names of more than no byte", {.name_bytes = 0}, false},
               {"values of 5 bytes", {.metadata_value_bytes = 5}, true},
               {"a value of 5 bytes", {.metadata_value_bytes = 4}, false}};
  for (const auto& c : cases) {
    Header header;
    INFO(c.what);
    CHECK(parse_all(file_of(tensors, 2), &header, c.limits).ok() == c.good);
  }
}

TEST_CASE("safetensors: a million tensors are read, one more is not") {
  std::string json = "{";
  for (int i = 0; i < (1 << 20) + 1; ++i) {
    if (i == 1 << 20) {
      Header header;
      CHECK(parse_all(file_of(json + "}"), &header).text() == "");
      CHECK(header.tensors.size() == size_t{1} << 20);
    }
    json += (i ? ",\"" : "\"") + std::to_string(i) +
            R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  Header header;
  CHECK(has(parse_all(file_of(json + "}"), &header).text(), "more than 1048576 tensors"));
}

TEST_CASE("safetensors: control characters of names do not reach a text") {
  Header header;
  const Status status = parse_all(
      file_of(R"({"a\u001b[2J\n":{"dtype":"F33","shape":[],"data_offsets":[0,0]}})"), &header);
  CHECK(status.text() == "file: tensor \"a?[2J?\": dtype \"F33\" is not read");
}

TEST_CASE("safetensors: a layout is in the reference writer's order, aligned and read back") {
  const std::vector<Entry> entries = {entry("talus.digest", "U32", {7}),
                                      entry("w", "BF16", {3}),
                                      entry("b", "F32", {2, 3}),
                                      entry("a", "F32", {0}),
                                      entry("step", "I64", {}),
                                      entry("flag", "BOOL", {5}),
                                      entry("z", "F64", {1}),
                                      entry("q", "U8", {2})};
  const Strings metadata = {{"k", "v\n\"\xc3\xa9"}, {"user.x", ""}};
  Layout layout;
  REQUIRE(lay_out(entries, metadata, "talus.digest", &layout).text() == "");
  CHECK(layout.order == std::vector<size_t>{4, 6, 3, 2, 1, 5, 7, 0});
  CHECK(layout.head.size() % 64 == 0);
  CHECK(layout.head[8] == '{');
  CHECK(layout.total == layout.head.size() + 8 + 8 + 0 + 24 + 6 + 5 + 2 + 28);

  Header header;
  REQUIRE(read_back(layout, &header).text() == "");
  CHECK(header.metadata == metadata);
  CHECK(header.tensors.size() == entries.size());
  uint64_t next = 0;
  for (const size_t i : layout.order) {
    INFO(entries[i].name);
    const Tensor& tensor = header.tensors.at(entries[i].name);
    CHECK(tensor.dtype == entries[i].dtype);
    CHECK(tensor.shape == entries[i].shape);
    CHECK(tensor.begin == next);
    CHECK(tensor.bytes() == entries[i].bytes());
    if (i != 0) CHECK(tensor.begin % dtype_bytes(tensor.dtype) == 0);
    next = tensor.end;
  }
}

TEST_CASE("safetensors: the bytes of a layout are those that are written down here") {
  Layout layout;
  REQUIRE(lay_out(std::vector{entry("b"), entry("a")}, {{"k", "\xc3\xa9"}}, "", &layout).ok());
  std::string json =
      "{\"__metadata__\":{\"k\":\"\xc3\xa9\"},"
      R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})";
  json.resize(184, ' ');
  const Bytes want = file_of(json);
  CHECK(layout.head == std::string(want.begin(), want.end()));

  REQUIRE(lay_out({}, {}, "", &layout).ok());
  CHECK(layout.head.substr(8) == "{}" + std::string(54, ' '));
  CHECK(layout.total == 64);
}

TEST_CASE("safetensors: the order of the entries does not reach the bytes") {
  std::vector<Entry> entries = {entry("a"), entry("b", "I64"), entry("c", "U8"), entry("d")};
  Layout first, other;
  REQUIRE(lay_out(entries, {}, "b", &first).ok());
  while (std::next_permutation(entries.begin(), entries.end(),
                               [](const Entry& x, const Entry& y) { return x.name < y.name; })) {
    REQUIRE(lay_out(entries, {}, "b", &other).ok());
    REQUIRE(other.head == first.head);
  }
}

TEST_CASE("safetensors: headers of every length are padded to 64 bytes") {
  for (size_t n = 1; n <= 130; ++n) {
    Layout layout;
    Header header;
    REQUIRE(lay_out(std::vector{entry(std::string(n, 'n'))}, {}, "", &layout).ok());
    INFO(n << " bytes of a name");
    CHECK(layout.head.size() % 64 == 0);
    CHECK(read_back(layout, &header).text() == "");
  }
}

TEST_CASE("safetensors: what the reader would refuse is not laid out") {
  CHECK(
      has(text_of_layout({entry("a"), entry("b", "I64"), entry("a", "U8")}), "two tensors \"a\""));
  CHECK(has(text_of_layout({entry("\xff")}), "UTF-8"));
  CHECK(has(text_of_layout({entry("a\nb")}), "\"a?b\" has control characters"));
  CHECK(has(text_of_layout({entry("a\x7f")}), "control characters"));
  CHECK(has(text_of_layout({entry(std::string(4097, 'n'))}), "4096"));
  CHECK(has(text_of_layout({entry("__metadata__")}), "the format's own"));
  CHECK(has(text_of_layout({entry("a", "F33")}), "\"F33\""));
  CHECK(has(text_of_layout({entry("a", "F32", std::vector<uint64_t>(17, 1))}), "rank 17"));
  CHECK(has(text_of_layout({entry("a", "F32", {uint64_t{1} << 62})}), "overflows"));
  CHECK(has(text_of_layout({entry("a", "U8", {uint64_t{1} << 63})}), "larger than a file"));
  CHECK(has(text_of_layout({entry("a", "U8", {~uint64_t{0}}), entry("b", "U8")}), "larger"));
  CHECK(has(text_of_layout({}, {{"\xff", ""}}), "metadata key is no UTF-8"));
  CHECK(has(text_of_layout({}, {{"k", "\xff"}}), "metadata \"k\" is no UTF-8"));
  CHECK(has(text_of_layout({}, {{std::string(4097, 'n'), ""}}), "4096"));
  CHECK(has(text_of_layout({}, {{"k", std::string((size_t{64} << 20) + 1, 'v')}}), "longer"));
  const std::string half(size_t{60} << 20, 'v');
  CHECK(has(text_of_layout({}, {{"k", half}, {"l", half}}), "at most 100000000"));
}

TEST_CASE("safetensors: the bytes of dtypes, and none of others") {
  for (const char* dtype : {"F64", "I64", "U64"}) CHECK(dtype_bytes(dtype) == 8);
  for (const char* dtype : {"F32", "I32", "U32"}) CHECK(dtype_bytes(dtype) == 4);
  for (const char* dtype : {"F16", "BF16", "I16", "U16"}) CHECK(dtype_bytes(dtype) == 2);
  for (const char* dtype : {"I8", "U8", "F8_E4M3", "F8_E5M2", "BOOL"})
    CHECK(dtype_bytes(dtype) == 1);
  for (const char* dtype : {"", "F3", "F32 ", "f32", "F4", "C64"}) CHECK(dtype_bytes(dtype) == 0);
}
