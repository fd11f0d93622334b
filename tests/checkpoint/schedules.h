// Schedules for tests, by the C ABI: made from a short list, attached, and given back.
#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "tests/optimizer.h"

namespace talus::test {

class ScheduleRef {
 public:
  explicit ScheduleRef(const std::string& kind, const Values& values = {}) {
    must(talus_schedule_create(kind.c_str(), &handle_));
    for (const auto& [name, value] : values) must(talus_schedule_set(handle_, name.c_str(), value));
  }
  explicit ScheduleRef(talus_schedule* handle) : handle_(handle) {}
  ~ScheduleRef() { talus_schedule_destroy(handle_); }
  ScheduleRef(ScheduleRef&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  ScheduleRef& operator=(ScheduleRef&&) = delete;

  talus_schedule* get() const { return handle_; }
  ScheduleRef&& milestones(const std::vector<int64_t>& values) && {
    must(talus_schedule_set_list(handle_, "milestones", values.data(), int64_t(values.size())));
    return std::move(*this);
  }
  ScheduleRef&& piece(const ScheduleRef& piece) && {
    must(talus_schedule_add(handle_, piece.get()));
    return std::move(*this);
  }
  ScheduleRef&& function(talus_schedule_function call, void* user = nullptr) && {
    must(talus_schedule_set_function(handle_, call, user, nullptr));
    return std::move(*this);
  }

 private:
  talus_schedule* handle_ = nullptr;
};

inline void attach(talus_optimizer* opt, const char* hyper, const ScheduleRef& schedule,
                   int32_t clock = TALUS_CLOCK_APPLIED, int32_t group = 0) {
  must(talus_attach_schedule(opt, group, hyper, schedule.get(), clock));
}

// What is attached there; get() is NULL: nothing.
inline ScheduleRef attached(talus_optimizer* opt, const char* hyper, int32_t group = 0) {
  talus_schedule* handle = nullptr;
  must(talus_get_schedule(opt, group, hyper, &handle, nullptr));
  return ScheduleRef(handle);
}

inline double value_now(talus_optimizer* opt, const char* hyper, int32_t group = 0) {
  double value = 0;
  must(talus_value_now(opt, group, hyper, &value));
  return value;
}

}  // namespace talus::test
