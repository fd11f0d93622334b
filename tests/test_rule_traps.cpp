// Traps of numerics and dtypes that other optimizer libraries fell into, where they concern sgd,
// adam and adamw: each test is named after its trap and cites the public report.
#include <catch2/catch_test_macros.hpp>

#include "tests/rule_run.h"

using namespace talus;
using namespace talus::test;

namespace {

constexpr const char* kAlgorithms[] = {"sgd", "adam", "adamw"};

// One element, one step.
struct Single {
  TestTensor tensor;
  Optimizer optimizer;

  Single(const std::string& algorithm, const Values& values, double p, const Mix& mix = kF64)
      : tensor(mix, 1), optimizer(algorithm, values) {
    tensor.param.set(0, p);
    optimizer.add(tensor);
  }
  double step(double g) {
    tensor.grad.set(0, g);
    optimizer.step();
    return tensor.param.get(0);
  }
  double state(const std::string& slot) const { return optimizer.state(tensor, slot).get(0); }
};

}  // namespace

// pytorch/pytorch#191763
TEST_CASE("trap 1: a SIMD kernel that does not store parameters, seen at every size and element") {
  for (const char* algorithm : kAlgorithms)
    for (const Mix& mix : all_mixes())
      for (int64_t n : {0,  1,  2,  3,  4,  5,  7,  8,  9,  11,  15,    16,    17,
                        19, 31, 32, 33, 35, 63, 64, 65, 67, 131, 65535, 65536, 65537}) {
        INFO(algorithm << ", " << name_of(mix) << ", n " << n);
        TestTensor x(mix, n);
        Optimizer optimizer(algorithm, {{"lr", .5}});  // moves any dtype by more than half an ULP
        optimizer.add(x.fill(21));
        x.fill_grad(21, 1);
        const Buffer before = x.param;
        optimizer.step();
        int64_t unmoved = -1;
        for (int64_t i = 0; i < n && unmoved < 0; ++i) {
          const double moved = x.param.get(i) - before.get(i);
          if (!(moved * x.grad.get(i) < 0)) unmoved = i;  // against the gradient
        }
        CHECK(unmoved == -1);
        CHECK(x.param.guards_intact());
      }
}

// pytorch/pytorch#97004
TEST_CASE("trap 2: eps and lr in one denominator blow up; lr = 1e-30 moves nothing") {
  for (const char* algorithm : kAlgorithms)
    for (const Mix& mix : all_mixes())
      for (double lr : {1e-30, 1e-44, 1e-60, 1e-300, 5e-324})
        for (double g : {1e-4, 1.0}) {
          INFO(algorithm << ", " << name_of(mix) << ", lr " << lr << ", g " << g);
          Single single(algorithm, {{"lr", lr}}, 1.5, mix);
          for (int step = 0; step < 3; ++step) CHECK(single.step(g) == 1.5);
        }
}

// jax-ml/jax#2517
TEST_CASE("trap 4: beta1 = 0 and beta2 = 0 are legal and give numbers") {
  for (const char* algorithm : {"adam", "adamw", "fused_adam"})
    for (const Values& betas :
         {Values{{"beta1", 0}}, Values{{"beta2", 0}}, Values{{"beta1", 0}, {"beta2", 0}}})
      for (const Mix& mix : {kF32, kF64}) {
        INFO(algorithm << ", " << name_of(mix));
        Single single(algorithm, betas, 1, mix);
        single.optimizer.set("weight_decay", 0);
        single.optimizer.set("lr", .5);
        // 1 - 0^t is 1: the first step is lr * g/|g| up to eps.
        CHECK(std::abs(single.step(.25) - .5) < 1e-6);
        for (int step = 0; step < 20; ++step)
          CHECK(std::isfinite(single.step(step % 2 ? .1 : -.3)));
      }
  Single sign("adam", {{"beta1", 0}, {"beta2", 0}, {"eps", 0}, {"lr", .25}}, 1);
  CHECK(sign.step(.5) == .75);
  CHECK(sign.step(.125) == .5);
  CHECK(sign.step(-3) == .75);
}

// nntrainer/nntrainer#3565, nntrainer/nntrainer#3527
TEST_CASE("trap 5: AdamW that feeds the decay through the moments") {
  Single single("adamw", {{"lr", .1}, {"weight_decay", .1}}, 1);
  CHECK(single.step(0) == 0.99);
  CHECK(single.state("exp_avg") == 0);
  CHECK(single.state("exp_avg_sq") == 0);

  Single coupled("adam", {{"lr", .1}, {"weight_decay", .1}}, 1);
  coupled.step(0);
  CHECK(coupled.state("exp_avg") != 0);
  CHECK(coupled.state("exp_avg_sq") != 0);
}

// pytorch/pytorch#94615, pytorch/pytorch#152833
TEST_CASE("trap 6: the first momentum buffer is the gradient itself, not dampened") {
  Single single("sgd", {{"lr", .5}, {"momentum", .5}, {"dampening", .75}}, 1);
  CHECK(single.step(.5) == .75);
  CHECK(single.state("momentum_buffer") == .5);
  CHECK(single.step(1) == .5);  // .5 * .5 + .25 * 1 = .5
  CHECK(single.state("momentum_buffer") == .5);
}

// pytorch/pytorch#94615: per parameter, also for one that comes later
TEST_CASE("trap 6: a parameter that joins later starts with its own first gradient") {
  Single early("sgd", {{"lr", .5}, {"momentum", .5}, {"dampening", .75}}, 1);
  early.step(.5);
  TestTensor late(kF64, 1);
  late.set_all(1, .25);
  early.optimizer.add(late);
  early.step(1);
  CHECK(early.optimizer.state(late, "momentum_buffer").get(0) == .25);
  CHECK(late.param.get(0) == .875);
}

// pytorch/pytorch#94615: buffers begin when the parameter is first stepped, also after a reset
TEST_CASE("trap 6: a parameter set back to step 0 starts its buffer afresh") {
  Single single("sgd", {{"lr", .5}, {"momentum", .5}, {"dampening", .75}}, 1);
  single.step(.5);
  single.step(1);
  must(talus_set_steps(single.optimizer.get(), single.tensor.index, 0));
  single.step(.125);
  CHECK(single.state("momentum_buffer") == .125);
  CHECK(single.optimizer.steps(single.tensor) == 1);
}

// NVIDIA/apex#1728
TEST_CASE("trap 10: a master silently ignored; every 16-bit dtype honours it") {
  for (const char* algorithm : kAlgorithms)
    for (int32_t dtype : {TALUS_F16, TALUS_BF16})
      for (int32_t master : {TALUS_MASTER_AUTO, TALUS_MASTER_F32, TALUS_MASTER_NONE}) {
        const Mix mix = {dtype, dtype, master};
        INFO(algorithm << ", " << name_of(mix) << ", master " << master);
        Single single(algorithm, {{"lr", 1e-4}}, 1, mix);
        CHECK(single.optimizer.has_state(single.tensor, "master_param") == mix.has_master());
        single.step(.5);
        CHECK(single.tensor.param.get(0) == 1);  // far below half an ULP
        if (!mix.has_master()) continue;
        const View view = single.optimizer.state(single.tensor, "master_param");
        CHECK(view.format->dtype == TALUS_F32);
        CHECK(view.get(0) < 1);
        CHECK(view.get(0) > .999);
      }
}

// NVIDIA/apex#1728
TEST_CASE("trap 10: a master where there can be none is refused with a reason") {
  for (int32_t dtype : {TALUS_F32, TALUS_F64}) {
    TestTensor x({dtype, dtype, TALUS_MASTER_F32}, 4);
    Optimizer optimizer("adamw");
    const talus_param d = x.fill(1).descriptor();
    CHECK(talus_add_params(optimizer.get(), 0, 1, &d, nullptr) == TALUS_E_UNSUPPORTED);
    CHECK(std::string(talus_last_error()).find("master") != std::string::npos);
    CHECK(talus_param_count(optimizer.get()) == 0);
  }
}

// NVIDIA/TransformerEngine#1888
TEST_CASE("trap 11: moments rounded through the parameter's 16 bits; v = 1e-9 survives") {
  for (const char* algorithm : {"adam", "adamw"})
    for (int32_t master : {TALUS_MASTER_AUTO, TALUS_MASTER_NONE})
      for (int32_t dtype : {TALUS_F16, TALUS_BF16}) {
        const Mix mix = {dtype, TALUS_F32, master};
        INFO(algorithm << ", " << name_of(mix));
        Single single(algorithm, {{"weight_decay", 0}}, 1, mix);
        single.step(1e-3);
        const View v = single.optimizer.state(single.tensor, "exp_avg_sq");
        CHECK(v.format->dtype == TALUS_F32);
        const float gain = float(1 - .999), g = 1e-3f;
        CHECK(v.get(0) == double(gain * g * g));  // about 1e-9: 0 in f16, 8 bits in bf16
        single.step(0);
        const View again = single.optimizer.state(single.tensor, "exp_avg_sq");
        CHECK(again.get(0) == double(.999f * (gain * g * g)));
      }
}

// NVIDIA/apex#1893
TEST_CASE("trap 12: every mix of parameter, gradient and state is right or refused") {
  constexpr int32_t kDtypes[] = {TALUS_F16, TALUS_BF16, TALUS_F32, TALUS_F64};
  for (const char* algorithm : {"sgd", "adam", "adamw"})
    for (int32_t param : kDtypes)
      for (int32_t grad : kDtypes)
        for (int32_t state : {0, TALUS_F16, TALUS_BF16, TALUS_F32, TALUS_F64}) {
          const Mix mix = {param, grad, TALUS_MASTER_AUTO};
          const int32_t usual = param == TALUS_F64 ? TALUS_F64 : TALUS_F32;
          const bool legal =
              param == TALUS_F64 ? grad == TALUS_F64 || grad == TALUS_F32 : grad != TALUS_F64;
          INFO(algorithm << ", " << name_of(mix) << ", state " << std::hex << state);
          Optimizer optimizer(algorithm);
          if (std::string(algorithm) == "sgd") optimizer.set("momentum", .5);
          TestTensor x(mix, 9);
          talus_param d = x.fill(31).descriptor();
          d.state_dtype = state;
          const talus_status status = talus_add_params(optimizer.get(), 0, 1, &d, &x.index);
          if (!legal) {
            CHECK(status == TALUS_E_UNSUPPORTED);
            CHECK(talus_param_count(optimizer.get()) == 0);
            continue;
          }
          if (state == 0 || state == usual) CHECK(status == TALUS_OK);
          if (status != TALUS_OK) {
            CHECK(status == TALUS_E_UNSUPPORTED);
            continue;
          }
          for (const talus_state& s : optimizer.states(x))  // what was asked for, never another
            if (std::string(s.slot) != "master_param") CHECK(s.dtype == (state ? state : usual));
        }
  // That the legal mixes are right is in test_rules.cpp, for all of them.
}

// keras-team/keras-hub#2629
TEST_CASE("trap 13: without a master small updates vanish; a master is one option away") {
  const struct {
    int32_t dtype;
    double lr;  // below half an ULP of 1
  } rows[] = {{TALUS_BF16, 0x1p-10}, {TALUS_F16, 0x1p-13}};
  for (const auto& row : rows) {
    const auto after_64 = [&](int32_t master) {
      Single single("sgd", {{"lr", row.lr}}, 1, {row.dtype, row.dtype, master});
      double p = 1;
      for (int step = 0; step < 64; ++step) p = single.step(1);
      return p;
    };
    CHECK(after_64(TALUS_MASTER_NONE) == 1);
    CHECK(after_64(TALUS_MASTER_AUTO) == 1 - 64 * row.lr);
    CHECK(after_64(TALUS_MASTER_F32) == 1 - 64 * row.lr);
  }
}

// NVIDIA/apex: FusedAdam(adam_w_mode=True, weight_decay=0), torch: AdamW(weight_decay=0.01)
TEST_CASE("fused_adam is adam with decoupled decay of 0, adamw the same with 0.01") {
  const auto defaults = [](const char* algorithm) {
    const Optimizer o(algorithm);
    return std::pair(o.hyper("weight_decay"), o.hyper("decoupled_weight_decay"));
  };
  CHECK(defaults("adam") == std::pair(0.0, 0.0));
  CHECK(defaults("adamw") == std::pair(.01, 1.0));
  CHECK(defaults("fused_adam") == std::pair(0.0, 1.0));
  CHECK(Optimizer("fused_adam").hyper("adam_w_mode") == 1);

  CHECK(Single("adamw", {}, 1).step(0) == 1 - 1e-3 * .01);
  CHECK(Single("fused_adam", {}, 1).step(0) == 1);
  const Values decay = {{"lr", .1}, {"weight_decay", .1}};
  Single fused("fused_adam", decay, 1), adam("adam", decay, 1);
  CHECK(fused.step(0) == 0.99);
  CHECK(fused.state("exp_avg") == 0);
  CHECK(std::abs(adam.step(0) - .9) < 1e-6);  // coupled: a gradient like any other, of size lr
  CHECK(std::string(talus_group_algorithm(fused.optimizer.get(), 0)) == "adam");
}

// NVIDIA/apex: FusedSGD(momentum=0, dampening=0, weight_decay=0, nesterov=False,
// wd_after_momentum=False, materialize_master_grads=True)
TEST_CASE("fused_sgd is sgd, with the defaults of both libraries") {
  const Optimizer sgd("sgd"), fused("fused_sgd");
  CHECK(std::string(talus_group_algorithm(fused.get(), 0)) == "sgd");
  for (const auto& [name, value] : reference::sgd_defaults("sgd")) {
    INFO(name);
    CHECK(sgd.hyper(name) == value);
    CHECK(fused.hyper(name) == value);
  }
  Single early("fused_sgd", {{"lr", .5}, {"momentum", .5}, {"weight_decay", .5}}, 1);
  Single late("fused_sgd",
              {{"lr", .5}, {"momentum", .5}, {"weight_decay", .5}, {"wd_after_momentum", 1}}, 1);
  CHECK(early.step(.25) == late.step(.25));
  CHECK(early.state("momentum_buffer") == .75);
  CHECK(late.state("momentum_buffer") == .25);
}
