// Gradients of rows: the bits that the reference makes of the given rows, and nothing else moves.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <numeric>

#include "tests/row_table.h"

using namespace talus::test;

namespace {

struct RowCase {
  HyperSet set;
  Mix mix;
  int64_t rows = 37, length = 3, given = 20;
  bool repeats = true, sorted = false, wide = true, hard = false;
  int threads = 1, steps = 5;
  uint64_t seed = 1;

  std::string name() const {
    return set.algorithm + ", " + set.name + ", " + name_of(mix) + ", " + std::to_string(rows) +
           " x " + std::to_string(length) + ", " + std::to_string(given) + " given" +
           (repeats ? ", with repeats" : "") + (sorted ? ", sorted" : "") +
           (wide ? ", i64" : ", i32") + ", threads " + std::to_string(threads) + ", seed " +
           std::to_string(seed);
  }
};

std::vector<int64_t> rows_of(const RowCase& c, int step) {
  std::vector<int64_t> rows(size_t(c.rows));
  std::iota(rows.begin(), rows.end(), 0);
  for (int64_t j = 0; j < c.given && !c.repeats; ++j)
    std::swap(rows[size_t(j)],
              rows[size_t(j + int64_t(draw(c.seed, uint64_t(step), j) % uint64_t(c.rows - j)))]);
  rows.resize(size_t(c.given));
  for (int64_t j = 0; j < c.given && c.repeats; ++j)
    rows[size_t(j)] = int64_t(draw(c.seed, uint64_t(step), j) % uint64_t(c.rows));
  if (c.sorted) std::sort(rows.begin(), rows.end());
  return rows;
}

Given given_of(const RowCase& c, int step) {
  Given given(rows_of(c, step), c.mix.grad, c.length, c.wide);
  given.fill(c.seed, step);
  for (int64_t i = 0; i < given.values.size() && c.hard; ++i)
    given.values.set(i, hard_value(draw(c.seed, uint64_t(100 + step), i), given.values.get(i)));
  return given;
}

// Trains both sides and compares all of them after each step.
template <class Real>
std::string difference_as(const RowCase& c) {
  Table table(c.mix, c.rows, c.length);
  table.fill(c.seed);
  Optimizer opt(c.set.algorithm, c.set.values);
  opt.setting("threads", c.threads);
  table.add_to(opt);
  opt.bind_guarded_states(table);
  ReferenceTable<Real> want(c.set, table);
  for (int step = 1; step <= c.steps; ++step) {
    const Given given = given_of(c, step);
    const Buffer before = given.values;
    given.bind(opt, table);
    opt.step();
    want.step(given);
    const std::string text = want.difference_of(opt, table);
    if (!text.empty()) return "step " + std::to_string(step) + ": " + text;
    if (!given.values.same_bytes(before)) return "the values were written to";
  }
  if (!table.param.guards_intact() || !opt.state_guards_intact()) return "a guard was written to";
  return "";
}

std::string difference_of(const RowCase& c) {
  return c.mix.param == TALUS_F64 ? difference_as<double>(c) : difference_as<float>(c);
}

HyperSet first_set(const std::string& algorithm) {
  for (const HyperSet& set : row_sets())
    if (set.algorithm == algorithm) return set;
  throw std::logic_error(algorithm + " takes no gradients of rows");
}

constexpr Mix kHalf = {TALUS_BF16, TALUS_F16, TALUS_MASTER_AUTO};

}  // namespace

TEST_CASE("rows: every set of every rule in every mix equals the reference bit for bit") {
  REQUIRE(row_sets().size() >= 7);
  uint64_t seed = 1;
  for (const HyperSet& set : row_sets())
    for (const Mix& mix : all_mixes())
      for (const bool repeats : {false, true}) {
        RowCase c{set, mix};
        c.repeats = repeats;
        c.seed = ++seed;
        c.sorted = seed % 3 == 0;
        c.wide = seed % 4 < 2;
        INFO(c.name());
        REQUIRE(difference_of(c) == "");
      }
}

TEST_CASE("rows: every length, order, index type and count of threads equals the reference") {
  uint64_t seed = 1000;
  for (const std::string algorithm : {"sparse_adam", "sgd"})
    for (const Mix& mix : {kF32, kF64, kHalf})
      for (const int64_t length : {1, 3, 16, 67, 5000})
        for (int how = 0; how < 8; ++how) {
          RowCase c{first_set(algorithm), mix};
          c.length = length;
          c.repeats = how & 1, c.sorted = how & 2, c.wide = how & 4;
          c.threads = how % 3 == 0 ? 3 : 1;
          c.steps = length == 5000 ? 2 : 4;
          c.seed = ++seed;
          INFO(c.name());
          REQUIRE(difference_of(c) == "");
        }
}

TEST_CASE("rows: 100,000 different rows and as many with repeats equal the reference") {
  for (const bool repeats : {false, true})
    for (const int threads : {1, 3}) {
      RowCase c{first_set("sparse_adam"), kF32};
      c.rows = 300000, c.given = 100000, c.length = 2, c.steps = 2;
      c.repeats = repeats, c.threads = threads;
      INFO(c.name());
      REQUIRE(difference_of(c) == "");
    }
}

TEST_CASE("rows: zeros of either sign, subnormals, infinities and NaN stay in their rows") {
  for (const HyperSet& set : row_sets())
    for (const Mix& mix : {kF32, kF64, kHalf}) {
      RowCase c{set, mix};
      c.hard = true, c.length = 16, c.seed = 9;
      INFO(c.name());
      REQUIRE(difference_of(c) == "");
    }
}

TEST_CASE("rows: a NaN in one row reaches no other") {
  Table table(kF32, 5, 3);
  table.set_all(1, 0);
  Optimizer opt("sparse_adam");
  table.add_to(opt);
  Given given({3, 1}, TALUS_F32, 3);
  given.fill(1, 1).values.set(1, NAN);
  given.bind(opt, table);
  opt.step();
  for (int64_t i = 0; i < 15; ++i) {
    CAPTURE(i, table.param.get(i));
    CHECK(std::isnan(table.param.get(i)) == (i == 10));
    const bool moves = i / 3 == 3 || i / 3 == 1;
    CHECK((table.param.get(i) != 1) == moves);
  }
}

// 0 * -1 / (0 + eps): -0 gives p - -0 = p; so the sign is looked for where it shows, in the moment.
TEST_CASE("rows: the sign of a zero that is given once is kept, and of a sum follows IEEE") {
  Table table(kF32, 3, 1);
  table.set_all(-0.0, 0);
  Optimizer opt("sgd", {{"lr", 1}});
  table.add_to(opt);
  Given given({0, 1, 1, 2}, TALUS_F32, 1);  // the repeat makes the library copy and add
  for (int64_t i = 0; i < 4; ++i) given.values.set(i, i == 2 ? 0.0 : -0.0);
  given.bind(opt, table);
  opt.step();
  // -0 - -0 = +0, -0 - +0 = -0
  CHECK(table.param.bits(0) == 0);
  CHECK(table.param.bits(1) == 0x80000000);  // -0 + +0 is +0
  CHECK(table.param.bits(2) == 0);
}

TEST_CASE("rows: repeats are added in order of appearance in the compute type") {
  const double values[] = {0x1p24, 1, 1, -0x1p24};  // f32: 1 is lost; backwards, or in double: 2
  Table table(kF32, 2, 1);
  table.set_all(0, 0);
  Optimizer opt("sgd", {{"lr", 1}});
  table.add_to(opt);
  Given given({1, 1, 1, 1}, TALUS_F32, 1);
  for (int64_t i = 0; i < 4; ++i) given.values.set(i, values[i]);
  given.bind(opt, table);
  opt.step();
  CHECK(table.param.get(1) == 0);
  for (int64_t i = 0; i < 4; ++i) given.values.set(i, values[(i + 1) % 4]);  // 1, 1, -2^24, 2^24
  given.bind(opt, table);
  opt.step();
  CHECK(table.param.get(1) == -2);

  Table half({TALUS_BF16, TALUS_BF16, TALUS_MASTER_AUTO}, 2, 1);
  half.set_all(0, 0);
  Optimizer other("sgd", {{"lr", 1}});
  half.add_to(other);
  Given pair({0, 0}, TALUS_BF16, 1);  // 1 + 2^-8 is no bf16, but an f32
  pair.values.set(0, 1), pair.values.set(1, 0x1p-8);
  pair.bind(other, half);
  other.step();
  CHECK(other.state(half, "master_param").get(0) == -(1 + 0x1p-8));
}

TEST_CASE("rows: rows that are not given keep parameter, master and state bit for bit") {
  for (const Mix& mix : all_mixes()) {
    INFO(name_of(mix));
    Table table(mix, 6, 5);
    table.fill(3);
    Optimizer opt("sparse_adam");
    table.add_to(opt);
    Given all({0, 1, 2, 3, 4, 5}, mix.grad, 5);
    all.fill(1, 1).bind(opt, table);
    opt.step();
    if (mix.has_master()) opt.state(table, "master_param");
    const Buffer param = table.param;
    std::map<std::string, std::vector<uint64_t>> before;
    for (const talus_state& s : opt.states(table))
      for (int64_t i = 0; i < 30; ++i) before[s.slot].push_back(opt.state(table, s.slot).bits(i));
    Given some({4, 2}, mix.grad, 5);
    some.fill(1, 2).bind(opt, table);
    opt.step();
    for (int64_t i = 0; i < 30; ++i) {
      const bool given = i / 5 == 4 || i / 5 == 2;
      CAPTURE(i);
      if (!given) CHECK(table.param.bits(i) == param.bits(i));
      for (const auto& [slot, bits] : before) {
        CAPTURE(slot);
        CHECK((opt.state(table, slot).bits(i) != bits[size_t(i)]) == given);
      }
    }
  }
}

TEST_CASE("rows: none given counts the step and does nothing else, also the first one") {
  for (const std::string algorithm : {"sparse_adam", "sgd"})
    for (const Mix& mix : {kF32, kHalf}) {
      INFO(algorithm + ", " + name_of(mix));
      RowCase c{first_set(algorithm), mix};
      c.rows = 4;
      Table table(mix, 4, 3);
      table.fill(2);
      const Buffer start = table.param;
      Optimizer opt(algorithm);
      table.add_to(opt);
      ReferenceTable<float> want(c.set, table);
      const Given none({}, mix.grad, 3);
      for (int step = 1; step <= 2; ++step) {
        none.bind(opt, table);
        opt.step();
        want.step(none);
        REQUIRE(want.difference_of(opt, table) == "");
        CHECK(table.param.same_bytes(start));
      }
      Given some({2}, mix.grad, 3);  // what t counts shows in the bias corrections
      some.fill(1, 1).bind(opt, table);
      opt.step();
      want.step(some);
      CHECK(opt.steps(table) == 3);
      CHECK(want.difference_of(opt, table) == "");
    }
}

TEST_CASE("rows: two tables with rows and a tensor with a dense gradient in one step") {
  for (const int threads : {1, 3}) {
    CAPTURE(threads);
    Optimizer opt("sgd", {{"lr", .1}}), alone("sgd", {{"lr", .1}});
    opt.setting("threads", threads);
    Table a(kF32, 40, 7), b(kHalf, 9, 3);
    TestTensor dense(kF32, 70000), twin(kF32, 70000);
    a.fill(1), b.fill(2), dense.fill(3), twin.fill(3);
    a.add_to(opt);
    opt.add(dense);
    b.add_to(opt);
    alone.add(twin);
    ReferenceTable<float> want_a({"sgd", "lr", {{"lr", .1}}}, a),
        want_b({"sgd", "lr", {{"lr", .1}}}, b);
    for (int step = 1; step <= 4; ++step) {
      Given of_a({30, 2, 30}, TALUS_F32, 7), of_b({8, 0}, TALUS_F16, 3, false);
      of_b.fill(6, step).bind(opt, b);
      of_a.fill(5, step).bind(opt, a);
      dense.fill_grad(7, step), twin.fill_grad(7, step);
      opt.step();
      alone.step();
      want_a.step(of_a);
      want_b.step(of_b);
      REQUIRE(want_a.difference_of(opt, a) == "");
      REQUIRE(want_b.difference_of(opt, b) == "");
      REQUIRE(difference(opt, dense, alone, twin) == "");
    }
  }
}

namespace {

double norm_of(const Optimizer& opt) {
  talus_stats stats{};
  stats.struct_size = sizeof stats;
  must(talus_get_stats(opt.get(), 1, &stats));
  return stats.grad_norm;
}

template <class Real>
double squares_of(const std::vector<Real>& values) {
  std::vector<double> squares;
  for (const Real x : values) squares.push_back(double(x) * double(x));
  return talus::reference::tree_sum(squares);
}

}  // namespace

TEST_CASE("rows: the norm is that of the summed values, row after row") {
  for (const Mix& mix : all_mixes())
    for (const bool repeats : {false, true}) {
      INFO(name_of(mix) << (repeats ? ", with repeats" : ""));
      RowCase c{first_set("sgd"), mix};
      c.rows = 500, c.given = 300, c.length = 67, c.repeats = repeats;
      Optimizer opt("sgd");
      opt.setting("stats", 1);
      opt.setting("threads", 3);
      Table table(mix, c.rows, c.length);
      TestTensor dense(kF32, 5000);
      table.fill(1), dense.fill(2).fill_grad(3, 1);
      table.add_to(opt);
      opt.add(dense);
      const Given given = given_of(c, 1);
      given.bind(opt, table);
      opt.step();
      std::vector<float> gradient;
      for (int64_t i = 0; i < 5000; ++i) gradient.push_back(float(dense.grad.get(i)));
      const double rows = mix.param == TALUS_F64
                              ? squares_of(Coalesced<double>(given, c.length).values)
                              : squares_of(Coalesced<float>(given, c.length).values);
      const double want = std::sqrt(rows + squares_of(gradient));
      CAPTURE(norm_of(opt), want);
      CHECK(bits_of(norm_of(opt)) == bits_of(want));
    }
}

TEST_CASE("rows: the norm of no rows is 0") {
  Optimizer opt("sparse_adam");
  opt.setting("stats", 1);
  Table table(kF32, 4, 3);
  table.add_to(opt);
  Given({}, TALUS_F32, 3).bind(opt, table);
  opt.step();
  CHECK(norm_of(opt) == 0);
}
