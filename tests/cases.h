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

#if defined(__has_feature)
#define TALUS_HAS_FEATURE(name) __has_feature(name)
#else
#define TALUS_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || TALUS_HAS_FEATURE(address_sanitizer)
inline constexpr size_t kMixTurns = 4;  // ten times slower, and every set runs the same texts
#else
inline constexpr size_t kMixTurns = 1;
#endif

// The mixes of case i: all of them, or in turns so that a few cases see them all.
inline std::vector<Mix> mixes_of(size_t i) {
  std::vector<Mix> mixes;
  for (size_t m = i % kMixTurns; m < all_mixes().size(); m += kMixTurns)
    mixes.push_back(all_mixes()[m]);
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
  // f32 ULPs that 100 steps may be away from the double reference, where that is more than usual.
  double value_ulps = 0, state_ulps = 0;
  double narrow_state_ulps = 0;  // the same for states beside a 16-bit value
  bool spreads = false;          // sums over the tensor: one NaN reaches all its elements
};

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
