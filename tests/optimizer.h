// An optimizer of the library and tensors for it, by the C ABI only. Throws on a failed call, so
// that a test states only what it is about. No Catch2 here.
#pragma once
#include <deque>
#include <map>
#include <utility>

#include "tests/cases.h"
#include "tests/compare.h"

namespace talus::test {

inline void must(talus_status status) {
  if (status == TALUS_OK) return;
  throw std::runtime_error(std::string(talus_status_name(status)) + ": " + talus_last_error());
}

// A parameter with its gradient in memory of the test.
struct TestTensor {
  Mix mix;
  Buffer param, grad;
  int64_t index = -1;    // in the optimizer, after Optimizer::add
  int64_t extent = 0;    // where the descriptor's shape points
  bool has_grad = true;  // false: bound to NULL

  TestTensor(const Mix& dtypes, int64_t n, size_t skew = 1)
      : mix(dtypes), param(dtypes.param, n, skew), grad(dtypes.grad, n, skew), extent(n) {}

  talus_param descriptor() {
    talus_param d{};
    d.struct_size = sizeof d;
    d.dtype = mix.param;
    d.data = param.data();
    d.grad = has_grad ? grad.data() : nullptr;
    d.shape = &extent;
    d.ndim = 1;
    d.grad_dtype = mix.grad;
    d.master = mix.master;
    return d;
  }

  TestTensor& fill(uint64_t seed) {
    for (int64_t i = 0; i < extent; ++i) param.set(i, param_value(seed, i));
    return *this;
  }
  TestTensor& fill_grad(uint64_t seed, int64_t step) {
    for (int64_t i = 0; i < extent; ++i) grad.set(i, grad_value(seed, step, i));
    return *this;
  }
  void set_all(double p, double g) {
    for (int64_t i = 0; i < extent; ++i) param.set(i, p), grad.set(i, g);
  }
};

class Optimizer {
 public:
  explicit Optimizer(const std::string& algorithm, const Values& values = {})
      : rows_only_(takes_rows_only(algorithm)) {
    must(talus_create(algorithm.c_str(), TALUS_CPU, 0, &handle_));
    set(values);
  }
  ~Optimizer() { talus_destroy(handle_); }
  Optimizer(Optimizer&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)),
        rows_only_(other.rows_only_),
        by_rows_(std::move(other.by_rows_)),
        row_numbers_(std::move(other.row_numbers_)),
        bound_(std::move(other.bound_)) {}
  Optimizer& operator=(Optimizer&&) = delete;

  talus_optimizer* get() const { return handle_; }

  void set(const std::string& name, double value, int32_t group = TALUS_ALL) {
    must(talus_set(handle_, group, name.c_str(), value));
  }
  void set(const Values& values, int32_t group = TALUS_ALL) {
    for (const auto& [name, value] : values) set(name, value, group);
  }
  double hyper(const std::string& name, int32_t group = 0) const {
    double value = NAN;
    must(talus_get(handle_, group, name.c_str(), &value));
    return value;
  }
  void setting(const char* name, double value) { must(talus_set_setting(handle_, name, value)); }

  int32_t add_group(const char* algorithm = nullptr) {
    int32_t group = -1;
    must(talus_add_group(handle_, algorithm, &group));
    return group;
  }
  void add(TestTensor& tensor, int32_t group = 0) {
    const talus_param d = described(tensor);
    must(talus_add_params(handle_, group, 1, &d, &tensor.index));
    take_rows(tensor);
  }
  template <class Tensors>
  void add_all(Tensors& tensors, int32_t group = 0) {
    std::vector<talus_param> list;
    for (TestTensor& t : tensors) list.push_back(described(t));
    int64_t first = -1;
    must(talus_add_params(handle_, group, int64_t(list.size()), list.data(), &first));
    for (TestTensor& t : tensors) t.index = first++, take_rows(t);
  }
  void bind_grad(const TestTensor& tensor, void* grad) {
    if (rows_only_)
      by_rows_[tensor.index] = {grad, grad ? tensor.extent : 0};
    else
      must(talus_bind_grads(handle_, tensor.index, 1, &grad));
  }

  // A rule that takes rows alone is given all of them, each of one element.
  static bool takes_rows_only(const std::string& algorithm) {
    const char* const doc = talus_name_doc("row_gradients", algorithm.c_str());
    return doc && std::string(doc) == "takes no others";
  }
  void bind_all_rows() {
    for (const auto& [index, from] : by_rows_)  // all of them first: what is bound must not move
      for (int64_t i = int64_t(row_numbers_.size()); i < from.second; ++i)
        row_numbers_.push_back(i);
    for (const auto& [index, from] : by_rows_) {
      talus_rows rows{};
      rows.struct_size = sizeof rows;
      rows.index_dtype = TALUS_I64;
      rows.count = from.second;
      rows.indices = row_numbers_.data();
      rows.values = from.first;
      must(talus_bind_rows(handle_, index, from.first ? &rows : nullptr));
    }
  }

  void step() {
    bind_all_rows();
    must(talus_step(handle_, nullptr));
  }
  void prepare() { must(talus_prepare(handle_, nullptr)); }

  int64_t steps(const TestTensor& tensor) const {
    int64_t steps = -1;
    must(talus_steps(handle_, tensor.index, &steps));
    return steps;
  }

  // The state tensors of one parameter, as they are now.
  std::vector<talus_state> states(const TestTensor& tensor) const {
    std::vector<talus_state> found;
    const int64_t count = talus_state_count(handle_);
    for (int64_t i = 0; i < count; ++i) {
      talus_state s{};
      s.struct_size = sizeof s;
      must(talus_state_info(handle_, i, &s));
      if (s.param == tensor.index) found.push_back(s);
    }
    return found;
  }
  bool has_state(const TestTensor& tensor, const std::string& slot) const {
    for (const talus_state& s : states(tensor))
      if (slot == s.slot) return true;
    return false;
  }
  View state(const TestTensor& tensor, const std::string& slot) const {
    for (const talus_state& s : states(tensor))
      if (slot == s.slot) return View(s.dtype, s.data, s.data ? s.count : 0);
    throw std::runtime_error("parameter has no slot " + slot);
  }

  // Puts every state tensor of a parameter into guarded memory that is element-aligned and no
  // better. A master starts as the parameter's value, which is what the library would give it.
  void bind_guarded_states(const TestTensor& tensor) {
    for (const talus_state& s : states(tensor)) {
      const size_t skew = s.alignment <= format_of(s.dtype).bytes ? 1 : 0;
      Buffer& memory = bound_.emplace_back(s.dtype, s.count, skew);
      const bool is_master = std::string(s.slot) == "master_param";
      for (int64_t i = 0; i < s.count; ++i)
        memory.set(i, is_master ? tensor.param.get(i) : 1e3);  // contents mean nothing at 0 steps
      must(talus_bind_state(handle_, s.param, s.slot, memory.data(), s.bytes));
    }
  }
  bool state_guards_intact() const {
    for (const Buffer& b : bound_)
      if (!b.guards_intact()) return false;
    return true;
  }

 private:
  talus_param described(TestTensor& tensor) const {
    talus_param d = tensor.descriptor();
    if (rows_only_) d.grad = nullptr;
    return d;
  }
  void take_rows(const TestTensor& tensor) {
    if (rows_only_ && tensor.has_grad) by_rows_[tensor.index] = {tensor.grad.data(), tensor.extent};
  }

  talus_optimizer* handle_ = nullptr;
  bool rows_only_ = false;
  std::map<int64_t, std::pair<const void*, int64_t>> by_rows_;  // values and count, by parameter
  std::vector<int64_t> row_numbers_;
  std::deque<Buffer> bound_;  // elements never move
};

// The first difference between the results of one tensor in two optimizers, "" for none.
inline std::string difference(const Optimizer& a, const TestTensor& x, const Optimizer& b,
                              const TestTensor& y) {
  std::string text = difference("parameter", x.param, y.param);
  for (const talus_state& s : a.states(x))
    if (text.empty()) text = difference(s.slot, a.state(x, s.slot), b.state(y, s.slot));
  if (text.empty() && a.steps(x) != b.steps(y)) text = "step counts differ";
  return text;
}

}  // namespace talus::test
