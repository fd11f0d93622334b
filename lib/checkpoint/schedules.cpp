#include "lib/checkpoint/schedules.h"

#include <algorithm>
#include <map>

namespace talus {
namespace {

using Int = long long;  // for %lld

// ---- to a record --------------------------------------------------------------------------------

class Recorder {
 public:
  explicit Recorder(SchedulesRecord* out) : out_(*out) {}

  // Pieces come before what they are pieces of, and one that stands in many places comes once.
  int32_t number(const Schedule& schedule) {
    if (const auto found = numbers_.find(&schedule); found != numbers_.end()) return found->second;
    ScheduleRecord record;
    for (const SchedulePtr& piece : schedule.pieces()) record.pieces.push_back(number(*piece));
    pieces_ += record.pieces.size();
    describe(schedule, &record);
    out_.objects.push_back(std::move(record));
    return numbers_[&schedule] = int32_t(out_.objects.size() - 1);
  }

  bool fits() const { return std::max(pieces_, out_.objects.size()) <= kMostSchedules; }

 private:
  static void describe(const Schedule& s, ScheduleRecord* out) {
    out->kind = s.kind().name;
    for (size_t i = 0; i < s.kind().params.size(); ++i)
      if (s.is_set(int(i))) out->params.emplace_back(s.kind().params[i].name, s[int(i)]);
    out->milestones.assign(s.milestones().begin(), s.milestones().end());
    out->needs_function = s.kind().needs == Needs::function;
    if (const RunningProduct p = s.running_product(); p.t > 0)
      out->product = ProductRecord{p.t, p.product};
    if (s.plateau() != &s) return;
    const PlateauState& state = s.plateau_state();
    out->plateau = PlateauRecord{state.best, state.bad, state.cooling};
  }

  SchedulesRecord& out_;
  std::map<const Schedule*, int32_t> numbers_;
  size_t pieces_ = 0;
};

// ---- from a record ------------------------------------------------------------------------------

Status no_such(const Schedule& schedule, const char* what) {
  return failure(TALUS_E_MISMATCH, "schedule \"%s\" has no %s", schedule.kind().name, what);
}

class Maker {
 public:
  Maker(const SchedulesRecord& record, Differences* differences)
      : record_(record), differences_(*differences) {}

  // The file's objects; one that cannot be made is told of and NULL, and so are those it is a piece of.
  std::vector<SchedulePtr> make_all() {
    for (const ScheduleRecord& record : record_.objects) {
      SchedulePtr made;
      bool whole = true;
      for (const int32_t piece : record.pieces) whole = whole && made_[size_t(piece)];
      const Status status = whole ? make(record, &made) : Status();
      if (!status.ok())
        differences_.add(TALUS_M_SCHEDULE,
                         text("schedule %zu of the file: ", made_.size()) + status.text());
      made_.push_back(status.ok() ? std::move(made) : nullptr);
    }
    return std::move(made_);
  }

 private:
  Status make(const ScheduleRecord& record, SchedulePtr* out) const {
    TALUS_TRY(Schedule::create(record.kind, out));
    Schedule& s = **out;
    for (const auto& [name, value] : record.params) TALUS_TRY(s.set(name, value));
    if (!record.milestones.empty()) {
      TALUS_TRY(s.check_list("milestones"));
      TALUS_TRY(s.set_milestones(record.milestones));
    }
    for (const int32_t piece : record.pieces) TALUS_TRY(s.add(made_[size_t(piece)]));
    TALUS_TRY(s.check());
    return take_state(record, s);
  }

  static Status take_state(const ScheduleRecord& record, Schedule& s) {
    const bool takes_function = s.kind().needs == Needs::function;
    if (record.needs_function && !takes_function) return no_such(s, "function");
    if (record.product && !takes_function) return no_such(s, "product");
    if (record.product) s.set_running_product({record.product->t, record.product->value});
    if (record.plateau && s.plateau() != &s) return no_such(s, "state of a plateau");
    if (record.plateau)
      s.plateau_state() = {record.plateau->best, record.plateau->bad, record.plateau->cooling};
    return {};
  }

  const SchedulesRecord& record_;
  Differences& differences_;
  std::vector<SchedulePtr> made_;
};

class Comparison {
 public:
  Comparison(const Optimizer& live, const SchedulesRecord& record, Differences* differences,
             Restored* out)
      : model_(live.model()),
        live_(live.schedules()),
        record_(record),
        differences_(*differences),
        out_(*out) {}

  void run() {
    made_ = Maker(record_, &differences_).make_all();
    for (const AttachmentRecord& a : record_.attachments) take(a);
    for (const AttachmentRecord& a : record_.later) take_later(a);
    look_for_lost();
  }

 private:
  void differ(const std::string& where, const std::string& why) {
    differences_.add(TALUS_M_SCHEDULE, where + ": " + why);
  }

  static std::string file_has(const std::string& kind) {
    return "schedule " + quoted(kind) + " in the file";
  }

  const std::string& kind_of(const AttachmentRecord& a) const {
    return record_.objects[size_t(a.object)].kind;
  }

  // Bases are the file's by then.
  const Group& base_group(size_t g) const {
    return g < out_.groups.size() ? out_.groups[g] : model_.groups[g];
  }

  void take(const AttachmentRecord& a) {
    if (size_t(a.group) >= model_.groups.size()) return;  // a difference of groups, told already
    const Group& group = model_.groups[size_t(a.group)];
    const std::string where = group.where(a.group) + ": " + a.hyper;
    const int hyper = find_hyper(group.rule(), a.hyper);
    if (hyper < 0 || group.rule().hypers[size_t(hyper)].kind != TALUS_REAL)
      return differ(where, file_has(kind_of(a)) + ", which is no real hyperparameter here");
    if (out_.schedules.find(a.group, hyper))
      return differ(where, "a second schedule in the file, " + quoted(kind_of(a)));
    if (const Attachment* const mine = live_.find(a.group, hyper);
        mine && mine->schedule->kind().name != kind_of(a))
      return differ(where, text("schedule \"%s\" in the optimizer, ", mine->schedule->kind().name) +
                               quoted(kind_of(a)) + " in the file");
    const SchedulePtr& schedule = made_[size_t(a.object)];
    if (!schedule) return;
    if (a.value && !schedule->plateau())
      return differ(where, file_has(kind_of(a)) + " with a value, which only a plateau has");
    const double base = base_group(size_t(a.group)).values()[hyper];
    out_.schedules.items.push_back(
        {a.group, hyper, a.clock, ScheduleUse(schedule), a.value.value_or(base)});
  }

  void take_later(const AttachmentRecord& a) {
    const std::string where = "groups added later: " + a.hyper;
    const char* hyper = nullptr;
    for (const Group& group : model_.groups)
      if (!hyper && group.find(a.hyper)) hyper = group.spelling(a.hyper);
    if (!hyper) return differ(where, file_has(kind_of(a)) + ", which no group has here");
    if (find_later(out_.schedules.later, hyper))
      return differ(where, "a second schedule in the file, " + quoted(kind_of(a)));
    if (const LaterAttachment* const mine = find_later(live_.later, hyper);
        mine && mine->schedule->kind().name != kind_of(a))
      return differ(where, text("schedule \"%s\" in the optimizer, ", mine->schedule->kind().name) +
                               quoted(kind_of(a)) + " in the file");
    if (const SchedulePtr& schedule = made_[size_t(a.object)])
      out_.schedules.later.push_back({hyper, a.clock, ScheduleUse(schedule)});
  }

  static const LaterAttachment* find_later(const std::vector<LaterAttachment>& list,
                                           std::string_view hyper) {
    for (const LaterAttachment& l : list)
      if (hyper == l.hyper) return &l;
    return nullptr;
  }

  // What would silently be gone after the load.
  void look_for_lost() {
    for (const Attachment& a : live_.items) {
      const Group& group = model_.groups[size_t(a.group)];
      const char* const hyper = group.rule().hypers[size_t(a.hyper)].name;
      if (!lists(record_.attachments, a.group, hyper))
        tell_lost(group.where(a.group) + ": " + hyper, *a.schedule.get());
    }
    for (const LaterAttachment& l : live_.later)
      if (!lists(record_.later, -1, l.hyper))
        tell_lost(std::string("groups added later: ") + l.hyper, *l.schedule.get());
  }

  static bool lists(const std::vector<AttachmentRecord>& records, int32_t group,
                    const char* hyper) {
    return std::any_of(records.begin(), records.end(), [&](const AttachmentRecord& a) {
      return a.group == group && a.hyper == hyper;
    });
  }

  void tell_lost(const std::string& where, const Schedule& schedule) {
    differ(where,
           text("schedule \"%s\" in the optimizer, none in the file; it can be attached after "
                "the load, or kept by TALUS_LOAD_KEEP_HYPER",
                schedule.kind().name));
  }

  const Model& model_;
  const Attachments& live_;
  const SchedulesRecord& record_;
  Differences& differences_;
  Restored& out_;
  std::vector<SchedulePtr> made_;
};

}  // namespace

Status record_schedules(const Optimizer& from, SchedulesRecord* out) {
  std::vector<const Attachment*> items;
  for (const Attachment& a : from.schedules().items) items.push_back(&a);
  std::sort(items.begin(), items.end(), [](const Attachment* a, const Attachment* b) {
    return std::pair(a->group, a->hyper) < std::pair(b->group, b->hyper);
  });
  Recorder recorder(out);
  for (const Attachment* const a : items) {
    const Group& group = from.model().groups[size_t(a->group)];
    AttachmentRecord record{a->group,
                            group.rule().hypers[size_t(a->hyper)].name,
                            a->clock,
                            recorder.number(*a->schedule.get()),
                            {}};
    if (a->schedule->plateau()) record.value = a->reduced;
    out->attachments.push_back(std::move(record));
  }
  for (const LaterAttachment& l : from.schedules().later)
    out->later.push_back({-1, l.hyper, l.clock, recorder.number(*l.schedule.get()), {}});
  if (recorder.fits() && out->attachments.size() <= kMostSchedules) return {};
  return failure(TALUS_E_ARGUMENT,
                 "talus_save: more than %zu schedules, pieces of them or attachments, which a load "
                 "does not read",
                 kMostSchedules);
}

void compare_schedules(const Optimizer& live, const SchedulesRecord& record,
                       Differences* differences, Restored* out) {
  Comparison(live, record, differences, out).run();
}

}  // namespace talus
