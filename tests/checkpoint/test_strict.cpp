// A load checks everything before it changes anything: every kind of difference, what each flag
// allows, and that the optimizer is as it was after each refusal.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/checkpoint/model.h"

using namespace talus;
using namespace talus::test;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::vector<ParamSpec> kTwo = {{"a.weight"}, {"a.bias", {2}}};
const ParamSpec kHalf = {"h", {5}, TALUS_BF16};
const ParamSpec kHalfAlone = {"h", {5}, TALUS_BF16, TALUS_MASTER_NONE};

constexpr uint64_t kAllFlags =
    TALUS_LOAD_ALLOW_MISSING | TALUS_LOAD_ALLOW_EXTRA | TALUS_LOAD_CONVERT | TALUS_LOAD_KEEP_HYPER;

// Loading is refused with this kind and text, and nothing has changed.
void refuse(const Model& from, const Model& to, int kind, const std::string& text,
            uint64_t flags = 0) {
  const std::string saved = from.bytes(0), before = to.bytes();
  CHECK(load_bytes(to.get(), saved, flags) == TALUS_E_MISMATCH);
  CHECK(talus_last_error_detail() == kind);
  CHECK_THAT(talus_last_error(), ContainsSubstring(text));
  CHECK(load_bytes(to.get(), saved, flags | TALUS_LOAD_IN_PLACE) == TALUS_E_MISMATCH);
  CHECK((to.bytes() == before));
}

// A file with another text in its header.
std::string edited(const std::string& file, const std::string& old, const std::string& text) {
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  std::string header = file.substr(sizeof length, length);
  header.replace(header.find(old), old.size(), text);
  const uint64_t now = header.size();
  return std::string(reinterpret_cast<const char*>(&now), sizeof now) + header +
         file.substr(sizeof length + length);
}

void accept(const Model& from, const Model& to, uint64_t flags) {
  const talus_status status = load_bytes(to.get(), from.bytes(0), flags);
  INFO(talus_last_error());
  CHECK(status == TALUS_OK);
}

}  // namespace

TEST_CASE("strict: a parameter that the file lacks, or has beside ours") {
  Model two(kTwo, {{"adamw", {}}}, 2), one({{"a.weight"}}, {{"adamw", {}}}, 1);
  refuse(one, two, TALUS_M_MISSING_PARAM, "parameter 1 \"a.bias\": not in the file");
  refuse(two, one, TALUS_M_EXTRA_PARAM, "parameter \"a.bias\": in the file, not in the optimizer");
  refuse(two, one, TALUS_M_EXTRA_PARAM, "a.bias", kAllFlags & ~TALUS_LOAD_ALLOW_EXTRA);
  refuse(one, two, TALUS_M_MISSING_PARAM, "a.bias", kAllFlags & ~TALUS_LOAD_ALLOW_MISSING);
  accept(two, one, TALUS_LOAD_ALLOW_EXTRA);
  int64_t steps = -1;
  must(talus_steps(one.get(), 0, &steps));
  CHECK(steps == 2);
  Model single({{"a.weight"}}, {{"adamw", {}}}, 1);
  accept(single, two, TALUS_LOAD_ALLOW_MISSING);  // the other one keeps its state
  must(talus_steps(two.get(), 0, &steps));
  CHECK(steps == 1);
  must(talus_steps(two.get(), 1, &steps));
  CHECK(steps == 2);
}

TEST_CASE("strict: names tell parameters apart, not their positions") {
  Model from({{"x", {4}}, {"y", {4}}}, {{"adamw", {}}}, 3), to({{"y", {4}}, {"x", {4}}});
  accept(from, to, 0);
  Model again({{"x", {4}}, {"y", {4}}});
  accept(to, again, 0);
  CHECK((save_bytes(again.get()) == save_bytes(from.get())));
}

TEST_CASE("strict: shapes, also of equal counts") {
  Model from(kTwo, {{"adamw", {}}}, 1), to({{"a.weight", {2, 3}}, {"a.bias", {2}}});
  refuse(from, to, TALUS_M_SHAPE,
         "parameter \"a.weight\": shape [2, 3] in the optimizer, [3, 2] in the file", kAllFlags);
}

TEST_CASE("strict: dtypes of parameters and of state") {
  Model f32({{"h", {5}}}, {{"adamw", {}}}, 1), f64({{"h", {5}, TALUS_F64}}, {{"adamw", {}}}, 1);
  refuse(f32, f64, TALUS_M_PARAM_DTYPE,
         "parameter \"h\": F64 in the optimizer, \"F32\" in the file");
  accept(f32, f64, TALUS_LOAD_CONVERT);  // neither has a master
  accept(f64, f32, TALUS_LOAD_CONVERT);
  Model half({kHalf}, {{"adamw", {}}}, 1), other({{"h", {5}, TALUS_F16}}, {{"adamw", {}}}, 1);
  refuse(half, other, TALUS_M_PARAM_DTYPE, "F16 in the optimizer");
  accept(half, other, TALUS_LOAD_CONVERT | TALUS_LOAD_PARAMS);
  refuse(half, f32, TALUS_M_PARAM_DTYPE, "F32 in the optimizer", kAllFlags);  // one has a master
}

TEST_CASE("strict: converted state is the widened or once rounded one") {
  Model f32({{"h", {5}}}, {{"sgd", {{"momentum", 0.9}}}}, 2);
  Model f64({{"h", {5}, TALUS_F64}}, {{"sgd", {{"momentum", 0.9}}}});
  accept(f32, f64, TALUS_LOAD_CONVERT);
  Model back({{"h", {5}}}, {{"sgd", {{"momentum", 0.9}}}});
  accept(f64, back, TALUS_LOAD_CONVERT);
  CHECK((save_bytes(back.get()) == save_bytes(f32.get())));
}

TEST_CASE("strict: masters") {
  Model with({kHalf}, {{"adamw", {}}}, 2), without({kHalfAlone}, {{"adamw", {}}}, 2);
  refuse(with, without, TALUS_M_MASTER, "slot \"master_param\" of the file", kAllFlags);
  refuse(without, with, TALUS_M_MASTER, "slot \"master_param\" is not in the file");
  Model made({kHalf});
  for (int64_t i = 0; i < 5; ++i) made.data(0).set_bits(i, without.data(0).bits(i));
  accept(without, made, TALUS_LOAD_CONVERT);
  talus_state state{};
  state.struct_size = sizeof state;
  must(talus_state_info(made.get(), talus_state_count(made.get()) - 1, &state));
  REQUIRE(std::string(state.slot) == "master_param");
  for (int64_t i = 0; i < 5; ++i)
    CHECK(double(static_cast<float*>(state.data)[i]) == made.data(0).get(i));
}

TEST_CASE("strict: a model whose weights were not loaded is found by its masters") {
  Model from({kHalf}, {{"adamw", {{"lr", 0.5}}}}, 2), to({kHalf});
  refuse(from, to, TALUS_M_MASTER, "is not its rounded master in the file");
  for (int64_t i = 0; i < 5; ++i) to.data(0).set_bits(i, from.data(0).bits(i));
  accept(from, to, 0);
  to.data(0).set_bits(3, to.data(0).bits(3) ^ 1);
  refuse(from, to, TALUS_M_MASTER, "element 3");
}

TEST_CASE("strict: a master that was given before the first step may be anything") {
  Model model({kHalf}), other({kHalf});
  std::vector<float> master = {1, 2, 3, 4, 5};
  must(talus_bind_state(model.get(), 0, "master_param", master.data(), 20));
  accept(model, model, 0);
  accept(model, other, 0);
  model.step(1);
  other.step(1);
  CHECK((save_bytes(model.get()) == save_bytes(other.get())));
}

TEST_CASE("strict: algorithms, groups and the group of a parameter") {
  Model adamw(kTwo, {{"adamw", {}}}, 1), sgd(kTwo, {{"sgd", {{"momentum", 0.9}}}}, 1);
  refuse(adamw, sgd, TALUS_M_ALGORITHM, "group 0: \"sgd\" in the optimizer, \"adamw\" in the file");
  refuse(adamw, sgd, TALUS_M_ALGORITHM, "\"sgd\" in the optimizer", kAllFlags);
  Model groups(kTwo, {{"adamw", {}}, {"adamw", {}}}, 1);
  refuse(adamw, groups, TALUS_M_GROUP, "2 groups in the optimizer, 1 in the file");
  Model moved({{"a.weight"}, {"a.bias", {2}, TALUS_F32, 0, 1}}, {{"adamw", {}}, {"adamw", {}}}, 1);
  refuse(groups, moved, TALUS_M_GROUP,
         "parameter \"a.bias\": group 1 in the optimizer, 0 in the file");
  accept(adamw, moved, TALUS_LOAD_KEEP_HYPER);
}

TEST_CASE("strict: hyperparameters") {
  Model plain(kTwo, {{"adam", {}}}, 1), amsgrad(kTwo, {{"adam", {{"amsgrad", 1}}}}, 1);
  refuse(plain, amsgrad, TALUS_M_HYPER,
         "amsgrad decides which state exists and is 1 in the optimizer, 0 in the file");
  refuse(amsgrad, plain, TALUS_M_HYPER, "is 0 in the optimizer, 1 in the file",
         TALUS_LOAD_KEEP_HYPER);
  Model from(kTwo, {{"adam", {{"lr", 0.5}}}}, 1);
  accept(from, plain, TALUS_LOAD_KEEP_HYPER);
  double lr = 0;
  must(talus_get(plain.get(), 0, "lr", &lr));
  CHECK(lr == 1e-3);
  accept(from, plain, 0);
  must(talus_get(plain.get(), 0, "lr", &lr));
  CHECK(lr == 0.5);
}

TEST_CASE(
    "strict: a hyperparameter that the file lacks has its default, and a fixed one must agree") {
  Model from(kTwo, {{"adamw", {{"weight_decay", 0.5}}}});
  const auto without = [&](const std::string& member) {
    return edited(from.bytes(TALUS_SAVE_NO_DIGEST), member, "");
  };
  Model amsgrad(kTwo, {{"adamw", {{"amsgrad", 1}}}});
  const int64_t states = talus_state_count(amsgrad.get());
  for (const uint64_t flags : {uint64_t{0}, uint64_t{TALUS_LOAD_KEEP_HYPER}}) {
    CHECK(load_bytes(amsgrad.get(), without(R"(\"amsgrad\":0,)"), flags) == TALUS_E_MISMATCH);
    CHECK(talus_last_error_detail() == TALUS_M_HYPER);
  }
  amsgrad.step(1);
  CHECK(talus_state_count(amsgrad.get()) == states);
  Model plain(kTwo, {{"adamw", {{"weight_decay", 0.25}}}});
  CHECK(load_bytes(plain.get(), without(R"(\"weight_decay\":0.5,)")) == TALUS_OK);
  double decay = 0;
  must(talus_get(plain.get(), 0, "weight_decay", &decay));
  CHECK(decay == 0.01);  // of adamw: adam, which is the same rule, has another
}

TEST_CASE("strict: a parameter that is named like a key does not get what lies there") {
  const std::vector<ParamSpec> names = {{"x"}, {"state.x.exp_avg"}};
  Model from(names, {{"adamw", {}}}, 1), to(names);
  CHECK(load_bytes(to.get(), from.bytes(0), TALUS_LOAD_PARAMS) == TALUS_E_MISMATCH);
  CHECK_THAT(talus_last_error(), ContainsSubstring("2 differences"));
  const double before = to.data(1).get(0);
  accept(from, to, TALUS_LOAD_PARAMS | TALUS_LOAD_ALLOW_MISSING);
  CHECK(to.data(1).get(0) == before);
}

TEST_CASE("strict: all differences are listed, up to 32, and the first gives the detail") {
  std::vector<ParamSpec> many;
  for (int i = 0; i < 40; ++i) many.push_back({"p" + std::to_string(i), {1}});
  Model from({{"p0", {2}}}, {{"adamw", {}}}, 1), to(many);
  refuse(from, to, TALUS_M_SHAPE, "40 differences");
  CHECK_THAT(talus_last_error(), ContainsSubstring("\"p31\"") && ContainsSubstring("and 8 more"));
}

TEST_CASE("strict: without stored parameters and masters there is nothing to load them from") {
  Model from(kTwo, {{"adamw", {}}}, 1), to(kTwo);
  refuse(from, to, TALUS_M_MISSING_PARAM, "neither its values nor a master", TALUS_LOAD_PARAMS);
}

TEST_CASE("strict: check only reads everything and changes nothing") {
  Model from(kTwo, {{"adamw", {}}}, 2), to(kTwo);
  const std::string before = to.bytes();
  std::string saved = from.bytes(0);
  REQUIRE(load_bytes(to.get(), saved, TALUS_LOAD_CHECK_ONLY) == TALUS_OK);
  CHECK((to.bytes() == before));
  saved[saved.size() - 40] ^= 1;  // of a tensor, ahead of the digest
  CHECK(load_bytes(to.get(), saved, TALUS_LOAD_CHECK_ONLY) == TALUS_E_FORMAT);
  CHECK((to.bytes() == before));
}

TEST_CASE("strict: every flipped bit of a file is found, and nothing has changed") {
  Model from({{"w", {3}}, {"b", {}}}, {{"adamw", {}}}, 2), to({{"w", {3}}, {"b", {}}});
  const std::string saved = from.bytes(0), before = to.bytes();
  for (size_t bit = 0; bit < saved.size() * 8; bit += 3) {
    std::string bad = saved;
    bad[bit / 8] = char(bad[bit / 8] ^ 1 << bit % 8);
    INFO("bit " << bit);
    REQUIRE(load_bytes(to.get(), bad) != TALUS_OK);
    REQUIRE((to.bytes() == before));
  }
}

TEST_CASE("strict: a tensor that the file does not account for is refused") {
  Model from({{"w", {3}}}, {{"adamw", {}}}, 2), to({{"w", {3}}});
  std::string saved = from.bytes(TALUS_SAVE_NO_DIGEST);
  const size_t at = saved.find("state.w.exp_avg_sq\":");
  saved.replace(at, 18, "state.w.exp_avg_qs");
  CHECK(load_bytes(to.get(), saved, kAllFlags) == TALUS_E_FORMAT);
  CHECK_THAT(talus_last_error(), ContainsSubstring("exp_avg_qs"));
}

TEST_CASE("strict: a file that ends at any byte is refused") {
  Model from({{"w", {3}}}, {{"adamw", {}}}, 2), to({{"w", {3}}});
  const std::string saved = from.bytes(0), before = to.bytes();
  for (size_t n = 0; n < saved.size(); ++n) {
    INFO(n << " bytes");
    REQUIRE(load_bytes(to.get(), saved.substr(0, n)) == TALUS_E_FORMAT);
    REQUIRE((to.bytes() == before));
  }
}

TEST_CASE("strict: a load in place that fails half-way says so until one succeeds") {
  struct Failing {
    const std::string* bytes;
    int calls, fail_at;
    static int32_t read(void* user, uint64_t offset, void* out, uint64_t count) {
      auto& self = *static_cast<Failing*>(user);
      if (++self.calls == self.fail_at) return 7;
      return read_bytes(const_cast<std::string*>(self.bytes), offset, out, count);
    }
  };
  Model from(kTwo, {{"adamw", {}}}, 2), to(kTwo, {{"adamw", {}}}, 1);
  Model one({{"a.bias", {2}}}, {{"adamw", {}}}, 1);
  const std::string saved = from.bytes(0), before = to.bytes();
  talus_io io = io_of(TALUS_LOAD_IN_PLACE);
  int damaged = 0;
  for (int k = 1;; ++k) {
    Failing failing{&saved, 0, k};
    talus_reader reader{sizeof reader, 0, &failing, saved.size(), Failing::read};
    const talus_status status = talus_load_from(to.get(), &reader, &io, nullptr);
    if (status == TALUS_OK) break;
    INFO("call " << k << ": " << talus_last_error());
    REQUIRE(status == TALUS_E_CALLBACK);
    REQUIRE(talus_last_error_detail() == 7);
    if (talus_step(to.get(), nullptr) == TALUS_OK) {
      REQUIRE(load_bytes(to.get(), before, TALUS_LOAD_PARAMS) == TALUS_OK);
      continue;
    }
    ++damaged;
    CHECK_THAT(talus_last_error(), ContainsSubstring("half-way"));
    double value = 0;
    int64_t steps = 0;
    CHECK(talus_get(to.get(), 0, "lr", &value) == TALUS_E_STATE);
    CHECK(talus_get_note(to.get(), "none", nullptr, 0, nullptr) == TALUS_E_STATE);
    CHECK(load_bytes(to.get(), one.bytes(0), TALUS_LOAD_ALLOW_MISSING) == TALUS_E_MISMATCH);
    CHECK(talus_steps(to.get(), 0, &steps) == TALUS_E_STATE);
    std::string unused;
    talus_writer writer{sizeof writer, 0, &unused, append_bytes};
    CHECK(talus_save_to(to.get(), &writer, nullptr, nullptr) == TALUS_E_STATE);
    REQUIRE(load_bytes(to.get(), before, TALUS_LOAD_PARAMS | TALUS_LOAD_IN_PLACE) == TALUS_OK);
    REQUIRE((to.bytes() == before));
  }
  CHECK(damaged >= 4);
  CHECK((save_bytes(to.get()) == save_bytes(from.get())));
}

TEST_CASE("strict: progress starts at 0, ends at the whole, and its word counts") {
  struct Seen {
    std::vector<uint64_t> done;
    uint64_t total;
    int stop_at;
    static int32_t tell(void* user, uint64_t done, uint64_t total) {
      auto& self = *static_cast<Seen*>(user);
      self.done.push_back(done);
      self.total = total;
      return int(self.done.size()) == self.stop_at ? 5 : 0;
    }
  };
  Model from(kTwo, {{"adamw", {}}}, 2), to(kTwo, {{"adamw", {}}}, 1);
  const std::string saved = from.bytes(0);
  for (const int stop_at : {0, 1, 2}) {
    const std::string before = to.bytes();
    Seen seen{{}, 0, stop_at};
    talus_io io = io_of(0);
    io.user = &seen;
    io.progress = Seen::tell;
    std::string out;
    talus_writer writer{sizeof writer, 0, &out, append_bytes};
    const talus_status wanted = stop_at ? TALUS_E_CANCELLED : TALUS_OK;
    CHECK(talus_save_to(from.get(), &writer, &io, nullptr) == wanted);
    CHECK(seen.done.front() == 0);
    CHECK((stop_at == 1 || seen.done.back() == saved.size()));
    CHECK(seen.total == saved.size());
    seen.done.clear();
    talus_reader reader{sizeof reader, 0, const_cast<std::string*>(&saved), saved.size(),
                        read_bytes};
    CHECK(talus_load_from(to.get(), &reader, &io, nullptr) == wanted);
    CHECK((stop_at == 1 || seen.done.back() == seen.total));
    if (stop_at) CHECK((to.bytes() == before));
  }
}

TEST_CASE("strict: what cannot be a call is refused by name") {
  Model model(kTwo);
  talus_io io = io_of(TALUS_LOAD_CONVERT);
  std::string out;
  talus_writer writer{sizeof writer, 0, &out, append_bytes};
  CHECK(talus_save_to(model.get(), &writer, &io, nullptr) == TALUS_E_ARGUMENT);
  CHECK_THAT(talus_last_error(), ContainsSubstring("flags has 0x40"));
  writer.write = nullptr;
  CHECK(talus_save_to(model.get(), &writer, nullptr, nullptr) == TALUS_E_ARGUMENT);
  CHECK(talus_save(model.get(), nullptr, nullptr, nullptr) == TALUS_E_ARGUMENT);
  CHECK(talus_save(model.get(), "", nullptr, nullptr) == TALUS_E_ARGUMENT);
  CHECK(talus_load(model.get(), "/nowhere/x.safetensors", nullptr, nullptr) == TALUS_E_IO);
  CHECK(talus_last_error_detail() == ENOENT);
  CHECK(talus_set_note(model.get(), "", "x") == TALUS_E_ARGUMENT);
  CHECK(talus_set_note(model.get(), "a\n", "x") == TALUS_E_ARGUMENT);
  CHECK(talus_set_note(model.get(), "a", "\xff") == TALUS_E_ARGUMENT);
  Model state({{"state.x.step", {1}}, {"x", {1}}});
  CHECK(talus_save(state.get(), "/nowhere/x.safetensors", nullptr, nullptr) == TALUS_E_IO);
  io = io_of(TALUS_SAVE_PARAMS);
  writer.write = append_bytes;
  CHECK(talus_save_to(state.get(), &writer, &io, nullptr) == TALUS_E_ARGUMENT);
}
