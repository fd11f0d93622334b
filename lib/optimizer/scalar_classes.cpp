#include "lib/optimizer/scalar_classes.h"

#include <algorithm>

namespace talus {
namespace {

// Like TensorTable::reserve: at least doubles.
template <class T>
void grow(std::vector<T>& v, size_t n) {
  if (n > v.capacity()) v.reserve(std::max(n, 2 * v.capacity()));
}

}  // namespace

void ScalarClasses::reserve(size_t parameters, size_t moves) {
  grow(group_, parameters);
  grow(idle_steps_, parameters);
  const auto is_free = [](const ScalarClass& c) { return c.members == 0; };
  const size_t reusable = size_t(std::count_if(classes_.begin(), classes_.end(), is_free));
  if (moves > reusable) grow(classes_, classes_.size() + moves - reusable);
}

void ScalarClasses::add_parameter(int32_t group) {
  group_.push_back(group);
  idle_steps_.push_back(0);
}

void ScalarClasses::truncate(size_t parameters) {
  group_.resize(std::min(parameters, group_.size()));
  idle_steps_.resize(std::min(parameters, idle_steps_.size()));
}

int64_t ScalarClasses::steps(const TensorTable& table, int64_t param) const {
  const int32_t c = table.scalar_class[size_t(param)];
  return c == kIdle ? idle_steps_[size_t(param)] : classes_[size_t(c)].steps;
}

void ScalarClasses::set_steps(TensorTable& table, int64_t param, int64_t steps) {
  const bool live = table.scalar_class[size_t(param)] != kIdle;
  if (live) leave(table, param);
  idle_steps_[size_t(param)] = steps;
  if (live) join(table, param);
}

void ScalarClasses::join(TensorTable& table, int64_t param) {
  const int32_t c = find_or_add(group_[size_t(param)], idle_steps_[size_t(param)]);
  table.scalar_class[size_t(param)] = c;
  ++classes_[size_t(c)].members;
  ++live_;
  ++moves_;
}

void ScalarClasses::leave(TensorTable& table, int64_t param) {
  int32_t& c = table.scalar_class[size_t(param)];
  idle_steps_[size_t(param)] = classes_[size_t(c)].steps;
  --classes_[size_t(c)].members;
  --live_;
  ++moves_;
  c = kIdle;
}

void ScalarClasses::move(TensorTable& table, int64_t param, int32_t group) {
  const bool live = table.scalar_class[size_t(param)] != kIdle;
  if (live) leave(table, param);
  group_[size_t(param)] = group;
  if (live) join(table, param);
}

int32_t ScalarClasses::find_or_add(int32_t group, int64_t steps) {
  const ScalarClass wanted{group, steps, 0};
  int32_t free = kIdle;
  for (size_t c = 0; c < classes_.size(); ++c) {
    if (classes_[c].members == 0)
      free = int32_t(c);
    else if (classes_[c].group == group && classes_[c].steps == steps)
      return int32_t(c);
  }
  if (free != kIdle)
    classes_[size_t(free)] = wanted;
  else
    classes_.push_back(wanted), free = int32_t(classes_.size() - 1);
  return free;
}

bool ScalarClasses::any_first(int64_t doubtful) const {
  return std::any_of(classes_.begin(), classes_.end(), [doubtful](const ScalarClass& c) {
    return c.members > 0 && c.steps <= doubtful;
  });
}

void ScalarClasses::take_back_steps(int64_t count, const TensorTable& table,
                                    const std::vector<uint8_t>& members) {
  if (count == 0) return;
  for (ScalarClass& c : classes_)
    if (c.members > 0) c.steps -= count;
  for (size_t p = 0; p < members.size(); ++p)
    if (members[p] && table.scalar_class[p] == kIdle) idle_steps_[p] -= count;
}

void ScalarClasses::count_step() {
  for (ScalarClass& c : classes_)
    if (c.members > 0) ++c.steps;
}

}  // namespace talus
