// Checkpoints of several files: an index and the shards that it names, written by one process and
// read whatever way a tensor is cut.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <nlohmann/json.hpp>

#include "tests/checkpoint/folder.h"
#include "tests/checkpoint/model.h"

using namespace talus;
using namespace talus::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

const std::vector<ParamSpec> kParams = {
    {"a", {40}}, {"b", {7, 3}}, {"c", {}}, {"d", {0, 4}}, {"e", {64}}};

std::string save_index(const Folder& folder, const Model& model, double shard_bytes) {
  const std::string path = folder / "x.safetensors.index.json";
  must(talus_set_setting(model.get(), "shard_bytes", shard_bytes));
  must(talus_save(model.get(), path.c_str(), nullptr, nullptr));
  return path;
}

json index_of(const std::string& path) { return json::parse(file_bytes(path)); }

size_t shards_in(const Folder& folder) {
  size_t count = 0;
  for (const std::string& name : folder.names()) count += name.ends_with(".safetensors");
  return count;
}

}  // namespace

TEST_CASE("shards: one file or many hold the same state") {
  Model from(kParams, {{"adamw", {}}}, 3);
  for (const double bytes : {0.0, 1.0, 300.0, 1e9}) {
    INFO("shard_bytes " << bytes);
    Folder folder;
    const std::string path = save_index(folder, from, bytes);
    const json index = index_of(path);
    CHECK(shards_in(folder) == index["talus_files"].size());
    CHECK(folder.names().size() == shards_in(folder) + 1);
    CHECK((bytes == 1.0) == (shards_in(folder) > 5));
    CHECK(index["weight_map"].contains("state.b.exp_avg_sq"));
    Model to(kParams);
    REQUIRE(talus_load(to.get(), path.c_str(), nullptr, nullptr) == TALUS_OK);
    CHECK((to.bytes(0) == from.bytes(0)));
  }
}

TEST_CASE("shards: an index that no load would read takes no other's place") {
  Folder folder;
  Model model(kParams, {{"adamw", {}}}, 1);
  const std::string path = save_index(folder, model, 300), before = model.bytes(0);
  const std::set<std::string> names = folder.names();
  const std::string text(size_t{15} << 20, 'x');
  for (const char* key : {"a", "b", "c", "d", "e", "f", "g"})
    must(talus_set_note(model.get(), key, text.c_str()));
  CHECK(talus_save(model.get(), path.c_str(), nullptr, nullptr) == TALUS_E_ARGUMENT);
  CHECK((folder.names() == names));
  Model to(kParams);
  REQUIRE(talus_load(to.get(), path.c_str(), nullptr, nullptr) == TALUS_OK);
  CHECK((to.bytes(0) == before));
}

TEST_CASE("shards: more files than are held open") {
  std::vector<ParamSpec> many;
  for (int i = 0; i < 90; ++i) many.push_back({"p" + std::to_string(i), {2}});
  Model from(many, {{"adamw", {}}}, 2), to(many);
  Folder folder;
  const std::string path = save_index(folder, from, 1);
  CHECK(shards_in(folder) == 270);
  REQUIRE(talus_load(to.get(), path.c_str(), nullptr, nullptr) == TALUS_OK);
  CHECK((to.bytes(0) == from.bytes(0)));
}

TEST_CASE("shards: the next save brings new files and takes the old ones away, and no others") {
  Folder folder;
  Model model(kParams, {{"adamw", {}}}, 1);
  const std::string path = save_index(folder, model, 300);
  const std::set<std::string> first = folder.names();
  for (const char* stranger : {"x-notes.safetensors", "y.safetensors", "x.safetensors"})
    write_file(folder / stranger, "mine");
  model.step(2);
  save_index(folder, model, 300);
  const std::set<std::string> second = folder.names();
  CHECK(second.size() == first.size() + 3);
  for (const std::string& name : first)
    if (name.ends_with(".safetensors")) CHECK(!second.contains(name));
  CHECK((file_bytes(folder / "x-notes.safetensors") == "mine"));
  Model to(kParams);
  REQUIRE(talus_load(to.get(), path.c_str(), nullptr, nullptr) == TALUS_OK);
  CHECK((to.bytes(0) == model.bytes(0)));
}

TEST_CASE(
    "shards: temporaries that killed saves left a day ago go with the next save, nothing else") {
  Folder folder;
  Model model(kParams, {{"adamw", {}}}, 1), to(kParams);
  const std::string path = save_index(folder, model, 300);
  const std::string stray = "x-00112233445566aa-00001-of-00002.safetensors";
  const std::string temporary = "." + stray + ".0123456789abcdef.tmp";
  const auto age = [&](const std::string& name, int hours) {
    std::filesystem::last_write_time(
        folder / name, std::filesystem::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  const std::set<std::string> good = folder.names();
  for (const std::string& name : good) age(name, 100);  // old, and named by the index
  for (const std::string& name : {stray, temporary, "y-" + stray.substr(2)}) {
    write_file(folder / name, "left");
    age(name, 30);
  }
  int calls = 0;
  talus_io io = io_of(0);
  io.user = &calls;
  io.progress = [](void* user, uint64_t, uint64_t) -> int32_t {
    return ++*static_cast<int*>(user) == 2;  // at the end: nothing is published
  };
  CHECK(talus_save(model.get(), path.c_str(), &io, nullptr) == TALUS_E_CANCELLED);
  std::set<std::string> expected = good;
  expected.insert({"y-" + stray.substr(2), stray});
  CHECK(folder.names() == expected);
  write_file(folder / temporary, "young");
  must(talus_save(model.get(), path.c_str(), nullptr, nullptr));
  CHECK(folder.names().contains(temporary));
  REQUIRE(talus_load(to.get(), path.c_str(), nullptr, nullptr) == TALUS_OK);
}

TEST_CASE("shards: a cancelled save leaves the old files and no new ones") {
  Folder folder;
  Model model(kParams, {{"adamw", {}}}, 1), to(kParams);
  const std::string path = save_index(folder, model, 300);
  const std::set<std::string> before = folder.names();
  const std::string old = model.bytes(0);
  model.step(2);
  int calls = 0, stop_at = 0;
  struct User {
    int *calls, *stop_at;
  } user{&calls, &stop_at};
  talus_io io = io_of(0);
  io.user = &user;
  io.progress = [](void* data, uint64_t, uint64_t) -> int32_t {
    auto& u = *static_cast<User*>(data);
    return ++*u.calls == *u.stop_at;
  };
  for (stop_at = 1; stop_at <= 2; ++stop_at) {
    calls = 0;
    CHECK(talus_save(model.get(), path.c_str(), &io, nullptr) == TALUS_E_CANCELLED);
    CHECK(folder.names() == before);
  }
  REQUIRE(talus_load(to.get(), path.c_str(), nullptr, nullptr) == TALUS_OK);
  CHECK((to.bytes(0) == old));
}

TEST_CASE("shards: a shard that is missing, cut, changed, or of another save") {
  Folder folder;
  Model model(kParams, {{"adamw", {}}}, 1), to(kParams);
  const std::string path = save_index(folder, model, 300), before = to.bytes(0);
  const std::string shard = folder / index_of(path)["weight_map"]["state.a.exp_avg"];
  const std::string good = file_bytes(shard);
  const auto refuse = [&](const std::string& bytes, talus_status status, const char* text) {
    write_file(shard, bytes);
    CHECK(talus_load(to.get(), path.c_str(), nullptr, nullptr) == status);
    CHECK_THAT(talus_last_error(), ContainsSubstring(text));
    CHECK((to.bytes(0) == before));
  };
  refuse(good.substr(0, good.size() - 1), TALUS_E_FORMAT, "the index says");
  std::string flipped = good;
  flipped[good.size() - 30] ^= 4;
  refuse(flipped, TALUS_E_FORMAT, "digest");
  flipped = good;
  flipped[flipped.find("F32") + 1] = '6';
  refuse(flipped, TALUS_E_FORMAT, "digest of the header");
  std::filesystem::remove(shard);
  CHECK(talus_load(to.get(), path.c_str(), nullptr, nullptr) == TALUS_E_IO);
  std::filesystem::create_symlink("/etc/passwd", shard);
  CHECK(talus_load(to.get(), path.c_str(), nullptr, nullptr) == TALUS_E_IO);
  CHECK((to.bytes(0) == before));
}

namespace {

// One file as the format has it, written from its text: tensors of f32 alone, in the order given.
std::string make_file(const std::vector<std::pair<std::string, std::vector<float>>>& tensors,
                      const std::vector<std::pair<std::string, int64_t>>& steps) {
  json header;
  std::string data;
  for (const auto& [name, value] : steps) {
    header[name] = {{"dtype", "I64"},
                    {"shape", json::array()},
                    {"data_offsets", {data.size(), data.size() + 8}}};
    data.append(reinterpret_cast<const char*>(&value), 8);
  }
  for (const auto& [name, values] : tensors) {
    const size_t bytes = values.size() * sizeof(float);
    header[name] = {{"dtype", "F32"},
                    {"shape", {values.size()}},
                    {"data_offsets", {data.size(), data.size() + bytes}}};
    data.append(reinterpret_cast<const char*>(values.data()), bytes);
  }
  const std::string text = header.dump();
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + text + data;
}

// sgd with momentum of one parameter of 10 elements, its buffer cut at these places.
std::string make_index(const Folder& folder, const std::vector<uint64_t>& cuts) {
  json weight_map, files;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    std::vector<float> values;
    for (uint64_t k = cuts[i]; k < cuts[i + 1]; ++k) values.push_back(float(k) + 0.5f);
    const std::string key = "state.w.momentum_buffer@" + std::to_string(cuts[i]);
    const std::string file = "x-0123456789abcdef-0000" + std::to_string(i + 1) + "-of-0000" +
                             std::to_string(cuts.size() - 1) + ".safetensors";
    std::vector<std::pair<std::string, int64_t>> steps;
    if (i == 0) steps.emplace_back("state.w.step", 4), weight_map["state.w.step"] = file;
    const std::string bytes = make_file({{key, values}}, steps);
    write_file(folder / file, bytes);
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    uint32_t crc = ~0u;  // bit by bit
    for (size_t b = 0; b < 8 + length; ++b) {
      crc ^= static_cast<unsigned char>(bytes[b]);
      for (int k = 0; k < 8; ++k) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    weight_map[key] = file;
    json pieces;
    pieces[key] = {{"parameter", "w"},
                   {"slot", "momentum_buffer"},
                   {"first", std::to_string(cuts[i])},
                   {"count", std::to_string(cuts[i + 1] - cuts[i])}};
    files[file] = {
        {"size", std::to_string(bytes.size())}, {"header_crc32c", ~crc}, {"pieces", pieces}};
  }
  const std::string file = folder / "x.safetensors.index.json";
  json params = json::array({{{"name", "w"},
                              {"dtype", "F32"},
                              {"shape", {10}},
                              {"group", 0},
                              {"slots", {"momentum_buffer"}}}});
  json groups = json::array(
      {{{"algorithm", "sgd"}, {"hyper", {{"lr", 0.25}, {"momentum", 0.5}}}, {"mode", "train"}}});
  json index = {{"metadata",
                 {{"total_size", 48},
                  {"talus.generation", "0123456789abcdef"},
                  {"format", "pt"},
                  {"talus.version", "1"},
                  {"talus.requires", "ranges"},
                  {"talus.writer", "a test"},
                  {"talus.params", params.dump()},
                  {"talus.groups", groups.dump()},
                  {"talus.settings", "{}"},
                  {"talus.counts", R"({"applied":"4","called":"4","skipped":"0","clock":"0"})"}}},
                {"weight_map", weight_map},
                {"talus_files", files}};
  write_file(file, index.dump());
  return file;
}

}  // namespace

TEST_CASE("shards: pieces of a tensor are put together, wherever it was cut") {
  const std::vector<ParamSpec> params = {{"w", {10}}};
  const Model::Groups groups = {{"sgd", {{"momentum", 0.5}}}};
  for (const std::vector<uint64_t>& cuts :
       std::vector<std::vector<uint64_t>>{{0, 10}, {0, 1, 10}, {0, 3, 7, 10}}) {
    INFO(cuts.size() - 1 << " pieces, cut at " << cuts[1]);
    Folder folder;
    Model to(params, groups);
    const talus_status status =
        talus_load(to.get(), make_index(folder, cuts).c_str(), nullptr, nullptr);
    INFO(talus_last_error());
    REQUIRE(status == TALUS_OK);
    talus_state state{};
    state.struct_size = sizeof state;
    must(talus_state_info(to.get(), 0, &state));
    for (int k = 0; k < 10; ++k) CHECK(static_cast<float*>(state.data)[k] == float(k) + 0.5f);
    int64_t steps = 0;
    must(talus_steps(to.get(), 0, &steps));
    CHECK(steps == 4);
    double lr = 0;
    must(talus_get(to.get(), 0, "lr", &lr));
    CHECK(lr == 0.25);
  }
}

TEST_CASE("shards: pieces that leave a gap, overlap or end early are refused") {
  const std::vector<ParamSpec> params = {{"w", {10}}};
  const Model::Groups groups = {{"sgd", {{"momentum", 0.5}}}};
  const auto refuse = [&](const char* from, const char* to, const char* text) {
    Folder folder;
    Model model(params, groups);
    const std::string path = make_index(folder, {0, 4, 10});
    std::string index = file_bytes(path);
    const size_t at = index.find(from);
    REQUIRE(at != std::string::npos);
    write_file(path, index.replace(at, std::string(from).size(), to));
    INFO(from << " becomes " << to);
    CHECK(talus_load(model.get(), path.c_str(), nullptr, nullptr) == TALUS_E_FORMAT);
    CHECK_THAT(talus_last_error(), ContainsSubstring(text));
  };
  refuse("\"first\":\"4\"", "\"first\":\"5\"", "gap or overlap");
  refuse("\"first\":\"4\"", "\"first\":\"3\"", "gap or overlap");
  refuse("\"count\":\"6\"", "\"count\":\"5\"", "another count");
  refuse("[10]", "[11]", "expected 11");
  refuse("[10]", "[9223372036854775813,2]", "overflows");  // and is 10 again
}
