// The sequences that the golden norms are of.
#pragma once
#include "tests/amp/amp.h"

namespace talus::test {

inline float x_at(int64_t i) {
  const auto hash = uint32_t(uint64_t(i) * 2654435761u);
  return float(double(hash >> 8) * 0x1p-24 - 0.5);
}
inline float y_at(int64_t i) { return float(std::ldexp(double(x_at(i)), int(7 * i % 41) - 20)); }
inline float z_at(int64_t i) { return float(double(x_at(i)) * double(1 + i % 5) / 3); }

inline float sequence_at(const std::string& name, int64_t i) {
  return name == "x" ? x_at(i) : name == "y" ? y_at(i) : z_at(i);
}

// Tensors of f32 gradients that are a sequence each.
inline std::deque<TestTensor> tensors_of(const std::string& sequence,
                                         const std::vector<double>& sizes) {
  std::deque<TestTensor> tensors;
  for (double n : sizes) {
    TestTensor& x = tensors.emplace_back(kF32, int64_t(n)).fill(1);
    for (int64_t i = 0; i < x.extent; ++i) x.grad.set(i, double(sequence_at(sequence, i)));
  }
  return tensors;
}

inline std::string mismatch(const std::string& what, double got, double want) {
  if (bits_of(got) == bits_of(want) || (std::isnan(got) && std::isnan(want))) return "";
  const Format& f64 = format_of(TALUS_F64);
  return describe(what, 0, f64, bits_of(got), bits_of(want), ulps_between(f64, got, want));
}

}  // namespace talus::test
