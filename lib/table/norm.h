// The fixed order of every reduction, so that its bits depend on sizes and values only.
//
// A tile is kTile consecutive elements from the tensor's start. Inside it element i adds into double
// lane i mod kTileLanes in increasing i from 0.0; lanes fold by halving (tile adder of the lanes,
// lib/cpu/tile_sum.inl). Tiles of a tensor, then the tensors, are added by rounds of adjacent pairs.
// One GPU warp is a tile and 16 tiles are a block of threads; a CPU core holds the lanes in
// registers.
#pragma once
#include <cstdint>

#include "lib/rules/rule.h"

namespace talus {

inline constexpr int kTileLanes = 128;

// One partial of a sum, folded into another. NaN wins over any `largest`.
inline double combine(Sum sum, double a, double b) {
  if (sum != Sum::largest) return a + b;
  const double larger = a >= b ? a : b;
  return a != a ? a : larger;
}

// Folds n partials at x into x[0] by rounds of adjacent pairs; an odd last one moves up unchanged.
// Overwrites them. Of nothing: 0.
inline double fold_pairs(Sum sum, double* x, int64_t n) {
  if (n == 0) return 0;
  for (; n > 1; n = (n + 1) / 2) {
    for (int64_t i = 0; i < n / 2; ++i) x[i] = combine(sum, x[2 * i], x[2 * i + 1]);
    if (n % 2) x[n / 2] = x[n - 1];
  }
  return x[0];
}

}  // namespace talus
