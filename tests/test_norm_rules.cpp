// Rules with norms (lamb, novograd, lars), where several tensors are needed to see a mistake, or
// where a norm is 0 or no number.
#include <catch2/catch_test_macros.hpp>

#include "tests/norm_run.h"

using namespace talus;
using namespace talus::test;

namespace {

constexpr Mix kBf16Master = {TALUS_BF16, TALUS_F16, TALUS_MASTER_AUTO};
constexpr const char* kRules[] = {"lamb", "novograd", "lars", "larc"};

// Tensors of several dtypes in two groups of a lamb optimizer: `first` and `wide` in group 0.
struct Lamb {
  Optimizer optimizer{"lamb"};
  Twin<float> first{kF32, 5000, 1}, second{kBf16Master, 131, 2}, empty{kF32, 0, 3},
      idle{kF32, 9, 4};
  Twin<double> wide{kF64, 4097, 5};

  Lamb() {
    const int32_t other = optimizer.add_group();
    optimizer.add(first.tensor);
    optimizer.add(second.tensor, other);
    optimizer.add(empty.tensor);
    idle.tensor.has_grad = false;
    idle.draw_grads(1);
    optimizer.add(idle.tensor, other);
    optimizer.add(wide.tensor);
  }
  void draw_grads(int64_t step) {
    first.draw_grads(step), second.draw_grads(step), wide.draw_grads(step);
  }
  double norm() const {
    return norm_of_all({first.grad_squares(), second.grad_squares(), wide.grad_squares()});
  }
  // Each with the clip of its group.
  void step(double clip_of_first, double clip_of_second) {
    optimizer.step();
    const Values clipped = {{"max_grad_norm", 0}};
    first.step("lamb", clipped, clip_of_first);
    wide.step("lamb", clipped, clip_of_first);
    second.step("lamb", clipped, clip_of_second);
    empty.step("lamb", clipped);
  }
  std::string difference() const {
    std::string text = first.difference(optimizer);
    if (text.empty()) text = second.difference(optimizer);
    if (text.empty()) text = wide.difference(optimizer);
    if (text.empty()) text = empty.difference(optimizer);
    return text.empty() && optimizer.steps(idle.tensor) != 0 ? "idle has stepped" : text;
  }
};

template <class Real>
void check_large(const std::string& algorithm, const Values& values, const Mix& mix, int64_t n,
                 int threads) {
  INFO(algorithm << ", " << name_of(mix) << ", n " << n << ", threads " << threads);
  Twin<Real> twin(mix, n, 11);
  Optimizer optimizer(algorithm, values);
  optimizer.setting("threads", threads);
  optimizer.setting("chunk_tiles", 1);
  optimizer.add(twin.tensor);
  for (int step = 1; step <= 2; ++step) {
    const Buffer before = twin.draw_grads(step).tensor.grad;
    optimizer.step();
    CHECK(twin.tensor.grad.same_bytes(before));
    twin.step(algorithm, values);
    CHECK(twin.difference(optimizer) == "");
  }
  CHECK(twin.tensor.param.guards_intact());
}

int64_t nan_count(const Buffer& buffer) {
  int64_t count = 0;
  for (int64_t i = 0; i < buffer.size(); ++i) count += std::isnan(buffer.get(i));
  return count;
}

// Asks a step for its refusal, in words.
std::string refusal(const Optimizer& optimizer) {
  if (talus_step(optimizer.get(), nullptr) != TALUS_E_RANGE) return "not refused";
  return talus_last_error();
}

bool says(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "norm rules: tensors of several tiles and chunks are the sheet's arithmetic bit for bit") {
  const std::pair<const char*, Values> cases[] = {
      {"lamb", {{"max_grad_norm", 1}, {"weight_decay", .01}}},
      {"fused_mixed_precision_lamb", {{"adam_w_mode", 0}, {"max_grad_norm", .5}}},
      {"novograd", {{"weight_decay", .01}, {"bias_correction", 0}}},
      {"novograd", {{"norm_type", 0}, {"reg_inside_moment", 1}}},
      {"lars", {{"weight_decay", .01}, {"lr", .5}}},
      {"larc", {{"momentum", 0}, {"lr", .5}}}};
  for (const auto& [algorithm, values] : cases)
    for (const Mix& mix : all_mixes())
      for (const int64_t n : {4097, 70001})
        for (const int threads : {1, 3})
          if (mix.param == TALUS_F64)
            check_large<double>(algorithm, values, mix, n, threads);
          else
            check_large<float>(algorithm, values, mix, n, threads);
}

// ---- lamb

// NVIDIA/apex#855, NVIDIA/apex#819
TEST_CASE("trap 49: lamb clips by the norm of all groups, each by its own max_grad_norm") {
  Lamb lamb;
  lamb.optimizer.set("max_grad_norm", 3, 0);
  lamb.optimizer.set("max_grad_norm", .25, 1);
  for (int step = 1; step <= 3; ++step) {
    INFO("step " << step);
    lamb.draw_grads(step);
    const double norm = lamb.norm();
    REQUIRE(norm > 3);  // first alone is above both
    REQUIRE(std::sqrt(lamb.second.grad_squares()) < 3);
    lamb.step(norm / 3, norm / .25);
    CHECK(lamb.difference() == "");
  }
}

TEST_CASE("lamb: a norm at or below max_grad_norm clips nothing, one above it all") {
  for (const double share : {.99, 1.0, 1.01}) {
    INFO("max_grad_norm is " << share << " of the norm");
    Lamb lamb;
    lamb.draw_grads(1);
    const double norm = lamb.norm();
    lamb.optimizer.set("max_grad_norm", share * norm);
    lamb.step(share < 1 ? norm / (share * norm) : 1, share < 1 ? norm / (share * norm) : 1);
    CHECK(lamb.difference() == "");
  }
}

TEST_CASE("lamb: max_grad_norm = 0 is off for its group, also beside one that clips") {
  for (const double of_second : {0.0, .125}) {
    INFO("max_grad_norm of the second group " << of_second);
    Lamb lamb;
    lamb.optimizer.set("max_grad_norm", 0, 0);
    lamb.optimizer.set("max_grad_norm", of_second, 1);
    for (int step = 1; step <= 2; ++step) {
      lamb.draw_grads(step);
      lamb.step(1, of_second > 0 ? lamb.norm() / of_second : 1);
      CHECK(lamb.difference() == "");
    }
  }
}

TEST_CASE("lamb: max_grad_norm may change between steps, to 0 and back") {
  Lamb lamb;
  int step = 0;
  for (const double most : {1.0, 0.0, .5, 0.0, 2.0}) {
    INFO("step " << step + 1 << ", max_grad_norm " << most);
    lamb.optimizer.set("max_grad_norm", most);
    lamb.draw_grads(++step);
    const double clip = most > 0 ? lamb.norm() / most : 1;
    lamb.step(clip, clip);
    CHECK(lamb.difference() == "");
  }
}

TEST_CASE("lamb: a norm that is not finite clips nothing; its tensor is lost, no other") {
  for (const double bad : {double(INFINITY), -double(INFINITY), double(NAN)})
    for (const double most : {0.0, 1.0}) {
      INFO("gradient " << bad << ", max_grad_norm " << most);
      Lamb lamb;
      lamb.optimizer.set("max_grad_norm", most);
      lamb.draw_grads(1);
      lamb.first.tensor.grad.set(4999, bad);
      lamb.step(1, 1);
      CHECK(lamb.difference() == "");
      CHECK(nan_count(lamb.first.tensor.param) == 5000);  // through the trust ratio
      CHECK(nan_count(lamb.second.tensor.param) + nan_count(lamb.wide.tensor.param) == 0);
    }
}

TEST_CASE(
    "lamb: the norm it clips by is the one of talus_get_stats, measured without the setting") {
  for (const double stats : {0.0, 1.0})
    for (const double most : {0.0, 1.0}) {
      INFO("stats " << stats << ", max_grad_norm " << most);
      Lamb lamb;
      lamb.optimizer.set("max_grad_norm", most);
      lamb.optimizer.setting("stats", stats);
      lamb.draw_grads(1);
      const double clip = most > 0 ? lamb.norm() / most : 1;
      lamb.step(clip, clip);
      CHECK(lamb.difference() == "");
      talus_stats got{};
      got.struct_size = sizeof got;
      must(talus_get_stats(lamb.optimizer.get(), 1, &got));
      const bool measured = stats != 0 || most > 0;
      CHECK(bits_of(measured ? got.grad_norm : lamb.norm()) == bits_of(lamb.norm()));
      CHECK(std::isnan(got.grad_norm) == !measured);
    }
}

// NUS-HPC-AI-Lab/pytorch-lamb#1
TEST_CASE("trap 49: lamb without decay is Adam, unless use_nvlamb asks for the trust ratio") {
  const Values plain = {{"weight_decay", 0}, {"max_grad_norm", 0}};
  Twin<double> adam(kF64, 67, 6), lamb(kF64, 67, 6), trusting(kF64, 67, 6);
  Optimizer all("lamb", plain), nvlamb("lamb", plain);
  nvlamb.set("use_nvlamb", 1);
  all.add(lamb.tensor), nvlamb.add(trusting.tensor);
  for (int step = 1; step <= 3; ++step) {
    for (Twin<double>* x : {&adam, &lamb, &trusting}) x->draw_grads(step);
    adam.step("adam", {{"eps", 1e-6}});
    all.step(), nvlamb.step();
  }
  for (int64_t i = 0; i < 67; ++i) {
    const double want = adam.expected.p[size_t(i)], got = lamb.tensor.param.get(i);
    INFO("index " << i << ": got " << got << ", want " << want);
    CHECK(std::abs(got - want) < 1e-14);
    CHECK(std::abs(trusting.tensor.param.get(i) - want) > 1e-6);
  }
}

TEST_CASE("lamb: where a norm is exactly 0 the ratio is lr") {
  Twin<double> zero_param(kF64, 5, 7), zero_update(kF64, 5, 8);
  Optimizer optimizer("lamb", {{"lr", .5}, {"use_nvlamb", 1}, {"weight_decay", 0}});
  zero_param.set_params(0), zero_param.set_grads(.25);
  zero_update.set_grads(0);
  const Buffer before = zero_update.tensor.param;
  optimizer.add(zero_param.tensor), optimizer.add(zero_update.tensor);
  optimizer.step();
  for (int64_t i = 0; i < 5; ++i) {
    CHECK(std::abs(zero_param.tensor.param.get(i) + .5) < 1e-5);  // lr times a sign
    CHECK(bits_of(zero_update.tensor.param.get(i)) == bits_of(before.get(i)));
  }
}

// NVIDIA/apex: FusedMixedPrecisionLamb refuses f32 parameters beside its 16-bit ones
TEST_CASE("lamb: its aliases are lamb, and one group holds parameters with and without a master") {
  for (const char* alias : {"fused_lamb", "fused_mixed_precision_lamb"}) {
    INFO(alias);
    Twin<float> narrow(kBf16Master, 33, 9), plain(kF32, 35, 10);
    Optimizer optimizer(alias);
    CHECK(std::string(talus_group_algorithm(optimizer.get(), 0)) == "lamb");
    optimizer.add(narrow.tensor), optimizer.add(plain.tensor);
    for (int step = 1; step <= 3; ++step) {
      narrow.draw_grads(step), plain.draw_grads(step);
      const double norm = norm_of_all({narrow.grad_squares(), plain.grad_squares()});
      optimizer.step();
      const Values clipped = {{"max_grad_norm", 0}};
      narrow.step("lamb", clipped, std::max(norm, 1.0));
      plain.step("lamb", clipped, std::max(norm, 1.0));
      CHECK(narrow.difference(optimizer) == "");
      CHECK(plain.difference(optimizer) == "");
    }
  }
}

// ---- novograd

// NVIDIA/apex#458: per parameter, by name, in the state
TEST_CASE("trap 50: novograd's norm is one f64 of each parameter, whoever joins or pauses") {
  const Values values = {{"lr", .01}, {"bias_correction", 0}, {"beta2", .75}};
  Twin<float> early(kF32, 37, 12), late(kBf16Master, 4099, 13);
  Optimizer optimizer("novograd", values);
  optimizer.add(early.tensor);
  for (int step = 1; step <= 3; ++step) {
    early.draw_grads(step), optimizer.step(), early.step("novograd", values);
  }
  const View slot = optimizer.state(early.tensor, "exp_avg_sq");
  CHECK(slot.count == 1);
  CHECK(slot.format->dtype == TALUS_F64);

  optimizer.add(late.tensor);
  for (int step = 4; step <= 8; ++step) {
    INFO("step " << step);
    const bool paused = step == 6;  // no gradient: nothing of it changes
    early.draw_grads(step), late.draw_grads(step);
    optimizer.bind_grad(early.tensor, paused ? nullptr : early.tensor.grad.data());
    optimizer.step();
    if (!paused) early.step("novograd", values);
    late.step("novograd", values);
    CHECK(early.difference(optimizer) == "");
    CHECK(late.difference(optimizer) == "");
    if (step == 4)
      CHECK(optimizer.state(late.tensor, "exp_avg_sq").get(0) == std::sqrt(late.grad_squares()));
  }
}

TEST_CASE("novograd: norm_type moves between 2 and 0 from step to step, and 1 is refused") {
  Twin<float> twin(kF32, 4097, 14);
  Twin<double> wide(kF64, 67, 15);
  Optimizer optimizer("novograd", {{"lr", .01}});
  optimizer.add(twin.tensor), optimizer.add(wide.tensor);
  int step = 0;
  for (const double type : {2.0, 0.0, 0.0, 2.0, 0.0}) {
    INFO("step " << step + 1 << ", norm_type " << type);
    optimizer.set("norm_type", type);
    twin.draw_grads(++step), wide.draw_grads(step);
    optimizer.step();
    twin.step("novograd", {{"lr", .01}, {"norm_type", type}});
    wide.step("novograd", {{"lr", .01}, {"norm_type", type}});
    CHECK(twin.difference(optimizer) == "");
    CHECK(wide.difference(optimizer) == "");
  }
  optimizer.set("norm_type", 1);
  CHECK(says(refusal(optimizer), "norm_type = 1"));
  CHECK(twin.difference(optimizer) == "");
  for (const double wrong : {-1.0, 3.0, .5})
    CHECK(talus_set(optimizer.get(), 0, "norm_type", wrong) == TALUS_E_RANGE);
}

TEST_CASE("novograd: either norm keeps a NaN, in its own tensor") {
  for (const double type : {2.0, 0.0})
    for (const int64_t at : {0, 4095, 5000}) {
      INFO("norm_type " << type << ", index " << at);
      Twin<float> bad(kF32, 5001, 16), good(kF32, 5001, 17);
      Optimizer optimizer("novograd", {{"norm_type", type}});
      optimizer.add(bad.tensor), optimizer.add(good.tensor);
      bad.draw_grads(1), good.draw_grads(1);
      bad.tensor.grad.set(at, NAN);
      optimizer.step();
      good.step("novograd", {{"norm_type", type}});
      CHECK(std::isnan(optimizer.state(bad.tensor, "exp_avg_sq").get(0)));
      CHECK(nan_count(bad.tensor.param) == 5001);
      CHECK(good.difference(optimizer) == "");
    }
}

// ---- lars, larc

TEST_CASE("larc: where the norm of p or g is 0 the factor is 1, and decay is applied") {
  const Values values = {{"lr", .5}, {"momentum", 0}, {"weight_decay", .25}};
  for (const char* algorithm : {"lars", "larc"}) {
    INFO(algorithm);
    Optimizer optimizer(algorithm, values);
    Twin<double> no_param(kF64, 3, 18), no_grad(kF64, 3, 19);
    no_param.set_params(0), no_param.set_grads(.25);
    no_grad.set_params(2), no_grad.set_grads(0);
    optimizer.add(no_param.tensor), optimizer.add(no_grad.tensor);
    optimizer.step();
    for (int64_t i = 0; i < 3; ++i) {
      CHECK(no_param.tensor.param.get(i) == -.125);
      CHECK(no_grad.tensor.param.get(i) == 1.75);  // 2 - .5 * .25 * 2
    }
  }
}

TEST_CASE("larc: lr = 0 divides by nothing: parameters stay, the buffer goes on") {
  for (const char* algorithm : {"lars", "larc"})
    for (const double coefficient : {0.0, 1e-4, .02}) {
      INFO(algorithm << ", trust_coefficient " << coefficient);
      const Values values = {{"lr", 0}, {"trust_coefficient", coefficient}};
      Twin<float> twin(kF32, 67, 20);
      Optimizer optimizer(algorithm, values);
      optimizer.add(twin.tensor);
      for (int step = 1; step <= 2; ++step) {
        twin.draw_grads(step), optimizer.step(), twin.step(algorithm, values);
      }
      CHECK(twin.difference(optimizer) == "");
      CHECK(optimizer.state(twin.tensor, "momentum_buffer").get(0) != 0);
    }
}

TEST_CASE("lars: trust_coefficient = 0 is sgd bit for bit, a NaN stays in its element") {
  const Values values = {{"lr", .01}, {"momentum", .5}, {"dampening", .25}, {"weight_decay", .125}};
  for (const char* algorithm : {"lars", "larc"})
    for (const Mix& mix : all_mixes()) {
      INFO(algorithm << ", " << name_of(mix));
      TestTensor x(mix, 4099), y(mix, 4099);
      Optimizer lars(algorithm, values), sgd("sgd", values);
      lars.set("trust_coefficient", 0);
      lars.add(x.fill(21)), sgd.add(y.fill(21));
      for (int step = 1; step <= 3; ++step) {
        x.fill_grad(21, step), y.fill_grad(21, step);
        x.grad.set(4098, NAN), y.grad.set(4098, NAN);
        lars.step(), sgd.step();
        CHECK(difference(lars, x, sgd, y) == "");
      }
      CHECK(nan_count(x.param) == 1);
    }
}

// ---- all of them

TEST_CASE("norm rules: a NaN in one tensor leaves the others as they would be without it") {
  for (const char* algorithm : kRules)
    for (const double bad : {double(NAN), double(INFINITY)}) {
      INFO(algorithm << ", gradient " << bad);
      Twin<float> broken(kF32, 131, 22), whole(kF32, 131, 23);
      Optimizer optimizer(algorithm);
      Values values;
      if (std::string(algorithm) == "lamb") values = {{"max_grad_norm", 0}};
      optimizer.set(values);
      optimizer.add(broken.tensor), optimizer.add(whole.tensor);
      for (int step = 1; step <= 2; ++step) {
        broken.draw_grads(step), whole.draw_grads(step);
        if (step == 1) broken.tensor.grad.set(77, bad);
        optimizer.step();
        broken.step(algorithm, values), whole.step(algorithm, values);
        CHECK(broken.difference(optimizer) == "");
        CHECK(whole.difference(optimizer) == "");
      }
      CHECK(nan_count(broken.tensor.param) > 0);
    }
}

TEST_CASE("norm rules: an optimizer of empty tensors counts its steps") {
  for (const char* algorithm : kRules) {
    INFO(algorithm);
    TestTensor x(kF32, 0), y(kF64, 0);
    Optimizer optimizer(algorithm);
    optimizer.add(x), optimizer.add(y);
    optimizer.step(), optimizer.step();
    CHECK(optimizer.steps(x) == 2);
    CHECK(optimizer.steps(y) == 2);
  }
}

TEST_CASE("norm rules: amsgrad = 1 is refused by its name, 0 is taken") {
  for (const char* algorithm :
       {"lamb", "fused_lamb", "fused_mixed_precision_lamb", "novograd", "fused_novograd"}) {
    INFO(algorithm);
    Optimizer optimizer(algorithm);
    CHECK(talus_set(optimizer.get(), 0, "amsgrad", 0) == TALUS_OK);
    CHECK(talus_set(optimizer.get(), 0, "amsgrad", 1) == TALUS_E_RANGE);
    CHECK(says(talus_last_error(), "amsgrad is 1, expected 0"));
    CHECK(optimizer.hyper("amsgrad") == 0);
  }
}
