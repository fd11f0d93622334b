// Norms of gradients against their definition: every type, dtype, scale and cut; groups, several
// optimizers, rows; what is not finite; and that measuring alone changes nothing.
#include <catch2/catch_test_macros.hpp>

#include <cfenv>

#include "tests/abi/fixture.h"
#include "tests/amp/sequences.h"
#include "tests/float_control.h"
#include "tests/reference/entry.hpp"
#include "tests/row_table.h"

using namespace talus::test;
using talus::abi::refused;
using talus::reference::Entry;

namespace {

constexpr double kInf = INFINITY, kNaN = NAN;
constexpr double kTypes[] = {1, 2, kInf};
constexpr Entry kEntries[] = {{1, 0}, {1024, 0}, {3, 0}, {1, .25}, {3, .125}, {0x1p-20, 1e5}};

// The gradient as it is measured, widened.
std::vector<double> terms_of(const TestTensor& x, const Entry& entry) {
  std::vector<double> terms;
  for (int64_t i = 0; x.has_grad && i < x.extent; ++i) {
    const double g = x.grad.get(i);
    terms.push_back(x.mix.param == TALUS_F64 ? talus::reference::measured<double>(g, entry)
                                             : double(talus::reference::measured<float>(g, entry)));
  }
  return terms;
}

template <class Tensors>
double norm_by_definition(const Tensors& tensors, double type, const Entry& entry) {
  std::vector<std::vector<double>> terms;
  for (const TestTensor& x : tensors) terms.push_back(terms_of(x, entry));
  return talus::reference::norm_of(type, terms);
}

void set_entry(Optimizer& optimizer, const Entry& entry) {
  optimizer.setting("grad_scale", entry.scale);
  optimizer.setting("max_grad_value", entry.max_value);
}

// Mixes, sizes and bindings at random; values over many binades, so that any other order shows.
std::deque<TestTensor> random_tensors(uint64_t seed) {
  std::deque<TestTensor> tensors;
  uint64_t n = 0;
  const auto next = [&] { return draw(seed, 1, int64_t(n++)); };
  for (uint64_t count = 1 + next() % 8; count > 0; --count) {
    const Mix& mix = all_mixes()[next() % all_mixes().size()];
    TestTensor& x =
        tensors.emplace_back(mix, kEdgeSizes[next() % std::size(kEdgeSizes)]).fill(seed);
    for (int64_t i = 0; i < x.extent; ++i) {
      const uint64_t r = draw(seed + count, 2, i);
      x.grad.set(i, std::ldexp(signed_between(r, 1, 2), int(r >> 1 & 15) - 8));
    }
    x.has_grad = next() % 5 != 0;
  }
  return tensors;
}

struct Measured {
  std::deque<TestTensor> tensors;
  Optimizer optimizer{"sgd"};

  explicit Measured(std::deque<TestTensor> of) : tensors(std::move(of)) {
    optimizer.add_all(tensors);
  }
  double norm(double type = 2) const { return grad_norm_of({optimizer.get()}, type); }
};

std::deque<TestTensor> one_tensor(const Mix& mix, int64_t n) {
  std::deque<TestTensor> tensors;
  tensors.emplace_back(mix, n).set_all(1, 1);
  return tensors;
}

}  // namespace

TEST_CASE("norms equal their definition, whatever dtypes, sizes, scale and cut") {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Measured m(random_tensors(seed));
    for (const Entry& entry : kEntries)
      for (double type : kTypes) {
        set_entry(m.optimizer, entry);
        INFO("seed " << seed << ", type " << type << ", scale " << entry.scale << ", cut "
                     << entry.max_value);
        CHECK(mismatch("norm", m.norm(type), norm_by_definition(m.tensors, type, entry)) == "");
      }
  }
}

TEST_CASE("threads and chunks change no norm, of any type, scaled and cut or not") {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    std::deque<TestTensor> tensors = random_tensors(seed);
    for (TestTensor& x : tensors_of("z", {300000, 70001})) tensors.push_back(std::move(x));
    Measured m(std::move(tensors));
    for (const Entry& entry : {kEntries[0], kEntries[2], kEntries[4]})
      for (double type : kTypes) {
        set_entry(m.optimizer, entry);
        const double want = norm_by_definition(m.tensors, type, entry);
        for (double threads : {1, 3, 7})
          for (double tiles : {1, 3, 64}) {
            m.optimizer.setting("threads", threads);
            m.optimizer.setting("chunk_tiles", tiles);
            INFO("seed " << seed << ", type " << type << ", threads " << threads << ", tiles "
                         << tiles);
            CHECK(mismatch("norm", m.norm(type), want) == "");
          }
      }
  }
}

TEST_CASE("the norm of nothing is 0") {
  for (double type : kTypes) {
    Optimizer none("sgd");
    CHECK(grad_norm_of({none.get()}, type) == 0);
    Measured empty(one_tensor(kF32, 0));
    CHECK(empty.norm(type) == 0);
    std::deque<TestTensor> idle = one_tensor(kF32, 5000);
    idle[0].has_grad = false;
    CHECK(Measured(std::move(idle)).norm(type) == 0);
  }
}

TEST_CASE("a group has the norm of an optimizer of its own, and others do not take part") {
  std::deque<TestTensor> all = tensors_of("z", {5, 4097, 0, 33, 70001, 300, 12289, 129});
  std::deque<TestTensor> own[3];
  Optimizer optimizer("sgd");
  optimizer.add_group("adamw");
  optimizer.add_group();
  for (size_t i = 0; i < all.size(); ++i) {
    optimizer.add(all[i], int32_t(i * 7 % 3));
    own[i * 7 % 3].push_back(all[i]);
  }
  for (double type : kTypes)
    for (int32_t group = 0; group < 3; ++group) {
      INFO("type " << type << ", group " << group);
      const double want = norm_by_definition(own[group], type, {});
      CHECK(mismatch("norm", grad_norm_of({optimizer.get()}, type, group), want) == "");
    }
  CHECK(mismatch("norm", grad_norm_of({optimizer.get()}), norm_by_definition(all, 2, {})) == "");
}

TEST_CASE("each optimizer of several scales and cuts its own gradients") {
  std::deque<TestTensor> first = tensors_of("y", {129, 4097}), second = tensors_of("z", {33, 5000});
  Optimizer a("sgd"), b("adamw");
  a.add_all(first);
  b.add_all(second);
  set_entry(a, {3, 0});
  set_entry(b, {1024, 1e-4});
  for (double type : kTypes) {
    std::vector<std::vector<double>> terms;
    for (const TestTensor& x : first) terms.push_back(terms_of(x, {3, 0}));
    for (const TestTensor& x : second) terms.push_back(terms_of(x, {1024, 1e-4}));
    CHECK(mismatch("norm", grad_norm_of({a.get(), b.get()}, type),
                   talus::reference::norm_of(type, terms)) == "");
    std::rotate(terms.begin(), terms.begin() + 2, terms.end());
    CHECK(mismatch("norm", grad_norm_of({b.get(), a.get()}, type),
                   talus::reference::norm_of(type, terms)) == "");
  }
}

TEST_CASE("a gradient of rows in ascending order is measured as a tensor of them, repeats summed") {
  for (const Mix& mix : {kF32, kF64, Mix{TALUS_BF16, TALUS_F16, 0}, Mix{TALUS_F64, TALUS_F32, 0}})
    for (const Entry& entry : kEntries)
      for (double type : kTypes) {
        Table table(mix, 900, 7);
        table.fill(3);
        Optimizer optimizer("sparse_adam");
        table.add_to(optimizer);
        set_entry(optimizer, entry);
        std::vector<int64_t> numbers;
        for (int64_t j = 0; j < 800; ++j) numbers.push_back(j * 3 / 4);  // some twice
        Given given(numbers, mix.grad, 7);
        given.fill(4, 1).bind(optimizer, table);

        std::map<int64_t, std::vector<double>> sums;  // by row, of values as the compute type adds
        for (size_t j = 0; j < numbers.size(); ++j) {
          std::vector<double>& row = sums.try_emplace(numbers[j], 7, NAN).first->second;
          for (int64_t i = 0; i < 7; ++i) {
            double& sum = row[size_t(i)];
            const double g = given.values.get(int64_t(j) * 7 + i);
            sum = std::isnan(sum) ? g : mix.param == TALUS_F64 ? sum + g : float(sum) + float(g);
          }
        }
        std::vector<double> terms;
        for (const auto& [row, values] : sums)
          for (double g : values)
            terms.push_back(mix.param == TALUS_F64
                                ? talus::reference::measured<double>(g, entry)
                                : double(talus::reference::measured<float>(g, entry)));
        INFO(name_of(mix) << ", type " << type << ", scale " << entry.scale << ", cut "
                          << entry.max_value);
        CHECK(mismatch("norm", grad_norm_of({optimizer.get()}, type),
                       talus::reference::norm_of(type, {terms})) == "");
      }
}

// ---- what is not finite

TEST_CASE("an infinite gradient makes an infinite norm, a NaN one that is NaN, in every type") {
  for (const Mix& mix : all_mixes())
    for (double type : kTypes)
      for (double scale : {1., 3.})
        for (double bad : {kInf, -kInf, kNaN}) {
          Measured m(one_tensor(mix, 4500));
          m.optimizer.setting("grad_scale", scale);
          for (int64_t place : {0, 127, 4095, 4096, 4499}) {
            m.tensors[0].set_all(1, 1);
            m.tensors[0].grad.set(place, bad);
            INFO(name_of(mix) << ", type " << type << ", scale " << scale << ", place " << place);
            CHECK(mismatch("norm", m.norm(type), std::abs(bad)) == "");
          }
          m.tensors[0].grad.set(17, NAN);  // beside an infinity too
          CHECK(std::isnan(m.norm(type)));
        }
}

TEST_CASE("what is not finite shows behind the cut") {
  for (const Mix& mix : all_mixes())
    for (double type : kTypes)
      for (double bad : {kInf, -kInf, kNaN}) {
        Measured m(one_tensor(mix, 300));
        m.optimizer.setting("max_grad_value", .5);
        CHECK(std::isfinite(m.norm(type)));
        m.tensors[0].grad.set(200, bad);
        INFO(name_of(mix) << ", type " << type);
        CHECK_FALSE(std::isfinite(m.norm(type)));
      }
}

TEST_CASE("a scale below 1 can make a finite gradient overflow, in the compute type") {
  for (double type : kTypes) {
    Measured m(one_tensor(kF32, 9));
    m.tensors[0].grad.set(3, 0x1p127);
    m.optimizer.setting("grad_scale", .5);
    CHECK(m.norm(type) == INFINITY);
    Measured wide(one_tensor({TALUS_F64, TALUS_F32, 0}, 9));
    wide.tensors[0].grad.set(3, 0x1p127);
    wide.optimizer.setting("grad_scale", .5);
    CHECK(wide.norm(type) >= 0x1p128);
    CHECK(std::isfinite(wide.norm(type)));
  }
}

TEST_CASE("the largest magnitude is exact, also where squares overflow or vanish") {
  for (double g : {0x1p-149, 1e-40, 3e38, 65504.}) {
    Measured m(one_tensor(kF32, 5000));
    m.tensors[0].set_all(1, 0);
    m.tensors[0].grad.set(4711, -g);
    CHECK(m.norm(INFINITY) == double(float(g)));
  }
  Measured wide(one_tensor(kF64, 2));
  wide.tensors[0].set_all(1, 1e200);
  CHECK(wide.norm(INFINITY) == 1e200);
  CHECK(wide.norm(1) == 2e200);
  CHECK(wide.norm(2) == INFINITY);
}

// ---- what a measure leaves alone

TEST_CASE("measuring alone changes nothing, before and between steps") {
  Measured m(random_tensors(5));
  must(talus_set(m.optimizer.get(), 0, "momentum", .5));
  m.optimizer.prepare();
  for (int step = 0; step < 2; ++step) {
    std::vector<Buffer> grads;
    for (const TestTensor& x : m.tensors) grads.push_back(x.grad);
    const auto before = talus::abi::see(m.optimizer.get());
    for (double type : kTypes) m.norm(type);
    CHECK(talus::abi::first_difference(before, talus::abi::see(m.optimizer.get())) == "");
    for (size_t i = 0; i < grads.size(); ++i) CHECK(grads[i].same_bytes(m.tensors[i].grad));
    m.optimizer.step();
  }
}

TEST_CASE("steps after a measure are those without") {
  Measured with(random_tensors(7)), without(random_tensors(7));
  for (int step = 1; step <= 3; ++step) {
    with.norm(INFINITY);
    with.optimizer.step(), without.optimizer.step();
    with.norm(1);
  }
  for (size_t i = 0; i < with.tensors.size(); ++i)
    CHECK(difference(with.optimizer, with.tensors[i], without.optimizer, without.tensors[i]) == "");
}

TEST_CASE("the rule's own norm is of squares, whatever type the statistics have") {
  std::deque<TestTensor> plain = tensors_of("z", {4097, 33}), asked = plain;
  Optimizer first("lamb", {{"max_grad_norm", .25}}), second("lamb", {{"max_grad_norm", .25}});
  first.add_all(plain), second.add_all(asked);
  second.setting("stats", 1);
  second.setting("grad_norm_type", 1);
  for (int step = 0; step < 2; ++step) first.step(), second.step();
  for (size_t i = 0; i < plain.size(); ++i)
    CHECK(difference(first, plain[i], second, asked[i]) == "");
  CHECK(mismatch("norm", stats_of(second).grad_norm, norm_by_definition(asked, 1, {})) == "");
}

TEST_CASE("the caller's rounding mode and flush-to-zero change no norm, and stay") {
  Measured m(tensors_of("y", {5, 4097, 0, 33, 70001}));
  for (int64_t i = 0; i < 4097; i += 3) m.tensors[1].grad.set(i, 1e-40);
  for (double type : kTypes) {
    const double want = norm_by_definition(m.tensors, type, {});
    for (int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
      std::fesetround(mode);
      const double got = m.norm(type);
      const int after = std::fegetround();
      std::fesetround(FE_TONEAREST);
      CHECK(after == mode);
      CHECK(mismatch("norm", got, want) == "");
    }
    const uint64_t usual = float_control();
    for (uint64_t bits : kFlushWays) {
      set_float_control(usual | bits);
      const double got = m.norm(type);
      const uint64_t after = float_control();
      set_float_control(usual);
      CHECK((after & kFlush) == bits);
      CHECK(mismatch("norm", got, want) == "");
    }
  }
}

// ---- refusals

TEST_CASE("norms of other types, of no or wrong optimizers and groups are refused") {
  Measured m(one_tensor(kF32, 4)), other(one_tensor(kF32, 4));
  talus_optimizer* const opt = m.optimizer.get();
  double norm = 7;
  talus_optimizer *one[] = {opt}, *two[] = {opt, other.optimizer.get()}, *twice[] = {opt, opt},
                  *none[] = {opt, nullptr};
  const auto ask = [&](talus_optimizer** of, int32_t count, int32_t group, double type) {
    return [=, &norm] { return talus_grad_norm(of, count, group, type, &norm, nullptr); };
  };
  for (double type : {0., -1., 1.5, 3., -kInf, kNaN})
    refused(opt, TALUS_E_RANGE, {"talus_grad_norm", "norm_type"}, ask(one, 1, TALUS_ALL, type));
  for (int32_t group : {-2, 1, 99})
    refused(opt, TALUS_E_ARGUMENT, {"talus_grad_norm", "group"}, ask(one, 1, group, 2));
  refused(opt, TALUS_E_ARGUMENT, {"TALUS_ALL"}, ask(two, 2, 0, 2));
  refused(opt, TALUS_E_ARGUMENT, {"opts"}, ask(nullptr, 1, TALUS_ALL, 2));
  refused(opt, TALUS_E_ARGUMENT, {"count"}, ask(one, 0, TALUS_ALL, 2));
  refused(opt, TALUS_E_ARGUMENT, {"count"}, ask(one, -5, TALUS_ALL, 2));
  refused(opt, TALUS_E_ARGUMENT, {"opts[0]", "opts[1]"}, ask(twice, 2, TALUS_ALL, 2));
  refused(opt, TALUS_E_ARGUMENT, {"talus_grad_norm"}, ask(none, 2, TALUS_ALL, 2));
  refused(opt, TALUS_E_ARGUMENT, {"norm"},
          [&] { return talus_grad_norm(one, 1, TALUS_ALL, 2, nullptr, nullptr); });
  refused(opt, TALUS_E_ARGUMENT, {"stream"},
          [&] { return talus_grad_norm(one, 1, TALUS_ALL, 2, &norm, &norm); });
  CHECK(norm == 7);
  must(talus_set(opt, 0, "nesterov", 1));  // without momentum: a step would be refused
  refused(opt, TALUS_E_RANGE, {"nesterov"}, ask(one, 1, TALUS_ALL, 2));
  CHECK(norm == 7);
}
