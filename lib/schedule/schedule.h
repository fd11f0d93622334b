// A schedule: a kind with its parameters, milestones, function and pieces. value(base, t) is pure; a
// plateau's reports and the running product of multiplicative are all that is remembered. Knows no
// optimizer. Not thread-safe.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"
#include "lib/schedule/kinds.h"
#include "lib/schedule/plateau.h"

namespace talus {

class Schedule;
using SchedulePtr = std::shared_ptr<Schedule>;

// The caller's function; destroys user with itself.
class ScheduleFunction {
 public:
  ScheduleFunction() = default;
  ScheduleFunction(talus_schedule_function call, void* user, void (*destroy)(void*))
      : call_(call), user_(user), destroy_(destroy) {}
  ~ScheduleFunction() {
    if (destroy_) destroy_(user_);
  }
  ScheduleFunction(const ScheduleFunction&) = delete;
  ScheduleFunction& operator=(const ScheduleFunction&) = delete;
  void swap(ScheduleFunction& other) noexcept {
    std::swap(call_, other.call_);
    std::swap(user_, other.user_);
    std::swap(destroy_, other.destroy_);
  }

  explicit operator bool() const { return call_ != nullptr; }
  double operator()(int64_t t) const { return call_(user_, t); }

 private:
  talus_schedule_function call_ = nullptr;
  void* user_ = nullptr;
  void (*destroy_)(void*) = nullptr;
};

// P(t) = f(1) ... f(t) of multiplicative.
struct RunningProduct {
  int64_t t = 0;
  double product = 1;
};

// Products that were asked for last, one for each of a few clocks that go on at their own pace.
class RunningProducts {
 public:
  // P(t) from the nearest one before; what is not finite is not gone on from.
  double at(int64_t t, const ScheduleFunction& factor);
  RunningProduct furthest() const;
  void restart_from(RunningProduct product) { products_ = {product}; }

 private:
  std::array<RunningProduct, 4> products_{};  // the last one used is first
};

class Schedule {
 public:
  static Status create(std::string_view kind, SchedulePtr* out);  // TALUS_E_NAME
  explicit Schedule(const ScheduleKind& kind);
  ~Schedule();

  // What value functions see.
  const ScheduleKind& kind() const { return kind_; }
  double operator[](int param) const { return params_[size_t(param)]; }
  bool is_set(int param) const { return params_[size_t(param)] == params_[size_t(param)]; }
  std::span<const int64_t> milestones() const { return milestones_; }
  std::span<const SchedulePtr> pieces() const { return pieces_; }
  double factor(int64_t t) const { return function_(t); }
  double product(int64_t t) const { return products_.at(t, function_); }  // of factor over 1 .. t

  // As talus.h says of talus_schedule_...
  Status set(std::string_view name, double value);
  Status get(std::string_view name, double* value) const;
  Status check_list(std::string_view name) const;
  Status set_milestones(std::span<const int64_t> values);
  Status set_function(talus_schedule_function call, void* user, void (*destroy)(void*));
  Status add(const SchedulePtr& piece);

  // Whether it can be evaluated, but for functions that are missing.
  Status check() const;
  // The first in it that lacks its function, NULL: none.
  const Schedule* unbound() const;
  // The plateau that it is or ends in, NULL: none.
  Schedule* plateau();
  const Schedule* plateau() const { return const_cast<Schedule*>(this)->plateau(); }
  bool ignores_base() const { return kind_.ignores_base && kind_.ignores_base(*this); }

  // For a schedule that check has accepted and that has its functions.
  double value(double x, const Moment& m) const { return kind_.value(*this, x, m); }
  // value without an optimizer, everything checked.
  Status evaluate(double base, int64_t t, double* out) const;

  // ---- state, of plateau and multiplicative
  const double* params() const { return params_.data(); }
  PlateauState& plateau_state() { return plateau_; }
  const PlateauState& plateau_state() const { return plateau_; }
  RunningProduct running_product() const { return products_.furthest(); }
  void set_running_product(RunningProduct product) { products_.restart_from(product); }
  // Of one made alike, whose functions it has in its stead.
  void take_products(const Schedule& old);

  // ---- attachments; those of a composite count for its pieces. owner: of a plateau's values
  void use(int count, bool behind = false);  // behind: another piece of a chain
  bool in_use() const { return uses_ != 0; }
  const void* owner() const { return owner_; }
  void set_owner(const void* owner) { owner_ = owner; }

 private:
  Status check_own() const;
  Status check_pieces() const;
  bool contains(const Schedule* other) const;
  bool fits(int levels, int64_t* room) const;
  Status too_large() const;
  std::string where() const { return std::string("schedule \"") + kind_.name + '"'; }

  const ScheduleKind& kind_;
  std::array<double, kMaxScheduleParams> params_{};
  std::vector<int64_t> milestones_;
  std::vector<SchedulePtr> pieces_;
  SchedulePtr next_gone_;  // of a list, while they are destroyed
  ScheduleFunction function_;
  PlateauState plateau_{};
  mutable RunningProducts products_;
  std::atomic<int32_t> uses_{0}, behind_{0};  // optimizers of several threads may come and go
  const void* owner_ = nullptr;
};

}  // namespace talus
