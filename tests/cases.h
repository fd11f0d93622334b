// What tests and the benchmark run: dtype mixes, sizes, hyperparameters, values. No Catch2 here.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "tests/buffer.h"

namespace talus::test {

// ---- dtypes

struct Mix {
  int32_t param, grad, master;
  bool has_master() const {
    return master != TALUS_MASTER_NONE && (param == TALUS_F16 || param == TALUS_BF16);
  }
};

inline constexpr Mix kF32 = {TALUS_F32, TALUS_F32, TALUS_MASTER_AUTO};
inline constexpr Mix kF64 = {TALUS_F64, TALUS_F64, TALUS_MASTER_AUTO};

// Every mix that the ABI allows; the masters of f32 and f64 parameters are AUTO, that is none.
inline const std::vector<Mix>& all_mixes() {
  static const std::vector<Mix> mixes = [] {
    std::vector<Mix> list = {{TALUS_F64, TALUS_F64, 0}, {TALUS_F64, TALUS_F32, 0}};
    for (int32_t grad : {TALUS_F32, TALUS_F16, TALUS_BF16}) {
      list.push_back({TALUS_F32, grad, TALUS_MASTER_AUTO});
      for (int32_t param : {TALUS_F16, TALUS_BF16})
        for (int32_t master : {TALUS_MASTER_AUTO, TALUS_MASTER_NONE})
          list.push_back({param, grad, master});
    }
    return list;
  }();
  return mixes;
}

inline std::string name_of(const Mix& mix) {
  return std::string(format_of(mix.param).name) + " param, " + format_of(mix.grad).name + " grad" +
         (mix.has_master() ? ", f32 master" : ", no master");
}

// ---- sizes

// Around SIMD widths of 2 to 64 elements, the leaf of 4,096 and multiples of it up to 64 Ki.
inline constexpr int64_t kEdgeSizes[] = {0,    1,     2,     3,     7,     8,     9,    15,
                                         16,   17,    31,    33,    64,    65,    4095, 4096,
                                         4097, 16383, 16384, 16385, 65535, 65536, 65537};

// ---- hyperparameters

using Values = std::vector<std::pair<std::string, double>>;

struct HyperSet {
  std::string algorithm, name;
  Values values;  // what differs from the algorithm's defaults
};

// Learning rates and gradients are such that parameters of 0.5 to 2 stay away from 0 for 100 steps:
// there an ULP means the same all the way. Coupled decay of adam is below the least gradient: where
// the sum of both cancels, m/sqrt(v) magnifies rounding without bound.
inline const std::vector<HyperSet>& hyper_sets() {
  static const std::vector<HyperSet> sets = {
      {"sgd", "defaults", {}},
      {"sgd", "momentum", {{"lr", .01}, {"momentum", .9}}},
      {"sgd", "dampening", {{"lr", .01}, {"momentum", .9}, {"dampening", .3}}},
      {"sgd", "negative dampening", {{"lr", .01}, {"momentum", .5}, {"dampening", -.5}}},
      {"sgd", "nesterov", {{"lr", .01}, {"momentum", .9}, {"nesterov", 1}}},
      {"sgd", "weight decay", {{"lr", .01}, {"weight_decay", .1}}},
      {"sgd", "momentum, weight decay", {{"lr", .01}, {"momentum", .9}, {"weight_decay", .01}}},
      {"sgd",
       "weight decay after momentum",
       {{"lr", .01}, {"momentum", .9}, {"weight_decay", .1}, {"wd_after_momentum", 1}}},
      {"sgd",
       "weight decay after no momentum",
       {{"lr", .01}, {"weight_decay", .1}, {"wd_after_momentum", 1}}},
      {"sgd", "maximize", {{"lr", .01}, {"maximize", 1}}},
      {"sgd",
       "maximize, dampening, weight decay",
       {{"lr", .01}, {"momentum", .9}, {"dampening", .3}, {"weight_decay", .01}, {"maximize", 1}}},
      {"sgd",
       "maximize, nesterov, weight decay after momentum",
       {{"lr", .01},
        {"momentum", .9},
        {"nesterov", 1},
        {"weight_decay", .05},
        {"wd_after_momentum", 1},
        {"maximize", 1}}},
      {"sgd", "materialize off", {{"lr", .01}, {"materialize_master_grads", 0}}},
      {"fused_sgd", "defaults", {}},
      {"fused_sgd", "momentum", {{"lr", .01}, {"momentum", .9}, {"weight_decay", .01}}},

      {"adam", "defaults", {}},
      {"adam", "weight decay", {{"weight_decay", .005}}},
      {"adam", "decoupled", {{"weight_decay", .1}, {"decoupled_weight_decay", 1}}},
      {"adam", "decoupled alone", {{"decoupled_weight_decay", 1}}},
      {"adam", "amsgrad", {{"amsgrad", 1}, {"beta2", .9}}},
      {"adam",
       "amsgrad, weight decay, maximize",
       {{"amsgrad", 1}, {"beta2", .9}, {"weight_decay", .005}, {"maximize", 1}}},
      {"adam", "no bias correction", {{"bias_correction", 0}, {"lr", 1e-4}}},
      {"adam", "maximize", {{"maximize", 1}}},
      {"adam", "beta1 0", {{"beta1", 0}}},
      {"adam", "beta2 0", {{"beta2", 0}, {"eps", .01}}},
      {"adam", "both betas 0", {{"beta1", 0}, {"beta2", 0}, {"eps", .01}}},
      {"adam", "beta1 0.3", {{"beta1", .3}}},
      {"adam", "beta1 0.5", {{"beta1", .5}}},
      {"adam", "eps 0", {{"eps", 0}}},
      {"adam", "eps 0.1", {{"eps", .1}}},
      {"fused_adam", "defaults", {}},
      {"fused_adam", "weight decay", {{"weight_decay", .1}}},
      {"fused_adam", "coupled", {{"weight_decay", .005}, {"adam_w_mode", 0}}},

      {"adamw", "defaults", {}},
      {"adamw", "no weight decay", {{"weight_decay", 0}}},
      {"adamw", "weight decay", {{"lr", 2e-3}, {"weight_decay", .3}}},
      {"adamw", "heavy decay", {{"lr", .01}, {"weight_decay", .5}}},
      {"adamw", "coupled", {{"weight_decay", .005}, {"decoupled_weight_decay", 0}}},
      {"adamw", "amsgrad", {{"amsgrad", 1}, {"beta2", .9}}},
      {"adamw", "no bias correction", {{"bias_correction", 0}, {"lr", 1e-4}}},
      {"adamw", "maximize", {{"maximize", 1}, {"weight_decay", .1}}},
      {"adamw", "beta1 0.3", {{"beta1", .3}}},
      {"adamw", "both betas 0", {{"beta1", 0}, {"beta2", 0}, {"eps", .01}}},
      {"adamw", "eps 0.1", {{"eps", .1}}},
  };
  return sets;
}

inline const HyperSet& hyper_set(const std::string& algorithm, const std::string& name) {
  for (const HyperSet& set : hyper_sets())
    if (set.algorithm == algorithm && set.name == name) return set;
  throw std::logic_error("no set \"" + name + "\" of " + algorithm);
}

// ---- values, by integer arithmetic: the same on every compiler and machine

inline uint64_t mix_bits(uint64_t x) {  // SplitMix64 (Steele et al. 2014)
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

inline uint64_t draw(uint64_t seed, uint64_t stream, int64_t i) {
  return mix_bits(mix_bits(mix_bits(seed) ^ stream) ^ uint64_t(i));
}

// Either sign, magnitude uniform in [least, most).
inline double signed_between(uint64_t r, double least, double most) {
  const double a = least + (most - least) * (double(r >> 12) * 0x1p-52);
  return r & 1 ? -a : a;
}

// Parameters away from 0, gradients never 0: an element that a kernel forgets shows.
inline double param_value(uint64_t seed, int64_t i) {
  return signed_between(draw(seed, 0, i), 1, 2);
}
inline double grad_value(uint64_t seed, int64_t step, int64_t i) {
  return signed_between(draw(seed, uint64_t(step), i), .02, .2);
}

inline constexpr double kHardValues[] = {
    0.0, -0.0,  0x1p-149, -0x1.8p-148, 1e-40, -0x1p-126, 0x1p-24, 6e-8,     1e-30,     1,
    -1,  65504, -65520,   1e19,        2e19,  3e38,      -3e38,   INFINITY, -INFINITY, NAN};

// Ordinary values with, one time in three, a hard one.
inline double hard_value(uint64_t r, double ordinary) {
  if (r % 3 != 0) return ordinary;
  return kHardValues[r / 3 % std::size(kHardValues)];
}

}  // namespace talus::test
