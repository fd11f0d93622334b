// The library gives what the golden files say, in f64, by the C ABI: worked values of the optimizer
// sheet, a real PyTorch, and a transcription of what PyTorch does not have.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <set>

#include "tests/golden_file.h"
#include "tests/optimizer.h"

using namespace talus::test;

namespace {

std::vector<double> numbers(const View& view) {
  std::vector<double> values;
  for (int64_t i = 0; i < view.count; ++i) values.push_back(view.get(i));
  return values;
}

std::set<std::string> names_of(const char* list) {
  std::set<std::string> names;
  for (int32_t i = 0; i < talus_name_count(list); ++i) names.insert(talus_name_at(list, i));
  return names;
}

bool has_hyper(const std::string& algorithm, const std::string& name) {
  for (int32_t i = 0; i < talus_hyper_count(algorithm.c_str()); ++i) {
    talus_hyper hyper{};
    hyper.struct_size = sizeof hyper;
    must(talus_hyper_info(algorithm.c_str(), i, &hyper));
    if (name == hyper.name) return true;
  }
  return false;
}

// Row-sparse gradients by talus_bind_rows, in a library that has it.
#ifdef TALUS_I64
constexpr bool kCanBindRows = true;
void bind_rows(const Optimizer& optimizer, const TestTensor& x, const GoldenRows& step) {
  talus_rows rows{};
  rows.struct_size = sizeof rows;
  rows.index_dtype = TALUS_I64;
  rows.count = int64_t(step.rows.size());
  rows.indices = step.rows.data();
  rows.values = step.values.data();
  must(talus_bind_rows(optimizer.get(), x.index, &rows));
}
#else
constexpr bool kCanBindRows = false;
void bind_rows(const Optimizer&, const TestTensor&, const GoldenRows&) {}
#endif

// Why the library cannot run a case, or "".
std::string left_out(const GoldenCase& c) {
  if (!names_of("algorithms").contains(c.algorithm) && !names_of("aliases").contains(c.algorithm))
    return "no algorithm " + c.algorithm;
  for (const std::string& name : c.needs)
    if (!has_hyper(c.algorithm, name)) return c.algorithm + " has no " + name;
  if (c.has_rows() && !kCanBindRows) return "no row-sparse gradients";
  return "";
}

void add(Optimizer& optimizer, TestTensor& x, const GoldenCase& c) {
  for (size_t i = 0; i < c.p0.size(); ++i) x.param.set(int64_t(i), c.p0[i]);
  x.has_grad = !c.has_rows();
  talus_param d = x.descriptor();
  d.shape = c.shape.data();
  d.ndim = int32_t(c.shape.size());
  must(talus_add_params(optimizer.get(), 0, 1, &d, &x.index));
}

void step(Optimizer& optimizer, TestTensor& x, const GoldenCase& c, size_t index) {
  if (c.has_rows())
    bind_rows(optimizer, x, c.rows[index]);
  else
    for (size_t i = 0; i < c.p0.size(); ++i) x.grad.set(int64_t(i), c.gradients[index][i]);
  optimizer.step();
}

void check_state(const Optimizer& optimizer, const TestTensor& x, const GoldenCase& c) {
  std::set<std::string> slots, told(c.unlisted.begin(), c.unlisted.end());
  for (const talus_state& s : optimizer.states(x)) slots.insert(s.slot);
  for (const auto& [slot, want] : c.state) {
    told.insert(slot);
    if (!slots.contains(slot)) continue;
    const View state = optimizer.state(x, slot);
    CHECK(state.format->dtype == TALUS_F64);
    CHECK(golden_difference(slot, numbers(state), want, c.tolerance) == "");
  }
  CHECK(slots == told);
}

void check_case(const GoldenCase& c) {
  Optimizer optimizer(c.algorithm, c.hypers);
  TestTensor x(kF64, int64_t(c.p0.size()));
  add(optimizer, x, c);
  for (size_t i = 0; i < c.steps(); ++i) {
    step(optimizer, x, c, i);
    if (const auto p = c.p.find(i + 1); p != c.p.end()) {
      INFO("after step " << i + 1);
      CHECK(golden_difference("p", numbers(x.param), p->second, c.tolerance) == "");
    }
  }
  CHECK(optimizer.steps(x) == int64_t(c.steps()));
  check_state(optimizer, x, c);
}

}  // namespace

TEST_CASE("every golden case that the library can run comes out as its file says") {
  size_t ran = 0;
  for (const GoldenCase& c : golden_cases()) {
    if (left_out(c) != "") continue;
    INFO(c.name);
    check_case(c);
    ++ran;
  }
  CHECK(ran >= 7);
}

TEST_CASE("no golden case is left out") {
  std::map<std::string, int> reasons;
  for (const GoldenCase& c : golden_cases())
    if (const std::string reason = left_out(c); reason != "") ++reasons[reason];
  std::string text;
  for (const auto& [reason, count] : reasons)
    text += (text == "" ? "" : "; ") + std::to_string(count) + " left out: " + reason;
  if (text != "") SKIP(text);
  CHECK(!golden_cases().empty());
}

TEST_CASE("every algorithm has a worked value, and a case of PyTorch or a transcription") {
  for (const std::string& algorithm : names_of("algorithms")) {
    INFO(algorithm);
    const auto has = [&](const std::string& source) {
      const auto& cases = golden_cases();
      return std::any_of(cases.begin(), cases.end(), [&](const GoldenCase& c) {
        return c.algorithm == algorithm && c.source.starts_with(source);
      });
    };
    CHECK(has("worked value"));
    CHECK((has("torch ") || has("transcription")));
  }
}
