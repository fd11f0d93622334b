// What a checkpoint says of itself: what is written is read, and each fault is named.
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <string>

#include "lib/checkpoint/manifest.h"

using namespace talus;
using safetensors::Strings;

namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

Manifest example() {
  Manifest m;
  m.required = {"master", "ranges"};
  m.writer = "0.1.0";
  m.params = {{"h.0.w", "BF16", {2, 3}, 1, {"step", "exp_avg"}},
              {"\xc3\xa9\"\\", "F32", {}, 0, {}},
              {"empty", "F64", {0, 5}, 0, {"step"}}};
  m.groups = {{"adamw", {{"lr", 0.1}, {"eps", 1e-8}, {"beta1", 0.9}}, "train"},
              {"sgd", {{"z", -std::numeric_limits<double>::infinity()}, {"a", -0.0}}, "train"}};
  m.counts = {kMostSteps, 3, 2, 1};
  m.notes = {{"epoch", "7"}, {"", "no name"}, {"talus.version", "a note"}};
  return m;
}

Manifest read_well(const Strings& metadata) {
  Manifest out;
  const Status status = read_manifest(metadata, "file", &out);
  REQUIRE(status.text() == "");
  return out;
}

Strings with(const std::string& key, const std::string& value) {
  Strings metadata = write_manifest(example());
  metadata[key] = value;
  return metadata;
}

Strings without(const std::string& key) {
  Strings metadata = write_manifest(example());
  REQUIRE(metadata.erase(key) == 1);
  return metadata;
}

// Whether metadata is refused with this code and a text that has all of the pieces.
bool refused(const Strings& metadata, int32_t code, std::initializer_list<const char*> pieces) {
  Manifest out;
  const Status status = read_manifest(metadata, "file", &out);
  UNSCOPED_INFO(status.text());
  bool good = status.code() == code && status.text().starts_with("file: ") && out == Manifest{};
  for (const char* piece : pieces) {
    UNSCOPED_INFO("wanted: " << piece);
    good = good && status.text().find(piece) != std::string::npos;
  }
  return good;
}

constexpr int32_t kFormat = TALUS_E_FORMAT, kVersion = TALUS_E_VERSION;

// A list of one parameter, or group, in which one piece of text is another.
std::string changed(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}
Strings param(const std::string& from, const std::string& to) {
  const std::string good =
      R"([{"name":"w","dtype":"F32","shape":[2,3],"group":1,"slots":["step","exp_avg"]}])";
  REQUIRE(read_well(with("talus.params", good)).params.size() == 1);
  return with("talus.params", changed(good, from, to));
}
Strings group(const std::string& from, const std::string& to) {
  const std::string good =
      R"([{"algorithm":"adamw","hyper":{"lr":0.1,"eps":1e-8},"mode":"train"},{"algorithm":"sgd",)"
      R"("hyper":{},"mode":"train"}])";
  REQUIRE(read_well(with("talus.groups", good)).groups.size() == 2);
  return with("talus.groups", changed(good, from, to));
}

}  // namespace

TEST_CASE("manifest: what was written is read") {
  const Manifest from = example();
  const Manifest read = read_well(write_manifest(from));
  CHECK(read == from);
  CHECK(std::signbit(read.groups[1].hyper[1].second));
  CHECK(read_well(write_manifest(Manifest{})) == Manifest{});
}

TEST_CASE("manifest: the text is that which other readers rely on") {
  Manifest m;
  m.required = {"ranges", "master", "master"};
  m.writer = "0.1.0";
  m.params = {{"w", "F32", {2, 3}, 0, {"step", "exp_avg"}}};
  m.groups = {{"adamw", {{"lr", 0.001}, {"beta1", 0.9}, {"b", 1}}, "train"}};
  m.counts = {12, 13, 1, 0};
  m.notes = {{"epoch", "3"}};
  CHECK(write_manifest(m) ==
        Strings{{"format", "pt"},
                {"talus.version", "1"},
                {"talus.requires", "master,ranges"},
                {"talus.writer", "0.1.0"},
                {"talus.params", R"([{"name":"w","dtype":"F32","shape":[2,3],"group":0,)"
                                 R"("slots":["step","exp_avg"]}])"},
                {"talus.groups", R"([{"algorithm":"adamw","hyper":{"lr":0.001,"beta1":0.9,"b":1},)"
                                 R"("mode":"train"}])"},
                {"talus.settings", "{}"},
                {"talus.counts", R"({"applied":"12","called":"13","skipped":"1","clock":"0"})"},
                {"user.epoch", "3"}});
}

TEST_CASE("manifest: it goes through the header of a file unchanged") {
  const Strings metadata = write_manifest(example());
  safetensors::Layout layout;
  safetensors::Header header;
  REQUIRE(safetensors::lay_out({}, metadata, "", &layout).text() == "");
  const auto* const head = reinterpret_cast<const uint8_t*>(layout.head.data());
  REQUIRE(safetensors::parse({head, layout.head.size()}, layout.total, "file", &header).ok());
  CHECK(header.metadata == metadata);
}

TEST_CASE("manifest: a file of another writer is no checkpoint of ours") {
  CHECK(refused({}, kFormat, {"not a talus checkpoint"}));
  CHECK(refused({{"format", "pt"}}, kFormat, {"not a talus checkpoint"}));
  CHECK(refused(without("talus.version"), kFormat, {"not a talus checkpoint"}));
}

TEST_CASE("manifest: later versions and unknown features are named, before all other faults") {
  for (const char* version : {"2", "10", "99999999999999999999999"})
    CHECK(refused({{"talus.version", version}}, kVersion, {"talus.version", version, "up to 1"}));
  for (const char* version : {"", "0", "01", "-1", "1.0", " 1", "1a", "one"})
    CHECK(refused(with("talus.version", version), kFormat, {"talus.version", version}));
  CHECK(refused({{"talus.version", "1"}, {"talus.requires", "master,q8"}}, kVersion,
                {"talus.requires", "\"q8\"", "master, ranges"}));
  CHECK(refused(with("talus.requires", "Master"), kVersion, {"\"Master\""}));
  CHECK(refused(with("talus.requires", "master, ranges"), kVersion, {"\" ranges\""}));
  for (const char* list : {",", "master,", ",master", "master,,ranges"})
    CHECK(refused(with("talus.requires", list), kFormat, {"an empty name", list}));
}

TEST_CASE("manifest: features may be absent, and come in any order") {
  CHECK(read_well(without("talus.requires")).required.empty());
  CHECK(read_well(with("talus.requires", "")).required.empty());
  CHECK(read_well(with("talus.requires", "ranges")).required == std::vector<std::string>{"ranges"});
  CHECK(read_well(with("talus.requires", "ranges,master")) == example());
}

TEST_CASE("manifest: parameters and groups must be there, counts, settings and writer need not") {
  CHECK(refused(without("talus.params"), kFormat, {"talus.params: is missing"}));
  CHECK(refused(without("talus.groups"), kFormat, {"talus.groups: is missing"}));
  CHECK(read_well(without("talus.counts")).counts == Counts{});
  CHECK(read_well(without("talus.writer")).writer == "");
  CHECK(read_well(without("talus.settings")) == example());
  CHECK(read_well(without("format")) == example());
}

TEST_CASE("manifest: unknown keys are left out of account") {
  CHECK(read_well(with("talus.later", "no JSON")) == example());
  CHECK(read_well(with("users", "x")) == example());
  CHECK(read_well(with("format", "np")) == example());
}

TEST_CASE("manifest: unknown members inside of its JSON are a fault") {
  CHECK(refused(param(R"("group":1)", R"("group":1,"later":0)"), kFormat,
                {"talus.params[0]", "unknown member \"later\""}));
  CHECK(refused(group(R"("mode")", R"("later":0,"mode")"), kFormat,
                {"talus.groups[0]", "unknown member \"later\""}));
  CHECK(refused(with("talus.settings", R"({"seed":"1"})"), kFormat,
                {"talus.settings \"seed\"", "no number"}));
  CHECK(refused(with("talus.counts", R"({"applied":"0","called":"0","skipped":"0","clock":"0",)"
                                     R"("later":"0"})"),
                kFormat, {"talus.counts", "unknown member \"later\""}));
}

TEST_CASE("manifest: members that are missing are a fault") {
  CHECK(refused(param(R"("name":"w",)", ""), kFormat, {"talus.params[0]", "no member \"name\""}));
  CHECK(refused(param(R"("dtype":"F32",)", ""), kFormat, {"no member \"dtype\""}));
  CHECK(refused(param(R"("shape":[2,3],)", ""), kFormat, {"no member \"shape\""}));
  CHECK(refused(param(R"("group":1,)", ""), kFormat, {"no member \"group\""}));
  CHECK(refused(param(R"(,"slots":["step","exp_avg"])", ""), kFormat, {"no member \"slots\""}));
  CHECK(refused(group(R"("algorithm":"adamw",)", ""), kFormat,
                {"talus.groups[0]", "no member \"algorithm\""}));
  CHECK(refused(group(R"("hyper":{},)", ""), kFormat, {"talus.groups[1]", "\"hyper\""}));
  CHECK(refused(group(R"(,"mode":"train")", ""), kFormat, {"no member \"mode\""}));
  CHECK(refused(with("talus.counts", R"({"applied":"0","called":"0","skipped":"0"})"), kFormat,
                {"talus.counts", "no member \"clock\""}));
}

TEST_CASE("manifest: members of another type are a fault that names parameter and member") {
  for (const char* key : {"talus.params", "talus.groups"}) {
    for (const char* json : {"{}", "null", "1", "\"a\""})
      CHECK(refused(with(key, json), kFormat, {key, "no list"}));
    for (const char* json : {"[[]]", "[1]", "[null]", "[\"a\"]"})
      CHECK(refused(with(key, json), kFormat, {key, "[0]", "no JSON object"}));
    for (const char* text : {"", "[", "[],", "no JSON"})
      CHECK(refused(with(key, text), kFormat, {key, "no valid JSON", "byte"}));
  }
  CHECK(refused(with("talus.settings", "[]"), kFormat, {"talus.settings", "no JSON object"}));
  CHECK(refused(with("talus.counts", "[]"), kFormat, {"talus.counts", "no JSON object"}));
  CHECK(refused(param(R"("w")", "1"), kFormat, {"talus.params[0].name", "no string"}));
  CHECK(refused(param(R"("F32")", "32"), kFormat, {"talus.params[0] \"w\".dtype", "no string"}));
  CHECK(refused(param("[2,3]", "6"), kFormat, {"\"w\".shape", "no list"}));
  CHECK(refused(param(R"(["step","exp_avg"])", R"("step")"), kFormat, {"\"w\".slots", "no list"}));
  CHECK(refused(param(R"("exp_avg")", "1"), kFormat, {"\"w\".slots[1]", "no string"}));
  CHECK(refused(group(R"("adamw")", "1"), kFormat, {"talus.groups[0].algorithm", "no string"}));
  CHECK(refused(group(R"("train")", "1"), kFormat, {"talus.groups[0].mode", "no string"}));
  CHECK(refused(group("{}", "[]"), kFormat, {"talus.groups[1].hyper", "no JSON object"}));
  for (const char* value : {"\"1\"", "null", "true", "\"nan\"", "[]"})
    CHECK(refused(group("0.1", value), kFormat, {"talus.groups[0].hyper \"lr\"", "no number"}));
}

TEST_CASE("manifest: extents are integers from 0 to 2^64 - 1") {
  const Manifest most = read_well(param("[2,3]", "[0,18446744073709551615]"));
  CHECK(most.params[0].shape == std::vector<uint64_t>{0, ~uint64_t{0}});
  for (const char* extent : {"-1", "-0", "1.0", "1e3", "18446744073709551616", "\"2\"", "null"}) {
    const std::string shape = std::string("[2,") + extent + "]";
    CHECK(refused(param("[2,3]", shape), kFormat, {"talus.params[0] \"w\".shape[1]", "no extent"}));
  }
}

TEST_CASE("manifest: the group of a parameter is one that there is") {
  CHECK(read_well(param(R"("group":1)", R"("group":0)")).params[0].group == 0);
  for (const char* index : {"2", "-1", "0.0", "4294967296", "18446744073709551615", "\"0\""})
    CHECK(refused(param(R"("group":1)", std::string(R"("group":)") + index), kFormat,
                  {"\"w\".group", "below 2"}));
  Strings none = with("talus.groups", "[]");
  CHECK(refused(none, kFormat, {"talus.params[0]", "below 0"}));
}

TEST_CASE("manifest: names are there once") {
  const std::string p = R"({"name":"w","dtype":"F32","shape":[],"group":0,"slots":[]})";
  const std::string escaped = changed(p, "w", "\\u0077");
  CHECK(refused(with("talus.params", "[" + p + "," + p + "]"), kFormat,
                {"talus.params[1]", "a second parameter \"w\""}));
  CHECK(refused(with("talus.params", "[" + p + "," + escaped + "]"), kFormat, {"\"w\""}));
  CHECK(refused(param("exp_avg", "step"), kFormat, {"\"w\".slots", "\"step\" twice"}));
  CHECK(refused(group("eps", "lr"), kFormat, {"talus.groups", "two keys \"lr\""}));
  CHECK(refused(group("eps", "\\u006cr"), kFormat, {"talus.groups", "two keys \"lr\""}));
}

TEST_CASE("manifest: counts are strings of digits") {
  const std::string good = R"({"applied":"0","called":"1","skipped":"2","clock":"3"})";
  CHECK(read_well(with("talus.counts", good)).counts == Counts{0, 1, 2, 3});
  for (const char* value : {"1", "\"-1\"", "\"\"", "\"1.0\"", "\"01\"", "null",
                            "\"4611686018427387905\"", "\"9223372036854775808\""})
    CHECK(refused(with("talus.counts", changed(good, "\"1\"", value)), kFormat,
                  {"talus.counts.called", "no count"}));
  // The caller's own clock may be anything that an int64 holds.
  CHECK(read_well(with("talus.counts", changed(good, "3", "9223372036854775807"))).counts.clock ==
        kMost);
  CHECK(refused(with("talus.counts", changed(good, "3", "9223372036854775808")), kFormat,
                {"talus.counts.clock", "no count"}));
}

TEST_CASE("manifest: a note that could not be written again is a fault") {
  for (const std::string& key : {std::string("user.a\tb"), "user." + std::string(4092, 'k')})
    CHECK(refused(with(key, "x"), kFormat, {"user.", "a control character, or longer"}));
}

TEST_CASE("manifest: pieces that were written are read, and their faults are named") {
  const Pieces pieces = {{"state.w.exp_avg@0", {"w", "exp_avg", 0, 12}},
                         {"state.\"@\".x@5", {"\"@\"", "x", uint64_t(kMost), uint64_t(kMost)}}};
  Pieces read;
  REQUIRE(read_pieces(write_pieces(pieces), "file", &read).text() == "");
  CHECK(read == pieces);
  CHECK(write_pieces({{"k", {"w", "s", 4096, 1}}}) ==
        R"({"k":{"parameter":"w","slot":"s","first":"4096","count":"1"}})");

  const std::string good = R"({"k":{"parameter":"w","slot":"s","first":"0","count":"1"}})";
  const auto refusal = [&](const std::string& from, const std::string& to) {
    Pieces out;
    const Status status = read_pieces(changed(good, from, to), "file", &out);
    CHECK(status.code() == TALUS_E_FORMAT);
    CHECK(out.empty());
    return status.text();
  };
  CHECK(refusal(R"("w")", "1") == "file: talus.pieces \"k\".parameter: no string");
  CHECK(refusal(R"("slot":"s",)", "") == "file: talus.pieces \"k\": no member \"slot\"");
  CHECK(refusal(R"("slot")", R"("slot":"s","later")") ==
        "file: talus.pieces \"k\": unknown member \"later\"");
  CHECK(refusal(R"("0")", "0").find("no string of decimal digits") != std::string::npos);
  CHECK(refusal(R"("1")", R"("-1")").find("no string of decimal digits") != std::string::npos);
  CHECK(refusal(good, "[]") == "file: talus.pieces: no JSON object");
  CHECK(refusal(good, R"({"k":1})") == "file: talus.pieces \"k\": no JSON object");
  CHECK(refusal("}}", "},\"k\":0}").find("two keys \"k\"") != std::string::npos);
}
