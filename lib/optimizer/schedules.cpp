// Schedules of an optimizer: where they are attached, what they give the step that is being taken,
// and reports to those that wait for them.
#include <algorithm>

#include "lib/base/float_contract.h"
#include "lib/base/float_environment.h"
#include "lib/optimizer/optimizer.h"

namespace talus {
namespace {

using Int = long long;  // for %lld

const Hyper& hyper_of(const Model& model, const Attachment& a) {
  return model.groups[size_t(a.group)].rule().hypers[size_t(a.hyper)];
}

Status at(const std::string& place, const Status& status) {
  return Status(status.code(), place + ": " + status.text(), status.detail());
}

bool has_lost_function(const ScheduleUse& use) { return use->unbound() != nullptr; }

Status refuse_second(const std::string& where, const char* hyper, const Schedule& schedule) {
  return failure(TALUS_E_STATE,
                 "%s: %s has the schedule \"%s\" already, expected NULL first to take it away",
                 where.c_str(), hyper, schedule.kind().name);
}

// Whether a schedule can be attached at all.
Status check_attachable(const Schedule& schedule) {
  TALUS_TRY(schedule.check());
  if (!schedule.unbound()) return {};
  return failure(TALUS_E_STATE,
                 "schedule \"%s\" has no function, expected talus_schedule_set_function first",
                 schedule.unbound()->kind().name);
}

}  // namespace

std::string name_attachment(const std::string& group, const char* hyper, const Schedule& schedule) {
  return text("%s: %s, schedule \"%s\"", group.c_str(), hyper, schedule.kind().name);
}

// ---- attaching ----------------------------------------------------------------------------------

// Which hyperparameter a name is here, if a schedule can have it.
Status Optimizer::find_real(int32_t group, std::string_view name, int* out) const {
  const Group& g = model_.groups[size_t(group)];
  const int i = find_hyper(g.rule(), name);
  if (i < 0) return g.check(name, 0, group);  // TALUS_E_NAME with what is known
  const Hyper& hyper = g.rule().hypers[size_t(i)];
  if (hyper.kind != TALUS_REAL)
    return failure(TALUS_E_UNSUPPORTED, "%s: %s is %s, expected a real hyperparameter to schedule",
                   g.where(group).c_str(), hyper.name,
                   hyper.kind == TALUS_FLAG ? "a flag" : "an integer");
  *out = i;
  return {};
}

// The groups that a call means.
std::vector<int32_t> Optimizer::groups_with(int32_t group, std::string_view name) const {
  if (group != TALUS_ALL) return {group};
  std::vector<int32_t> out;
  for (size_t g = 0; g < model_.groups.size(); ++g)
    if (model_.groups[g].find(name)) out.push_back(int32_t(g));
  if (out.empty()) out.push_back(0);  // for the text of the failure
  return out;
}

Status Optimizer::attach(int32_t group, std::string_view name, const SchedulePtr& schedule,
                         int32_t clock) {
  const std::vector<int32_t> groups = groups_with(group, name);
  int hyper = 0;
  for (const int32_t g : groups) TALUS_TRY(find_real(g, name, &hyper));
  if (!schedule) return detach(group, groups, name), Status();
  TALUS_TRY(check_attachable(*schedule));
  if (const Schedule* const plateau = schedule->plateau();
      plateau && plateau->in_use() && plateau->owner() != this)
    return failure(TALUS_E_STATE,
                   "schedule \"plateau\" serves another optimizer, expected one for each");
  std::vector<Attachment> added;
  for (const int32_t g : groups) {
    TALUS_TRY(find_real(g, name, &hyper));
    const Group& target = model_.groups[size_t(g)];
    const Attachment* const old = schedules_.find(g, hyper);
    if (old && !has_lost_function(old->schedule))
      return refuse_second(target.where(g), target.rule().hypers[size_t(hyper)].name,
                           *old->schedule.get());
    added.push_back({g, hyper, clock, ScheduleUse(schedule), target.values()[hyper]});
  }
  std::vector<LaterAttachment> later;
  if (group == TALUS_ALL) {
    for (const LaterAttachment& old : schedules_.later)
      if (name == old.hyper && !has_lost_function(old.schedule))
        return refuse_second("groups added later", old.hyper, *old.schedule.get());
    later.push_back(
        {model_.groups[size_t(groups[0])].spelling(name), clock, ScheduleUse(schedule)});
  }
  schedules_.items.reserve(schedules_.items.size() + added.size());
  schedules_.later.reserve(schedules_.later.size() + later.size());
  if (Schedule* const plateau = schedule->plateau()) plateau->set_owner(this);
  for (Attachment& a : added) put(std::move(a));
  for (LaterAttachment& l : later) {
    const auto old = std::find_if(schedules_.later.begin(), schedules_.later.end(),
                                  [&](const LaterAttachment& o) { return name == o.hyper; });
    if (old == schedules_.later.end())
      schedules_.later.push_back(std::move(l));
    else
      std::swap(*old, l);
  }
  return {};
}

// A product whose function a load has lost goes on with the new one.
void Optimizer::put(Attachment added) {
  Attachment* const old = schedules_.find(added.group, added.hyper);
  if (!old) return schedules_.items.push_back(std::move(added));
  added.schedule->take_products(*old->schedule.get());
  std::swap(*old, added);
}

void Optimizer::detach(int32_t group, const std::vector<int32_t>& groups, std::string_view name) {
  Attachments gone;  // with them a callback of the caller's may go, once all is in order here
  gone.items.reserve(schedules_.items.size());
  gone.later.reserve(schedules_.later.size());
  for (const int32_t g : groups) {
    const int hyper = find_hyper(model_.groups[size_t(g)].rule(), name);
    for (Attachment& a : schedules_.items)
      if (a.schedule.get() && a.group == g && a.hyper == hyper) gone.items.push_back(std::move(a));
    model_.groups[size_t(g)].end_now();
  }
  for (LaterAttachment& l : schedules_.later)
    if (group == TALUS_ALL && name == l.hyper) gone.later.push_back(std::move(l));
  const auto has_moved = [](const auto& attachment) { return !attachment.schedule.get(); };
  std::erase_if(schedules_.items, has_moved);
  std::erase_if(schedules_.later, has_moved);
}

// What a group that is to be added gets of those for all.
Status Optimizer::attach_later(const Group& added, int32_t index,
                               std::vector<Attachment>* out) const {
  for (const LaterAttachment& l : schedules_.later) {
    const int hyper = find_hyper(added.rule(), l.hyper);
    if (hyper < 0) continue;
    if (added.rule().hypers[size_t(hyper)].kind != TALUS_REAL)
      return failure(TALUS_E_UNSUPPORTED,
                     "%s: %s has a schedule in all groups and is no real hyperparameter here",
                     added.where(index).c_str(), l.hyper);
    const bool twice = std::any_of(out->begin(), out->end(),
                                   [&](const Attachment& a) { return a.hyper == hyper; });
    if (!twice)
      out->push_back({index, hyper, l.clock, ScheduleUse(l.schedule.get()), added.values()[hyper]});
  }
  return {};
}

Status Optimizer::find_schedule(int32_t group, std::string_view name,
                                const Attachment** out) const {
  int hyper = 0;
  TALUS_TRY(find_real(group, name, &hyper));
  *out = schedules_.find(group, hyper);
  return {};
}

// ---- values -------------------------------------------------------------------------------------

Status Optimizer::value_of(const Attachment& a, const Clocks& clocks, double* out) const {
  const Group& group = model_.groups[size_t(a.group)];
  const Hyper& hyper = hyper_of(model_, a);
  const Schedule& schedule = *a.schedule.get();
  const auto place = [&] { return name_attachment(group.where(a.group), hyper.name, schedule); };
  if (const Status whole = schedule.check(); !whole.ok()) return at(place(), whole);
  if (const Schedule* const lost = schedule.unbound())
    return failure(
        TALUS_E_STATE,
        "%s: \"%s\" has no function since it was loaded, expected it to be attached again "
        "or talus_schedule_set_function",
        place().c_str(), lost->kind().name);
  const double base = group.values()[a.hyper];
  const Moment moment{clocks.at(a.clock), base, a.reduced};
  const double value = schedule.value(base, moment);
  if (!accepts(hyper, value))
    return refuse_value(hyper, value,
                        text("%s at t = %lld", place().c_str(), Int(moment.t)).c_str());
  *out = value;
  return {};
}

// Before anything is touched: the last thing of the caller's that is asked.
Status Optimizer::evaluate_attached(const Clocks& at) {
  for (Attachment& a : schedules_.items) TALUS_TRY(value_of(a, at, &a.now));
  for (const Attachment& a : schedules_.items) model_.groups[size_t(a.group)].begin_now();
  for (const Attachment& a : schedules_.items)
    model_.groups[size_t(a.group)].set_now(a.hyper, a.now);
  for (size_t g = 0; g < model_.groups.size(); ++g)
    if (model_.groups[g].has_now())
      if (const Status fits = model_.groups[g].check_now(int32_t(g)); !fits.ok())
        return name_schedules(fits, int32_t(g), at);
  return check_gradients(true);
}

// A failure of a group's values together, with those that schedules gave.
Status Optimizer::name_schedules(const Status& status, int32_t group, const Clocks& at) const {
  std::string scheduled;
  for (const Attachment& a : schedules_.items)
    if (a.group == group)
      scheduled += text("; %s = %g is of schedule \"%s\" at t = %lld", hyper_of(model_, a).name,
                        a.now, a.schedule->kind().name, Int(at.at(a.clock)));
  return Status(status.code(), status.text() + scheduled, status.detail());
}

Status Optimizer::value_now(int32_t group, std::string_view name, double* value) const {
  const Group& g = model_.groups[size_t(group)];
  const int hyper = find_hyper(g.rule(), name);
  if (hyper < 0) return g.check(name, 0, group);
  const Attachment* const a = schedules_.find(group, hyper);
  if (!a) return *value = g.values()[hyper], Status();
  const FloatEnvironment ieee;
  return value_of(*a, clocks_, value);
}

// ---- clocks, reports ----------------------------------------------------------------------------

Status Optimizer::set_clock(int64_t t) {
  if (t < 0)
    return failure(TALUS_E_RANGE, "talus_set_clock: t is %lld, expected 0 or more", Int(t));
  clocks_.manual = t;
  return {};
}

Status Optimizer::observe(double metric) {
  const FloatEnvironment ieee;
  std::vector<Schedule*> told;
  for (const Attachment& a : schedules_.items) {
    Schedule* const plateau = a.schedule->plateau();
    if (plateau && std::find(told.begin(), told.end(), plateau) == told.end())
      told.push_back(plateau);
  }
  if (told.empty())
    return failure(TALUS_E_STATE,
                   "talus_observe: no plateau schedule is attached (talus_attach_schedule)");
  for (Schedule* const plateau : told) {
    if (!report_metric(plateau->params(), metric, &plateau->plateau_state())) continue;
    for (Attachment& a : schedules_.items)
      if (a.schedule->plateau() == plateau) a.reduced = reduced_value(plateau->params(), a.reduced);
  }
  return {};
}

// A value that is set is where a plateau goes on from.
void Optimizer::base_changed(int32_t group, std::string_view name, double value) {
  for (Attachment& a : schedules_.items)
    if (a.group == group && a.hyper == find_hyper(model_.groups[size_t(group)].rule(), name))
      a.reduced = value;
}

}  // namespace talus
