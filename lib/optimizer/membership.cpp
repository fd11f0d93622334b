// Parameters that change their group or go: their state follows, or is freed.
#include "lib/optimizer/optimizer.h"

namespace talus {
namespace {

using Int = long long;  // for %lld

}  // namespace

// The same rule; and the same state, where there is some.
Status Optimizer::check_move(int64_t param, int32_t group) const {
  const Parameter& p = model_.params[param];
  const Group &from = model_.groups[size_t(p.group)], &to = model_.groups[size_t(group)];
  if (&from.rule() != &to.rule())
    return failure(TALUS_E_ARGUMENT,
                   "%s is in group %d \"%s\", expected a group of the same rule, got %d \"%s\"",
                   where(param, p.name).c_str(), p.group, from.algorithm(), group, to.algorithm());
  const int slot = model_.differing_slot(param, group);
  if (steps(param) == 0 || slot < 0) return {};
  return failure(
      TALUS_E_STATE,
      "%s has taken %lld steps %s slot \"%s\", and group %d is %s it: expected groups with "
      "the same state",
      where(param, p.name).c_str(), Int(steps(param)), from.has_slot(slot) ? "with" : "without",
      from.rule().slots[size_t(slot)].name, group, to.has_slot(slot) ? "with" : "without");
}

Status Optimizer::move_params(int32_t group, std::span<const int64_t> params) {
  TALUS_TRY(settle());
  for (const int64_t param : params) TALUS_TRY(check_move(param, group));
  const size_t count = size_t(model_.params.size());
  model_.classes.reserve(count, params.size());
  first_state_.reserve(count + 1);
  for (const int64_t param : params) {
    const bool other_slots = model_.differing_slot(param, group) >= 0;
    model_.classes.move(model_.table, param, group);
    model_.params.set_group(param, group);
    if (other_slots) memory_->drop(param);
    if (steps(param) > 0) model_.groups[size_t(group)].start();
  }
  if (params.empty()) return {};
  plan_changed_ = state_wanted_ = true;
  columns_changed_ = ~0u;
  index_states(0);
  return {};
}

Status Optimizer::remove_params(std::span<const int64_t> params) {
  TALUS_TRY(settle());
  first_state_.reserve(size_t(model_.params.size()) + 1);
  for (const int64_t param : params) {
    if (model_.params[param].removed) continue;  // twice in the list
    drop_rows(param);
    set_grad(param, nullptr);
    model_.classes.set_steps(model_.table, param, 0);  // idle: moves nothing
    memory_->forget(param);
    model_.params.remove(param, model_.table.data(kValue, param));
    model_.table.clear_row(param);
  }
  if (params.empty()) return {};
  plan_changed_ = true;
  columns_changed_ = ~0u;
  index_states(0);
  return {};
}

}  // namespace talus
