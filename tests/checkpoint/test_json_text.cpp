// JSON that is read strictly, and numbers that come back as they were.
#include <catch2/catch_test_macros.hpp>

#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <string>

#include "lib/checkpoint/json_text.h"
#include "tests/cases.h"

using namespace talus;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }

std::string refusal(const std::string& text) {
  Json out;
  const Status status = parse_json(text, "file: key", &out);
  CHECK(status.code() == TALUS_E_FORMAT);
  CHECK(status.text().starts_with("file: key: "));
  return status.text();
}

Json parsed(const std::string& text) {
  Json out;
  REQUIRE(parse_json(text, "file", &out).ok());
  return out;
}

bool has(const std::string& text, const std::string& piece) {
  UNSCOPED_INFO(text << " | wanted: " << piece);
  return text.find(piece) != text.npos;
}

uint64_t bits(double value) { return std::bit_cast<uint64_t>(value); }

// Through a text, as hyperparameters go.
double through_text(double value) {
  Json read;
  double out = std::nan("");
  const Status status =
      parse_json(write_json(std::vector<Json>{json_number(value)}), "file", &read);
  REQUIRE(status.text() == "");
  REQUIRE(read_number(read.elements().at(0), &out));
  return out;
}

// No INFO in loops over many values: a text for the first one that differs.
std::string changed(double value) {
  const double got = through_text(value);
  if (bits(got) == bits(value)) return "";
  return text("%a: got %016llx, want %016llx", value, (unsigned long long)bits(got),
              (unsigned long long)bits(value));
}

}  // namespace

TEST_CASE("json: a document is read as it is, in its own order") {
  const std::string text = R"( {"z":[1,-2,0.5,true,null],"a":{"k":"\u00e9"},"m":[]} )";
  Json read;
  REQUIRE(parse_json(text, "file", &read).text() == "");
  CHECK(write_json(read) == "{\"z\":[1,-2,0.5,true,null],\"a\":{\"k\":\"\xc3\xa9\"},\"m\":[]}");
  for (const char* scalar : {"1", "\"a\"", "null", "true", "{}", "[]"}) {
    REQUIRE(parse_json(scalar, "file", &read).text() == "");
    CHECK(write_json(read) == scalar);
  }
}

TEST_CASE("json: what a strict reader must refuse is refused at its byte") {
  CHECK(has(refusal(""), "no valid JSON"));
  CHECK(has(refusal("{} {}"), "byte 3"));
  CHECK(has(refusal("[1,]"), "byte 3"));
  CHECK(has(refusal(std::string("{}\0", 3)), "a NUL in the JSON, byte 2"));
  CHECK(has(refusal("\xef\xbb\xbf{}"), "a byte order mark, byte 0"));
  CHECK(has(refusal("[\"\xff\"]"), "byte 2"));
  CHECK(has(refusal(R"(["\ud800"])"), "no valid JSON"));
  CHECK(has(refusal("[NaN]"), "no valid JSON"));
  CHECK(has(refusal("[/**/]"), "no valid JSON"));
  CHECK(has(refusal("[1e999]"), "number overflow"));
}

TEST_CASE("json: two equal keys are refused, also those that are equal once they are unescaped") {
  CHECK(has(refusal(R"({"a":1,"b":2,"a":3})"), "two keys \"a\", byte 15"));
  CHECK(has(refusal(R"({"a":1,"\u0061":2})"), "two keys \"a\", byte 14"));
  CHECK(has(refusal(R"([{"k":{"a":1,"a":1}}])"), "two keys \"a\""));
  Json out;
  CHECK(parse_json(R"([{"a":{"a":1},"b":{"a":1}},{"a":1}])", "file", &out).text() == "");
}

TEST_CASE("json: eight levels are read, nine are not, and a million do not end the process") {
  Json out;
  CHECK(parse_json(nested(8), "file", &out).text() == "");
  CHECK(has(refusal(nested(9)), "deeper than 8 levels, byte 8"));
  CHECK(has(refusal(nested(1'000'000)), "deeper than 8 levels"));
  CHECK(has(refusal(R"({"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":1}}}}}}}}})"), "deeper"));
}

TEST_CASE("json: an object of many members does not take the time of their square") {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += (i ? ",\"" : "\"") + std::to_string(i) + "\":0";
  Json out;
  REQUIRE(parse_json(text + "}", "file", &out).text() == "");
  CHECK(out.members().size() == 200'000);
}

TEST_CASE("json: doubles come back with all their bits") {
  const double hard[] = {0.0,     -0.0,
                         0.1,     1e-8,
                         1,       -1,
                         1e22,    1e23,
                         5e-324,  0x1p-1022,
                         0x1p53,  0x1p63,
                         -0x1p63, 0x1p64,
                         1e300,   0x1.fffffffffffffp1023,
                         1.0 / 3, 123456789012345680000.0};
  std::string fault;
  for (const double value : hard)
    if (fault.empty()) fault = changed(value);
  for (int64_t i = 0; i < 20'000 && fault.empty(); ++i) {
    const double value = std::bit_cast<double>(test::draw(1, 0, i));
    if (std::isfinite(value)) fault = changed(value);
  }
  CHECK(fault == "");
  CHECK(through_text(kInfinity) == kInfinity);
  CHECK(through_text(-kInfinity) == -kInfinity);
}

TEST_CASE("json: doubles are written in their shortest form") {
  CHECK(write_json(json_number(0.1)) == "0.1");
  CHECK(write_json(json_number(1)) == "1");
  CHECK(write_json(json_number(1e-8)) == "1e-08");
  CHECK(write_json(json_number(-0.0)) == "-0.0");
  CHECK(write_json(json_number(5e-324)) == "5e-324");
  CHECK(write_json(json_number(1e23)) == "1e+23");  // nlohmann's dump: 9.999999999999999e+22
  CHECK(write_json(json_number(kInfinity)) == "\"inf\"");
  CHECK(write_json(json_number(-kInfinity)) == "\"-inf\"");
}

TEST_CASE("json: the caller's rounding mode does not reach what is read and written") {
  std::string fault;
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(mode);
    for (int64_t i = 0; i < 300 && fault.empty(); ++i)
      fault = changed(test::signed_between(test::draw(2, 0, i), 0, 1));
    if (fault.empty()) fault = changed(9007199254740993e3);
    std::fesetround(FE_TONEAREST);
  }
  CHECK(fault == "");
}

TEST_CASE("json: only numbers and the infinities' names are numbers") {
  double out = 7;
  for (const char* text : {"\"nan\"", "\"1\"", "\"+inf\"", "\"INF\"", "null", "true", "[]", "{}"}) {
    INFO(text);
    CHECK_FALSE(read_number(parsed(text), &out));
  }
  CHECK(out == 7);
  CHECK(read_number(parsed("-3"), &out));
  CHECK(out == -3);
}

TEST_CASE("json: counts are decimal strings of 0 to 2^63 - 1") {
  const int64_t most = std::numeric_limits<int64_t>::max();
  int64_t out = -1;
  for (const int64_t value : {int64_t{0}, int64_t{1}, (int64_t{1} << 53) + 1, most}) {
    REQUIRE(read_count(json_count(value), &out));
    CHECK(out == value);
  }
  CHECK(json_count(most).string() == "9223372036854775807");
  out = 7;
  for (const char* text : {"", "-1", "+1", "00", "01", " 1", "1 ", "1.0", "1e3", "0x1", "-0",
                           "9223372036854775808", "99999999999999999999"}) {
    INFO(text);
    CHECK_FALSE(read_count(Json(text), &out));
  }
  CHECK_FALSE(read_count(Json(1.0), &out));
  CHECK(out == 7);
}
