// What every reference shares: a tensor with its state, rounded as the sheets say and no further.
//
// Real is the type that the reference computes in. With double it is the reference of the error
// bounds: states are kept in double, and only the value that is optimised is rounded in each step,
// by definition (nearest, ties to even), to the type it lives in: f32 for a master, else the
// parameter's own. With float it is the sheet's arithmetic itself, so the library must have its
// bits; of f64 tensors the same holds with double. Host scalars are rounded once to the compute
// type, whatever Real is.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tests/numbers.h"

namespace talus::reference {

using Hypers = std::map<std::string, double>;

template <class Real>
struct Tensor {
  int32_t dtype = TALUS_F64;  // of the parameter
  bool has_master = false;
  int64_t t = 0;        // applied steps
  std::vector<Real> p;  // what is optimised: the master where there is one
  std::map<std::string, std::vector<Real>> state;
  std::map<std::string, double> scalar_state;  // one number for the tensor, in double

  Real scalar(double x) const { return dtype == TALUS_F64 ? Real(x) : Real(float(x)); }

  int32_t value_dtype() const { return has_master ? TALUS_F32 : dtype; }

  Real rounded(Real x) const { return Real(test::nearest(test::format_of(value_dtype()), x)); }

  std::vector<Real>& slot(const std::string& name) {
    std::vector<Real>& values = state[name];
    if (t == 1) values.assign(p.size(), 0);  // state starts at the first applied step
    return values;
  }
};

// Sums over a tensor of terms widened to double, by the order of the numerics contract: tiles of
// 4,096 elements; inside one, element i into lane i mod 128; lanes fold by halves; tiles in rounds
// of neighbours, an odd last one moves up.
inline double tree_sum(const std::vector<double>& terms) {
  std::vector<double> tiles;
  for (size_t first = 0; first < terms.size(); first += 4096) {
    std::vector<double> lane(128, 0.0);
    for (size_t i = first; i < std::min(first + 4096, terms.size()); ++i)
      lane[(i - first) % 128] += terms[i];
    for (size_t width = 64; width > 0; width /= 2)
      for (size_t l = 0; l < width; ++l) lane[l] += lane[l + width];
    tiles.push_back(lane[0]);
  }
  while (tiles.size() > 1) {
    std::vector<double> next;
    for (size_t k = 0; k + 1 < tiles.size(); k += 2) next.push_back(tiles[k] + tiles[k + 1]);
    if (tiles.size() % 2) next.push_back(tiles.back());
    tiles = next;
  }
  return tiles.empty() ? 0 : tiles[0];
}

template <class Real>
double norm2(const std::vector<Real>& x) {
  std::vector<double> squares;
  for (Real v : x) squares.push_back(double(v) * double(v));
  return std::sqrt(tree_sum(squares));
}

// max that keeps NaN from either side.
template <class Real>
Real larger(Real a, Real b) {
  if (a != a || b != b) return a + b;
  return a < b ? b : a;
}

// The exact form of 1 - (1 - w) matters to the last bit, so both weights come from the host.
template <class Real>
Real lerp(Real a, Real b, bool lower, Real w, Real rest) {
  return lower ? a + w * (b - a) : b - (b - a) * rest;
}

}  // namespace talus::reference
