// What an optimizer optimises: groups, parameters, their table and step counts. The parts share
// the parameter index. No memory is allocated for tensors here.
#pragma once
#include <deque>

#include "lib/optimizer/group.h"
#include "lib/optimizer/parameters.h"
#include "lib/optimizer/scalar_classes.h"
#include "lib/table/chunk_plan.h"

namespace talus {

struct Model {
  std::deque<Group> groups;
  Parameters params;
  TensorTable table;
  ScalarClasses classes;

  // The first slot that a parameter has in one of its own and another group of the same rule, -1: none.
  int differing_slot(int64_t param, int32_t group) const {
    const Group &a = group_of(param), &b = groups[size_t(group)];
    for (size_t k = 0; k < a.rule().slots.size(); ++k)
      if (a.has_slot(int(k)) != b.has_slot(int(k))) return int(k);
    return -1;
  }
  const Group& group_of(int64_t param) const { return groups[size_t(params[param].group)]; }
  KernelKey key_of(int64_t param) const {
    const Group& group = group_of(param);
    return {rule_index(group.rule()), group.variant(), compute_type(params[param].dtype)};
  }
};

// One state tensor of one parameter, as it exists under the group's hyperparameters.
struct StateSlot {
  const char* name;
  int column;
  Dtype dtype;
  int64_t count;
  Shape shape = Shape::element;
  uint64_t bytes() const { return uint64_t(count * size_of(dtype)); }
};

inline constexpr const char* kMasterSlot = "master_param";

// Calls f(StateSlot) for each, the rule's slots in order and then the master.
template <class F>
void for_each_slot(const Model& model, int64_t param, F f) {
  const Parameter& p = model.params[param];
  if (p.removed) return;
  const Group& group = model.group_of(param);
  for (size_t k = 0; k < group.rule().slots.size(); ++k) {
    const Slot& slot = group.rule().slots[k];
    const int64_t count = slot.shape == Shape::element || p.count == 0 ? p.count : 1;
    const Dtype dtype = slot.shape == Shape::tensor ? Dtype::f64 : p.state_dtype;
    if (group.has_slot(int(k)))
      f(StateSlot{slot.name, kFirstSlot + int(k), dtype, count, slot.shape});
  }
  if (p.has_master) f(StateSlot{kMasterSlot, kHidden, Dtype::f32, p.count});
}

}  // namespace talus
