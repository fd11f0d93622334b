// One tensor trained by the library and by the reference on the same numbers, to be compared.
#pragma once
#include "tests/optimizer.h"
#include "tests/reference/all.hpp"

namespace talus::test {

struct RuleRun {
  HyperSet set;
  Mix mix;
  int64_t n = 67;  // no multiple of a vector, two vectors and more of every width up to 32
  int steps = 100;
  uint64_t seed = 1;
  bool hard = false;  // zeros, subnormals, huge, inf and NaN among the values

  std::string name() const {
    return set.algorithm + ", " + set.name + ", " + name_of(mix) + ", n " + std::to_string(n) +
           ", seed " + std::to_string(seed);
  }
  double param(int64_t i) const {
    const double x = param_value(seed, i);
    return hard ? hard_value(draw(seed, 1000, i), x) : x;
  }
  double grad(int64_t step, int64_t i) const {
    const double x = grad_value(seed, step, i);
    return hard ? hard_value(draw(seed, uint64_t(1000 + step), i), x) : x;
  }
};

// ---- the library's side

struct LibraryRun {
  TestTensor tensor;
  Optimizer optimizer;
  bool grads_untouched = true;

  bool guards_intact() const {
    return tensor.param.guards_intact() && tensor.grad.guards_intact() &&
           optimizer.state_guards_intact();
  }
};

inline LibraryRun run_library(const RuleRun& run, bool guard_states = false) {
  LibraryRun out{TestTensor(run.mix, run.n), Optimizer(run.set.algorithm, run.set.values)};
  TestTensor& x = out.tensor;
  for (int64_t i = 0; i < run.n; ++i) x.param.set(i, run.param(i));
  out.optimizer.add(x);
  if (guard_states) out.optimizer.bind_guarded_states(x);
  for (int step = 1; step <= run.steps; ++step) {
    for (int64_t i = 0; i < run.n; ++i) x.grad.set(i, run.grad(step, i));
    const Buffer before = x.grad;
    out.optimizer.step();
    out.grads_untouched = out.grads_untouched && x.grad.same_bytes(before);
  }
  return out;
}

// ---- the reference's side

template <class Real>
struct ReferenceRun {
  reference::Tensor<Real> tensor;
  std::vector<Real> largest_p;  // magnitude on the way, by element
  std::map<std::string, std::vector<Real>> largest_state;
};

template <class Real>
void keep_larger(std::vector<Real>& largest, const std::vector<Real>& now) {
  largest.resize(now.size());
  for (size_t i = 0; i < now.size(); ++i) largest[i] = std::max(largest[i], std::abs(now[i]));
}

template <class Real>
ReferenceRun<Real> run_reference(const RuleRun& run, int mutation = 0) {
  ReferenceRun<Real> out;
  reference::Tensor<Real>& x = out.tensor;
  x.dtype = run.mix.param;
  x.has_master = run.mix.has_master();
  const Format &param = format_of(run.mix.param), &grad = format_of(run.mix.grad);
  for (int64_t i = 0; i < run.n; ++i) x.p.push_back(Real(nearest(param, run.param(i))));
  keep_larger(out.largest_p, x.p);
  const reference::Hypers h = reference::hypers(run.set.algorithm, run.set.values);
  std::vector<Real> g(size_t(run.n));
  for (int step = 1; step <= run.steps; ++step) {
    for (int64_t i = 0; i < run.n; ++i) g[size_t(i)] = Real(nearest(grad, run.grad(step, i)));
    reference::step(run.set.algorithm, h, mutation, x, g);
    keep_larger(out.largest_p, x.p);
    for (const auto& [slot, values] : x.state) keep_larger(out.largest_state[slot], values);
  }
  return out;
}

// ---- comparison

// What the rule optimises: the master where there is one.
inline View optimised(const Optimizer& optimizer, const TestTensor& tensor) {
  return tensor.mix.has_master() ? optimizer.state(tensor, "master_param") : View(tensor.param);
}
inline View optimised(const LibraryRun& got) { return optimised(got.optimizer, got.tensor); }

// The parameter is the rounded copy of its master; "" if so, or if there is none.
inline std::string copy_difference(const LibraryRun& got) {
  if (!got.tensor.mix.has_master()) return "";
  const View master = optimised(got);
  const Format& f = got.tensor.param.format();
  return difference_from("parameter against its master", got.tensor.param,
                         [&](int64_t i) { return encode(f, master.get(i)); });
}

// Bit for bit, but for the copy of a master.
template <class Real>
std::string bits_difference(const Optimizer& optimizer, const TestTensor& tensor,
                            const reference::Tensor<Real>& want) {
  const auto against = [](const std::string& what, const View& view, const auto& values) {
    return difference_from(
        what, view, [&](int64_t i) { return encode(*view.format, double(values[size_t(i)])); });
  };
  if (optimizer.steps(tensor) != want.t) return "step counts differ";
  std::string text = against("optimised value", optimised(optimizer, tensor), want.p);
  for (const auto& [slot, values] : want.state)
    if (text.empty()) text = against(slot, optimizer.state(tensor, slot), values);
  for (const auto& [slot, value] : want.scalar_state)
    if (text.empty())
      text = against(slot, optimizer.state(tensor, slot), std::vector<double>{value});
  return text;
}

// Bit for bit, everywhere.
template <class Real>
std::string bits_difference(const LibraryRun& got, const ReferenceRun<Real>& want) {
  const std::string text = bits_difference(got.optimizer, got.tensor, want.tensor);
  return text.empty() ? copy_difference(got) : text;
}

// ULPs that the library may be away from the double reference.
struct Bounds {
  double value, state;
};

inline std::string bound_difference(const LibraryRun& got, const ReferenceRun<double>& want,
                                    const Bounds& bounds) {
  const auto within = [](const std::string& what, const View& view, const auto& values,
                         const auto& largest, double bound) -> std::string {
    const Worst worst = worst_distance(view, values, largest);
    if (worst.distance <= bound) return "";
    const int64_t i = worst.index;
    return describe(what, i, *view.format, view.bits(i), encode(*view.format, values[size_t(i)]),
                    worst.distance);
  };
  std::string text =
      within("optimised value", optimised(got), want.tensor.p, want.largest_p, bounds.value);
  if (text.empty()) text = copy_difference(got);
  for (const auto& [slot, values] : want.tensor.state)
    if (text.empty())
      text = within(slot, got.optimizer.state(got.tensor, slot), values,
                    want.largest_state.at(slot), bounds.state);
  return text;
}

}  // namespace talus::test
