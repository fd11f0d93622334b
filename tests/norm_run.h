// Several tensors of one optimizer, each beside its reference on the same numbers: for rules that
// look at a whole tensor, or at all of them.
#pragma once
#include "tests/rule_run.h"

namespace talus::test {

template <class Real>
struct Twin {
  TestTensor tensor;
  reference::Tensor<Real> expected;
  uint64_t seed;

  Twin(const Mix& mix, int64_t n, uint64_t number) : tensor(mix, n), seed(number) {
    tensor.fill(seed);
    take_params();
  }
  void take_params() {
    expected.dtype = tensor.mix.param;
    expected.has_master = tensor.mix.has_master();
    expected.p.clear();
    for (int64_t i = 0; i < tensor.extent; ++i) expected.p.push_back(Real(tensor.param.get(i)));
  }
  void set_params(double p) {
    for (int64_t i = 0; i < tensor.extent; ++i) tensor.param.set(i, p);
    take_params();
  }
  void set_grads(double g) {
    for (int64_t i = 0; i < tensor.extent; ++i) tensor.grad.set(i, g);
  }
  Twin& draw_grads(int64_t step) {
    tensor.fill_grad(seed, step);
    return *this;
  }

  double grad_squares() const {
    std::vector<double> terms;
    for (int64_t i = 0; i < tensor.extent; ++i)
      terms.push_back(tensor.grad.get(i) * tensor.grad.get(i));
    return reference::tree_sum(terms);
  }

  // clip: what the gradient is divided by before the rule sees it.
  void step(const std::string& algorithm, const Values& values, double clip = 1) {
    std::vector<Real> g;
    for (int64_t i = 0; i < tensor.extent; ++i)
      g.push_back(Real(tensor.grad.get(i)) / expected.scalar(clip));
    reference::step(algorithm, reference::hypers(algorithm, values), 0, expected, g);
  }

  // "" where the library has the reference's bits in everything.
  std::string difference(const Optimizer& optimizer) const {
    if (optimizer.steps(tensor) != expected.t) return "step counts differ";
    const View p =
        tensor.mix.has_master() ? optimizer.state(tensor, "master_param") : View(tensor.param);
    std::string text = against("optimised value", p, expected.p);
    for (const auto& [slot, values] : expected.state)
      if (text.empty()) text = against(slot, optimizer.state(tensor, slot), values);
    for (const auto& [slot, value] : expected.scalar_state)
      if (text.empty())
        text = against(slot, optimizer.state(tensor, slot), std::vector<double>{value});
    return text.empty() ? "" : name_of(tensor.mix) + ", seed " + std::to_string(seed) + ", " + text;
  }

 private:
  template <class Values>
  static std::string against(const std::string& what, const View& view, const Values& values) {
    if (view.count > int64_t(values.size())) return what + ": another size";
    return difference_from(
        what, view, [&](int64_t i) { return encode(*view.format, double(values[size_t(i)])); });
  }
};

// The norm of all gradients, of the sums of squares of the tensors that have one, in order.
inline double norm_of_all(std::vector<double> squares) {
  while (squares.size() > 1) {
    std::vector<double> next;
    for (size_t i = 0; i + 1 < squares.size(); i += 2) next.push_back(squares[i] + squares[i + 1]);
    if (squares.size() % 2) next.push_back(squares.back());
    squares.swap(next);
  }
  return squares.empty() ? 0 : std::sqrt(squares[0]);
}

}  // namespace talus::test
