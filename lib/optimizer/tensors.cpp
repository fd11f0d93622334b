// Parameters and gradients: each call checks all it was given before it changes anything.
#include <algorithm>

#include "lib/device/plugin.h"
#include "lib/optimizer/optimizer.h"

namespace talus {

Status Optimizer::add_params(int32_t group, std::span<const talus_param> params, int64_t* first) {
  const int64_t before = model_.params.size();
  TALUS_TRY(settle());
  plan_changed_ = true;  // the columns may move, even if this fails
  Status status;
  try {
    status = add_checked(group, params);
  } catch (...) {
    take_back(before);
    throw;
  }
  if (!status.ok()) {
    take_back(before);
    return status;
  }
  for (int64_t p = before; p < model_.params.size(); ++p)
    if (model_.table.data(kGradient, p)) model_.classes.join(model_.table, p);
  state_wanted_ = true;
  columns_changed_ = ~0u;
  if (first) *first = before;
  return {};
}

Status Optimizer::add_checked(int32_t group, std::span<const talus_param> params) {
  const size_t before = size_t(model_.params.size()), after = before + params.size();
  model_.table.reserve(after);
  model_.classes.reserve(after, params.size());
  memory_->reserve(after);
  if (first_state_.capacity() < after + 1)
    first_state_.reserve(std::max(after + 1, 2 * first_state_.capacity()));
  for (size_t i = 0; i < params.size(); ++i) {
    Parameter p;
    TALUS_TRY(describe(params[i], int64_t(before + i), &p));
    p.group = group;
    TALUS_TRY(model_.params.add(p, params[i].data));
    const int64_t row = int64_t(before + i);
    model_.table.add_row(p.count);  // reserved: nothing throws until the row is whole
    model_.table.set(kValue, row, params[i].data, p.dtype);
    model_.table.set(kGradient, row, params[i].grad, p.grad_dtype);
    model_.table.seal(row);
    model_.classes.add_parameter(group);
    memory_->add_parameter();
    TALUS_TRY(check_dense(row, params[i].grad));
    TALUS_TRY(check_device(params[i].data, uint64_t(p.count * size_of(p.dtype)), row, "data"));
    TALUS_TRY(check_device(params[i].grad, uint64_t(p.count * size_of(p.grad_dtype)), row, "grad"));
  }
  TALUS_TRY(check_new_gradients(int64_t(before)));
  index_states(int64_t(before));
  return {};
}

void Optimizer::take_back(int64_t n) {
  model_.params.truncate(n, model_.table);
  model_.table.truncate(size_t(n));
  model_.classes.truncate(size_t(n));
  memory_->truncate(size_t(n));
  first_state_.resize(size_t(n) + 1);
}

// Calls f(parameter, memory, bytes) for every gradient bound to the first `count`: dense ones, also
// those that rows stand in for, and values of rows. The table alone: parameters may come singly.
template <class F>
Status Optimizer::each_gradient(int64_t count, F f) const {
  const TensorTable& table = model_.table;
  const auto bytes_of = [&](int64_t p, int64_t elements) {
    return uint64_t(elements * size_of(table.dtype(kGradient, p)));
  };
  for (int64_t p = 0; p < count; ++p)
    if (const void* const grad = table.data(kGradient, p))
      TALUS_TRY(f(p, grad, bytes_of(p, table.count[size_t(p)])));
  for (const BoundRows& bound : row_gradients_) {
    const int64_t p = bound.rows.tensor;
    if (bound.dense) TALUS_TRY(f(p, bound.dense, bytes_of(p, table.count[size_t(p)])));
    if (bound.rows.values)
      TALUS_TRY(f(p, bound.rows.values, bytes_of(p, bound.rows.count * bound.rows.row_length)));
  }
  return {};
}

// New gradients against all data, and the gradients that were there against the new data.
Status Optimizer::check_new_gradients(int64_t first) const {
  uintptr_t low = UINTPTR_MAX, high = 0;
  for (int64_t p = first; p < model_.params.size(); ++p) {
    TALUS_TRY(check_grad(p, model_.table.data(kGradient, p)));
    const uintptr_t begin = uintptr_t(model_.table.data(kValue, p));
    if (model_.params[p].count == 0) continue;
    low = std::min(low, begin);
    high =
        std::max(high, begin + uintptr_t(model_.params[p].count * size_of(model_.params[p].dtype)));
  }
  return each_gradient(first, [&](int64_t p, const void* data, uint64_t bytes) -> Status {
    if (uintptr_t(data) >= high || uintptr_t(data) + bytes <= low) return {};
    return model_.params.check_overlap(data, bytes, p, "grad");
  });
}

Status Optimizer::check_grad(int64_t param, const void* grad) const {
  const Parameter& p = model_.params[param];
  if (!grad) return {};
  return model_.params.check_overlap(grad, uint64_t(p.count * size_of(p.grad_dtype)), param,
                                     "grad");
}

// The driver knows whose memory it is. On the CPU it is asked only if somebody has loaded it.
Status Optimizer::check_device(const void* data, uint64_t bytes, int64_t param,
                               const char* what) const {
  const Backend* const asked = on_cpu() ? loaded_cuda_plugin() : backend_;
  if (!asked || !data || bytes == 0 || settings_[kCheckPointers] == 0) return {};
  void* const context = on_cpu() ? nullptr : context_;
  const int32_t status = asked->check_pointer(context, data, bytes);
  if (status == TALUS_OK) return {};
  int64_t detail = 0;
  const char* const why = asked->last_error(context, &detail);
  return Status(
      status,
      text("parameter %lld %s: %s at %p is %s, expected memory of %s",
           static_cast<long long>(param), quoted(model_.params[param].name).c_str(), what, data,
           why, on_cpu() ? "the host" : text("CUDA device %d", config_.device).c_str()),
      detail);
}

// A rule for rows alone, a parameter that has gone.
Status Optimizer::check_dense(int64_t param, const void* grad) const {
  const Parameter& p = model_.params[param];
  if (!grad) return {};
  if (p.removed)
    return failure(TALUS_E_ARGUMENT, "parameter %lld was removed, expected NULL for its gradient",
                   static_cast<long long>(param));
  const Group& group = model_.group_of(param);
  if (!group.rule().rows.only) return {};
  return failure(
      TALUS_E_UNSUPPORTED,
      "parameter %lld %s: %s takes gradients of rows only (talus_bind_rows), expected none; "
      "adam takes dense ones",
      static_cast<long long>(param), quoted(p.name).c_str(), group.algorithm());
}

// Memory that a step is going to write must not be a gradient either.
Status Optimizer::check_no_gradient(const void* data, uint64_t bytes, int64_t param,
                                    const char* what) const {
  const uintptr_t begin = uintptr_t(data), end = begin + bytes;
  return each_gradient(
      model_.params.size(), [&](int64_t q, const void* grad, uint64_t grad_bytes) -> Status {
        if (uintptr_t(grad) >= end || uintptr_t(grad) + grad_bytes <= begin) return {};
        return failure(
            TALUS_E_ARGUMENT,
            "parameter %lld %s: %s at %p overlaps the gradient of parameter %lld %s, expected "
            "memory of its own",
            static_cast<long long>(param), quoted(model_.params[param].name).c_str(), what, data,
            static_cast<long long>(q), quoted(model_.params[q].name).c_str());
      });
}

// Memory for what already lies at `old` (NULL: nowhere): its old place does not count.
Status Optimizer::move_range(void* old, MemoryMap::Owner owner, void* data, uint64_t bytes,
                             const char* what, bool checked) {
  if (bytes == 0) return {};
  struct Moving {  // puts the range to its place, also where a check throws
    MemoryMap& memory;
    MemoryMap::Node own;
    const void* place;
    uint64_t bytes;
    ~Moving() { memory.put(std::move(own), place, bytes); }
  } moving{model_.params.memory(), model_.params.memory().take(old, owner), old, bytes};
  if (checked) {
    TALUS_TRY(model_.params.check_overlap(data, bytes, owner.param, what));
    TALUS_TRY(check_no_gradient(data, bytes, owner.param, what));
  }
  moving.place = data;
  return {};
}

Status Optimizer::bind_data(int64_t param, void* data) {
  const Parameter& p = model_.params[param];
  TALUS_TRY(check_pointer(data, p, p.dtype, param, "data"));
  TALUS_TRY(check_device(data, uint64_t(p.count * size_of(p.dtype)), param, "data"));
  TALUS_TRY(move_range(model_.table.data(kValue, param), {param, kDataRange}, data,
                       uint64_t(p.count * size_of(p.dtype)), "data",
                       settings_[kCheckPointers] != 0));
  model_.table.set_data(kValue, param, data);
  columns_changed_ |= 1u << kValue;
  return {};
}

Status Optimizer::bind_grads(int64_t first, std::span<void* const> grads) {
  size_t moves = 0;
  for (size_t i = 0; i < grads.size(); ++i) {
    const int64_t param = first + int64_t(i);
    void* const bound = model_.table.data(kGradient, param);
    if (grads[i] == bound && !has_rows(param)) continue;
    if (!bound) ++moves;
    if (!grads[i]) continue;
    const Parameter& p = model_.params[param];
    TALUS_TRY(check_dense(param, grads[i]));
    TALUS_TRY(check_pointer(grads[i], p, p.grad_dtype, param, "grad"));
    if (settings_[kCheckPointers] != 0) TALUS_TRY(check_grad(param, grads[i]));
    TALUS_TRY(check_device(grads[i], uint64_t(p.count * size_of(p.grad_dtype)), param, "grad"));
  }
  for (size_t i = 0; moves && i < grads.size(); ++i)
    if (grads[i] && is_new_member(first + int64_t(i))) TALUS_TRY(settle());
  if (moves) model_.classes.reserve(size_t(model_.params.size()), moves);
  for (size_t i = 0; i < grads.size(); ++i) {
    drop_rows(first + int64_t(i));
    set_grad(first + int64_t(i), grads[i]);
  }
  return {};
}

bool Optimizer::has_rows(int64_t param) const {
  return std::any_of(row_gradients_.begin(), row_gradients_.end(),
                     [param](const BoundRows& b) { return b.rows.tensor == param; });
}

void* Optimizer::dense_grad(int64_t param) const {
  for (const BoundRows& bound : row_gradients_)
    if (bound.rows.tensor == param) return bound.dense;
  return model_.table.data(kGradient, param);
}

// After classes.reserve: does not throw.
void Optimizer::set_grad(int64_t param, void* grad) {
  void* const bound = model_.table.data(kGradient, param);
  if (grad == bound) return;
  model_.table.set_data(kGradient, param, grad);
  columns_changed_ |= 1u << kGradient | 1u << kClassColumn;
  if (grad && !bound) {
    model_.classes.join(model_.table, param);
    state_wanted_ = state_wanted_ || !memory_->complete(param);
  } else if (!grad) {
    model_.classes.leave(model_.table, param);
  }
}

Status Optimizer::zero_grad(bool unbind, void* stream) {
  if (!unbind) TALUS_TRY(check_usable());
  if (unbind) drop_all_rows();
  for (int64_t p = 0; p < model_.params.size(); ++p) {
    void* const grad = dense_grad(p);
    if (!grad) continue;
    const Parameter& param = model_.params[p];
    if (unbind)
      set_grad(p, nullptr);
    else
      TALUS_TRY(from_backend(
          backend_->fill_zero(context_, grad, uint64_t(param.count * size_of(param.grad_dtype)),
                              stream),
          "fill a gradient"));
  }
  return {};
}

}  // namespace talus
