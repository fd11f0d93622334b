// A table of rows trained by gradients of rows, in the library and by a reference that steps the
// given rows alone. No Catch2 here.
#pragma once
#include "tests/optimizer.h"
#include "tests/reference/all.hpp"

namespace talus::test {

// A gradient of rows in memory of the test.
struct Given {
  std::vector<int64_t> wide;
  std::vector<int32_t> narrow;  // the same numbers, or none: the indices are i64
  Buffer values;

  Given(std::vector<int64_t> rows, int32_t dtype, int64_t length, bool is_wide = true)
      : wide(std::move(rows)), values(dtype, int64_t(wide.size()) * length) {
    if (!is_wide) narrow.assign(wide.begin(), wide.end());
  }
  Given& fill(uint64_t seed, int64_t step) {
    for (int64_t i = 0; i < values.size(); ++i) values.set(i, grad_value(seed, step, i));
    return *this;
  }
  talus_rows descriptor() const {
    talus_rows rows{};
    rows.struct_size = sizeof rows;
    rows.index_dtype = narrow.empty() ? TALUS_I64 : TALUS_I32;
    rows.count = int64_t(wide.size());
    rows.indices = narrow.empty() ? static_cast<const void*>(wide.data()) : narrow.data();
    rows.values = values.data();
    return rows;
  }
  void bind(const Optimizer& opt, const TestTensor& tensor) const {
    const talus_rows rows = descriptor();
    must(talus_bind_rows(opt.get(), tensor.index, &rows));
  }
};

// A parameter of `rows` x `length`, without a dense gradient unless has_grad is set before add.
struct Table : TestTensor {
  int64_t shape[2];

  Table(const Mix& mix, int64_t rows, int64_t length)
      : TestTensor(mix, rows * length), shape{rows, length} {
    has_grad = false;
  }
  void add_to(const Optimizer& opt, int32_t group = 0) {
    talus_param d = descriptor();
    d.shape = shape, d.ndim = 2;
    must(talus_add_params(opt.get(), group, 1, &d, &index));
  }
};

// Rows told apart in order of appearance, with the sums of what was given for each.
template <class Real>
struct Coalesced {
  std::vector<int64_t> rows;
  std::vector<Real> values;

  Coalesced(const Given& given, int64_t length) {
    std::map<int64_t, size_t> seen;
    for (size_t j = 0; j < given.wide.size(); ++j) {
      const auto [at, is_new] = seen.try_emplace(given.wide[j], rows.size());
      if (is_new) rows.push_back(given.wide[j]);
      for (int64_t i = 0; i < length; ++i) {
        const Real x = Real(given.values.get(int64_t(j) * length + i));
        if (is_new)
          values.push_back(x);
        else
          values[at->second * size_t(length) + size_t(i)] += x;
      }
    }
  }
};

template <class Real>
struct ReferenceTable {
  std::string algorithm;
  reference::Hypers h;
  int64_t length;
  reference::Tensor<Real> all;

  ReferenceTable(const HyperSet& set, const Table& table)
      : algorithm(set.algorithm),
        h(reference::hypers(set.algorithm, set.values)),
        length(table.shape[1]) {
    all.dtype = table.mix.param;
    all.has_master = table.mix.has_master();
    for (int64_t i = 0; i < table.extent; ++i) all.p.push_back(Real(table.param.get(i)));
  }

  void step(const Given& given) {
    if (all.t == 0) begin();
    const Coalesced<Real> sum(given, length);
    reference::Tensor<Real> some;
    some.dtype = all.dtype, some.has_master = all.has_master, some.t = all.t;
    some.p = gathered(all.p, sum.rows);
    for (const auto& [slot, values] : all.state) some.state[slot] = gathered(values, sum.rows);
    reference::step(algorithm, h, 0, some, sum.values);
    scatter(some.p, sum.rows, all.p);
    for (auto& [slot, values] : all.state) scatter(some.state.at(slot), sum.rows, values);
    all.t = some.t;
  }

  std::string difference_of(const Optimizer& opt, const Table& table) const {
    const auto against = [](const std::string& what, const View& view, const auto& values) {
      return difference_from(
          what, view, [&](int64_t i) { return encode(*view.format, double(values[size_t(i)])); });
    };
    if (opt.steps(table) != all.t) return "step counts differ";
    std::string text = against("parameter", table.param, all.p);
    if (text.empty() && all.has_master)
      text = against("master", opt.state(table, "master_param"), all.p);
    for (const auto& [slot, values] : all.state)
      if (text.empty()) text = against(slot, opt.state(table, slot), values);
    return text;
  }

 private:
  // A gradient of zeros leaves the state of these rules as it starts.
  void begin() {
    reference::Tensor<Real> started = all;
    reference::step(algorithm, h, 0, started, std::vector<Real>(all.p.size(), 0));
    all.state = started.state;
  }
  std::vector<Real> gathered(const std::vector<Real>& from,
                             const std::vector<int64_t>& rows) const {
    std::vector<Real> out;
    for (const int64_t row : rows)
      out.insert(out.end(), from.begin() + row * length, from.begin() + (row + 1) * length);
    return out;
  }
  void scatter(const std::vector<Real>& from, const std::vector<int64_t>& rows,
               std::vector<Real>& to) const {
    for (size_t j = 0; j < rows.size(); ++j)
      std::copy_n(from.begin() + int64_t(j) * length, length, to.begin() + rows[j] * length);
  }
};

// Sets of hyperparameters that go with gradients of rows.
inline std::vector<HyperSet> row_sets() {
  std::vector<HyperSet> found;
  for (const HyperSet& set : hyper_sets()) {
    const std::string rule = reference::rule_of(set.algorithm).algorithms[0];
    bool fits = talus_name_doc("row_gradients", rule.c_str()) != nullptr;
    for (const auto& [name, value] : set.values)
      fits = fits && ((name != "momentum" && name != "weight_decay") || value == 0);
    if (fits) found.push_back(set);
  }
  return found;
}

}  // namespace talus::test
