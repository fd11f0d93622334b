// Schedules of the C ABI: checks what C can get wrong, converts, calls lib/schedule. No logic.
#include <cstring>

#include "capi/handle.h"
#include "lib/base/float_environment.h"
#include "lib/schedule/schedule.h"

using namespace talus;
using namespace talus::capi;

namespace {

// A handle is a reference of its own.
SchedulePtr& get(talus_schedule* schedule) { return *reinterpret_cast<SchedulePtr*>(schedule); }
const SchedulePtr& get(const talus_schedule* schedule) {
  return *reinterpret_cast<const SchedulePtr*>(schedule);
}
talus_schedule* handle_of(SchedulePtr schedule) {
  return reinterpret_cast<talus_schedule*>(new SchedulePtr(std::move(schedule)));
}

}  // namespace

extern "C" {

// ---- a schedule ------------------------------------------------------------------------------

talus_status talus_schedule_create(const char* kind, talus_schedule** out) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(need(kind, "talus_schedule_create", "kind"));
    TALUS_TRY(need(out, "talus_schedule_create", "out"));
    SchedulePtr made;
    TALUS_TRY(Schedule::create(kind, &made));
    *out = handle_of(std::move(made));
    return {};
  });
}

void talus_schedule_destroy(talus_schedule* schedule) {
  delete reinterpret_cast<SchedulePtr*>(schedule);
}

const char* talus_schedule_kind(const talus_schedule* schedule) {
  return schedule ? get(schedule)->kind().name : nullptr;
}

talus_status talus_schedule_set(talus_schedule* schedule, const char* name, double value) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(need(schedule, "talus_schedule_set", "schedule"));
    TALUS_TRY(need(name, "talus_schedule_set", "name"));
    return get(schedule)->set(name, value);
  });
}

talus_status talus_schedule_get(const talus_schedule* schedule, const char* name, double* value) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(need(schedule, "talus_schedule_get", "schedule"));
    TALUS_TRY(need(name, "talus_schedule_get", "name"));
    TALUS_TRY(need(value, "talus_schedule_get", "value"));
    return get(schedule)->get(name, value);
  });
}

talus_status talus_schedule_set_list(talus_schedule* schedule, const char* name,
                                     const int64_t* values, int64_t count) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(need(schedule, "talus_schedule_set_list", "schedule"));
    TALUS_TRY(need(name, "talus_schedule_set_list", "name"));
    if (count < 0)
      return failure(TALUS_E_ARGUMENT, "talus_schedule_set_list: count is %lld, expected 0 or more",
                     static_cast<long long>(count));
    if (count > 0) TALUS_TRY(need(values, "talus_schedule_set_list", "values"));
    TALUS_TRY(get(schedule)->check_list(name));
    return get(schedule)->set_milestones({values, size_t(count)});
  });
}

talus_status talus_schedule_get_list(const talus_schedule* schedule, const char* name,
                                     int64_t* values, int64_t capacity, int64_t* count) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(need(schedule, "talus_schedule_get_list", "schedule"));
    TALUS_TRY(need(name, "talus_schedule_get_list", "name"));
    TALUS_TRY(need(count, "talus_schedule_get_list", "count"));
    if (capacity < 0)
      return failure(TALUS_E_ARGUMENT,
                     "talus_schedule_get_list: capacity is %lld, expected 0 or more",
                     static_cast<long long>(capacity));
    if (capacity > 0) TALUS_TRY(need(values, "talus_schedule_get_list", "values"));
    TALUS_TRY(get(schedule)->check_list(name));
    const std::span<const int64_t> milestones = get(schedule)->milestones();
    const size_t copied = std::min(milestones.size(), size_t(capacity));
    if (copied > 0) std::memcpy(values, milestones.data(), copied * sizeof *values);
    *count = int64_t(milestones.size());
    return {};
  });
}

talus_status talus_schedule_set_function(talus_schedule* schedule, talus_schedule_function function,
                                         void* user, void (*destroy)(void* user)) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(need(schedule, "talus_schedule_set_function", "schedule"));
    TALUS_TRY(
        need(reinterpret_cast<const void*>(function), "talus_schedule_set_function", "function"));
    return get(schedule)->set_function(function, user, destroy);
  });
}

talus_status talus_schedule_add(talus_schedule* schedule, talus_schedule* piece) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(need(schedule, "talus_schedule_add", "schedule"));
    TALUS_TRY(need(piece, "talus_schedule_add", "piece"));
    return get(schedule)->add(get(piece));
  });
}

int32_t talus_schedule_piece_count(const talus_schedule* schedule) {
  return schedule ? int32_t(get(schedule)->pieces().size()) : -1;
}

talus_status talus_schedule_piece(const talus_schedule* schedule, int32_t i, talus_schedule** out) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(need(schedule, "talus_schedule_piece", "schedule"));
    TALUS_TRY(need(out, "talus_schedule_piece", "out"));
    const std::span<const SchedulePtr> pieces = get(schedule)->pieces();
    if (i < 0 || size_t(i) >= pieces.size())
      return failure(TALUS_E_ARGUMENT,
                     "talus_schedule_piece: i is %d, schedule \"%s\" has %zu pieces", i,
                     get(schedule)->kind().name, pieces.size());
    *out = handle_of(pieces[size_t(i)]);
    return {};
  });
}

talus_status talus_schedule_value(const talus_schedule* schedule, double base, int64_t t,
                                  double* value) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(need(schedule, "talus_schedule_value", "schedule"));
    TALUS_TRY(need(value, "talus_schedule_value", "value"));
    const FloatEnvironment ieee;
    return get(schedule)->evaluate(base, t, value);
  });
}

// ---- of an optimizer -------------------------------------------------------------------------

talus_status talus_attach_schedule(talus_optimizer* opt, int32_t group, const char* hyper,
                                   talus_schedule* schedule, int32_t clock) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(check_group(opt, group, true, "talus_attach_schedule"));
    TALUS_TRY(need(hyper, "talus_attach_schedule", "hyper"));
    TALUS_TRY(check_clock(clock, "talus_attach_schedule"));
    return capi::get(opt).attach(group, hyper, schedule ? get(schedule) : nullptr, clock);
  });
}

talus_status talus_get_schedule(const talus_optimizer* opt, int32_t group, const char* hyper,
                                talus_schedule** schedule, int32_t* clock) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(check_group(opt, group, false, "talus_get_schedule"));
    TALUS_TRY(need(hyper, "talus_get_schedule", "hyper"));
    TALUS_TRY(need(schedule, "talus_get_schedule", "schedule"));
    const Attachment* found = nullptr;
    TALUS_TRY(capi::get(opt).find_schedule(group, hyper, &found));
    *schedule = found ? handle_of(found->schedule.get()) : nullptr;
    if (found && clock) *clock = found->clock;
    return {};
  });
}

talus_status talus_value_now(const talus_optimizer* opt, int32_t group, const char* name,
                             double* value) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(check_group(opt, group, false, "talus_value_now"));
    TALUS_TRY(need(name, "talus_value_now", "name"));
    TALUS_TRY(need(value, "talus_value_now", "value"));
    TALUS_TRY(capi::get(const_cast<talus_optimizer*>(opt)).settle());
    return capi::get(opt).value_now(group, name, value);
  });
}

talus_status talus_set_clock(talus_optimizer* opt, int64_t t) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(usable(opt, "talus_set_clock"));
    return capi::get(opt).set_clock(t);
  });
}

talus_status talus_get_clock(const talus_optimizer* opt, int32_t clock, int64_t* t) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(usable(opt, "talus_get_clock"));
    TALUS_TRY(need(t, "talus_get_clock", "t"));
    TALUS_TRY(check_clock(clock, "talus_get_clock"));
    TALUS_TRY(capi::get(const_cast<talus_optimizer*>(opt)).settle());
    *t = capi::get(opt).clocks().at(clock);
    return {};
  });
}

talus_status talus_observe(talus_optimizer* opt, double metric) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(usable(opt, "talus_observe"));
    return capi::get(opt).observe(metric);
  });
}

}  // extern "C"
