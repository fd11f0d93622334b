#include "lib/checkpoint/compare.h"

#include <algorithm>

#include "lib/checkpoint/crc32c.h"
#include "lib/checkpoint/schedules.h"
#include "lib/checkpoint/settings.h"
#include "lib/checkpoint/state_tensors.h"

namespace talus {
namespace {

using safetensors::shape_text;
using Int = long long;  // for %lld

bool lists(const ParamRecord& record, std::string_view slot) {
  return std::find(record.slots.begin(), record.slots.end(), slot) != record.slots.end();
}

class Comparison {
 public:
  Comparison(const Optimizer& live, const Catalogue& file, uint64_t flags, LoadPlan& plan)
      : live_(live), model_(live.model()), file_(file), flags_(flags), plan_(plan) {
    for (const ParamRecord& p : file.manifest().params) records_.emplace(p.name, &p);
  }

  Status run() {
    compare_groups();
    for (int64_t i = 0; i < model_.params.size(); ++i)
      if (!model_.params[i].removed) TALUS_TRY(compare_param(i));
    if (!has(TALUS_LOAD_ALLOW_EXTRA)) look_for_extra();
    const Counts& counts = file_.manifest().counts;
    plan_.restored.clocks = {counts.applied, counts.called, counts.clock};
    plan_.restored.keeps_schedules = has(TALUS_LOAD_KEEP_HYPER);
    if (!has(TALUS_LOAD_KEEP_HYPER)) {
      compare_settings(live_, file_.manifest(), &differences_, &plan_.restored);
      compare_schedules(live_, file_.manifest().schedules, &differences_, &plan_.restored);
    }
    plan_.restored.notes = {file_.manifest().notes.begin(), file_.manifest().notes.end()};
    return differences_.none() ? Status() : differences_.status(file_.name());
  }

 private:
  bool has(uint64_t flag) const { return (flags_ & flag) != 0; }
  void differ(int kind, const std::string& text) { differences_.add(kind, text); }

  // ---- groups ---------------------------------------------------------------------------------

  void compare_groups() {
    const std::vector<GroupRecord>& records = file_.manifest().groups;
    const size_t count = model_.groups.size();
    if (records.size() != count && !has(TALUS_LOAD_KEEP_HYPER)) {
      differ(TALUS_M_GROUP,
             text("%zu groups in the optimizer, %zu in the file", count, records.size()));
      return;
    }
    for (size_t g = 0; g < std::min(count, records.size()); ++g) compare_group(g, records[g]);
  }

  void compare_group(size_t g, const GroupRecord& record) {
    const Group& live = model_.groups[g];
    if (record.algorithm != live.algorithm()) {
      if (!has(TALUS_LOAD_KEEP_HYPER))
        differ(TALUS_M_ALGORITHM, text("group %zu: \"%s\" in the optimizer, %s in the file", g,
                                       live.algorithm(), quoted(record.algorithm).c_str()));
      return;  // with KEEP_HYPER it is the groups of each parameter that count
    }
    Group wanted = live;
    for (const auto& [name, value] : record.hyper) compare_hyper(g, live, name, value, &wanted);
    take_defaults(g, live, record, &wanted);
    if (has(TALUS_LOAD_KEEP_HYPER)) return;
    if (record.mode != "train")
      differ(TALUS_M_HYPER, text("group %zu: mode \"train\" in the optimizer, %s in the file", g,
                                 quoted(record.mode).c_str()));
    if (const Status conflict = wanted.check_conflict(int32_t(g)); !conflict.ok())
      differ(TALUS_M_HYPER, "in the file: " + conflict.text());
    plan_.restored.groups.push_back(wanted);
  }

  void compare_hyper(size_t g, const Group& live, const std::string& name, double value,
                     Group* wanted) {
    const std::span<const Hyper> hypers = live.rule().hypers;
    const auto found =
        std::find_if(hypers.begin(), hypers.end(), [&](const Hyper& h) { return name == h.name; });
    const auto at = text("group %zu \"%s\"", g, live.algorithm());
    if (found == hypers.end()) {
      if (!has(TALUS_LOAD_KEEP_HYPER))
        differ(TALUS_M_HYPER, at + ": the file has " + quoted(name) + ", which is not known here");
      return;
    }
    const double mine = live.values()[found - hypers.begin()];
    if ((found->flags & TALUS_HYPER_FIXED) && (mine != 0) != (value != 0))
      differ(TALUS_M_HYPER, text("%s: %s decides which state exists and is %g in the optimizer, %g "
                                 "in the file",
                                 at.c_str(), found->name, mine, value));
    if (has(TALUS_LOAD_KEEP_HYPER)) return;
    if (!accepts(*found, value))
      differ(TALUS_M_HYPER, "in the file: " + refuse_value(*found, value, at.c_str()).text());
    else
      wanted->set(name, value);
  }

  // Hyperparameters that are newer than the file; a fixed one may differ from the optimizer's.
  void take_defaults(size_t g, const Group& live, const GroupRecord& record, Group* wanted) {
    const std::span<const Hyper> hypers = live.rule().hypers;
    for (size_t i = 0; i < hypers.size(); ++i) {
      const auto same = [&](const auto& pair) { return pair.first == hypers[i].name; };
      if (std::none_of(record.hyper.begin(), record.hyper.end(), same))
        compare_hyper(g, live, hypers[i].name, live.default_of(i), wanted);
    }
  }

  // ---- parameters -----------------------------------------------------------------------------

  Status compare_param(int64_t i) {
    const Parameter& p = model_.params[i];
    const auto found = records_.find(p.name);
    if (found == records_.end()) {
      const bool whole = live_.check_whole().ok();  // else it has no state that could stay
      if (!has(TALUS_LOAD_ALLOW_MISSING) || !whole)
        differ(TALUS_M_MISSING_PARAM, where(i, p.name) + ": not in the file");
      return {};
    }
    const ParamRecord& record = *found->second;
    if (record.shape != param_shape(p)) {
      differ(TALUS_M_SHAPE,
             text("parameter %s: shape %s in the optimizer, %s in the file", quoted(p.name).c_str(),
                  shape_text(param_shape(p)).c_str(), shape_text(record.shape).c_str()));
      return {};
    }
    if (!compare_membership(i, p, record)) return {};
    int64_t steps = 0;
    TALUS_TRY(read_steps(p, &steps));
    compare_dtype(p, record);
    bool given = false;
    compare_slots(i, p, record, steps, &given);
    plan_.restored.steps.push_back({i, steps, given});
    compare_values(i, p, record, steps);
    return {};
  }

  bool compare_membership(int64_t i, const Parameter& p, const ParamRecord& record) {
    const Group& live = model_.group_of(i);
    const std::string& algorithm = file_.manifest().groups[size_t(record.group)].algorithm;
    if (record.group != p.group && !has(TALUS_LOAD_KEEP_HYPER)) {
      differ(TALUS_M_GROUP, text("parameter %s: group %d in the optimizer, %d in the file",
                                 quoted(p.name).c_str(), p.group, record.group));
      return false;
    }
    if (algorithm == live.algorithm()) return true;
    if (has(TALUS_LOAD_KEEP_HYPER))  // else its group has been told already
      differ(TALUS_M_ALGORITHM,
             text("parameter %s: \"%s\" in the optimizer, %s in the file", quoted(p.name).c_str(),
                  live.algorithm(), quoted(algorithm).c_str()));
    return false;
  }

  Status read_steps(const Parameter& p, int64_t* out) {
    const std::string key = state_key(p.name, kStepSlot);
    const Stored* const stored = file_.find(key);
    if (!stored) {
      differ(TALUS_M_SLOT, "parameter " + quoted(p.name) + ": the file has no " + quoted(key));
      return {};
    }
    if (stored->dtype != kStepDtype || !stored->shape.empty())
      return failure(TALUS_E_FORMAT, "%s: %s is %s %s, expected I64 []", file_.name().c_str(),
                     quoted(key).c_str(), stored->dtype.c_str(), shape_text(stored->shape).c_str());
    const Part& part = stored->parts.front();
    int64_t steps = 0;
    TALUS_TRY(file_.file(part.file).read(part.offset, &steps, sizeof steps));
    if (part.has_digest && crc32c(0, &steps, sizeof steps) != part.digest)
      return failure(TALUS_E_FORMAT, "%s: the digest of %s is not the one in the file",
                     file_.name().c_str(), quoted(key).c_str());
    if (steps < 0 || steps > kMostSteps)
      return failure(TALUS_E_FORMAT, "%s: %s is %lld, expected 0 .. 2^62", file_.name().c_str(),
                     quoted(key).c_str(), Int(steps));
    *out = steps;
    return {};
  }

  void compare_dtype(const Parameter& p, const ParamRecord& record) {
    if (record.dtype == file_dtype(p.dtype)) return;
    if (has(TALUS_LOAD_CONVERT) && lists(record, kMasterSlot) == p.has_master) return;
    differ(TALUS_M_PARAM_DTYPE,
           text("parameter %s: %s in the optimizer, %s in the file", quoted(p.name).c_str(),
                file_dtype(p.dtype), quoted(record.dtype).c_str()));
  }

  // ---- state ----------------------------------------------------------------------------------

  void compare_slots(int64_t i, const Parameter& p, const ParamRecord& record, int64_t steps,
                     bool* master_given) {
    for (const std::string& slot : record.slots) find_listed(i, p, slot, steps);
    for_each_slot(model_, i, [&](const StateSlot& slot) {
      const bool is_master = slot.column == kHidden;
      if (lists(record, slot.name)) {
        plan_reading(i, p, slot, steps);
        *master_given = *master_given || is_master;
      } else if (steps > 0 && is_master && has(TALUS_LOAD_CONVERT)) {
        plan_.widened.push_back(i);
      } else if (steps > 0) {
        differ(is_master ? TALUS_M_MASTER : TALUS_M_SLOT,
               text("parameter %s: slot \"%s\" is not in the file, after %lld steps",
                    quoted(p.name).c_str(), slot.name, Int(steps)));
      }
    });
  }

  // What the file lists must be there, and be known here.
  void find_listed(int64_t i, const Parameter& p, const std::string& slot, int64_t steps) {
    bool known = false;
    for_each_slot(model_, i, [&](const StateSlot& s) { known = known || slot == s.name; });
    const bool is_master = slot == kMasterSlot;
    if (!known)
      differ(is_master ? TALUS_M_MASTER : TALUS_M_SLOT,
             text("parameter %s: slot %s of the file is not one of the optimizer's",
                  quoted(p.name).c_str(), quoted(slot).c_str()));
    if (!file_.find(state_key(p.name, slot)))
      differ(TALUS_M_SLOT, text("parameter %s: the file lists slot %s and has no tensor %s",
                                quoted(p.name).c_str(), quoted(slot).c_str(),
                                quoted(state_key(p.name, slot)).c_str()));
    if (steps == 0 && !is_master)
      differ(TALUS_M_SLOT, text("parameter %s: the file has slot %s of no step",
                                quoted(p.name).c_str(), quoted(slot).c_str()));
  }

  void plan_reading(int64_t i, const Parameter& p, const StateSlot& slot, int64_t steps) {
    const Stored* const stored = file_.find(state_key(p.name, slot.name));
    if (!stored) return;  // told already
    Reading reading{Reading::state, i, slot, stored, Dtype::f32};
    // Before the first step a master may be anything: the step writes its rounded copy.
    if (slot.column == kHidden && steps > 0)
      reading.use = !has(TALUS_LOAD_PARAMS) ? Reading::checked_master
                    : values_of(p)          ? Reading::state
                                            : Reading::rounded_master;
    if (fits(p, slot.name, *stored, slot_shape(p, slot), slot.dtype, TALUS_M_STATE_DTYPE, &reading))
      plan_.readings.push_back(reading);
  }

  bool fits(const Parameter& p, const char* what, const Stored& stored,
            const std::vector<uint64_t>& shape, Dtype dtype, int dtype_kind, Reading* reading) {
    if (stored.shape != shape) {
      differ(TALUS_M_SHAPE, text("parameter %s: %s has shape %s in the optimizer, %s in the file",
                                 quoted(p.name).c_str(), what, shape_text(shape).c_str(),
                                 shape_text(stored.shape).c_str()));
      return false;
    }
    const bool ours = parse_dtype(stored.dtype, &reading->stored);
    if (ours && (reading->stored == dtype || has(TALUS_LOAD_CONVERT))) return true;
    differ(dtype_kind, text("parameter %s: %s is %s in the optimizer, %s in the file",
                            quoted(p.name).c_str(), what, file_dtype(dtype), stored.dtype.c_str()));
    return false;
  }

  // ---- the parameters themselves --------------------------------------------------------------

  const Stored* values_of(const Parameter& p) const {
    return is_own_key(p.name) ? nullptr : file_.find(p.name);
  }

  void compare_values(int64_t i, const Parameter& p, const ParamRecord& record, int64_t steps) {
    if (!has(TALUS_LOAD_PARAMS)) return;
    if (const Stored* const stored = values_of(p)) {
      Reading reading{Reading::parameter, i, {}, stored, Dtype::f32};
      if (fits(p, "the parameter", *stored, param_shape(p), p.dtype, TALUS_M_PARAM_DTYPE, &reading))
        plan_.readings.push_back(reading);
      return;
    }
    if (p.has_master && lists(record, kMasterSlot)) return;
    if (has(TALUS_LOAD_ALLOW_MISSING)) return;
    differ(TALUS_M_MISSING_PARAM,
           text("parameter %s: TALUS_LOAD_PARAMS, and the file has neither its values nor a master "
                "(%lld steps)",
                quoted(p.name).c_str(), Int(steps)));
  }

  void look_for_extra() {
    for (const auto& [name, record] : records_)
      if (model_.params.find(name) < 0)
        differ(TALUS_M_EXTRA_PARAM,
               "parameter " + quoted(name) + ": in the file, not in the optimizer");
  }

  const Optimizer& live_;
  const Model& model_;
  const Catalogue& file_;
  uint64_t flags_;
  LoadPlan& plan_;
  Differences differences_;
  std::map<std::string_view, const ParamRecord*> records_;
};

}  // namespace

void Differences::add(int kind, const std::string& text) {
  if (count_++ == 0) first_kind_ = kind;
  if (count_ <= kMost) text_ += "\n  " + text;
}

Status Differences::status(const std::string& file) const {
  std::string rest;
  if (count_ > kMost) rest = talus::text("\n  and %lld more", Int(count_ - kMost));
  return Status(TALUS_E_MISMATCH,
                talus::text("%s is not of this optimizer, %lld difference%s:", file.c_str(),
                            Int(count_), count_ == 1 ? "" : "s") +
                    text_ + rest,
                first_kind_);
}

Status compare(const Optimizer& live, const Catalogue& file, uint64_t flags, LoadPlan* out) {
  return Comparison(live, file, flags, *out).run();
}

}  // namespace talus
