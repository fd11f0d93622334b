// Schedules where they act: on a hyperparameter of a group, with a clock and what a plateau has made of
// the value.
#pragma once
#include <utility>
#include <vector>

#include "lib/schedule/schedule.h"

namespace talus {

// A schedule that is in use for as long as this lives.
class ScheduleUse {
 public:
  explicit ScheduleUse(SchedulePtr schedule) : schedule_(std::move(schedule)) { schedule_->use(1); }
  ~ScheduleUse() {
    if (schedule_) schedule_->use(-1);
  }
  ScheduleUse(ScheduleUse&& other) noexcept = default;
  ScheduleUse& operator=(ScheduleUse&& other) noexcept {
    schedule_.swap(other.schedule_);
    return *this;
  }

  const SchedulePtr& get() const { return schedule_; }
  Schedule* operator->() const { return schedule_.get(); }

 private:
  SchedulePtr schedule_;
};

struct Attachment {
  int32_t group;
  int hyper;  // of the group's rule
  int32_t clock;
  ScheduleUse schedule;
  double reduced;  // by a plateau; the base until then
  double now = 0;  // of the step that is being taken
};

// For TALUS_ALL: what groups get that are added later, if they have the name.
struct LaterAttachment {
  const char* hyper;  // from a rule's table; static
  int32_t clock;
  ScheduleUse schedule;
};

struct Attachments {
  std::vector<Attachment> items;
  std::vector<LaterAttachment> later;

  const Attachment* find(int32_t group, int hyper) const {
    for (const Attachment& a : items)
      if (a.group == group && a.hyper == hyper) return &a;
    return nullptr;
  }
  Attachment* find(int32_t group, int hyper) {
    return const_cast<Attachment*>(std::as_const(*this).find(group, hyper));
  }
};

// Says which schedule of which hyperparameter: group 0 "sgd": lr, schedule "cosine".
std::string name_attachment(const std::string& group, const char* hyper, const Schedule& schedule);

}  // namespace talus
