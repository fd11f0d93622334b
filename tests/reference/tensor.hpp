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

  Real scalar(double x) const { return dtype == TALUS_F64 ? Real(x) : Real(float(x)); }

  int32_t value_dtype() const { return has_master ? TALUS_F32 : dtype; }

  Real rounded(Real x) const { return Real(test::nearest(test::format_of(value_dtype()), x)); }

  std::vector<Real>& slot(const std::string& name) {
    std::vector<Real>& values = state[name];
    if (t == 1) values.assign(p.size(), 0);  // state starts at the first applied step
    return values;
  }
};

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
