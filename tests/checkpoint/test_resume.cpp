// A run that was saved and loaded goes on as if it had never stopped, to the last bit.
#include <catch2/catch_test_macros.hpp>
#include <deque>

#include "tests/checkpoint/memory_file.h"
#include "tests/rule_run.h"

using namespace talus;
using namespace talus::test;

namespace {

constexpr Mix kF16Master = {TALUS_F16, TALUS_F16, TALUS_MASTER_AUTO};
constexpr Mix kBf16Master = {TALUS_BF16, TALUS_F32, TALUS_MASTER_AUTO};
constexpr Mix kBf16Alone = {TALUS_BF16, TALUS_BF16, TALUS_MASTER_NONE};

// Four tensors, one of them empty, one of one element; two groups.
struct Training {
  Optimizer optimizer;
  std::deque<TestTensor> tensors;

  Training(const std::string& algorithm, const Values& values, const Mix& mix)
      : optimizer(algorithm, values) {
    const int32_t second = optimizer.add_group();
    for (const int64_t n : {37, 0, 1, 300}) tensors.emplace_back(mix, n);
    for (size_t i = 0; i < tensors.size(); ++i) {
      tensors[i].fill(100 + i);
      optimizer.add(tensors[i], i % 2 ? second : 0);
    }
  }
  // The last tensor has no gradient in the first step: its count stays behind.
  void step(int64_t number) {
    for (size_t i = 0; i < tensors.size(); ++i) tensors[i].fill_grad(7 + i, number);
    optimizer.bind_grad(tensors.back(), number == 1 ? nullptr : tensors.back().grad.data());
    optimizer.step();
  }
  void steps(int64_t first, int64_t last) {
    for (int64_t s = first; s <= last; ++s) step(s);
  }
  void take_params(const Training& from) {
    for (size_t i = 0; i < tensors.size(); ++i)
      std::memcpy(tensors[i].param.data(), from.tensors[i].param.data(), tensors[i].param.bytes());
  }
};

std::string difference(const Training& a, const Training& b) {
  for (size_t i = 0; i < a.tensors.size(); ++i)
    if (const std::string text = difference(a.optimizer, a.tensors[i], b.optimizer, b.tensors[i]);
        !text.empty())
      return "tensor " + std::to_string(i) + ": " + text;
  return "";
}

template <class F>
void for_each_training(F f) {
  for (const HyperSet& set : hyper_sets())
    for (const Mix& mix : {kF32, kF64, kBf16Master, kF16Master, kBf16Alone}) {
      INFO(set.algorithm << ", " << set.name << ", parameter " << format_of(mix.param).name);
      f(set, mix);
    }
}

}  // namespace

TEST_CASE(
    "resume: a fresh optimizer that loads goes on with the same bits, and not as a cold one") {
  for_each_training([](const HyperSet& set, const Mix& mix) {
    Training whole(set.algorithm, set.values, mix), resumed(set.algorithm, set.values, mix),
        cold(set.algorithm, set.values, mix);
    whole.steps(1, 3);
    const std::string saved = save_bytes(whole.optimizer.get());
    resumed.take_params(whole);
    cold.take_params(whole);
    INFO(talus_last_error());
    REQUIRE(load_bytes(resumed.optimizer.get(), saved) == TALUS_OK);
    CHECK(difference(whole, resumed) == "");
    CHECK((save_bytes(resumed.optimizer.get()) == saved));
    whole.steps(4, 6);
    resumed.steps(4, 6);
    cold.steps(4, 6);
    CHECK(difference(whole, resumed) == "");
    CHECK(difference(whole, cold) != "");
  });
}

TEST_CASE("resume: parameters come with the file, or from its masters") {
  for (const uint64_t saved_with : {uint64_t{0}, uint64_t{TALUS_SAVE_PARAMS}})
    for (const Mix& mix : {kF32, kBf16Master, kF16Master}) {
      if (!saved_with && !mix.has_master()) continue;
      INFO(format_of(mix.param).name << ", saved with " << saved_with);
      Training whole("adamw", {{"weight_decay", 0.1}}, mix), resumed("adamw", {}, mix);
      whole.steps(1, 3);
      const std::string saved = save_bytes(whole.optimizer.get(), saved_with);
      INFO(talus_last_error());
      REQUIRE(load_bytes(resumed.optimizer.get(), saved, TALUS_LOAD_PARAMS) == TALUS_OK);
      CHECK(difference(whole, resumed) == "");
      whole.steps(4, 5);
      resumed.steps(4, 5);
      CHECK(difference(whole, resumed) == "");
    }
}

TEST_CASE("resume: over live state, with and without a second copy, and back in time") {
  for (const uint64_t flags : {uint64_t{0}, uint64_t{TALUS_LOAD_IN_PLACE}})
    for (const Mix& mix : {kF32, kBf16Master}) {
      INFO("flags " << flags);
      Training live("nadam", {}, mix), whole("nadam", {}, mix);
      live.steps(1, 2);
      whole.steps(1, 2);
      const std::string saved = save_bytes(live.optimizer.get(), TALUS_SAVE_PARAMS);
      live.steps(50, 55);
      const void* const before = live.optimizer.states(live.tensors[0])[0].data;
      REQUIRE(load_bytes(live.optimizer.get(), saved, flags | TALUS_LOAD_PARAMS) == TALUS_OK);
      CHECK(live.optimizer.states(live.tensors[0])[0].data == before);
      CHECK(difference(whole, live) == "");
      live.steps(3, 4);
      whole.steps(3, 4);
      CHECK(difference(whole, live) == "");
    }
}

TEST_CASE("resume: state that the caller has bound is loaded into his memory") {
  Training whole("adam", {}, kBf16Master), resumed("adam", {}, kBf16Master);
  whole.steps(1, 3);
  for (TestTensor& t : resumed.tensors) resumed.optimizer.bind_guarded_states(t);
  resumed.take_params(whole);
  REQUIRE(load_bytes(resumed.optimizer.get(), save_bytes(whole.optimizer.get())) == TALUS_OK);
  whole.steps(4, 5);
  resumed.steps(4, 5);
  CHECK(difference(whole, resumed) == "");
  CHECK(resumed.optimizer.state_guards_intact());
}

TEST_CASE("resume: hyperparameters, groups, counts and notes are the file's") {
  Training from("adamw", {{"lr", 0.1}, {"eps", 1e-30}}, kF32), to("adamw", {{"lr", 0.5}}, kF32);
  from.optimizer.set("weight_decay", 1.0 / 3, 1);
  from.steps(1, 2);
  must(talus_set_note(from.optimizer.get(), "epoch", "3"));
  must(talus_set_note(from.optimizer.get(),
                      "gr\xc3\xb6\xc3\x9f"
                      "e \"x\"",
                      "a\nb"));
  must(talus_set_note(to.optimizer.get(), "gone", "1"));
  to.take_params(from);
  REQUIRE(load_bytes(to.optimizer.get(), save_bytes(from.optimizer.get())) == TALUS_OK);
  CHECK(to.optimizer.hyper("lr") == 0.1);
  CHECK(to.optimizer.hyper("eps", 1) == 1e-30);
  CHECK(to.optimizer.hyper("weight_decay", 1) == 1.0 / 3);
  CHECK(to.optimizer.hyper("weight_decay", 0) != 1.0 / 3);
  char text[16];
  uint64_t needed = 99;
  CHECK(talus_get_note(to.optimizer.get(), "epoch", text, sizeof text, &needed) == TALUS_OK);
  CHECK(std::string(text) == "3");
  CHECK(needed == 2);
  CHECK(talus_get_note(to.optimizer.get(), "gone", text, sizeof text, &needed) == TALUS_E_NAME);
  CHECK(needed == 0);
  CHECK(talus_get_note(to.optimizer.get(), "epoch", text, 1, &needed) == TALUS_E_ARGUMENT);
  CHECK(needed == 2);
  talus_stats stats{};
  stats.struct_size = sizeof stats;
  must(talus_get_stats(to.optimizer.get(), 1, &stats));
  CHECK(stats.steps == 2);
}

TEST_CASE("resume: equal state gives equal bytes, whatever the threads and the memory") {
  Training a("lamb", {}, kBf16Master), b("lamb", {}, kBf16Master);
  b.optimizer.setting("threads", 3);
  a.steps(1, 4);
  b.steps(1, 4);
  CHECK((save_bytes(a.optimizer.get()) == save_bytes(b.optimizer.get())));
  CHECK(save_bytes(a.optimizer.get()) != save_bytes(a.optimizer.get(), TALUS_SAVE_NO_DIGEST));
  REQUIRE(load_bytes(b.optimizer.get(), save_bytes(a.optimizer.get(), TALUS_SAVE_NO_DIGEST)) ==
          TALUS_OK);
}

TEST_CASE("resume: a file of an optimizer that took no step makes a cold one") {
  Training cold("sgd", {{"momentum", 0.9}}, kF32), live("sgd", {{"momentum", 0.9}}, kF32),
      other("sgd", {{"momentum", 0.9}}, kF32);
  const std::string saved = save_bytes(cold.optimizer.get(), TALUS_SAVE_PARAMS);
  live.steps(1, 3);
  REQUIRE(load_bytes(live.optimizer.get(), saved, TALUS_LOAD_PARAMS) == TALUS_OK);
  live.steps(1, 3);
  other.steps(1, 3);
  CHECK(difference(live, other) == "");
}
