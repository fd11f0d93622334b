// The roof: kernels that read and write exactly the streams of a rule's pass, with one cheap
// operation for each store, and what checks them in turn. One table for each CPU target.
#pragma once
#include <string_view>

#include "lib/cpu/kernels.h"

namespace bench {

// Dtypes of parameter and gradient, and whether there is a master, as one index.
inline constexpr int kMixCount = 20;
constexpr int mix_of(talus::Dtype param, talus::Dtype grad, bool master) {
  if (param == talus::Dtype::f64) return 18 + (grad == talus::Dtype::f64);
  return (int(param) * 3 + int(grad)) * 2 + master;
}

// A function by mix, by pass, by variant, by rule. NULL: a mix that the library refuses.
using PassRoof = const talus::SegmentsFn*;
using VariantRoof = const PassRoof*;
using RuleRoof = const VariantRoof*;

struct RoofTable {
  const char* target;
  const RuleRoof* step;
  talus::SegmentsFn read_gradients;                    // each byte once: the roof of the norm
  void (*triad)(float* a, const float* b, int64_t n);  // a = a + s * b
};

const RoofTable& scalar_roof();
const RoofTable* simd_roof(std::string_view target);  // NULL: not compiled in

}  // namespace bench
