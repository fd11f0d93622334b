// Traps of sizes, lists, groups and gradients that other optimizer libraries fell into, shown on
// sgd, adam and adamw: each test is named after its trap and cites the public report.
#include <catch2/catch_test_macros.hpp>
#if defined(__unix__)
#include <sys/mman.h>
#endif

#include "tests/optimizer.h"

using namespace talus::test;

namespace {

constexpr const char* kAlgorithms[] = {"sgd", "adam", "adamw"};

}  // namespace

// pytorch/pytorch#100701, NVIDIA/TransformerEngine#3207, NVIDIA/TransformerEngine#3212
TEST_CASE("trap 17: empty tensors, first, last or everywhere, leave the others their update") {
  for (const char* algorithm : kAlgorithms)
    for (const std::vector<int64_t>& sizes :
         {std::vector<int64_t>{5, 70000, 0}, {0, 5, 70000}, {5, 0, 0, 70000}, {0, 0}, {0}}) {
      INFO(algorithm << ", " << sizes.size() << " tensors, first of " << sizes[0]);
      std::deque<TestTensor> tensors;
      for (int64_t n : sizes) tensors.emplace_back(kF32, n).fill(41).fill_grad(41, 1);
      const std::deque<TestTensor> before = tensors;
      Optimizer optimizer(algorithm, {{"lr", .125}});
      optimizer.add_all(tensors);
      optimizer.step();
      for (size_t k = 0; k < sizes.size(); ++k) {
        CHECK(optimizer.steps(tensors[k]) == 1);
        for (int64_t i = 0; i < sizes[k]; ++i)
          if (tensors[k].param.get(i) == before[k].param.get(i)) FAIL("unmoved index " << i);
      }
    }
}

// pytorch/pytorch#100701
TEST_CASE("trap 17: an empty tensor without memory is legal beside others") {
  for (const char* algorithm : kAlgorithms) {
    TestTensor full(kF32, 3);
    Optimizer optimizer(algorithm, {{"lr", .125}});
    optimizer.add(full.fill(42).fill_grad(42, 1));
    const Buffer before = full.param;
    talus_param d{};
    const int64_t shape[] = {4, 0, 7};
    d.struct_size = sizeof d;
    d.dtype = TALUS_F32;
    d.shape = shape;
    d.ndim = 3;
    REQUIRE(talus_add_params(optimizer.get(), 0, 1, &d, nullptr) == TALUS_OK);
    optimizer.step();
    for (int64_t i = 0; i < 3; ++i) CHECK(full.param.get(i) != before.get(i));
  }
}

// NVIDIA/apex#1596
TEST_CASE("trap 19: a group without parameters is legal, before and after others step") {
  for (const char* algorithm : kAlgorithms) {
    INFO(algorithm);
    Optimizer optimizer(algorithm);
    const int32_t empty = optimizer.add_group(), used = optimizer.add_group();
    TestTensor x(kF32, 3);
    optimizer.add(x.fill(51), used);
    x.fill_grad(51, 1);
    optimizer.prepare();
    optimizer.step();
    CHECK(optimizer.steps(x) == 1);
    optimizer.set("lr", .5, empty);
    CHECK(optimizer.hyper("lr", empty) == .5);
    CHECK(optimizer.hyper("lr", used) != .5);
  }
}

// NVIDIA/apex#1596, NVIDIA/TransformerEngine#3318
TEST_CASE(
    "trap 19: step belongs to the parameter, so a late one is corrected from its own step 1") {
  for (const char* algorithm : kAlgorithms) {
    INFO(algorithm);
    TestTensor early(kF64, 3), late(kF64, 3), fresh(kF64, 3);
    Optimizer optimizer(algorithm), other(algorithm);
    const int32_t empty = optimizer.add_group();
    optimizer.add(early.fill(52));
    for (int step = 1; step <= 7; ++step) early.fill_grad(52, step), optimizer.step();
    optimizer.add(late.fill(53), empty);
    other.add(fresh.fill(53));
    for (int step = 1; step <= 3; ++step) {
      late.fill_grad(53, step), fresh.fill_grad(53, step);
      optimizer.step();
      other.step();
    }
    CHECK(optimizer.steps(early) == 10);
    CHECK(optimizer.steps(late) == 3);
    CHECK(difference(optimizer, late, other, fresh) == "");
  }
}

namespace {

// Values that differ from every default and base below, and matter with the base.
double other_value(const talus_hyper& h, double base) {
  if (h.kind == TALUS_FLAG) return base == 0 ? 1 : 0;
  if (std::string(h.name) == "dampening") return .25;
  return base == 0 ? .125 : base * .5;
}

// A base in which every hyperparameter of the algorithm acts.
Values base_of(const std::string& algorithm, const std::string& hyper) {
  // Coupled decay of this size decides the sign of every gradient, and then all agree with m.
  if (hyper == "stable") return {{"weight_decay", .001}, {"eps", .01}, {"beta2", .9}};
  if (hyper == "cautious") return {{"weight_decay", .001}, {"eps", .01}, {"beta2", .5}};
  if (hyper == "cautious_weight_decay")
    return {{"decoupled_weight_decay", 1}, {"weight_decay", .25}};
  if (algorithm != "sgd") return {{"weight_decay", .25}, {"eps", .01}, {"beta2", .5}};
  Values base = {{"momentum", .5}, {"weight_decay", .25}};
  if (hyper == "momentum") base.push_back({"dampening", .5});
  return base;
}

struct Two {
  TestTensor first, second;
};

// Trains two equal tensors, in two groups of one optimizer or in optimizers of their own.
Two train_two(const std::string& algorithm, const Values& base, const std::string& name,
              double value, bool together) {
  Two two{TestTensor(kF64, 33), TestTensor(kF64, 33)};
  Optimizer a(algorithm, base), b(algorithm, base);
  const int32_t group = together ? a.add_group() : 0;
  Optimizer& second = together ? a : b;
  second.set(name, value, group);
  a.add(two.first.fill(61));
  second.add(two.second.fill(61), group);
  for (int step = 1; step <= 4; ++step) {
    two.first.fill_grad(61, step), two.second.fill_grad(61, step);
    a.step();
    if (!together) b.step();
  }
  return two;
}

}  // namespace

// pytorch/pytorch#89987, pytorch/pytorch#118326
TEST_CASE("trap 22: each hyperparameter is read from the parameter's own group") {
  for (const std::string algorithm : kAlgorithms) {
    const int32_t count = talus_hyper_count(algorithm.c_str());
    REQUIRE(count > 0);
    for (int32_t i = 0; i < count; ++i) {
      talus_hyper h{};
      h.struct_size = sizeof h;
      REQUIRE(talus_hyper_info(algorithm.c_str(), i, &h) == TALUS_OK);
      INFO(algorithm << ", " << h.name);
      const Values base = base_of(algorithm, h.name);
      const double value = other_value(h, Optimizer(algorithm, base).hyper(h.name));
      const Two together = train_two(algorithm, base, h.name, value, true);
      const Two apart = train_two(algorithm, base, h.name, value, false);
      CHECK(difference("group 0", together.first.param, apart.first.param) == "");
      CHECK(difference("group 1", together.second.param, apart.second.param) == "");
      const bool differs = !together.first.param.same_bytes(together.second.param);
      CHECK(differs == (std::string(h.name) != "materialize_master_grads"));
    }
  }
}

// NVIDIA/apex#332; pytorch/pytorch#53712, #20997, #62475
TEST_CASE("trap 23: a group added after the start is stepped, with the values set for all") {
  for (const char* algorithm : kAlgorithms) {
    INFO(algorithm);
    TestTensor first(kF64, 5), second(kF64, 5), fresh(kF64, 5);
    Optimizer optimizer(algorithm), other(algorithm);
    optimizer.set("lr", .25), other.set("lr", .25);
    optimizer.set("weight_decay", .5), other.set("weight_decay", .5);
    optimizer.add(first.fill(71));
    for (int step = 1; step <= 3; ++step) first.fill_grad(71, step), optimizer.step();

    const int32_t group = optimizer.add_group();
    CHECK(group == 1);
    CHECK(optimizer.hyper("lr", group) == .25);
    optimizer.add(second.fill(72), group);
    for (const talus_state& s : optimizer.states(second)) CHECK(s.data == nullptr);
    other.add(fresh.fill(72));
    for (int step = 1; step <= 3; ++step) {
      second.fill_grad(72, step), fresh.fill_grad(72, step);
      optimizer.step();
      other.step();
    }
    for (const talus_state& s : optimizer.states(second)) CHECK(s.data != nullptr);
    CHECK(difference(optimizer, second, other, fresh) == "");
  }
}

// NVIDIA/apex#332
TEST_CASE("trap 23: a group of another algorithm joins a running optimizer") {
  TestTensor x(kF64, 5), y(kF64, 5), fresh(kF64, 5);
  Optimizer optimizer("sgd", {{"momentum", .9}}), other("adamw");
  optimizer.add(x.fill(73));
  x.fill_grad(73, 1);
  optimizer.step();
  const int32_t group = optimizer.add_group("adamw");
  CHECK(std::string(talus_group_algorithm(optimizer.get(), group)) == "adamw");
  optimizer.add(y.fill(74), group);
  other.add(fresh.fill(74));
  for (int step = 1; step <= 3; ++step) {
    y.fill_grad(74, step), fresh.fill_grad(74, step);
    optimizer.step();
    other.step();
  }
  CHECK(difference(optimizer, y, other, fresh) == "");
}

// pytorch/pytorch#150610, pytorch/pytorch#38581
TEST_CASE("trap 24: no gradient leaves parameter, state and step; zeros are a full step") {
  for (const char* algorithm : kAlgorithms)
    for (const Mix& mix : all_mixes()) {
      INFO(algorithm << ", " << name_of(mix));
      TestTensor x(mix, 9), busy(mix, 9);
      Optimizer optimizer(algorithm, {{"lr", .125}, {"weight_decay", .5}});
      if (std::string(algorithm) == "sgd") optimizer.set("momentum", .5);
      optimizer.add(x.fill(81)), optimizer.add(busy.fill(82));
      x.fill_grad(81, 1), busy.fill_grad(82, 1);
      optimizer.step();

      const Buffer param = x.param;
      std::vector<std::pair<std::string, Buffer>> states;
      for (const talus_state& s : optimizer.states(x)) {
        Buffer& copy = states.emplace_back(s.slot, Buffer(s.dtype, s.count)).second;
        std::memcpy(copy.data(), s.data, copy.bytes());
      }
      const auto state_difference = [&] {
        std::string text;
        for (const auto& [slot, copy] : states)
          if (text.empty()) text = difference(slot, optimizer.state(x, slot), copy);
        return text;
      };
      optimizer.bind_grad(x, nullptr);
      optimizer.step();
      CHECK(difference("parameter", x.param, param) == "");
      CHECK(state_difference() == "");
      CHECK(optimizer.steps(x) == 1);
      CHECK(optimizer.steps(busy) == 2);

      for (int64_t i = 0; i < 9; ++i) x.grad.set(i, 0);
      optimizer.bind_grad(x, x.grad.data());
      optimizer.step();
      CHECK(optimizer.steps(x) == 2);
      CHECK(state_difference() != "");
      for (int64_t i = 0; i < 9; ++i) CHECK(x.param.get(i) != param.get(i));
    }
}

// pytorch/pytorch#150610
TEST_CASE("trap 24: a parameter that never has a gradient has no state and no steps") {
  for (const char* algorithm : kAlgorithms) {
    INFO(algorithm);
    TestTensor x(kF32, 9), busy(kF32, 9);
    x.has_grad = false;
    Optimizer optimizer(algorithm);
    optimizer.add(x.fill(83)), optimizer.add(busy.fill(84));
    for (int step = 1; step <= 3; ++step) busy.fill_grad(84, step), optimizer.step();
    CHECK(optimizer.steps(x) == 0);
    for (const talus_state& s : optimizer.states(x)) CHECK(s.data == nullptr);
  }
}

// pytorch/pytorch#98772
TEST_CASE("trap 28: gradients are never written, not even with what was there") {
#if defined(__unix__)
  constexpr int64_t kCount = 50000;
  for (const char* algorithm : kAlgorithms)
    for (const Mix& mix : all_mixes()) {
      INFO(algorithm << ", " << name_of(mix));
      TestTensor x(mix, kCount);
      x.fill_grad(91, 1);
      const size_t bytes = x.grad.bytes();
      void* pages =
          mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      REQUIRE(pages != MAP_FAILED);
      std::memcpy(pages, x.grad.data(), bytes);
      REQUIRE(mprotect(pages, bytes, PROT_READ) == 0);  // a write would end the test
      Optimizer optimizer(algorithm, {{"maximize", 1}, {"weight_decay", .1}});
      optimizer.add(x.fill(91));
      optimizer.bind_grad(x, pages);
      for (int step = 0; step < 3; ++step) optimizer.step();
      CHECK(std::memcmp(pages, x.grad.data(), bytes) == 0);
      CHECK(munmap(pages, bytes) == 0);
    }
#else
  SKIP("read-only pages need mmap and mprotect");
#endif
}
