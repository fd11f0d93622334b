// Scalar classes: all parameters of one group that have taken the same number of steps share one
// row of host scalars. A step counts once per class, not per parameter; a parameter that loses or
// gets its gradient moves between a class and idleness and touches no plan.
#pragma once
#include <span>
#include <vector>

#include "lib/table/tensor_table.h"

namespace talus {

struct ScalarClass {
  int32_t group;
  int64_t steps, members;  // no members: free for reuse
};

class ScalarClasses {
 public:
  // Room for `parameters` in all, `moves` of which may join a class without a throw.
  void reserve(size_t parameters, size_t moves);
  void add_parameter(int32_t group);  // idle, no steps
  void truncate(size_t parameters);   // the rest must be idle

  int64_t steps(const TensorTable& table, int64_t param) const;
  void set_steps(TensorTable& table, int64_t param, int64_t steps);  // reserve a move first
  void join(TensorTable& table, int64_t param);   // has a gradient now; reserve a move first
  void leave(TensorTable& table, int64_t param);  // has none now
  void move(TensorTable& table, int64_t param, int32_t group);  // reserve a move first

  std::span<const ScalarClass> classes() const { return classes_; }
  bool any_member() const { return live_ > 0; }
  // A class whose next step may be its first, where of the last `doubtful` ones it may have taken none.
  bool any_first(int64_t doubtful = 0) const;
  void count_step();
  // Steps that were not taken after all, by those that were members then.
  void take_back_steps(int64_t count, const TensorTable& table,
                       const std::vector<uint8_t>& members);
  int64_t member_count() const { return live_; }
  // Changes whenever a parameter joins or leaves.
  int64_t moves() const { return moves_; }

 private:
  int32_t find_or_add(int32_t group, int64_t steps);

  std::vector<ScalarClass> classes_;
  std::vector<int32_t> group_;       // by parameter
  std::vector<int64_t> idle_steps_;  // by parameter, valid while idle
  int64_t live_ = 0, moves_ = 0;
};

}  // namespace talus
