#include "lib/schedule/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/base/float_contract.h"

namespace talus {
namespace {

using Int = long long;  // for %lld

constexpr int kMostLevels = 16;
constexpr int64_t kMostPieces = 4096;
constexpr size_t kMostMilestones = 65536;

}  // namespace

Status Schedule::create(std::string_view kind, SchedulePtr* out) {
  const ScheduleKind* const found = find_schedule_kind(kind);
  if (!found)
    return failure(
        TALUS_E_NAME, "no schedule %s, expected one of: %s", quoted(kind).c_str(),
        join_names(schedule_kinds(), [](const ScheduleKind& k) { return k.name; }).c_str());
  *out = std::make_shared<Schedule>(*found);
  return {};
}

Schedule::Schedule(const ScheduleKind& kind) : kind_(kind) {
  for (size_t i = 0; i < kind.params.size(); ++i) params_[i] = kind.params[i].def;
  plateau_ = fresh_plateau(params());
}

Schedule::~Schedule() = default;

// Going on multiplies on; going back starts again. What is not finite is not gone on from.
double Schedule::product(int64_t t) const {
  if (t < product_.t) product_ = {};
  RunningProduct p = product_;
  while (p.t < t) p = {p.t + 1, p.product * factor(p.t + 1)};
  if (std::isfinite(p.product)) product_ = p;
  return p.product;
}

// ---- parameters and parts -----------------------------------------------------------------------

Status Schedule::set(std::string_view name, double value) {
  for (size_t i = 0; i < kind_.params.size(); ++i) {
    const Hyper& param = kind_.params[i];
    if (name != param.name) continue;
    if (!accepts(param, value)) return refuse_value(param, value, where().c_str());
    const double before = params_[i];
    params_[i] = value;
    const char* const conflict = in_use() && kind_.conflict ? kind_.conflict(*this) : nullptr;
    if (conflict) {
      params_[i] = before;
      return failure(TALUS_E_RANGE, "%s: %s; got %s = %g", where().c_str(), conflict, param.name,
                     value);
    }
    const bool turns = plateau() == this && i == kPlateauMode && value != before;
    if (turns) plateau_ = fresh_plateau(params());
    return {};
  }
  if (kind_.params.empty())
    return failure(TALUS_E_NAME, "%s has no parameters, got %s", where().c_str(),
                   quoted(name).c_str());
  return failure(TALUS_E_NAME, "%s has no parameter %s, expected one of: %s", where().c_str(),
                 quoted(name).c_str(),
                 join_names(kind_.params, [](const Hyper& h) { return h.name; }).c_str());
}

Status Schedule::get(std::string_view name, double* value) const {
  for (size_t i = 0; i < kind_.params.size(); ++i)
    if (name == kind_.params[i].name) return *value = params_[i], Status();
  return failure(TALUS_E_NAME, "%s has no parameter %s", where().c_str(), quoted(name).c_str());
}

Status Schedule::check_list(std::string_view name) const {
  const bool has_any =
      kind_.needs == Needs::sorted_milestones || kind_.needs == Needs::ordered_milestones;
  if (has_any && name == "milestones") return {};
  return failure(TALUS_E_NAME, "%s has no list %s%s", where().c_str(), quoted(name).c_str(),
                 has_any ? ", expected milestones" : "");
}

Status Schedule::set_milestones(std::span<const int64_t> values) {
  if (values.size() > kMostMilestones)
    return failure(TALUS_E_RANGE, "%s: %zu milestones, expected at most %zu", where().c_str(),
                   values.size(), kMostMilestones);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0)
      return failure(TALUS_E_RANGE, "%s: milestones[%zu] is %lld, expected 0 or more",
                     where().c_str(), i, Int(values[i]));
    if (kind_.needs == Needs::ordered_milestones && i > 0 && values[i] < values[i - 1])
      return failure(TALUS_E_RANGE,
                     "%s: milestones[%zu] is %lld, behind %lld, expected none that decreases",
                     where().c_str(), i, Int(values[i]), Int(values[i - 1]));
  }
  const bool counted = kind_.needs == Needs::ordered_milestones && in_use();
  if (counted && values.size() + 1 != pieces_.size())
    return failure(TALUS_E_RANGE,
                   "%s has %zu pieces and is in use: got %zu milestones, expected %zu",
                   where().c_str(), pieces_.size(), values.size(), pieces_.size() - 1);
  std::vector<int64_t> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  milestones_.swap(sorted);
  return {};
}

// A running product is the old function's, but for one that a load has brought without its function.
Status Schedule::set_function(talus_schedule_function call, void* user, void (*destroy)(void*)) {
  if (kind_.needs != Needs::function)
    return failure(TALUS_E_UNSUPPORTED, "%s takes no function, expected lambda or multiplicative",
                   where().c_str());
  if (function_) product_ = {};
  ScheduleFunction given(call, user, destroy);
  function_.swap(given);
  return {};
}

Status Schedule::add(const SchedulePtr& piece) {
  if (!kind_.has_pieces)
    return failure(TALUS_E_UNSUPPORTED, "%s takes no pieces, expected sequential or chained",
                   where().c_str());
  if (in_use())
    return failure(TALUS_E_STATE, "%s is in use, expected its pieces before it is attached",
                   where().c_str());
  int64_t room = kMostPieces;
  if (!fits(kMostLevels, &room) || !piece->fits(kMostLevels - 1, &room)) return too_large();
  if (piece->contains(this))
    return failure(TALUS_E_ARGUMENT, "%s: a piece \"%s\" that it is itself a piece of",
                   where().c_str(), piece->kind_.name);
  pieces_.push_back(piece);
  return {};
}

bool Schedule::contains(const Schedule* other) const {
  return this == other || std::any_of(pieces_.begin(), pieces_.end(),
                                      [&](const SchedulePtr& p) { return p->contains(other); });
}

// Walks no further than that: a piece that stands in many places counts for each.
bool Schedule::fits(int levels, int64_t* room) const {
  if (levels == 0 || --*room < 0) return false;
  return std::all_of(pieces_.begin(), pieces_.end(),
                     [&](const SchedulePtr& piece) { return piece->fits(levels - 1, room); });
}

Status Schedule::too_large() const {
  return failure(TALUS_E_ARGUMENT, "%s: more than %d levels or %lld pieces in all", where().c_str(),
                 kMostLevels, Int(kMostPieces));
}

// ---- whole --------------------------------------------------------------------------------------

Status Schedule::check() const {
  TALUS_TRY(check_own());
  if (!kind_.has_pieces) return {};
  int64_t room = kMostPieces;
  if (!fits(kMostLevels, &room)) return too_large();  // pieces may have grown since they were added
  for (const SchedulePtr& piece : pieces_) TALUS_TRY(piece->check());
  return check_pieces();
}

Status Schedule::check_own() const {
  for (size_t i = 0; i < kind_.params.size(); ++i)
    if ((kind_.params[i].flags & TALUS_HYPER_REQUIRED) && !is_set(int(i)))
      return failure(TALUS_E_STATE, "%s: %s is not set, and has no default", where().c_str(),
                     kind_.params[i].name);
  if (const char* const conflict = kind_.conflict ? kind_.conflict(*this) : nullptr)
    return failure(TALUS_E_RANGE, "%s: %s", where().c_str(), conflict);
  return {};
}

Status Schedule::check_pieces() const {
  const bool one_at_a_time = kind_.needs == Needs::ordered_milestones;
  if (one_at_a_time && pieces_.empty())
    return failure(TALUS_E_STATE, "%s has no pieces, expected at least one", where().c_str());
  if (one_at_a_time && milestones_.size() + 1 != pieces_.size())
    return failure(TALUS_E_STATE, "%s: %zu milestones for %zu pieces, expected %zu",
                   where().c_str(), milestones_.size(), pieces_.size(), pieces_.size() - 1);
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Schedule& piece = *pieces_[i];
    const bool is_last = i + 1 == pieces_.size();
    if (piece.plateau() && (one_at_a_time || !is_last))
      return failure(TALUS_E_STATE,
                     "%s: piece %zu has a plateau, which may stand last in a chain only",
                     where().c_str(), i);
    if (!one_at_a_time && i > 0 && piece.ignores_base())
      return failure(
          TALUS_E_STATE,
          "%s: piece %zu, \"%s\", ignores the value of the pieces before it (max_value or "
          "initial_value is set) and may stand first only",
          where().c_str(), i, piece.kind_.name);
  }
  return {};
}

const Schedule* Schedule::unbound() const {
  if (kind_.needs == Needs::function && !function_) return this;
  for (const SchedulePtr& piece : pieces_)
    if (const Schedule* const found = piece->unbound()) return found;
  return nullptr;
}

Schedule* Schedule::plateau() {
  if (std::string_view(kind_.name) == "plateau") return this;
  for (const SchedulePtr& piece : pieces_)
    if (Schedule* const found = piece->plateau()) return found;
  return nullptr;
}

Status Schedule::evaluate(double base, int64_t t, double* out) const {
  if (t < 0)
    return failure(TALUS_E_RANGE, "%s: t is %lld, expected 0 or more", where().c_str(), Int(t));
  if (!std::isfinite(base))
    return failure(TALUS_E_RANGE, "%s: base is %g, expected a finite number", where().c_str(),
                   base);
  TALUS_TRY(check());
  if (const Schedule* const found = unbound())
    return failure(TALUS_E_STATE, "%s has no function (talus_schedule_set_function)",
                   found->where().c_str());
  if (plateau())
    return failure(
        TALUS_E_UNSUPPORTED,
        "%s: a plateau's value is what reports have made it, expected talus_value_now of "
        "an optimizer that it is attached to",
        where().c_str());
  const double value = this->value(base, {t, base, base});
  if (!std::isfinite(value))
    return failure(TALUS_E_RANGE, "%s at t = %lld with base %g is %g, expected a finite number",
                   where().c_str(), Int(t), base, value);
  *out = value;
  return {};
}

void Schedule::use(int count) {
  uses_ += count;
  for (const SchedulePtr& piece : pieces_) piece->use(count);
}

}  // namespace talus
