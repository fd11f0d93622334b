// State tensors and step counts as the host sees them.
#include <algorithm>

#include "lib/optimizer/optimizer.h"

namespace talus {

// Counts the state tensors of parameters from `first` on; reserved, so that nothing throws.
void Optimizer::index_states(int64_t first) {
  first_state_.resize(size_t(first) + 1);
  for (int64_t p = first; p < model_.params.size(); ++p) {
    int64_t count = 0;
    for_each_slot(model_, p, [&](const StateSlot&) { ++count; });
    first_state_.push_back(first_state_.back() + count);
  }
}

void Optimizer::state_at(int64_t i, int64_t* param, StateSlot* out) const {
  const auto next = std::upper_bound(first_state_.begin(), first_state_.end(), i);
  *param = next - first_state_.begin() - 1;
  int64_t left = i - first_state_[size_t(*param)];
  for_each_slot(model_, *param, [&](const StateSlot& s) {
    if (left-- == 0) *out = s;
  });
}

void* Optimizer::state_data(int64_t param, const StateSlot& slot) const {
  return model_.table.data(slot.column, param);
}

bool Optimizer::find_slot_of(int64_t param, std::string_view name, StateSlot* out) const {
  bool found = false;
  for_each_slot(model_, param, [&](const StateSlot& s) {
    if (name == s.name) *out = s, found = true;
  });
  return found;
}

Status Optimizer::bind_state(int64_t param, std::string_view name, void* data, uint64_t bytes) {
  const Parameter& p = model_.params[param];
  const auto where =
      text("parameter %lld %s", static_cast<long long>(param), quoted(p.name).c_str());
  StateSlot slot{};
  if (!find_slot_of(param, name, &slot)) {
    std::string known;
    for_each_slot(model_, param, [&](const StateSlot& s) {
      known += (known.empty() ? "" : ", ") + std::string(s.name);
    });
    return failure(TALUS_E_NAME, "%s has no slot %s, expected one of: %s", where.c_str(),
                   quoted(name).c_str(), known.empty() ? "none" : known.c_str());
  }
  if (bytes != slot.bytes())
    return failure(TALUS_E_ARGUMENT, "%s: slot \"%s\" was given %llu bytes, expected %llu",
                   where.c_str(), slot.name, static_cast<unsigned long long>(bytes),
                   static_cast<unsigned long long>(slot.bytes()));
  Parameter as_slot;
  as_slot.name = p.name, as_slot.count = slot.count;
  TALUS_TRY(check_pointer(data, as_slot, slot.dtype, param, slot.name));
  TALUS_TRY(check_device(data, slot.bytes(), param, slot.name));
  void* const old = memory_->is_bound(param, slot) ? state_data(param, slot) : nullptr;
  TALUS_TRY(move_range(old, {param, slot.column}, data, bytes, slot.name,
                       settings_[kCheckPointers] != 0));
  memory_->bind(param, slot, data);
  if (slot.column == kHidden) model_.table.hidden_given[size_t(param)] = 1;
  columns_changed_ |= 1u << slot.column | 1u << kFlagColumn;
  return {};
}

Status Optimizer::set_steps(int64_t param, int64_t steps) {
  TALUS_TRY(settle());
  if (steps > 0) {
    Status missing;
    for_each_slot(model_, param, [&](const StateSlot& s) {
      if (missing.ok() && s.count > 0 && !state_data(param, s))
        missing = failure(TALUS_E_STATE,
                          "parameter %lld %s: slot \"%s\" has no memory yet, expected "
                          "talus_bind_state or talus_prepare before talus_set_steps",
                          static_cast<long long>(param), quoted(model_.params[param].name).c_str(),
                          s.name);
    });
    TALUS_TRY(missing);
  }
  model_.classes.reserve(size_t(model_.params.size()), 1);
  model_.classes.set_steps(model_.table, param, steps);
  if (steps > 0) model_.groups[size_t(model_.params[param].group)].start();
  if (steps == 0) memory_->forget_given(param);  // a master of before: afresh is from the parameter
  columns_changed_ |= 1u << kClassColumn | 1u << kFlagColumn;
  return {};
}

}  // namespace talus
