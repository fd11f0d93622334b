// Equal bits: threads, the host's loop, company, groups and the caller's floating-point mode change
// no result.
#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <cfenv>
#include <functional>
#include <thread>

#include "tests/float_control.h"
#include "tests/optimizer.h"
#include "tests/reference/all.hpp"

using namespace talus::test;

namespace {

const HyperSet kSets[] = {
    hyper_set("sgd", "maximize, dampening, weight decay"),
    hyper_set("adam", "amsgrad, weight decay, maximize"),
    hyper_set("adamw", "defaults"),
    hyper_set("fused_adam", "cautious, cautious decay, stable, amsgrad"),
    hyper_set("lion", "cautious"),
};

// Tensors of all mixes; some are cut into chunks, some share one, some are empty.
std::deque<TestTensor> zoo() {
  std::deque<TestTensor> tensors;
  uint64_t seed = 0;
  for (size_t m = 0; m < all_mixes().size(); ++m) {
    std::vector<int64_t> sizes = {17, 1, 0, 64, 63, 65, 5, 4096, 4097};
    if (m % 4 == 0) sizes.insert(sizes.end(), {70001, 16385});
    for (int64_t n : sizes) tensors.emplace_back(all_mixes()[m], n).fill(++seed);
  }
  return tensors;
}

struct Trained {
  std::deque<TestTensor> tensors;
  Optimizer optimizer;
};

constexpr int kSteps = 3;

void train(Trained& run, const std::function<void(Trained&)>& before_step = {}) {
  for (int step = 1; step <= kSteps; ++step) {
    for (TestTensor& x : run.tensors) x.fill_grad(uint64_t(x.index) + 1, step);
    if (before_step) before_step(run);
    run.optimizer.step();
  }
}

Trained trained(const HyperSet& set, const std::function<void(Trained&)>& arrange) {
  Trained run{zoo(), Optimizer(set.algorithm, set.values)};
  arrange(run);
  run.optimizer.add_all(run.tensors);
  train(run);
  return run;
}

std::string difference(const Trained& a, const Trained& b) {
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    const std::string text =
        talus::test::difference(a.optimizer, a.tensors[i], b.optimizer, b.tensors[i]);
    if (!text.empty())
      return "tensor " + std::to_string(i) + " (" + name_of(a.tensors[i].mix) + ") " + text;
    if (!a.tensors[i].param.guards_intact()) return "guard bytes of tensor " + std::to_string(i);
  }
  return "";
}

// How sums of floats round now; fegetround does not look at the unit that computes them on x86.
std::pair<double, double> rounding_in_use() {
  volatile double one = 1, tiny = 0x1p-60;
  return {one + tiny, one - tiny};
}

void run_reversed(void*, int64_t count, talus_task task, void* context) {
  for (int64_t i = count - 1; i >= 0; --i) task(context, i);
}

void run_on_threads(void*, int64_t count, talus_task task, void* context) {
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < count; ++i) threads.emplace_back(task, context, i);
  for (std::thread& t : threads) t.join();
}

void count_tasks(void* user, int64_t count, talus_task task, void* context) {
  int64_t& most = *static_cast<int64_t*>(user);
  most = std::max(most, count);
  run_reversed(nullptr, count, task, context);
}

}  // namespace

TEST_CASE("any number of threads gives the same bits") {
  for (const HyperSet& set : kSets) {
    const Trained one = trained(set, [](Trained& run) { run.optimizer.setting("threads", 1); });
    for (int threads : {2, 3, 8, 0}) {
      INFO(set.algorithm << ", threads " << threads);
      const Trained many =
          trained(set, [&](Trained& run) { run.optimizer.setting("threads", threads); });
      CHECK(difference(many, one) == "");
    }
  }
}

TEST_CASE("the host's loop, reversed or on threads of its own, gives the same bits") {
  for (const HyperSet& set : kSets) {
    const Trained one = trained(set, [](Trained& run) { run.optimizer.setting("threads", 1); });
    for (talus_parallel_for loop : {run_reversed, run_on_threads}) {
      INFO(set.algorithm << (loop == run_reversed ? ", reversed" : ", threads"));
      const Trained hosted = trained(set, [&](Trained& run) {
        run.optimizer.setting("threads", 7);
        must(talus_set_parallel_for(run.optimizer.get(), loop, nullptr));
      });
      CHECK(difference(hosted, one) == "");
    }
  }
}

TEST_CASE("the host's loop is given work, and no more tasks than threads are set") {
  int64_t most = 0;
  trained(kSets[2], [&](Trained& run) {
    run.optimizer.setting("threads", 5);
    must(talus_set_parallel_for(run.optimizer.get(), count_tasks, &most));
  });
  CHECK(most >= 1);
  CHECK(most <= 5);
}

TEST_CASE("changing the threads between steps changes no bits") {
  for (const HyperSet& set : kSets) {
    INFO(set.algorithm);
    const Trained one = trained(set, [](Trained& run) { run.optimizer.setting("threads", 1); });
    Trained other{zoo(), Optimizer(set.algorithm, set.values)};
    other.optimizer.add_all(other.tensors);
    int threads = 1;
    train(other, [&](Trained& run) { run.optimizer.setting("threads", ++threads); });
    CHECK(difference(other, one) == "");
  }
}

TEST_CASE("a tensor alone has the bits that it has among 1000 others") {
  for (const HyperSet& set : kSets) {
    Trained crowd{{}, Optimizer(set.algorithm, set.values)};
    for (int i = 0; i < 1000; ++i) {
      const Mix& mix = all_mixes()[size_t(i) % all_mixes().size()];
      crowd.tensors.emplace_back(mix, i % 40).fill(uint64_t(i) + 1);
    }
    for (const Mix& mix : all_mixes()) crowd.tensors.emplace_back(mix, 20001).fill(77);
    crowd.optimizer.add_all(crowd.tensors);
    train(crowd);
    for (size_t i = 0; i < crowd.tensors.size(); i += i < 1000 ? 37 : 1) {
      const TestTensor& among = crowd.tensors[i];
      INFO(set.algorithm << ", tensor " << i << ", " << name_of(among.mix));
      TestTensor alone(among.mix, among.extent);
      Optimizer single(set.algorithm, set.values);
      single.add(alone.fill(i < 1000 ? i + 1 : 77));
      for (int step = 1; step <= kSteps; ++step) {
        alone.fill_grad(uint64_t(among.index) + 1, step);
        single.step();
      }
      CHECK(talus::test::difference(single, alone, crowd.optimizer, among) == "");
    }
  }
}

TEST_CASE("two groups of equal settings have the bits of one group") {
  for (const HyperSet& set : kSets) {
    INFO(set.algorithm);
    const Trained one = trained(set, [](Trained&) {});
    Trained two{zoo(), Optimizer(set.algorithm, set.values)};
    two.optimizer.add_group();
    int32_t group = 0;
    for (TestTensor& x : two.tensors) two.optimizer.add(x, group = 1 - group);
    train(two);
    CHECK(difference(two, one) == "");
  }
}

TEST_CASE("a group added before its values are set for all has them too") {
  const HyperSet& set = kSets[1];
  const Trained one = trained(set, [](Trained&) {});
  Trained two{zoo(), Optimizer(set.algorithm)};
  two.optimizer.add_group();
  two.optimizer.set(set.values);
  two.optimizer.add_all(two.tensors, 1);
  train(two);
  CHECK(difference(two, one) == "");
}

TEST_CASE("prepare before the first step changes no bits") {
  for (const HyperSet& set : kSets) {
    INFO(set.algorithm);
    const Trained lazy = trained(set, [](Trained&) {});
    Trained eager{zoo(), Optimizer(set.algorithm, set.values)};
    eager.optimizer.add_all(eager.tensors);
    eager.optimizer.prepare();
    train(eager);
    CHECK(difference(eager, lazy) == "");
  }
}

TEST_CASE("the caller's rounding mode changes no bits and is there again after the step") {
  for (const HyperSet& set : kSets) {
    const Trained plain = trained(set, [](Trained&) {});
    for (int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
      INFO(set.algorithm << ", mode " << mode);
      Trained odd{zoo(), Optimizer(set.algorithm, set.values)};
      odd.optimizer.add_all(odd.tensors);
      for (int step = 1; step <= kSteps; ++step) {
        for (TestTensor& x : odd.tensors) x.fill_grad(uint64_t(x.index) + 1, step);
        std::fesetround(mode);
        const std::pair<double, double> before = rounding_in_use();
        const talus_status status = talus_step(odd.optimizer.get(), nullptr);
        const std::pair<double, double> after = rounding_in_use();
        std::fesetround(FE_TONEAREST);
        REQUIRE(status == TALUS_OK);
        REQUIRE(before != rounding_in_use());
        REQUIRE(after == before);
      }
      CHECK(difference(odd, plain) == "");
    }
  }
}

namespace {

// A host whose threads round upward; `user` learns whether they still do after each task.
void run_on_odd_threads(void* user, int64_t count, talus_task task, void* context) {
  auto& restored = *static_cast<std::atomic<bool>*>(user);
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < count; ++i)
    threads.emplace_back([&restored, task, context, i] {
      std::fesetround(FE_UPWARD);
      const std::pair<double, double> before = rounding_in_use();
      task(context, i);
      if (rounding_in_use() != before) restored = false;
    });
  for (std::thread& t : threads) t.join();
}

}  // namespace

TEST_CASE("the rounding mode of the host's threads changes no bits and is there again") {
  for (const HyperSet& set : kSets) {
    INFO(set.algorithm);
    std::atomic<bool> restored{true};
    const Trained plain = trained(set, [](Trained&) {});
    const Trained odd = trained(set, [&](Trained& run) {
      run.optimizer.setting("threads", 4);
      must(talus_set_parallel_for(run.optimizer.get(), run_on_odd_threads, &restored));
    });
    CHECK(difference(odd, plain) == "");
    CHECK(restored);
  }
}

TEST_CASE("the caller's flush-to-zero changes no bits and is there again after the step") {
  for (const HyperSet& set : kSets) {
    const auto run = [&](bool flush) {
      Trained out{zoo(), Optimizer(set.algorithm, set.values)};
      for (TestTensor& x : out.tensors)  // all but the f64 ones become subnormal in f32
        for (int64_t i = 0; i < x.extent; i += 3) x.param.set(i, 1e-39);
      out.optimizer.add_all(out.tensors);
      for (TestTensor& x : out.tensors)
        for (int64_t i = 0; i < x.extent; ++i) x.grad.set(i, i % 3 ? 1e-21 : 1e-40);
      const uint64_t before = float_control();
      if (flush) set_float_control(before | kFlush);
      const talus_status status = talus_step(out.optimizer.get(), nullptr);
      const uint64_t after = float_control();
      set_float_control(before);
      REQUIRE(status == TALUS_OK);
      if (flush) REQUIRE((after & kFlush) == kFlush);
      return out;
    };
    INFO(set.algorithm);
    CHECK(difference(run(true), run(false)) == "");
  }
}
