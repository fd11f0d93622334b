// Every rule against its reference: within bounds of the one in double, and bit for bit the sheet's
// arithmetic; sizes, special values; and proof that mistakes are seen.
#include <catch2/catch_test_macros.hpp>

#include "tests/rule_run.h"

using namespace talus;
using namespace talus::test;

namespace {

constexpr Mix kBf16Master = {TALUS_BF16, TALUS_BF16, TALUS_MASTER_AUTO};

// ULPs after 100 steps, of the type that the value lives in. Measured by evaluating the sheet in
// float and in double on 5 seeds x 500 elements of every set and mix, then rounded up.
//
// Library and reference both round the value once a step, so without decay they differ only where a
// rounding error of the update, far below half an ULP, tips a tie: at most 3.
constexpr double kValueUlps = 4;
// The product p*(1 - lr*wd) rounds once more, by up to half an ULP a step, and mostly the same way
// in consecutive steps because p hardly moves: at most 63.
constexpr double kDecoupledUlps = 100;
// A 16-bit value tips seldom but then by a whole ULP; gradients of few bits meet the same tie
// again: at most 5.
constexpr double kNarrowUlps = 8;
// The library rounds states in each step, the reference never does. exp_avg_sq forgets one part in
// a thousand a step, so errors of one direction add up: at most 11.3.
constexpr double kStateUlps = 16;
// A 16-bit value that tipped is 2^16 f32 ULPs off, and coupled decay feeds it to the state times
// wd / (1 - momentum): at most 21847. A norm of the tensor feeds it too: at most 2180.
constexpr double kStateOfTippedUlps = 32768;

Bounds bounds_of(const RuleRun& run) {
  if (run.mix.param == TALUS_F64) return {0, 0};
  const reference::Hypers h = reference::hypers(run.set.algorithm, run.set.values);
  const bool decays = h.count("weight_decay") && h.at("weight_decay") != 0;
  const bool decouples = h.count("decoupled_weight_decay") && h.at("decoupled_weight_decay") != 0;
  const bool narrow = run.mix.param != TALUS_F32 && !run.mix.has_master();
  const auto at_least = [&](double value, double state) {
    return Bounds{std::max(value, run.set.value_ulps), std::max(state, run.set.state_ulps)};
  };
  const bool feeds = (decays && !decouples) || reference::rule_of(run.set.algorithm).sums;
  if (narrow)
    return at_least(kNarrowUlps,
                    std::max(feeds ? kStateOfTippedUlps : kStateUlps, run.set.narrow_state_ulps));
  return at_least(decays && decouples ? kDecoupledUlps : kValueUlps, kStateUlps);
}

size_t index_of(const HyperSet& set) { return size_t(&set - hyper_sets().data()); }

// Bit for bit against the sheet evaluated in the compute type.
std::string exact_difference(const LibraryRun& got, const RuleRun& run, int mutation = 0) {
  return run.mix.param == TALUS_F64 ? bits_difference(got, run_reference<double>(run, mutation))
                                    : bits_difference(got, run_reference<float>(run, mutation));
}

}  // namespace

TEST_CASE("each rule stays within its bound of the double reference for 100 steps") {
  for (const HyperSet& set : hyper_sets())
    for (const Mix& mix : mixes_of(index_of(set))) {
      const RuleRun run{set, mix};
      INFO(run.name());
      const LibraryRun got = run_library(run);
      CHECK(bound_difference(got, run_reference<double>(run), bounds_of(run)) == "");
      CHECK(got.grads_untouched);
      CHECK(got.guards_intact());
    }
}

TEST_CASE("each rule is the sheet's arithmetic bit for bit for 100 steps") {
  for (const HyperSet& set : hyper_sets())
    for (const Mix& mix : mixes_of(index_of(set))) {
      const RuleRun run{.set = set, .mix = mix, .seed = 2};
      INFO(run.name());
      CHECK(exact_difference(run_library(run), run) == "");
    }
}

// Large tensors take their mixes in turns, so that each mix meets each size under some rule.
bool takes_turn(size_t rule, const Mix& mix, int64_t n) {
  if (n < 4095) return true;
  size_t turn = rule, index = 0;
  while (kEdgeSizes[index] != n) ++index;
  turn = (turn + index) % all_mixes().size();
  const Mix& mine = all_mixes()[turn];
  return mine.param == mix.param && mine.grad == mix.grad && mine.master == mix.master;
}

TEST_CASE("sizes around vectors and chunks: every element moves, nothing beyond is touched") {
  for (size_t r = 0; r < reference::rules().size(); ++r)
    for (const Mix& mix : mixes_of(r))
      for (int64_t n : kEdgeSizes) {
        const std::vector<HyperSet>& sets = reference::rules()[r].sets;
        if (!takes_turn(r, mix, n)) continue;
        for (const HyperSet* set : {&sets[sets.size() / 2], &sets.back()}) {
          const RuleRun run{.set = *set, .mix = mix, .n = n, .steps = n < 100 ? 10 : 2, .seed = 3};
          INFO(run.name());
          const LibraryRun got = run_library(run, true);
          CHECK(exact_difference(got, run) == "");
          CHECK(got.grads_untouched);
          CHECK(got.guards_intact());
        }
      }
}

TEST_CASE("every start off alignment gives the same bits") {
  constexpr int64_t kCount = 200;
  for (const HyperSet& set : {hyper_set("sgd", "nesterov"), hyper_set("adamw", "amsgrad")})
    for (const Mix& mix : all_mixes()) {
      TestTensor aligned(mix, kCount, 0);
      Optimizer first(set.algorithm, set.values);
      first.add(aligned.fill(4));
      for (int step = 1; step <= 3; ++step) aligned.fill_grad(4, step), first.step();
      for (size_t skew = 1; skew < 32; ++skew) {
        INFO(set.algorithm << ", " << name_of(mix) << ", " << skew << " elements off 64 bytes");
        TestTensor shifted(mix, kCount, skew);
        Optimizer second(set.algorithm, set.values);
        second.add(shifted.fill(4));
        for (int step = 1; step <= 3; ++step) shifted.fill_grad(4, step), second.step();
        CHECK(difference(second, shifted, first, aligned) == "");
        CHECK(shifted.param.guards_intact());
      }
    }
}

TEST_CASE(
    "zeros, subnormals, huge values, inf and NaN go where the sheet's arithmetic takes them") {
  for (const HyperSet& set : hyper_sets())
    for (const Mix& mix : mixes_of(index_of(set)))
      for (uint64_t seed : {5, 6}) {
        const RuleRun run{.set = set, .mix = mix, .n = 333, .steps = 4, .seed = seed, .hard = true};
        INFO(run.name());
        const LibraryRun got = run_library(run);
        CHECK(exact_difference(got, run) == "");
        CHECK(got.grads_untouched);
      }
}

TEST_CASE("a NaN in a gradient or parameter stays a NaN for ever, and stays alone") {
  constexpr int64_t kCount = 131;
  for (const HyperSet& set : hyper_sets())
    for (const Mix& mix : mixes_of(index_of(set)))
      for (bool in_gradient : {true, false}) {
        if (reference::rule_of(set.algorithm).sums || set.spreads) continue;
        // A parameter that is NaN is only overwritten by a number if it enters the update, always.
        TestTensor x(mix, kCount);
        Optimizer optimizer(set.algorithm, set.values);
        x.fill(7);
        if (!in_gradient)
          for (int64_t i = 0; i < kCount; i += 13) x.param.set(i, NAN);
        optimizer.add(x);
        for (int step = 1; step <= 3; ++step) {
          x.fill_grad(7, step);
          if (in_gradient && step == 1)
            for (int64_t i = 0; i < kCount; i += 13) x.grad.set(i, NAN);
          optimizer.step();
          // A gradient of one step only: sgd without momentum keeps no state, but p is NaN by now.
          for (int64_t i = 0; i < kCount; ++i) {
            if (std::isnan(x.param.get(i)) == (i % 13 == 0)) continue;
            FAIL(set.algorithm << ", " << set.name << ", " << name_of(mix) << ", step " << step
                               << ", index " << i << ": " << x.param.get(i));
          }
        }
      }
}

TEST_CASE("a NaN in any state tensor reaches the parameter and stays alone") {
  constexpr int64_t kCount = 67;
  for (const HyperSet& set : hyper_sets())
    for (const Mix& mix : mixes_of(index_of(set))) {
      const reference::Rule& rule = reference::rule_of(set.algorithm);
      if (rule.sums || set.spreads) continue;
      RuleRun run{.set = set, .mix = mix, .n = kCount, .steps = 1, .seed = 12};
      const LibraryRun first = run_library(run);
      for (const talus_state& s : first.optimizer.states(first.tensor)) {
        const auto& unfelt = rule.unfelt_states;
        if (s.count == 1 || std::find(unfelt.begin(), unfelt.end(), s.slot) != unfelt.end())
          continue;
        INFO(run.name() << ", " << s.slot);
        LibraryRun got = run_library(run);
        for (const talus_state& mine : got.optimizer.states(got.tensor))
          if (std::string(mine.slot) == s.slot)
            store(mine.dtype, NAN, static_cast<char*>(mine.data) + 5 * format_of(mine.dtype).bytes);
        got.optimizer.step();
        int64_t wrong = -1;
        for (int64_t i = 0; i < kCount; ++i)
          if (std::isnan(got.tensor.param.get(i)) != (i == 5)) wrong = i;
        // With beta 0 a moment is replaced whole: b - (b - NaN)*0 and 0*NaN are NaN all the same.
        CHECK(wrong == -1);
      }
    }
}

TEST_CASE("lr = 0 leaves every parameter bit for bit, whatever else is set") {
  // -0 is left out: (-0) - lr*d is (-0) - (-0) = +0 for a negative direction, by IEEE.
  for (const HyperSet& set : hyper_sets())
    for (const Mix& mix : mixes_of(index_of(set))) {
      if (!reference::rule_of(set.algorithm).still_at_zero_lr) continue;
      INFO(set.algorithm << ", " << set.name << ", " << name_of(mix));
      TestTensor x(mix, 257);
      Optimizer optimizer(set.algorithm, set.values);
      optimizer.set("lr", 0);
      x.fill(8);
      const double extremes[] = {0, 1e-40, 1e-39, -1e-39, 6e-8, -6e-8, 60000, 1e30, -1e30};
      for (size_t i = 0; i < std::size(extremes); ++i)
        if (const double value = nearest(x.param.format(), extremes[i]);
            std::isfinite(value) && !(value == 0 && std::signbit(value)))
          x.param.set(int64_t(5 * i), value);
      const Buffer before = x.param;
      optimizer.add(x);
      for (int step = 1; step <= 3; ++step) x.fill_grad(8, step), optimizer.step();
      CHECK(difference("parameter", x.param, before) == "");
      CHECK(optimizer.steps(x) == 3);
    }
}

TEST_CASE("lr = 0 builds up the same state as any other lr") {
  for (const char* algorithm : {"adam", "adamw"}) {
    RuleRun run{{algorithm, "no decay", {{"lr", 0}, {"weight_decay", 0}}}, kF32};
    const LibraryRun still = run_library(run);
    run.set.values[0].second = .1;
    const LibraryRun moving = run_library(run);
    for (const char* slot : {"exp_avg", "exp_avg_sq"})
      CHECK(difference(slot, still.optimizer.state(still.tensor, slot),
                       moving.optimizer.state(moving.tensor, slot)) == "");
  }
}

TEST_CASE("a change of lr acts on the very next step and changes no state") {
  for (const char* algorithm : {"sgd", "adam", "adamw"}) {
    INFO(algorithm);
    TestTensor x(kF64, 5);
    Optimizer optimizer(algorithm);
    optimizer.add(x.fill(9));
    x.fill_grad(9, 1);
    optimizer.step();
    const Buffer after_first = x.param;
    optimizer.set("lr", 0);
    optimizer.step();
    CHECK(difference("parameter", x.param, after_first) == "");
    optimizer.set("lr", 1);
    optimizer.step();
    for (int64_t i = 0; i < 5; ++i) CHECK(x.param.get(i) != after_first.get(i));
  }
}

TEST_CASE("a cautious step of few elements is at most a thousand times as long") {
  constexpr int64_t kCount = 2048;  // one of them moves
  for (const char* algorithm : {"lion", "adam"}) {
    INFO(algorithm);
    const Values values = {{"lr", 0x1p-12}, {"cautious", 1}};
    const reference::Hypers h = reference::hypers(algorithm, values);
    TestTensor x(kF64, kCount);
    Optimizer optimizer(algorithm, values);
    optimizer.add(x.fill(11));
    for (int64_t i = 0; i < kCount; ++i) x.grad.set(i, 1);
    optimizer.step();
    const Buffer before = x.param;
    for (int64_t i = 0; i < kCount; ++i) x.grad.set(i, i == 7 ? 0x1p-6 : -0x1p-6);
    optimizer.step();
    for (int64_t i = 0; i < kCount; ++i)
      if ((x.param.get(i) != before.get(i)) != (i == 7)) FAIL("element " << i);
    if (algorithm == std::string("lion"))
      CHECK(x.param.get(7) == before.get(7) - h.at("lr") * 1000);
  }
}

// ---- mistakes that must be seen

TEST_CASE("the bound tells each mistake from the rule, and so do the bits") {
  for (const reference::Rule& rule : reference::rules())
    for (const reference::Mutant& mutant : rule.mutants)
      for (const Mix& mix : {kF32, kF64, kBf16Master}) {
        const RuleRun run{hyper_set(mutant.algorithm, mutant.set), mix};
        INFO(mutant.name << ": " << run.name());
        const LibraryRun got = run_library(run);
        const Bounds bounds = bounds_of(run);
        CHECK(bound_difference(got, run_reference<double>(run), bounds) == "");
        if (!mutant.only_exact || mix.param == TALUS_F64)
          CHECK(bound_difference(got, run_reference<double>(run, mutant.mutation), bounds) != "");
        CHECK(exact_difference(got, run, mutant.mutation) != "");
      }
}

TEST_CASE("every mistake that a reference knows has its row") {
  for (const reference::Rule& rule : reference::rules())
    for (int m = 1; m < rule.mutation_count; ++m) {
      INFO(rule.algorithms.front() << ", mutation " << m);
      CHECK(std::any_of(rule.mutants.begin(), rule.mutants.end(),
                        [m](const reference::Mutant& row) { return row.mutation == m; }));
    }
}

TEST_CASE(
    "rules: every algorithm and alias of the library has a reference and hyperparameter sets") {
  for (const char* list : {"algorithms", "aliases"})
    for (int32_t i = 0; i < talus_name_count(list); ++i) {
      const std::string name = talus_name_at(list, i);
      INFO(name);
      CHECK_NOTHROW(talus::reference::rule_of(name));
      const auto& sets = hyper_sets();
      CHECK(std::any_of(sets.begin(), sets.end(),
                        [&](const HyperSet& set) { return set.algorithm == name; }));
    }
}

TEST_CASE("trap 9: every hyperparameter set to a value of its own arrives in the kernel") {
  // ggml-org/llama.cpp#10340: CPU and GPU kernels read different layouts of the hyperparameter block
  const HyperSet all[] = {
      {"adam",
       "all distinct",
       {{"lr", .011},
        {"beta1", .83},
        {"beta2", .91},
        {"eps", .0123},
        {"weight_decay", .17},
        {"decoupled_weight_decay", 1},
        {"amsgrad", 1},
        {"maximize", 1}}},
      {"sgd",
       "all distinct",
       {{"lr", .011}, {"momentum", .83}, {"dampening", .29}, {"weight_decay", .017}}}};
  for (const HyperSet& set : all) {
    INFO(set.algorithm);
    TestTensor tensor(kF64, 33);
    tensor.fill(5);
    talus::reference::Hypers h = talus::reference::hypers(set.algorithm, set.values);
    talus::reference::Tensor<double> expected;
    for (int64_t i = 0; i < 33; ++i) expected.p.push_back(tensor.param.get(i));
    Optimizer opt(set.algorithm, set.values);
    opt.add(tensor);
    for (int step = 1; step <= 3; ++step) {
      tensor.fill_grad(5, step);
      std::vector<double> gradient;
      for (int64_t i = 0; i < 33; ++i) gradient.push_back(tensor.grad.get(i));
      talus::reference::step(set.algorithm, h, 0, expected, gradient);
      opt.step();
    }
    for (int64_t i = 0; i < 33; ++i) {
      INFO("element " << i);
      CHECK(bits_of(tensor.param.get(i)) == bits_of(expected.p[size_t(i)]));
    }
  }
}
