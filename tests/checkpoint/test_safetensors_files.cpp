// The files of make_files.py: what the reader says of each, and that each is asked about.
#include <catch2/catch_test_macros.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "lib/checkpoint/safetensors.h"
#include "tests/checkpoint/tiling.h"

using talus::Status;
using talus::safetensors::Header;

namespace {

struct Expected {
  std::string file;
  int32_t code;
  std::vector<std::string> pieces;  // of the text, in this order
};

// By the reader's checks, in its order.
const Expected kFiles[] = {
    // legal
    {"empty_object", TALUS_OK, {}},
    {"empty_object_padded", TALUS_OK, {}},
    {"white_space", TALUS_OK, {}},
    {"one_tensor", TALUS_OK, {}},
    {"two_tensors", TALUS_OK, {}},
    {"zero_size", TALUS_OK, {}},
    {"zero_sizes_among_others", TALUS_OK, {}},
    {"zero_before_overflow", TALUS_OK, {}},
    {"rank_0", TALUS_OK, {}},
    {"rank_16", TALUS_OK, {}},
    {"unaligned", TALUS_OK, {}},
    {"nan_data", TALUS_OK, {}},
    {"all_dtypes", TALUS_OK, {}},
    {"order_of_data_is_another", TALUS_OK, {}},
    {"order_of_members", TALUS_OK, {}},
    {"metadata_last", TALUS_OK, {}},
    {"metadata_empty", TALUS_OK, {}},
    {"metadata_escapes", TALUS_OK, {}},
    {"name_empty", TALUS_OK, {}},
    {"name_utf8", TALUS_OK, {}},
    {"name_4096_bytes", TALUS_OK, {}},
    // 1: the length
    {"nothing",
     TALUS_E_FORMAT,
     {"0 bytes are no safetensors file: its first 8 are the length of the header"}},
    {"seven_bytes",
     TALUS_E_FORMAT,
     {"7 bytes are no safetensors file: its first 8 are the length of the header"}},
    {"length_beyond_end", TALUS_E_FORMAT, {"bytes 0 .. 7: a header of 3 bytes in a file of 10"}},
    {"length_over_limit",
     TALUS_E_FORMAT,
     {"bytes 0 .. 7: a header of 100000001 bytes, at most 100000000 are read"}},
    {"length_all_ones",
     TALUS_E_FORMAT,
     {"bytes 0 .. 7: a header of 18446744073709551615 bytes, at most 100000000 are read"}},
    // 2: bytes that a parser would skip
    {"nul_behind_object", TALUS_E_FORMAT, {"a NUL in the JSON", ", byte 10"}},
    {"nul_in_name", TALUS_E_FORMAT, {"a NUL in the JSON", ", byte 11"}},
    {"nul_padding", TALUS_E_FORMAT, {"a NUL in the JSON", ", byte 10"}},
    {"byte_order_mark", TALUS_E_FORMAT, {"a byte order mark", ", byte 8"}},
    // 3: one object, and white space
    {"header_empty", TALUS_E_FORMAT, {"header: no valid JSON", ", byte 8"}},
    {"header_of_spaces", TALUS_E_FORMAT, {"header: no valid JSON", ", byte 11"}},
    {"list_at_top", TALUS_E_FORMAT, {"header: a list is not expected here", ", byte 8"}},
    {"string_at_top", TALUS_E_FORMAT, {"header: a string is not expected here", ", byte 10"}},
    {"number_at_top", TALUS_E_FORMAT, {"header: a number is not expected here", ", byte 8"}},
    {"null_at_top", TALUS_E_FORMAT, {"header: null is not expected here", ", byte 11"}},
    {"two_objects", TALUS_E_FORMAT, {"header: no valid JSON", ", byte 10"}},
    {"text_behind_object", TALUS_E_FORMAT, {"header: no valid JSON", ", byte 11"}},
    {"form_feed", TALUS_E_FORMAT, {"header: no valid JSON", ", byte 8"}},
    // 4: JSON and UTF-8
    {"not_closed", TALUS_E_FORMAT, {"header: no valid JSON", ", byte 60"}},
    {"trailing_comma", TALUS_E_FORMAT, {"header: no valid JSON", ", byte 62"}},
    {"no_colon", TALUS_E_FORMAT, {"tensor \"a\": no valid JSON", ", byte 12"}},
    {"no_comma", TALUS_E_FORMAT, {"header: no valid JSON", ", byte 61"}},
    {"comment", TALUS_E_FORMAT, {"header: no valid JSON", ", byte 9"}},
    {"single_quotes", TALUS_E_FORMAT, {"header: no valid JSON", ", byte 9"}},
    {"nan_literal", TALUS_E_FORMAT, {"tensor \"a\": no valid JSON", ", byte 37"}},
    {"leading_zero", TALUS_E_FORMAT, {"tensor \"a\": no valid JSON", ", byte 39"}},
    {"plus_sign", TALUS_E_FORMAT, {"tensor \"a\": no valid JSON", ", byte 37"}},
    {"hexadecimal", TALUS_E_FORMAT, {"tensor \"a\": no valid JSON", ", byte 38"}},
    {"overflowing_float", TALUS_E_FORMAT, {"tensor \"a\": no valid JSON", ", byte 42"}},
    {"control_in_string", TALUS_E_FORMAT, {"__metadata__: \"k\": no valid JSON", ", byte 30"}},
    {"bad_escape", TALUS_E_FORMAT, {"__metadata__: \"k\": no valid JSON", ", byte 31"}},
    {"short_escape", TALUS_E_FORMAT, {"__metadata__: \"k\": no valid JSON", ", byte 34"}},
    {"utf8_stray_byte", TALUS_E_FORMAT, {"__metadata__: \"k\": no valid JSON", ", byte 30"}},
    {"utf8_cut_short", TALUS_E_FORMAT, {"__metadata__: \"k\": no valid JSON", ", byte 31"}},
    {"utf8_overlong", TALUS_E_FORMAT, {"__metadata__: \"k\": no valid JSON", ", byte 30"}},
    {"utf8_overlong_of_three", TALUS_E_FORMAT, {"__metadata__: \"k\": no valid JSON", ", byte 31"}},
    {"utf8_surrogate", TALUS_E_FORMAT, {"__metadata__: \"k\": no valid JSON", ", byte 31"}},
    {"utf8_above_10ffff", TALUS_E_FORMAT, {"__metadata__: \"k\": no valid JSON", ", byte 31"}},
    {"surrogate_high_alone", TALUS_E_FORMAT, {"__metadata__: \"k\": no valid JSON", ", byte 36"}},
    {"surrogate_low_alone", TALUS_E_FORMAT, {"__metadata__: \"k\": no valid JSON", ", byte 35"}},
    {"surrogates_swapped", TALUS_E_FORMAT, {"__metadata__: \"k\": no valid JSON", ", byte 35"}},
    // 5: the grammar
    {"unknown_key",
     TALUS_E_FORMAT,
     {"tensor \"a\": unknown key \"x\", expected dtype, shape, data_offsets", ", byte 63"}},
    {"no_dtype",
     TALUS_E_FORMAT,
     {"tensor \"a\": without dtype, shape or data_offsets", ", byte 46"}},
    {"no_shape",
     TALUS_E_FORMAT,
     {"tensor \"a\": without dtype, shape or data_offsets", ", byte 48"}},
    {"no_offsets",
     TALUS_E_FORMAT,
     {"tensor \"a\": without dtype, shape or data_offsets", ", byte 39"}},
    {"tensor_is_list", TALUS_E_FORMAT, {"tensor \"b\": a list is not expected here", ", byte 66"}},
    {"tensor_is_string",
     TALUS_E_FORMAT,
     {"tensor \"b\": a string is not expected here", ", byte 70"}},
    {"tensor_is_null", TALUS_E_FORMAT, {"tensor \"b\": null is not expected here", ", byte 69"}},
    {"tensor_is_true",
     TALUS_E_FORMAT,
     {"tensor \"b\": a boolean is not expected here", ", byte 69"}},
    {"tensor_is_number",
     TALUS_E_FORMAT,
     {"tensor \"b\": a number is not expected here", ", byte 67"}},
    {"dtype_is_number",
     TALUS_E_FORMAT,
     {"tensor \"a\": a number is not expected here", ", byte 23"}},
    {"dtype_is_list", TALUS_E_FORMAT, {"tensor \"a\": a list is not expected here", ", byte 22"}},
    {"shape_is_number",
     TALUS_E_FORMAT,
     {"tensor \"a\": a number is not expected here", ", byte 37"}},
    {"shape_is_object",
     TALUS_E_FORMAT,
     {"tensor \"a\": an object is not expected here", ", byte 36"}},
    {"shape_of_strings",
     TALUS_E_FORMAT,
     {"tensor \"a\": a string is not expected here", ", byte 39"}},
    {"shape_nested", TALUS_E_FORMAT, {"tensor \"a\": a list is not expected here", ", byte 37"}},
    {"shape_of_null", TALUS_E_FORMAT, {"tensor \"a\": null is not expected here", ", byte 40"}},
    {"offsets_is_string",
     TALUS_E_FORMAT,
     {"tensor \"a\": a string is not expected here", ", byte 59"}},
    {"offsets_one",
     TALUS_E_FORMAT,
     {"tensor \"a\": data_offsets has fewer than two numbers", ", byte 57"}},
    {"offsets_three",
     TALUS_E_FORMAT,
     {"tensor \"a\": data_offsets has more than two numbers", ", byte 61"}},
    {"offsets_nested", TALUS_E_FORMAT, {"tensor \"a\": a list is not expected here", ", byte 58"}},
    {"metadata_is_string",
     TALUS_E_FORMAT,
     {"__metadata__: a string is not expected here", ", byte 26"}},
    {"metadata_is_list",
     TALUS_E_FORMAT,
     {"__metadata__: a list is not expected here", ", byte 24"}},
    {"metadata_of_number",
     TALUS_E_FORMAT,
     {"__metadata__: \"k\": a number is not expected here", ", byte 30"}},
    {"metadata_of_null",
     TALUS_E_FORMAT,
     {"__metadata__: \"k\": null is not expected here", ", byte 32"}},
    {"metadata_of_object",
     TALUS_E_FORMAT,
     {"__metadata__: \"k\": an object is not expected here", ", byte 29"}},
    {"deep_lists", TALUS_E_FORMAT, {"tensor \"a\": a list is not expected here", ", byte 37"}},
    {"deep_objects",
     TALUS_E_FORMAT,
     {"tensor \"a\": unknown key \"a\", expected dtype, shape, data_offsets", ", byte 16"}},
    // 6: duplicates
    {"twice_name", TALUS_E_FORMAT, {"header: two keys \"a\"", ", byte 64"}},
    {"twice_name_escaped", TALUS_E_FORMAT, {"header: two keys \"a\"", ", byte 69"}},
    {"twice_dtype",
     TALUS_E_FORMAT,
     {"tensor \"a\": dtype, shape or data_offsets twice", ", byte 34"}},
    {"twice_dtype_escaped",
     TALUS_E_FORMAT,
     {"tensor \"a\": dtype, shape or data_offsets twice", ", byte 39"}},
    {"twice_shape",
     TALUS_E_FORMAT,
     {"tensor \"a\": dtype, shape or data_offsets twice", ", byte 46"}},
    {"twice_offsets",
     TALUS_E_FORMAT,
     {"tensor \"a\": dtype, shape or data_offsets twice", ", byte 74"}},
    {"twice_metadata", TALUS_E_FORMAT, {"header: two keys \"__metadata__\"", ", byte 40"}},
    {"twice_metadata_escaped", TALUS_E_FORMAT, {"header: two keys \"__metadata__\"", ", byte 45"}},
    {"twice_metadata_key", TALUS_E_FORMAT, {"__metadata__: two keys \"k\"", ", byte 35"}},
    {"twice_metadata_key_escaped", TALUS_E_FORMAT, {"__metadata__: two keys \"k\"", ", byte 40"}},
    // 7: numbers
    {"shape_below_0", TALUS_E_FORMAT, {"tensor \"a\": a number below 0", ", byte 39"}},
    {"shape_minus_0", TALUS_E_FORMAT, {"tensor \"a\": a number below 0", ", byte 39"}},
    {"shape_2.0", TALUS_E_FORMAT, {"tensor \"a\": not an unsigned 64-bit integer", ", byte 40"}},
    {"shape_2e0", TALUS_E_FORMAT, {"tensor \"a\": not an unsigned 64-bit integer", ", byte 40"}},
    {"shape_2_to_64",
     TALUS_E_FORMAT,
     {"tensor \"a\": not an unsigned 64-bit integer", ", byte 57"}},
    {"offset_minus_0", TALUS_E_FORMAT, {"tensor \"a\": a number below 0", ", byte 58"}},
    {"offset_8.0", TALUS_E_FORMAT, {"tensor \"a\": not an unsigned 64-bit integer", ", byte 61"}},
    {"offset_2_to_64",
     TALUS_E_FORMAT,
     {"tensor \"a\": not an unsigned 64-bit integer", ", byte 78"}},
    // 8: dtype, rank and size
    {"dtype_unknown", TALUS_E_UNSUPPORTED, {"tensor \"a\": dtype \"F33\" is not read"}},
    {"dtype_lower_case", TALUS_E_UNSUPPORTED, {"tensor \"a\": dtype \"f32\" is not read"}},
    {"dtype_empty", TALUS_E_UNSUPPORTED, {"tensor \"a\": dtype \"\" is not read"}},
    {"rank_17", TALUS_E_FORMAT, {"tensor \"a\": rank above 16", ", byte 69"}},
    {"shape_overflows", TALUS_E_FORMAT, {"tensor \"a\": shape [4294967296, 4294967296] overflows"}},
    {"bytes_overflow", TALUS_E_FORMAT, {"tensor \"a\": shape [4611686018427387904] overflows"}},
    {"overflow_before_zero",
     TALUS_E_FORMAT,
     {"tensor \"a\": shape [4294967296, 4294967296, 0] overflows"}},
    {"less_than_shape",
     TALUS_E_FORMAT,
     {"tensor \"a\": data_offsets [0, 8], expected 12 bytes of F32 [3]"}},
    {"more_than_shape",
     TALUS_E_FORMAT,
     {"tensor \"a\": data_offsets [0, 8], expected 4 bytes of F32 [1]"}},
    {"end_before_begin",
     TALUS_E_FORMAT,
     {"tensor \"a\": data_offsets [8, 0], expected 0 bytes of F32 [0]"}},
    {"end_before_begin_wraps", TALUS_E_FORMAT, {"tensor \"b\": data_offsets [8, 0]"}},
    // 9: the data is tiled
    {"hole_at_begin",
     TALUS_E_FORMAT,
     {"tensor \"a\": data begins at byte 4 of the data, behind a hole, expected 0"}},
    {"hole",
     TALUS_E_FORMAT,
     {"tensor \"b\": data begins at byte 4 of the data, behind a hole, expected 3"}},
    {"overlap",
     TALUS_E_FORMAT,
     {"tensor \"b\": data begins at byte 4 of the data, inside of another tensor, expected 8"}},
    {"same_bytes_twice",
     TALUS_E_FORMAT,
     {"tensor \"b\": data begins at byte 0 of the data, inside of another tensor, expected 8"}},
    {"zero_size_inside",
     TALUS_E_FORMAT,
     {"tensor \"b\": data begins at byte 4 of the data, inside of another tensor, expected 8"}},
    {"zero_size_behind",
     TALUS_E_FORMAT,
     {"tensor \"b\": data begins at byte 12 of the data, behind a hole, expected 8"}},
    {"trailing_byte", TALUS_E_FORMAT, {"9 bytes of data from byte 62 on, expected 8"}},
    {"trailing_byte_without_tensors",
     TALUS_E_FORMAT,
     {"1 bytes of data from byte 10 on, expected 0"}},
    {"data_cut", TALUS_E_FORMAT, {"7 bytes of data from byte 62 on, expected 8"}},
    {"data_missing", TALUS_E_FORMAT, {"0 bytes of data from byte 62 on, expected 8"}},
    {"offsets_beyond_end",
     TALUS_E_FORMAT,
     {"8 bytes of data from byte 97 on, expected 9223372036854775807"}},
    // 10: limits
    {"name_4097_bytes", TALUS_E_FORMAT, {"is longer than 4096 bytes", ", byte 4107"}},
    {"metadata_key_4097_bytes", TALUS_E_FORMAT, {"is longer than 4096 bytes", ", byte 4123"}},
};

std::vector<uint8_t> bytes_of(const std::string& file) {
  const std::string path = TALUS_CHECKPOINT_FILES "/" + file + ".safetensors";
  std::ifstream in(path, std::ios::binary);
  INFO(path);
  REQUIRE(in.good());
  return {std::istreambuf_iterator<char>(in), {}};
}

bool has_in_order(const std::string& text, const std::vector<std::string>& pieces) {
  size_t from = 0;
  for (const std::string& piece : pieces) {
    const size_t found = text.find(piece, from);
    if (found == text.npos) return false;
    from = found + piece.size();
  }
  return true;
}

}  // namespace

TEST_CASE("safetensors: each file is accepted, or refused by its check with key and byte") {
  for (const Expected& expected : kFiles) {
    const std::vector<uint8_t> bytes = bytes_of(expected.file);
    Header header;
    const Status status = parse(bytes, bytes.size(), "dir/file", &header);
    INFO(expected.file << ": " << status.text());
    CHECK(status.code() == expected.code);
    if (expected.code == TALUS_OK) {
      CHECK(talus::test::tiling_fault(header, bytes.size()) == "");
      continue;
    }
    std::vector<std::string> pieces = {"dir/file: "};
    pieces.insert(pieces.end(), expected.pieces.begin(), expected.pieces.end());
    CHECK(has_in_order(status.text(), pieces));
    CHECK((header.tensors.empty() && header.metadata.empty()));
  }
}

TEST_CASE("safetensors: every file of the folder is in the table, and the reverse") {
  std::set<std::string> there, known;
  for (const auto& entry : std::filesystem::directory_iterator(TALUS_CHECKPOINT_FILES))
    there.insert(entry.path().filename().string());
  for (const Expected& expected : kFiles) known.insert(expected.file + ".safetensors");
  CHECK(there == known);
  CHECK(std::size(kFiles) == known.size());
}
