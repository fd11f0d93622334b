// Worked values of the formula sheet for sgd, adam and adamw: two f64 elements, three steps. They
// agree with torch 1.13.1, less the apex-only one.
#include "command.hpp"
#include "selftest.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>

namespace command {
namespace {

using Pair = std::array<double, 2>;

struct State {
  const char* slot;
  Pair value;
};

struct Case {
  const char* rule;
  std::vector<std::pair<const char*, double>> values;
  std::array<Pair, 3> params;  // after each step
  std::vector<State> states;   // after the last
};

constexpr Pair kStart = {1, -0.5};
constexpr std::array<Pair, 3> kGrads = {{{0.1, -0.2}, {-0.3, 0.05}, {0.2, 0.4}}};

std::vector<Case> cases() {
  return {
      {"sgd",
       {{"lr", 0.1},
        {"momentum", 0.9},
        {"dampening", 0.3},
        {"weight_decay", 0.01},
        {"maximize", 1}},
       {{{1.0089999999999999, -0.51949999999999996},
         {0.99539369999999994, -0.53318634999999992},
         {0.99645125440999993, -0.51713083455499997}}},
       {{"momentum_buffer", {-0.010575544100000028, -0.16055515444999996}}}},
      {"sgd",
       {{"lr", 0.1}, {"momentum", 0.9}, {"nesterov", 1}, {"weight_decay", 0.01}},
       {{{0.97909999999999997, -0.46104999999999996},
         {1.0253297100000001, -0.45306900499999997},
         {1.0008695125510001, -0.51694022339049994}}},
       {{"momentum_buffer", {0.03816519710000002, 0.27026985994999997}}}},
      {"sgd",
       {{"lr", 0.1}, {"momentum", 0.9}, {"weight_decay", 0.01}, {"wd_after_momentum", 1}},
       {{{0.98899999999999999, -0.47949999999999998},
         {1.0090109999999999, -0.4660205},
         {1.0069019889999999, -0.4938544795}}},
       {{"momentum_buffer", {0.011000000000000038, 0.28300000000000003}}}},
      {"adam",
       {{"lr", 0.01}, {"beta2", 0.9}, {"weight_decay", 0.1}, {"amsgrad", 1}, {"maximize", 1}},
       {{{1, -0.5099999993333334},
         {0.99274523774889989, -0.51141351720418982},
         {0.9888077864914987, -0.50609758158361895}}},
       {{"exp_avg", {0.025927452377488995, -0.042054135166041895}},
        {"exp_avg_sq", {0.015414562156077519, 0.023093441922000676}},
        {"max_exp_avg_sq", {0.015999999999999997, 0.023093441922000676}}}},
      {"adam",
       {{"lr", 0.01}, {"beta1", 0.3}},
       {{{0.99000000099999985, -0.49000000049999998},
         {0.99928642492475961, -0.48947219608337778},
         {0.99532380668399001, -0.50046212953127545}}},
       {{"exp_avg", {0.083299999999999985, 0.27789999999999998}},
        {"exp_avg_sq", {0.00013989001000000011, 0.00020241754000000021}}}},
      {"adamw",
       {{"lr", 0.01}, {"weight_decay", 0.1}},
       {{{0.98900000099999985, -0.48950000049999998},
         {0.99295289911100648, -0.48431581910954463},
         {0.99177206927648232, -0.48784974910117385}}},
       {{"exp_avg", {0.0011000000000000003, 0.028299999999999999}},
        {"exp_avg_sq", {0.00013989001000000011, 0.00020241754000000021}}}},
      {"adamw",
       {{"lr", 0.001}, {"weight_decay", 0.01}, {"bias_correction", 0}},
       {{{0.99682773233980004, -0.49683272733982375},
         {0.9989178669701444, -0.49483271403610307},
         {0.99881487436113803, -0.49681689063210482}}},
       {{"exp_avg", {0.0011000000000000003, 0.028299999999999999}},
        {"exp_avg_sq", {0.00013989001000000011, 0.00020241754000000021}}}},
  };
}

std::string difference(const std::string& what, const double* got, const Pair& expected) {
  for (size_t i = 0; i < 2; ++i) {
    const auto got_bits = std::bit_cast<uint64_t>(got[i]);
    const auto expected_bits = std::bit_cast<uint64_t>(expected[i]);
    if (got_bits != expected_bits)
      return fmt::format("worked value, {}[{}]: got {} = {:#018x}, expected {} = {:#018x}", what, i,
                         got[i], got_bits, expected[i], expected_bits);
  }
  return "";
}

void check_case(const Case& test, Outcome& outcome) {
  talus::Optimizer opt(test.rule);
  for (const auto& [name, value] : test.values) opt.set(name, value);
  Pair data = kStart, grad{};
  opt.add(data, grad);
  for (size_t step = 0; step < kGrads.size(); ++step) {
    grad = kGrads[step];
    opt.step();
    outcome.add(difference(fmt::format("parameter after step {}", step + 1), data.data(),
                           test.params[step]));
  }
  for (const State& state : test.states)
    outcome.add(difference(state.slot, opt.state<double>(0, state.slot).data(), state.value));
}

}  // namespace

void check_worked_values(const std::string& name, Outcome& outcome) {
  for (const Case& test : cases())
    if (test.rule == name) check_case(test, outcome);
}

}  // namespace command
