// The worked values of the optimizer sheet: three steps on two doubles, 17 significant digits.
#pragma once
#include <array>

#include "tests/cases.h"

namespace talus::test {

using Pair = std::array<double, 2>;

inline constexpr Pair kGoldenStart = {1, -0.5};
inline constexpr Pair kGoldenGradients[3] = {{0.1, -0.2}, {-0.3, 0.05}, {0.2, 0.4}};

struct Golden {
  HyperSet set;
  Pair p[3];                                         // after each step
  std::vector<std::pair<std::string, Pair>> states;  // after the last one
};

inline const std::vector<Golden>& golden_values() {
  static const std::vector<Golden> values = {
      {{"sgd",
        "dampening, weight decay, maximize",
        {{"lr", .1}, {"momentum", .9}, {"dampening", .3}, {"weight_decay", .01}, {"maximize", 1}}},
       {{1.0089999999999999, -0.51949999999999996},
        {0.99539369999999994, -0.53318634999999992},
        {0.99645125440999993, -0.51713083455499997}},
       {{"momentum_buffer", {-0.010575544100000028, -0.16055515444999996}}}},
      {{"sgd",
        "nesterov, weight decay",
        {{"lr", .1}, {"momentum", .9}, {"nesterov", 1}, {"weight_decay", .01}}},
       {{0.97909999999999997, -0.46104999999999996},
        {1.0253297100000001, -0.45306900499999997},
        {1.0008695125510001, -0.51694022339049994}},
       {{"momentum_buffer", {0.03816519710000002, 0.27026985994999997}}}},
      {{"sgd",
        "weight decay after momentum",
        {{"lr", .1}, {"momentum", .9}, {"weight_decay", .01}, {"wd_after_momentum", 1}}},
       {{0.98899999999999999, -0.47949999999999998},
        {1.0090109999999999, -0.4660205},
        {1.0069019889999999, -0.4938544795}},
       {{"momentum_buffer", {0.011000000000000038, 0.28300000000000003}}}},
      {{"adam",
        "amsgrad, weight decay, maximize",
        {{"lr", .01}, {"beta2", .9}, {"weight_decay", .1}, {"amsgrad", 1}, {"maximize", 1}}},
       {{1, -0.5099999993333334},
        {0.99274523774889989, -0.51141351720418982},
        {0.9888077864914987, -0.50609758158361895}},
       {{"exp_avg", {0.025927452377488995, -0.042054135166041895}},
        {"exp_avg_sq", {0.015414562156077519, 0.023093441922000676}},
        {"max_exp_avg_sq", {0.015999999999999997, 0.023093441922000676}}}},
      {{"adam", "beta1 0.3, the upper branch of lerp", {{"lr", .01}, {"beta1", .3}}},
       {{0.99000000099999985, -0.49000000049999998},
        {0.99928642492475961, -0.48947219608337778},
        {0.99532380668399001, -0.50046212953127545}},
       {{"exp_avg", {0.083299999999999985, 0.27789999999999998}},
        {"exp_avg_sq", {0.00013989001000000011, 0.00020241754000000021}}}},
      {{"adamw", "weight decay 0.1", {{"lr", .01}, {"weight_decay", .1}}},
       {{0.98900000099999985, -0.48950000049999998},
        {0.99295289911100648, -0.48431581910954463},
        {0.99177206927648232, -0.48784974910117385}},
       {{"exp_avg", {0.0011000000000000003, 0.028299999999999999}},
        {"exp_avg_sq", {0.00013989001000000011, 0.00020241754000000021}}}},
      {{"adamw",
        "no bias correction",
        {{"lr", .001}, {"weight_decay", .01}, {"bias_correction", 0}}},
       {{0.99682773233980004, -0.49683272733982375},
        {0.9989178669701444, -0.49483271403610307},
        {0.99881487436113803, -0.49681689063210482}},
       {{"exp_avg", {0.0011000000000000003, 0.028299999999999999}},
        {"exp_avg_sq", {0.00013989001000000011, 0.00020241754000000021}}}},
  };
  return values;
}

}  // namespace talus::test
