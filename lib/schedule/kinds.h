// The kinds of schedules: a row of the table each, with its parameters and its one function.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "lib/base/hyper.h"

namespace talus {

class Schedule;

inline constexpr int kMaxScheduleParams = 10;

// When and for whom a schedule is evaluated.
struct Moment {
  int64_t t;       // >= 0
  double base;     // of the attachment
  double reduced;  // what plateau has made of it
};

// What a kind has besides parameters.
enum class Needs : uint8_t {
  nothing,
  sorted_milestones,   // in any order, sorted when they are set
  ordered_milestones,  // of the pieces
  function,            // of the caller
};

struct ScheduleKind {
  const char* name;
  const char* doc;
  std::span<const Hyper> params;  // def NaN: made of others, or required
  // The value for base x; a chained piece's base is the value of the piece before. NaN of a function
  // goes through. With all required parameters set.
  double (*value)(const Schedule& s, double x, const Moment& m);
  const char* (*conflict)(const Schedule& s) = nullptr;  // text if parameters exclude each other
  Needs needs = Needs::nothing;
  bool (*ignores_base)(const Schedule& s) = nullptr;  // NULL: never; whether x does not matter
  bool has_pieces = false;
};

std::span<const ScheduleKind> schedule_kinds();
const ScheduleKind* find_schedule_kind(std::string_view name);  // NULL: unknown

}  // namespace talus
