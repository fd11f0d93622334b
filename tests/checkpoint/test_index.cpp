// The index of a checkpoint of several files: round trip, names of shards, and files that are
// broken.
#include <catch2/catch_test_macros.hpp>

#include <map>
#include <set>

#include "lib/checkpoint/index.h"
#include "tests/checkpoint/folder.h"

using namespace talus;
using namespace talus::test;

namespace {

const std::string kGeneration = "0123456789abcdef", kBroken = TALUS_INDEX_FILES;
const std::string kFirst = "x-0123456789abcdef-00001-of-00002.safetensors",
                  kSecond = "x-0123456789abcdef-00002-of-00002.safetensors";

Index small_index() {
  Index out;
  out.total_size = (uint64_t{1} << 53) + 1;
  out.generation = kGeneration;
  out.metadata = {{"format", "pt"}, {"talus.params", "[{\"name\":\"w\"}]"}, {"user.a \"b\"", "\n"}};
  out.weight_map = {{"state.w.exp_avg@0", kFirst}, {"state.\xc3\xa4.step", kSecond}};
  out.files[kFirst] = {(uint64_t{1} << 63) - 1,
                       0xffffffff,
                       {{"state.w.exp_avg@0", {"w", "exp_avg", 0, (uint64_t{1} << 62) + 1}}}};
  out.files[kSecond] = {0, 0, {}};
  return out;
}

// What a broken file's text must say, by its name without ".json". Of names and sizes the part that
// differs is enough.
const std::map<std::string, std::string> kFaults = {
    {"behind_the_end", "byte"},
    {"crc_fraction", "digest"},
    {"crc_negative", "digest"},
    {"crc_text", "digest"},
    {"crc_too_large", "digest"},
    {"cut", "byte"},
    {"file_absolute", "plain name"},
    {"file_backslash", "plain name"},
    {"file_empty_name", "plain name"},
    {"file_line_end", "plain name"},
    {"file_nul", "plain name"},
    {"file_only_dot", "plain name"},
    {"file_only_parent", "plain name"},
    {"file_parent", "plain name"},
    {"file_slash", "plain name"},
    {"file_text", "no JSON object"},
    {"file_without_header_crc32c", "header_crc32c"},
    {"file_without_pieces", "pieces"},
    {"file_without_size", "size"},
    {"files_list", "talus_files"},
    {"generation_long", "talus.generation"},
    {"generation_none", "talus.generation"},
    {"generation_number", "talus.generation"},
    {"generation_path", "talus.generation"},
    {"generation_short", "talus.generation"},
    {"generation_upper", "talus.generation"},
    {"list", "no JSON object"},
    {"map_absolute", "does not list"},
    {"map_backslash", "does not list"},
    {"map_empty_name", "does not list"},
    {"map_line_end", "does not list"},
    {"map_list", "weight_map"},
    {"map_nul", "does not list"},
    {"map_number", "weight_map"},
    {"map_only_dot", "does not list"},
    {"map_only_parent", "does not list"},
    {"map_parent", "does not list"},
    {"map_slash", "does not list"},
    {"map_unlisted", "does not list"},
    {"metadata_list", "metadata"},
    {"metadata_number", "user.epoch"},
    {"nothing", "byte"},
    {"piece_first_number", "first"},
    {"pieces_list", "talus.pieces"},
    {"size_hex", "size"},
    {"size_negative", "size"},
    {"size_none", "size"},
    {"size_number", "size"},
    {"size_sign", "size"},
    {"size_too_large", "size"},
    {"size_zero_first", "size"},
    {"total_negative", "total_size"},
    {"total_text", "total_size"},
    {"twice_at_top", "weight_map"},
    {"twice_by_escape", "state.w.exp_avg@0"},
    {"twice_in_files", "00001-of-00002"},
    {"twice_in_map", "state.w.exp_avg@0"},
    {"unknown_member", "more"},
    {"unknown_of_file", "more"},
    {"unknown_of_piece", "more"},
    {"without_metadata", "metadata"},
    {"without_talus_files", "talus_files"},
    {"without_weight_map", "weight_map"},
};

}  // namespace

TEST_CASE("index: what is written is read, sizes to 2^63 - 1 as well, and equal gives equal text") {
  const Index from = small_index();
  Index got;
  const Status status = read_index(write_index(from), "x", &got);
  CAPTURE(status.text());
  REQUIRE(status.ok());
  CHECK(got.total_size == from.total_size);
  CHECK(got.generation == from.generation);
  CHECK(got.metadata == from.metadata);
  CHECK(got.weight_map == from.weight_map);
  REQUIRE(got.files.size() == 2);
  for (const auto& [name, record] : from.files) {
    CAPTURE(name);
    CHECK(got.files[name].size == record.size);
    CHECK(got.files[name].header_crc32c == record.header_crc32c);
    CHECK(write_pieces(got.files[name].pieces) == write_pieces(record.pieces));
  }
  CHECK(write_index(got) == write_index(from));
}

TEST_CASE("index: each broken file is refused, named, and leaves the result alone") {
  std::set<std::string> seen;
  for (const auto& entry : std::filesystem::directory_iterator(kBroken)) {
    const std::string name = entry.path().stem().string();
    seen.insert(name);
    Index got;
    got.generation = "untouched";
    const Status status = read_index(file_bytes(entry.path().string()), "dir/an index", &got);
    CAPTURE(name, status.text());
    if (name == "good") {
      CHECK(status.ok());
      CHECK(got.files.size() == 2);
      continue;
    }
    REQUIRE(kFaults.count(name) == 1);
    CHECK(status.code() == TALUS_E_FORMAT);
    CHECK(status.text().find(kFaults.at(name)) != std::string::npos);
    CHECK(status.text().find("dir/an index") != std::string::npos);
    CHECK(got.generation == "untouched");
  }
  CHECK(seen.size() == kFaults.size() + 1);
}

TEST_CASE("index: cut at any byte it is refused") {
  const std::string text = write_index(small_index());
  for (size_t length = 0; length <= text.rfind('}'); ++length) {
    Index got;
    CAPTURE(length);
    CHECK(read_index(text.substr(0, length), "x", &got).code() == TALUS_E_FORMAT);
  }
}

TEST_CASE("index: a file that is missing is an I/O failure, an empty one is no index") {
  const Folder folder;
  Index got;
  CHECK(read_index_file(folder / "none", &got).code() == TALUS_E_IO);
  write_file(folder / "x", "");
  CHECK(read_index_file(folder / "x", &got).code() == TALUS_E_FORMAT);
  write_file(folder / "x", write_index(small_index()));
  CHECK(read_index_file(folder / "x", &got).ok());
  // More than an index may have, without a byte of it on the disk.
  std::filesystem::resize_file(folder / "x", 100'000'001);
  CHECK(read_index_file(folder / "x", &got).code() == TALUS_E_FORMAT);
}

TEST_CASE("index: it is known by its suffix, and shards are named after it") {
  CHECK(is_index("dir/x.safetensors.index.json"));
  CHECK(!is_index("dir/x.safetensors"));
  CHECK(!is_index("x.json"));
  CHECK(shard_name("dir/x.safetensors.index.json", kGeneration, 1, 8) ==
        "x-0123456789abcdef-00001-of-00008.safetensors");
  CHECK(shard_name("x.safetensors.index.json", kGeneration, 123456, 123456) ==
        "x-0123456789abcdef-123456-of-123456.safetensors");
}

TEST_CASE("index: a shard of it is known by its name, whatever the generation, and no other is") {
  const std::string index = "dir/x.safetensors.index.json";
  for (const int number : {1, 12, 99999, 100000, 1000000})
    for (const char* generation : {"0123456789abcdef", "ffffffffffffffff"}) {
      CAPTURE(number, generation);
      CHECK(is_shard_of(index, shard_name(index, generation, number, number)));
    }
  for (const char* name : {"", "x", "x.safetensors", "x.safetensors.index.json", "x-.safetensors",
                           "y-0123456789abcdef-00001-of-00008.safetensors",
                           "x-0123456789ABCDEF-00001-of-00008.safetensors",
                           "x-0123456789abcde-00001-of-000008.safetensors",
                           "x-0123456789abcdef0-0001-of-00008.safetensors",
                           "x-0123456789abcdef-0001a-of-00008.safetensors",
                           "x-0123456789abcdef-00001-of-0000a.safetensors",
                           "x-0123456789abcdef-00001-of-00008.safetensors2",
                           "x-0123456789abcdef-00001_of-00008.safetensors",
                           "x-0123456789abcdef-00001-of-00008-of-1.safetensors",
                           "../x-0123456789abcdef-00001-of-00008.safetensors",
                           "x-y-0123456789abcdef-00001-of-00008.safetensors"}) {
    CAPTURE(name);
    CHECK(!is_shard_of(index, name));
  }
  CHECK(
      is_shard_of("x-y.safetensors.index.json", "x-y-0123456789abcdef-00001-of-00008.safetensors"));
}
