// What a checkpoint says of schedules: what is written is read, and each fault is named.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <limits>

#include "lib/checkpoint/json_text.h"
#include "lib/checkpoint/manifest.h"

using namespace talus;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

SchedulesRecord example() {
  SchedulesRecord out;
  out.objects.push_back({"linear", {{"start_factor", 0.01}}, {}, {}, false, {}, {}});
  out.objects.push_back({"multiplicative", {}, {}, {}, true, ProductRecord{20, 0.25}, {}});
  out.objects.push_back({"chained", {}, {0, kMost}, {0, 1, 0}, false, {}, {}});
  out.objects.push_back(
      {"plateau", {{"factor", 0.5}}, {}, {}, false, {}, PlateauRecord{kInfinity, 3, 1}});
  out.attachments = {{0, "lr", TALUS_CLOCK_MANUAL, 2, {}}, {1, "lr", TALUS_CLOCK_APPLIED, 3, 0.05}};
  out.later = {{-1, "weight_decay", TALUS_CLOCK_CALLED, 0, {}}};
  return out;
}

const std::string kText =
    R"({"objects":[{"kind":"linear","parameters":{"start_factor":0.01}},)"
    R"({"kind":"multiplicative","parameters":{},"function":"unbound",)"
    R"("product":{"t":"20","value":0.25}},)"
    R"({"kind":"chained","parameters":{},"milestones":["0","9223372036854775807"],)"
    R"("pieces":[0,1,0]},)"
    R"({"kind":"plateau","parameters":{"factor":0.5},)"
    R"("plateau":{"best":"inf","bad":"3","cooling":"1"}}],)"
    R"("attachments":[{"group":0,"hyper":"lr","clock":"manual","object":2},)"
    R"({"group":1,"hyper":"lr","clock":"applied","object":3,"value":0.05}],)"
    R"("later":[{"hyper":"weight_decay","clock":"called","object":0}]})";

Status read(const std::string& text, SchedulesRecord* out) {
  Json json;
  if (const Status status = parse_json(text, "file", &json); !status.ok()) return status;
  return take_schedules(json, Place("file", "talus.schedules"), 2, out);
}

// That text with a piece of it changed is refused where and why it says.
void refuse(const std::string& from, const std::string& to, const std::string& where,
            const std::string& why) {
  INFO(from << " -> " << to);
  std::string text = kText;
  const size_t at = text.find(from);
  REQUIRE(at != text.npos);
  SchedulesRecord out;
  const Status status = read(text.replace(at, from.size(), to), &out);
  CHECK(status.code() == TALUS_E_FORMAT);
  CHECK_THAT(status.text(), ContainsSubstring("file: talus.schedules" + where + ": "));
  CHECK_THAT(status.text(), ContainsSubstring(why));
}

}  // namespace

TEST_CASE("schedule record: the text is what was written, and is read as that") {
  CHECK(write_json(schedules_json(example())) == kText);
  SchedulesRecord read_back;
  REQUIRE(read(kText, &read_back).text() == "");
  CHECK(read_back == example());
}

TEST_CASE("schedule record: it is in the metadata where there is one, with its feature") {
  Manifest m, read_back;
  CHECK(!write_manifest(m).contains("talus.schedules"));
  m.groups.resize(2);
  m.schedules = example();
  m.required = {"schedules"};
  safetensors::Strings metadata = write_manifest(m);
  CHECK(metadata["talus.schedules"] == kText);
  CHECK(metadata["talus.requires"] == "schedules");
  REQUIRE(read_manifest(metadata, "file", &read_back).text() == "");
  CHECK(read_back == m);
  metadata.erase("talus.schedules");
  CHECK_THAT(read_manifest(metadata, "file", &read_back).text(),
             ContainsSubstring("talus.schedules: is missing"));
}

TEST_CASE("schedule record: members that are missing, unknown or of another type") {
  refuse(R"("later":[)", R"("sooner":[)", "", "unknown member \"sooner\"");
  refuse(R"(,"later":[{"hyper":"weight_decay","clock":"called","object":0}])", "", "",
         "no member \"later\"");
  refuse(R"("kind":"linear",)", "", ".objects[0]", "no member \"kind\"");
  refuse(R"("kind":"linear",)", R"("kind":"linear","why":0,)", ".objects[0]", "unknown member");
  refuse(R"("kind":"linear")", R"("kind":1)", ".objects[0].kind", "no string");
  refuse(R"({"start_factor":0.01})", "[]", ".objects[0].parameters", "no JSON object");
  refuse("0.01", "\"0.01\"", ".objects[0].parameters \"start_factor\"", "no number");
  refuse(R"("unbound")", R"("bound")", ".objects[1].function", "expected \"unbound\"");
  refuse(R"("t":"20")", R"("t":20)", ".objects[1].product.t", "no count");
  refuse(R"("value":0.25)", R"("value":"inf")", ".objects[1].product.value", "no finite number");
  refuse(R"(["0","9223372036854775807"])", R"("0")", ".objects[2].milestones", "no list");
  refuse(R"("9223372036854775807")", R"("9223372036854775808")", ".objects[2].milestones[1]",
         "no count");
  refuse(R"("best":"inf")", R"("best":"nan")", ".objects[3].plateau.best", "no number");
  refuse(R"("bad":"3")", R"("bad":"-3")", ".objects[3].plateau.bad", "no count");
  refuse(R"("value":0.05)", R"("value":"inf")", ".attachments[1].value", "no finite number");
  refuse(R"("clock":"manual")", R"("clock":"epoch")", ".attachments[0].clock", "\"applied\"");
  refuse(R"("hyper":"weight_decay",)", R"("hyper":"weight_decay","value":1,)", ".later[0]",
         "unknown member \"value\"");
}

TEST_CASE("schedule record: numbers are of what there is; a piece comes before its whole") {
  for (const char* piece : {"2", "3", "-1", "\"0\"", "18446744073709551615"})
    refuse("[0,1,0]", std::string("[0,") + piece + ",0]", ".objects[2].pieces[1]", "below 2");
  refuse(R"("object":3)", R"("object":4)", ".attachments[1].object", "below 4");
  refuse(R"("group":1)", R"("group":2)", ".attachments[1].group", "below 2");
}

TEST_CASE("schedule record: a file may not ask for more than a load can bear") {
  const std::string object = R"({"kind":"constant","parameters":{}})";
  const auto many = [](const std::string& one, size_t count) {
    std::string list = "[";
    for (size_t i = 0; i < count; ++i) list += (i ? "," : "") + one;
    return list + "]";
  };
  SchedulesRecord out;
  const auto whole = [&](const std::string& objects) {
    out = {};
    return read(R"({"objects":)" + objects + R"(,"attachments":[],"later":[]})", &out).text();
  };
  CHECK(whole(many(object, kMostSchedules)) == "");
  CHECK_THAT(whole(many(object, kMostSchedules + 1)), ContainsSubstring("more than 65536"));
  // Of pieces in all.
  const std::string two =
      R"({"kind":"chained","parameters":{},"pieces":)" + many("0", kMostSchedules / 2) + "}";
  CHECK(whole("[" + object + "," + two + "," + two + "]") == "");
  CHECK_THAT(whole("[" + object + "," + two + "," + two +
                   R"(,{"kind":"chained","parameters":{},)"
                   R"("pieces":[0]}])"),
             ContainsSubstring(".objects[3].pieces: more than 65536"));
}
