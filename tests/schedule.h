// A schedule of the library by the C ABI only, made of a description. Throws on a failed call. No
// Catch2 here.
#pragma once
#include <utility>

#include "tests/optimizer.h"
#include "tests/schedule_spec.h"

namespace talus::test {

class Schedule {
 public:
  explicit Schedule(const std::string& kind, const Values& params = {}) {
    must(talus_schedule_create(kind.c_str(), &handle_));
    for (const auto& [name, value] : params) set(name, value);
  }
  explicit Schedule(const ScheduleSpec& spec) : Schedule(spec.kind) {
    for (const auto& [name, value] : spec.params) set(name, value);
    for (const ScheduleSpec& piece : spec.pieces) add(Schedule(piece));
    if (!spec.milestones.empty()) milestones(spec.milestones);
    if (!spec.function.empty()) function(schedule_functions().at(spec.function));
  }
  explicit Schedule(talus_schedule* reference) : handle_(reference) {}  // takes it over
  ~Schedule() { talus_schedule_destroy(handle_); }
  Schedule(Schedule&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Schedule& operator=(Schedule&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  operator talus_schedule*() const { return handle_; }

  void set(const std::string& name, double value) {
    must(talus_schedule_set(handle_, name.c_str(), value));
  }
  double get(const char* name) const {
    double value = 0;
    must(talus_schedule_get(handle_, name, &value));
    return value;
  }
  void milestones(const std::vector<int64_t>& list) {
    must(talus_schedule_set_list(handle_, "milestones", list.data(), int64_t(list.size())));
  }
  void function(talus_schedule_function f, void* user = nullptr) {
    must(talus_schedule_set_function(handle_, f, user, nullptr));
  }
  void add(const Schedule& piece) { must(talus_schedule_add(handle_, piece)); }
  double value(double base, int64_t t) const {
    double value = 0;
    must(talus_schedule_value(handle_, base, t, &value));
    return value;
  }

 private:
  talus_schedule* handle_ = nullptr;
};

// ---- of an optimizer

inline void attach(talus_optimizer* opt, const char* hyper, talus_schedule* schedule,
                   int32_t clock = TALUS_CLOCK_APPLIED, int32_t group = TALUS_ALL) {
  must(talus_attach_schedule(opt, group, hyper, schedule, clock));
}
inline double value_now(const talus_optimizer* opt, const char* hyper, int32_t group = 0) {
  double value = 0;
  must(talus_value_now(opt, group, hyper, &value));
  return value;
}
// What is attached there; NULL: nothing.
inline Schedule attached(const talus_optimizer* opt, const char* hyper, int32_t group = 0) {
  talus_schedule* reference = nullptr;
  must(talus_get_schedule(opt, group, hyper, &reference, nullptr));
  return Schedule(reference);
}
inline int64_t clock_of(const talus_optimizer* opt, int32_t clock) {
  int64_t t = -1;
  must(talus_get_clock(opt, clock, &t));
  return t;
}

}  // namespace talus::test
