// Traps that other libraries fell into at their boundary, each named after its entry in the list of
// known traps, with the public source.
#include "tests/abi/fixture.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>

#include <sys/wait.h>
#include <unistd.h>

using namespace talus::abi;

namespace {

bool is_listed(const char* list, const std::string& name) {
  for (int32_t i = 0; i < talus_name_count(list); ++i)
    if (name == talus_name_at(list, i)) return true;
  return false;
}

// Runs body in a child process and returns its exit status, 1000 + signal if it was killed.
template <class Body>
int in_child(Body body) {
  std::cout.flush();  // else the child prints it again as it ends
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(60);
    body();
    std::exit(0);  // with destructors and exit handlers, as a program ends
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

}  // namespace

// pytorch/pytorch#194664; bitsandbytes-foundation/bitsandbytes#227; NVIDIA/apex#458
TEST_CASE("traps 8, 16, 50: what talus does not offer yet is refused by name, never half done") {
  talus_optimizer* opt = nullptr;
  if (is_listed("algorithms", "muon")) SKIP("it is offered now: its own tests hold it");
  refused(nullptr, TALUS_E_NAME, {"muon", "adamw"},
          [&] { return talus_create("muon", TALUS_CPU, 0, &opt); });
  CHECK(opt == nullptr);
  Handle adamw("adamw");
  float data[2] = {1, 2};
  const int64_t two = 2;
  talus_param param = describe<float>(TALUS_F32, data, nullptr, &two);
  param.state_dtype = 0x0801;  // 8 bits
  refused(adamw, TALUS_E_UNSUPPORTED, {"state_dtype", "801"},
          [&] { return talus_add_params(adamw, 0, 1, &param, nullptr); });
}

// NVIDIA/apex#332; pytorch/pytorch#53712, #20997, #62475
TEST_CASE("trap 23: a group added after the start, of another dtype and rule, is stepped") {
  Handle opt("adamw");
  Model model;
  model.add_to(opt);
  for (int i = 0; i < 3; ++i) REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  int32_t group = -1;
  REQUIRE(talus_add_group(opt, "sgd", &group) == TALUS_OK);
  REQUIRE(talus_set(opt, group, "lr", 0.5) == TALUS_OK);
  const talus_state before = states(opt)[0];
  std::vector<double> late = {1, 2}, grad = {1, -1};
  const int64_t two = 2;
  const int64_t index = add(opt, describe(TALUS_F64, late.data(), grad.data(), &two), group);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  CHECK(late == std::vector<double>{0.5, 2.5});
  CHECK((steps(opt, 0) == 4 && steps(opt, index) == 1));
  CHECK(states(opt)[0].data == before.data);  // what was handed out has not moved
}

// pytorch/pytorch#150610, #38581
TEST_CASE("trap 24: no gradient and a gradient of zeros are two things, also in one call") {
  Handle opt("adamw");
  Model model;
  model.add_to(opt);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  const std::vector<float> w = model.w, b = model.b;
  const auto all = states(opt);
  const std::string moment = hex(find_state(all, 0, "exp_avg")->data, 20);
  std::vector<float> zeros(2, 0);
  void* grads[] = {nullptr, zeros.data()};
  REQUIRE(talus_bind_grads(opt, 0, 2, grads) == TALUS_OK);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  CHECK(model.w == w);
  CHECK(hex(find_state(all, 0, "exp_avg")->data, 20) == moment);
  CHECK(model.b != b);  // decay and momentum
  CHECK((steps(opt, 0) == 1 && steps(opt, 1) == 2));
}

// pytorch/pytorch#98772
TEST_CASE("trap 28: gradients are read only, by steps that succeed, fail or are refused") {
  Handle opt("adamw");
  Model model;
  model.gw = {0, -0.0f, float(kInf), float(kNaN), 1e-40f};
  model.add_to(opt);
  REQUIRE(talus_set_setting(opt, "stats", 1) == TALUS_OK);
  REQUIRE(talus_set(opt, 0, "maximize", 1) == TALUS_OK);
  const std::string gw = hex(model.gw.data(), 20), gb = hex(model.gb.data(), 8);
  for (int i = 0; i < 3; ++i) CHECK(talus_step(opt, nullptr) == TALUS_OK);
  double loss = 0;
  CHECK(talus_step_closure(
            opt, [](void*, double*) -> int32_t { return 5; }, nullptr, &loss, nullptr) ==
        TALUS_E_CALLBACK);
  CHECK(talus_step(opt, &loss) == TALUS_E_ARGUMENT);
  CHECK(talus_zero_grad(opt, TALUS_ZERO_UNBIND, nullptr) == TALUS_OK);
  CHECK(hex(model.gw.data(), 20) == gw);
  CHECK(hex(model.gb.data(), 8) == gb);
}

// pytorch/pytorch#67590, #44511, #55585
TEST_CASE("trap 29: the caller can tell whether a step was taken") {
  Handle opt("adamw");
  Model model;
  model.add_to(opt);
  const auto taken = [&] {
    talus_stats stats{};
    stats.struct_size = sizeof stats;
    REQUIRE(talus_get_stats(opt, 1, &stats) == TALUS_OK);
    CHECK((stats.skipped == 0 && stats.found_inf == 0));
    return stats.steps;
  };
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  CHECK(taken() == 1);
  CHECK(talus_step(opt, &model) != TALUS_OK);
  CHECK(taken() == 1);
  REQUIRE(talus_prepare(opt, nullptr) == TALUS_OK);
  CHECK(taken() == 1);
}

// deepspeedai/DeepSpeed#7839, #7837
TEST_CASE("trap 30: a bf16 run divides by no scale that nobody set") {
  Handle opt("sgd");
  std::vector<uint16_t> data = {0x4000}, grad = {0x3f80};  // 2 and 1
  const int64_t one = 1;
  add(opt, describe(TALUS_BF16, data.data(), grad.data(), &one));
  REQUIRE(talus_set(opt, 0, "lr", 1) == TALUS_OK);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  CHECK(data[0] == 0x3f80);
  talus_stats stats{};
  stats.struct_size = sizeof stats;
  REQUIRE(talus_get_stats(opt, 1, &stats) == TALUS_OK);
  CHECK((stats.loss_scale == 1 && stats.clip_factor == 1));
}

// pytorch/pytorch#196083, #147288
TEST_CASE("trap 43: pointers to state that were handed out stay right while tensors are added") {
  Handle opt("adamw");
  Model model;
  model.add_to(opt);
  REQUIRE(talus_prepare(opt, nullptr) == TALUS_OK);
  std::vector<void*> handed_out;
  for (const talus_state& state : states(opt)) handed_out.push_back(state.data);
  std::vector<std::unique_ptr<Model>> more;
  for (int i = 0; i < 50; ++i) {
    more.push_back(std::make_unique<Model>());
    const int64_t five = 5;
    add(opt, describe(TALUS_F32, more.back()->w.data(), more.back()->gw.data(), &five));
    REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  }
  const auto now = states(opt);
  for (size_t i = 0; i < handed_out.size(); ++i) CHECK(now[i].data == handed_out[i]);
}

// microsoft/dion#63
TEST_CASE("trap 55: memory is known by its pointer, also when an address is used again") {
  Handle opt("sgd");
  REQUIRE(talus_set(opt, 0, "lr", 1) == TALUS_OK);
  std::vector<float> data = {5, 6}, grad = {1, 1}, elsewhere = {0, 0};
  const int64_t two = 2;
  add(opt, describe(TALUS_F32, data.data(), grad.data(), &two));
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  void* other = elsewhere.data();
  for (int i = 1; i <= 3; ++i) {  // there and back, without and with other contents
    elsewhere = {float(i), float(-i)};
    REQUIRE(talus_bind_grads(opt, 0, 1, &other) == TALUS_OK);
    const std::vector<float> before = data;
    REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
    CHECK(data == std::vector<float>{before[0] - float(i), before[1] + float(i)});
    void* back = grad.data();
    REQUIRE(talus_bind_grads(opt, 0, 1, &back) == TALUS_OK);
    REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
    CHECK(data == std::vector<float>{before[0] - float(i) - 1, before[1] + float(i) - 1});
  }
}

// deepspeedai/DeepSpeed#1846
TEST_CASE("trap 56: a create that failed leaves nothing to destroy and keeps its error") {
  talus_optimizer* opt = nullptr;
  CHECK(talus_create("no such rule", TALUS_CPU, 0, &opt) == TALUS_E_NAME);
  const std::string text = talus_last_error();
  CHECK(opt == nullptr);
  talus_destroy(opt);
  CHECK(talus_last_error() == text);
  CHECK(text.find("no such rule") != std::string::npos);
}

// sobelio/llm-chain#174; libbpf/libbpf-sys#26
TEST_CASE("trap 57: a struct grown in front of its known fields cannot pass for one of ours") {
  struct Grown {
    uint32_t struct_size;
    int32_t inserted;
    talus_param rest;
  } grown{};
  float data[2] = {1, 2};
  const int64_t two = 2;
  grown.rest = describe<float>(TALUS_F32, data, nullptr, &two);
  grown.struct_size = sizeof grown;
  grown.inserted = 1;
  Handle opt("sgd");
  const auto before = see(opt);
  CHECK(talus_add_params(opt, 0, 1, reinterpret_cast<talus_param*>(&grown), nullptr) != TALUS_OK);
  CHECK(first_difference(before, see(opt)) == "");
}

// pytorch/pytorch#17357; NVIDIA-NeMo/RL#3544
TEST_CASE("traps 51, 58: a device that is not there is refused, in a forked child too") {
  if (talus_has_feature("cuda") != 0) SKIP("this build has a CUDA device");
  const auto refuse = [] {
    talus_optimizer* opt = nullptr;
    const talus_status status = talus_create("adamw", TALUS_CUDA, 0, &opt);
    return status == TALUS_E_UNSUPPORTED && opt == nullptr && *talus_last_error() != '\0';
  };
  CHECK(refuse());
  CHECK(in_child([&] { _exit(refuse() ? 0 : 1); }) == 0);
}

// NVIDIA/cccl#9367; apache/tvm#18624
TEST_CASE("trap 59: a program may end with optimizers alive, or destroy them as it ends") {
  static talus_optimizer* alive = nullptr;
  static std::vector<float> data(300000, 1), grad(300000, 1);
  static const int64_t extent = 300000;
  const auto start = [] {
    const talus_param param = describe(TALUS_F32, data.data(), grad.data(), &extent);
    bool right = talus_create("adamw", TALUS_CPU, 0, &alive) == TALUS_OK;
    right = right && talus_set_setting(alive, "threads", 3) == TALUS_OK;
    right = right && talus_add_params(alive, 0, 1, &param, nullptr) == TALUS_OK;
    right = right && talus_step(alive, nullptr) == TALUS_OK;
    if (!right) _exit(1);
  };
  CHECK(in_child(start) == 0);
  CHECK(in_child([&] {
          std::atexit([] { talus_destroy(alive); });
          start();
        }) == 0);
  CHECK(in_child([&] {
          std::atexit([] {
            if (talus_step(alive, nullptr) != TALUS_OK) _exit(1);
            talus_destroy(alive);
          });
          start();
        }) == 0);
}

// hpcaitech/ColossalAI#5223; deepspeedai/DeepSpeed#6363
TEST_CASE("trap 60: the active instruction set can be asked for, and scalar is always there") {
  Handle opt("sgd");
  REQUIRE(talus_name_count("cpu_targets") >= 1);
  CHECK(is_listed("cpu_targets", "scalar"));
  REQUIRE(talus_name_count("cpu_target") == 1);
  const std::string active = talus_name_at("cpu_target", 0);
  const std::string why = talus_name_doc("cpu_target", active.c_str());
  CHECK(is_listed("cpu_targets", active.c_str()));
  const char* forced = std::getenv("TALUS_CPU_TARGET");
  CHECK((why.find("TALUS_CPU_TARGET") != std::string::npos) == (forced != nullptr));
  if (forced != nullptr) CHECK(active == forced);
}
