// State tensors: enumeration, memory of the caller, and step counts that declare contents valid.
#include "tests/abi/fixture.h"

#include <map>

using namespace talus::abi;

namespace {

// f32 memory for every state tensor, with a copy of its contents where there are any.
std::map<std::string, std::vector<float>> copy_states(const talus_optimizer* opt) {
  std::map<std::string, std::vector<float>> copies;
  for (const talus_state& state : states(opt)) {
    const auto* data = static_cast<const float*>(state.data);
    const std::string key = std::to_string(state.param) + state.slot;
    copies[key].assign(size_t(state.count), 123);
    if (data != nullptr) copies[key].assign(data, data + state.count);
  }
  return copies;
}

void bind_all(talus_optimizer* opt, std::map<std::string, std::vector<float>>& memory) {
  for (const talus_state& state : states(opt)) {
    std::vector<float>& data = memory.at(std::to_string(state.param) + state.slot);
    INFO(talus_last_error());
    REQUIRE(talus_bind_state(opt, state.param, state.slot, data.data(), state.bytes) == TALUS_OK);
  }
}

}  // namespace

TEST_CASE("abi: states are listed by parameter, then slot, and describe live memory") {
  Handle opt("adamw");
  Model model;
  model.add_to(opt);
  const int64_t three = 3;
  std::vector<uint16_t> half = {0x3c00, 0xc000, 0x3800};
  std::vector<float> grad = {1, 1, 1};
  talus_param param = describe<uint16_t>(TALUS_F16, half.data(), nullptr, &three);
  param.grad = grad.data();
  param.grad_dtype = TALUS_F32;
  add(opt, param);
  const std::pair<int64_t, const char*> expected[] = {
      {0, "exp_avg"}, {0, "exp_avg_sq"}, {1, "exp_avg"},      {1, "exp_avg_sq"},
      {2, "exp_avg"}, {2, "exp_avg_sq"}, {2, "master_param"},
  };
  std::vector<talus_state> before = states(opt);
  REQUIRE(before.size() == std::size(expected));
  std::map<std::pair<int64_t, std::string>, int> seen;
  for (const talus_state& state : before) {
    ++seen[{state.param, state.slot}];
    CHECK(state.data == nullptr);
    CHECK(state.dtype == TALUS_F32);
    CHECK((state.first == 0 && state.bytes == uint64_t(state.count) * 4));
    CHECK((state.alignment >= 1 && (state.alignment & (state.alignment - 1)) == 0));
  }
  for (const auto& [index, slot] : expected) CHECK(seen[{index, slot}] == 1);
  for (size_t i = 1; i < before.size(); ++i) CHECK(before[i - 1].param <= before[i].param);

  REQUIRE(talus_prepare(opt, nullptr) == TALUS_OK);
  const std::vector<talus_state> prepared = states(opt);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  const std::vector<talus_state> stepped = states(opt);
  for (size_t i = 0; i < prepared.size(); ++i) {
    CHECK(prepared[i].data != nullptr);
    CHECK(prepared[i].data == stepped[i].data);
  }
  // The parameter is the rounded copy of its master: 1 - lr (1 + decay) is no f16.
  const talus_state* master = find_state(stepped, 2, "master_param");
  REQUIRE(master != nullptr);
  CHECK(static_cast<float*>(master->data)[0] < 1);
  CHECK(static_cast<float*>(master->data)[0] > 0.99f);
}

TEST_CASE("abi: bind_state refuses wrong slots, sizes, pointers and overlaps") {
  Handle opt("adamw");
  Model model;
  model.add_to(opt);
  std::vector<float> memory(16);
  float* const m = memory.data();
  const auto bind = [&](const char* slot, void* data, uint64_t bytes) {
    return [=, &opt] { return talus_bind_state(opt, 0, slot, data, bytes); };
  };
  refused(opt, TALUS_E_ARGUMENT, {}, bind(nullptr, m, 20));
  refused(opt, TALUS_E_NAME, {"\"w\"", "momentum_buffer", "exp_avg"},
          bind("momentum_buffer", m, 20));
  refused(opt, TALUS_E_NAME, {"max_exp_avg_sq"}, bind("max_exp_avg_sq", m, 20));
  refused(opt, TALUS_E_NAME, {"master_param"}, bind("master_param", m, 20));
  refused(opt, TALUS_E_ARGUMENT, {"\"w\"", "exp_avg", "19", "20"}, bind("exp_avg", m, 19));
  refused(opt, TALUS_E_ARGUMENT, {"24", "20"}, bind("exp_avg", m, 24));
  refused(opt, TALUS_E_ARGUMENT, {"\"w\"", "exp_avg"}, bind("exp_avg", nullptr, 20));
  refused(opt, TALUS_E_ARGUMENT, {"\"w\"", "exp_avg"},
          bind("exp_avg", reinterpret_cast<char*>(m) + 2, 20));
  for (const int offset : {-4, 0, 4})
    refused(opt, TALUS_E_ARGUMENT, {"exp_avg", "\"w\""},
            bind("exp_avg", model.w.data() + offset, 20));
  refused(opt, TALUS_E_ARGUMENT, {"exp_avg"}, bind("exp_avg", model.gw.data(), 20));
  REQUIRE(bind("exp_avg", m, 20)() == TALUS_OK);
  refused(opt, TALUS_E_ARGUMENT, {"exp_avg_sq", "overlaps"}, bind("exp_avg_sq", m + 4, 20));
  REQUIRE(bind("exp_avg_sq", m + 5, 20)() == TALUS_OK);
  REQUIRE(bind("exp_avg", m, 20)() == TALUS_OK);  // to where it is
  // Gradients and data must not fall on bound state either.
  void* grad = m + 6;
  refused(opt, TALUS_E_ARGUMENT, {"\"b\"", "\"w\""},
          [&] { return talus_bind_grads(opt, 1, 1, &grad); });
  refused(opt, TALUS_E_ARGUMENT, {"\"b\"", "\"w\""},
          [&] { return talus_bind_data(opt, 1, m + 9); });
  REQUIRE(bind("exp_avg_sq", m + 8, 20)() == TALUS_OK);  // its old place is free again
  CHECK(talus_bind_data(opt, 1, m + 5) == TALUS_OK);
}

TEST_CASE("abi: contents of bound state count once the step count is above 0") {
  Handle opt("adamw"), resumed("adamw");
  Model model, twin;
  model.add_to(opt);
  for (int i = 0; i < 3; ++i) REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  twin.w = model.w;
  twin.b = model.b;
  twin.add_to(resumed);
  auto memory = copy_states(opt);
  bind_all(resumed, memory);
  for (const int64_t param : {0, 1}) REQUIRE(talus_set_steps(resumed, param, 3) == TALUS_OK);
  for (int i = 0; i < 2; ++i) {
    REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
    REQUIRE(talus_step(resumed, nullptr) == TALUS_OK);
  }
  CHECK(model.w == twin.w);
  CHECK(model.b == twin.b);
  CHECK(copy_states(opt) == memory);
  CHECK(steps(resumed, 0) == 5);
}

TEST_CASE("abi: at 0 steps bound contents mean nothing, but for master_param") {
  const int64_t two = 2;
  std::vector<uint16_t> bf16 = {0x3f80, 0x4000}, twin = bf16;  // 1, 2
  std::vector<float> grad = {0.5f, -0.5f};
  Handle opt("sgd"), plain("sgd");
  for (talus_optimizer* each :
       {static_cast<talus_optimizer*>(opt), static_cast<talus_optimizer*>(plain)}) {
    talus_param param =
        describe<uint16_t>(TALUS_BF16, each == opt ? bf16.data() : twin.data(), nullptr, &two);
    param.grad = grad.data();
    param.grad_dtype = TALUS_F32;
    add(each, param);
    REQUIRE(talus_set(each, 0, "lr", 0.25) == TALUS_OK);
    REQUIRE(talus_set(each, 0, "momentum", 0.5) == TALUS_OK);
  }
  std::vector<float> master = {1.001f, 2.002f}, buffer = {1e30f, kNaN};
  REQUIRE(talus_bind_state(opt, 0, "master_param", master.data(), 8) == TALUS_OK);
  REQUIRE(talus_bind_state(opt, 0, "momentum_buffer", buffer.data(), 8) == TALUS_OK);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  REQUIRE(talus_step(plain, nullptr) == TALUS_OK);
  CHECK(master[0] == 1.001f - 0.25f * 0.5f);
  CHECK(master[1] == 2.002f + 0.25f * 0.5f);
  CHECK(buffer == grad);  // the first buffer is the gradient, whatever was there
  const talus_state* own = nullptr;
  const auto all = states(plain);
  own = find_state(all, 0, "master_param");
  REQUIRE(own != nullptr);
  CHECK(static_cast<float*>(own->data)[0] == 0.875f);  // of its own: the parameter
}

TEST_CASE("abi: set_steps refuses what has no memory or is no count, 0 starts afresh") {
  Handle opt("adamw");
  Model model;
  model.add_to(opt);
  refused(opt, TALUS_E_STATE, {"\"w\"", "exp_avg"}, [&] { return talus_set_steps(opt, 0, 1); });
  REQUIRE(talus_set_steps(opt, 0, 0) == TALUS_OK);
  std::vector<float> m(5, 0);
  REQUIRE(talus_bind_state(opt, 0, "exp_avg", m.data(), 20) == TALUS_OK);
  refused(opt, TALUS_E_STATE, {"\"w\"", "exp_avg_sq"}, [&] { return talus_set_steps(opt, 0, 1); });
  const auto before = see(opt);
  for (const int64_t bad : {int64_t(-1), INT64_MIN}) {
    const talus_status status = talus_set_steps(opt, 0, bad);
    CHECK((status == TALUS_E_ARGUMENT || status == TALUS_E_RANGE));
    CHECK(std::string(talus_last_error()).find(std::to_string(bad)) != std::string::npos);
  }
  CHECK(first_difference(before, see(opt)) == "");

  const std::vector<float> start = model.w;
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  const std::vector<float> once = model.w;
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  REQUIRE(talus_set_steps(opt, 0, 0) == TALUS_OK);
  CHECK((steps(opt, 0) == 0 && steps(opt, 1) == 2));
  model.w = start;
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  CHECK(model.w == once);
  CHECK(steps(opt, 0) == 1);
}

TEST_CASE("abi: set_steps after prepare declares zeros valid: bias correction goes on from there") {
  Handle opt("adamw");
  Model model;
  model.add_to(opt);
  REQUIRE(talus_prepare(opt, nullptr) == TALUS_OK);
  for (const talus_state& state : states(opt)) std::memset(state.data, 0, state.bytes);
  for (const int64_t param : {0, 1}) REQUIRE(talus_set_steps(opt, param, 1000000) == TALUS_OK);
  const std::vector<float> before = model.w;
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  CHECK(steps(opt, 0) == 1000001);
  CHECK(model.w != before);
  refused(opt, TALUS_E_STATE, {"amsgrad"}, [&] { return talus_set(opt, 0, "amsgrad", 1); });
}

TEST_CASE("abi: bound state survives its optimizer, and another optimizer can take it over") {
  std::vector<float> m(5), v(5);
  Model model;
  const int64_t five = 5;
  {
    Handle first("adamw");
    add(first, describe(TALUS_F32, model.w.data(), model.gw.data(), &five));
    REQUIRE(talus_bind_state(first, 0, "exp_avg", m.data(), 20) == TALUS_OK);
    REQUIRE(talus_bind_state(first, 0, "exp_avg_sq", v.data(), 20) == TALUS_OK);
    REQUIRE(talus_step(first, nullptr) == TALUS_OK);
    talus_stats stats{};
    stats.struct_size = sizeof stats;
    REQUIRE(talus_get_stats(first, 1, &stats) == TALUS_OK);
    CHECK(stats.state_bytes == 0);  // bound memory is not counted
  }
  CHECK(m[0] != 0);
  Handle second("adamw");
  add(second, describe(TALUS_F32, model.w.data(), model.gw.data(), &five));
  REQUIRE(talus_bind_state(second, 0, "exp_avg", m.data(), 20) == TALUS_OK);
  REQUIRE(talus_bind_state(second, 0, "exp_avg_sq", v.data(), 20) == TALUS_OK);
  REQUIRE(talus_set_steps(second, 0, 1) == TALUS_OK);
  REQUIRE(talus_step(second, nullptr) == TALUS_OK);

  Handle reference("adamw");
  Model twin;
  add(reference, describe(TALUS_F32, twin.w.data(), twin.gw.data(), &five));
  for (int i = 0; i < 2; ++i) REQUIRE(talus_step(reference, nullptr) == TALUS_OK);
  CHECK(model.w == twin.w);
}
