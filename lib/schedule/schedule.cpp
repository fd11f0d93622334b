#include "lib/schedule/schedule.h"

#include <algorithm>
#include <cmath>

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

// Pieces of pieces go one after the other, not inside each other: nothing limits how deep they lie
// before somebody asks for a value.
Schedule::~Schedule() {
  SchedulePtr gone;
  const auto take = [&](std::vector<SchedulePtr>& pieces) {
    for (SchedulePtr& piece : pieces) {
      if (piece.use_count() == 1) {
        piece->next_gone_ = std::move(gone);
        gone = std::move(piece);
      }
      piece.reset();
    }
  };
  take(pieces_);
  while (gone) {
    const SchedulePtr last = std::move(gone);
    gone = std::move(last->next_gone_);
    take(last->pieces_);
  }
}

double RunningProducts::at(int64_t t, const ScheduleFunction& factor) {
  if (t == 0) return 1;
  const auto place = [&](const RunningProduct& p) { return p.t <= t ? p.t : -1; };
  auto nearest = std::max_element(
      products_.begin(), products_.end(),
      [&](const RunningProduct& a, const RunningProduct& b) { return place(a) < place(b); });
  RunningProduct p = place(*nearest) > 0 ? *nearest : RunningProduct();
  if (p.t == 0) nearest = products_.end() - 1;  // the one that was longest not used
  while (p.t < t) p = {p.t + 1, p.product * factor(p.t + 1)};
  if (!std::isfinite(p.product)) return p.product;
  std::rotate(products_.begin(), nearest, nearest + 1);
  products_.front() = p;
  return p.product;
}

RunningProduct RunningProducts::furthest() const {
  return *std::max_element(
      products_.begin(), products_.end(),
      [](const RunningProduct& a, const RunningProduct& b) { return a.t < b.t; });
}

void Schedule::take_products(const Schedule& old) {
  if (&kind_ != &old.kind_ || pieces_.size() != old.pieces_.size()) return;
  const bool is_lost = kind_.needs == Needs::function && !old.function_;
  if (is_lost && running_product().t == 0) products_ = old.products_;
  for (size_t i = 0; i < pieces_.size(); ++i) pieces_[i]->take_products(*old.pieces_[i]);
}

// ---- parameters and parts -----------------------------------------------------------------------

Status Schedule::set(std::string_view name, double value) {
  for (size_t i = 0; i < kind_.params.size(); ++i) {
    const Hyper& param = kind_.params[i];
    if (name != param.name) continue;
    if (!accepts(param, value)) return refuse_value(param, value, where().c_str());
    const double before = params_[i];
    params_[i] = value;
    const char* conflict = in_use() && kind_.conflict ? kind_.conflict(*this) : nullptr;
    if (behind_ != 0 && ignores_base())
      conflict = "it would ignore the value of the pieces before it in a chain";
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
  if (function_) products_ = {};
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
  int64_t room = kMostPieces + 1;  // itself is none
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
  int64_t room = kMostPieces + 1;
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

void Schedule::use(int count, bool behind) {
  uses_ += count;
  if (behind) behind_ += count;
  const bool in_turn = kind_.needs == Needs::ordered_milestones;
  for (size_t i = 0; i < pieces_.size(); ++i) pieces_[i]->use(count, behind || (!in_turn && i > 0));
}

}  // namespace talus
