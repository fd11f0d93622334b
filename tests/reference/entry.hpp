// How gradients enter a step, by definition: scaled back, checked, cut, measured, clipped. Real is the
// compute type: float, or double for f64 parameters.
#pragma once
#include "tests/reference/tensor.hpp"

namespace talus::reference {

struct Entry {
  double scale = 1;
  double max_value = 0;  // 0: no cut
};

// As it is checked.
template <class Real>
Real unscaled(double g, const Entry& entry) {
  return Real(g) * Real(1 / entry.scale);
}

// And cut, as it is measured.
template <class Real>
Real measured(double g, const Entry& entry) {
  const Real x = unscaled<Real>(g, entry), most = Real(entry.max_value);
  if (entry.max_value == 0 || std::isnan(x)) return x;
  return x > most ? most : x < -most ? -most : x;
}

// As the rule sees it. coef: of the norm.
template <class Real>
Real entered(double g, const Entry& entry, double coef) {
  if (entry.max_value == 0) return Real(g) * Real(1 / entry.scale * coef);
  return measured<Real>(g, entry) * Real(coef);
}

inline double coefficient(double max_norm, double norm) {
  const double coef = max_norm / (norm + 1e-6);
  return coef > 1 ? 1 : coef;
}

// A sum of p-th powers over tensors of widened terms, or the largest magnitude, of which NaN is the
// largest of all.
inline double power_sum(double p, const std::vector<std::vector<double>>& tensors) {
  std::vector<double> totals;
  for (const std::vector<double>& x : tensors) {
    if (x.empty()) continue;
    std::vector<double> terms;
    double largest = 0;
    for (double v : x) {
      terms.push_back(p == 2 ? v * v : std::abs(v));
      if (std::isnan(v) || (!std::isnan(largest) && std::abs(v) > largest)) largest = std::abs(v);
    }
    totals.push_back(std::isinf(p) ? largest : tree_sum(terms));
  }
  while (totals.size() > 1) {
    std::vector<double> next;
    for (size_t i = 0; i + 1 < totals.size(); i += 2) {
      const double a = totals[i], b = totals[i + 1];
      const double larger = std::isnan(a) || a > b ? a : b;
      next.push_back(std::isinf(p) ? larger : a + b);
    }
    if (totals.size() % 2) next.push_back(totals.back());
    totals.swap(next);
  }
  return totals.empty() ? 0 : totals[0];
}

inline double norm_of(double p, const std::vector<std::vector<double>>& tensors) {
  const double sum = power_sum(p, tensors);
  return p == 2 ? std::sqrt(sum) : sum;
}

}  // namespace talus::reference
