// The references, which the other rule tests stand on, give what the golden files say.
#include <catch2/catch_test_macros.hpp>

#include "tests/golden_file.h"
#include "tests/reference/all.hpp"

using namespace talus;
using namespace talus::test;

namespace {

// Why the references cannot run a case, or "".
std::string left_out(const GoldenCase& c) {
  if (c.has_rows()) return "row-sparse gradients";
  try {
    const reference::Hypers h = reference::rule_of(c.algorithm).defaults(c.algorithm);
    for (const std::string& name : c.needs)
      if (!h.contains(name)) return c.algorithm + " without " + name;
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "";
}

std::vector<double> state_of(const reference::Tensor<double>& x, const std::string& slot) {
  const auto one = x.scalar_state.find(slot);
  return one == x.scalar_state.end() ? x.state.at(slot) : std::vector<double>{one->second};
}

void check_case(const GoldenCase& c) {
  const reference::Hypers h = reference::hypers(c.algorithm, c.hypers);
  reference::Tensor<double> x;
  x.p = c.p0;
  for (size_t i = 0; i < c.steps(); ++i) {
    reference::step(c.algorithm, h, 0, x, c.gradients[i]);
    if (const auto p = c.p.find(i + 1); p != c.p.end()) {
      INFO("after step " << i + 1);
      CHECK(golden_difference("p", x.p, p->second, c.tolerance) == "");
    }
  }
  for (const auto& [slot, want] : c.state)
    CHECK(golden_difference(slot, state_of(x, slot), want, c.tolerance) == "");
  CHECK(x.state.size() + x.scalar_state.size() == c.state.size() + c.unlisted.size());
}

}  // namespace

TEST_CASE("every reference reproduces the golden cases of its algorithm") {
  size_t ran = 0;
  for (const GoldenCase& c : golden_cases()) {
    if (left_out(c) != "") continue;
    INFO(c.name);
    check_case(c);
    ++ran;
  }
  CHECK(ran >= 7);
}

TEST_CASE("no golden case is without a reference") {
  std::map<std::string, int> reasons;
  for (const GoldenCase& c : golden_cases())
    if (const std::string reason = left_out(c); reason != "") ++reasons[reason];
  std::string text;
  for (const auto& [reason, count] : reasons)
    text += (text == "" ? "" : "; ") + std::to_string(count) + " left out: " + reason;
  if (text != "") SKIP(text);
  CHECK(!golden_cases().empty());
}
