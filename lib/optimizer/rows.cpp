// Gradients of some rows of a parameter: bound for one step, in place of the dense one.
#include <algorithm>

#include "lib/cpu/row_gradients.h"
#include "lib/optimizer/optimizer.h"

namespace talus {
namespace {

// At least doubles, unlike a reserve of one more.
template <class T>
void reserve_one_more(std::vector<T>& list) {
  if (list.size() == list.capacity()) list.reserve(2 * list.size() + 1);
}

using Int = long long;  // for %lld

int64_t row_count(const Parameter& p) { return p.shape.empty() ? 0 : p.shape[0]; }

int64_t row_length(const Parameter& p) { return p.count > 0 ? p.count / p.shape[0] : 0; }

std::string rules_with_rows() {
  std::string names;
  for (const RuleInfo& rule : rules())
    if (rule.rows.doc) names += (names.empty() ? "" : ", ") + std::string(rule.algorithms[0].name);
  return names;
}

}  // namespace

Status Optimizer::check_rows(int64_t param, const talus_rows& rows) const {
  const Parameter& p = model_.params[param];
  const Group& group = model_.group_of(param);
  const auto at = [&] {
    return where(param, p.name);
  };  // no text unless told: hosts bind at every step
  if (!group.rule().rows.doc)
    return failure(TALUS_E_UNSUPPORTED,
                   "%s: %s takes no gradients of rows, expected talus_bind_grads, or one of: %s",
                   at().c_str(), group.algorithm(), rules_with_rows().c_str());
  if (p.shape.empty())
    return failure(TALUS_E_UNSUPPORTED,
                   "%s is a scalar, expected a shape whose first extent counts rows", at().c_str());
  if (rows.index_dtype != TALUS_I32 && rows.index_dtype != TALUS_I64)
    return failure(TALUS_E_UNSUPPORTED, "%s: index_dtype is 0x%x, expected TALUS_I32 or TALUS_I64",
                   at().c_str(), unsigned(rows.index_dtype));
  if (rows.flags != 0)
    return failure(TALUS_E_UNSUPPORTED, "%s: flags is 0x%llx, expected 0", at().c_str(),
                   (unsigned long long)rows.flags);
  if (rows.count < 0)
    return failure(TALUS_E_ARGUMENT, "%s: count is %lld, expected 0 or more", at().c_str(),
                   Int(rows.count));
  if (!on_cpu() && rows.count > row_count(p))
    return failure(TALUS_E_ARGUMENT,
                   "%s: count is %lld, expected at most %lld: rows are different on a device",
                   at().c_str(), Int(rows.count), Int(row_count(p)));
  if (rows.count > INT64_MAX / 8 / std::max<int64_t>(row_length(p), 1))
    return failure(TALUS_E_ARGUMENT, "%s: count is %lld, more rows than memory can hold",
                   at().c_str(), Int(rows.count));
  if (on_cpu() && !can_coalesce(row_count(p), rows.count))
    return failure(TALUS_E_UNSUPPORTED,
                   "%s: %lld rows are given of %lld, more than can be told apart", at().c_str(),
                   Int(rows.count), Int(row_count(p)));
  const int64_t count = rows.count * row_length(p);
  if (!is_memory(rows.values, count, p.grad_dtype)) {
    Parameter as_rows;
    as_rows.name = p.name, as_rows.count = count;
    return check_pointer(rows.values, as_rows, p.grad_dtype, param, "values");
  }
  const int64_t index_bytes = rows.index_dtype == TALUS_I64 ? 8 : 4;
  if (!rows.indices && rows.count > 0)
    return failure(TALUS_E_ARGUMENT, "%s: indices is NULL, expected %lld row numbers", at().c_str(),
                   Int(rows.count));
  if (uintptr_t(rows.indices) % uintptr_t(index_bytes) != 0)
    return failure(TALUS_E_ARGUMENT, "%s: indices is at %p, expected a multiple of %d bytes",
                   at().c_str(), rows.indices, int(index_bytes));
  const uint64_t value_bytes = uint64_t(count * size_of(p.grad_dtype));
  TALUS_TRY(check_device(rows.values, value_bytes, param, "values"));
  TALUS_TRY(check_device(rows.indices, uint64_t(rows.count * index_bytes), param, "indices"));
  if (settings_[kCheckPointers] == 0) return {};
  TALUS_TRY(model_.params.check_overlap(rows.indices, uint64_t(rows.count * index_bytes), param,
                                        "indices"));
  return model_.params.check_overlap(rows.values, value_bytes, param, "values");
}

Status Optimizer::bind_rows(int64_t param, const talus_rows* rows) {
  if (!rows) {
    drop_rows(param);
    return {};
  }
  TALUS_TRY(check_rows(param, *rows));
  const Parameter& p = model_.params[param];
  RowGradient bound{param,        0,
                    row_count(p), row_length(p),
                    rows->count,  rows->indices,
                    rows->values, rows->index_dtype == TALUS_I64};
  if (on_cpu())
    for (int64_t j = 0; j < bound.count; ++j)
      if (bound.index(j) < 0 || bound.index(j) >= bound.rows)
        return row_fault(bound, {0, j, bound.index(j), false});
  if (is_new_member(param)) TALUS_TRY(settle());
  reserve_one_more(row_gradients_);
  sent_rows_.reserve(row_gradients_.capacity());
  model_.classes.reserve(size_t(model_.params.size()), 1);
  drop_rows(param);
  void* const dense = model_.table.data(kGradient, param);
  row_gradients_.push_back({bound, dense});
  model_.table.set_data(kGradient, param, nullptr);
  if (!dense) model_.classes.join(model_.table, param);
  state_wanted_ = state_wanted_ || !memory_->complete(param);
  columns_changed_ |= 1u << kGradient | 1u << kClassColumn;
  return {};
}

// The dense gradient, or none, is there again. Does not throw.
void Optimizer::drop_rows(int64_t param) {
  for (size_t i = 0; i < row_gradients_.size(); ++i) {
    if (row_gradients_[i].rows.tensor != param) continue;
    void* const dense = row_gradients_[i].dense;
    row_gradients_.erase(row_gradients_.begin() + std::ptrdiff_t(i));
    model_.table.set_data(kGradient, param, dense);
    if (!dense) model_.classes.leave(model_.table, param);
    columns_changed_ |= 1u << kGradient | 1u << kClassColumn;
    return;
  }
}

Status Optimizer::row_fault(const RowGradient& rows, const RowFault& fault) const {
  const std::string at = where(rows.tensor, model_.params[rows.tensor].name);
  if (fault.repeats)
    return failure(TALUS_E_ARGUMENT,
                   "%s: row %lld is given more than once, again at position %lld, expected "
                   "different rows on a device",
                   at.c_str(), Int(fault.index), Int(fault.position));
  return failure(TALUS_E_ARGUMENT, "%s: row %lld at position %lld, expected 0 .. %lld", at.c_str(),
                 Int(fault.index), Int(fault.position), Int(rows.rows - 1));
}

// Whether what is bound goes with the rules' values, before anything is allocated: the bases, or once
// they are known the values of this step.
Status Optimizer::check_gradients(bool scheduled) const {
  for (const BoundRows& bound : row_gradients_) {
    const int64_t param = bound.rows.tensor;
    const Group& group = model_.group_of(param);
    const auto conflict_of = group.rule().rows.conflict;
    if (const char* const conflict = conflict_of(scheduled ? group.now() : group.values()))
      return failure(TALUS_E_UNSUPPORTED, "%s: %s with a gradient of rows: %s",
                     where(param, model_.params[param].name).c_str(), group.algorithm(), conflict);
  }
  return {};
}

// Hands the rows of this step to the backend: the last thing that can be refused.
Status Optimizer::send_row_gradients(void* stream) {
  if (row_gradients_.empty() && sent_rows_.empty()) return {};
  sent_rows_.clear();
  for (BoundRows& bound : row_gradients_) {
    if (model_.params[bound.rows.tensor].count == 0) continue;
    const KernelKey key = model_.key_of(bound.rows.tensor);
    for (size_t i = 0; i < plan_.launches().size(); ++i)
      if (plan_.launches()[i].key == key) bound.rows.launch = int64_t(i);
    sent_rows_.push_back(bound.rows);
  }
  RowFault fault{-1, 0, 0, false};
  const int32_t status =
      backend_->set_row_gradients(context_, sent_rows_.data(), int32_t(sent_rows_.size()),
                                  settings_[kCheckRows] != 0, &fault, stream);
  if (status == TALUS_E_ARGUMENT && fault.gradient >= 0)
    return row_fault(sent_rows_[size_t(fault.gradient)], fault);
  return from_backend(status, "take gradients of rows");
}

// A step uses them up.
void Optimizer::drop_all_rows() {
  while (!row_gradients_.empty()) drop_rows(row_gradients_.back().rows.tensor);
}

}  // namespace talus
