// What checkpoints need of an optimizer: notes, memory to load into, and taking over what was read.
#include <algorithm>

#include "lib/optimizer/optimizer.h"

namespace talus {
namespace {

constexpr size_t kKeyBytes = 4000;  // with its prefix a checkpoint's limit of 4096 holds
constexpr size_t kNoteBytes = size_t{16} << 20;

bool is_plain(std::string_view key) {
  for (const char c : key)
    if (is_control(c)) return false;
  return !key.empty() && key.size() <= kKeyBytes && is_utf8(key);
}

}  // namespace

Status Optimizer::set_note(std::string_view key, const char* text) {
  if (!is_plain(key))
    return failure(
        TALUS_E_ARGUMENT,
        "talus_set_note: key %s is no UTF-8 of 1 .. %zu bytes without control characters",
        quoted(key).c_str(), kKeyBytes);
  if (!text) {
    if (const auto found = notes_.find(key); found != notes_.end()) notes_.erase(found);
    return {};
  }
  const std::string_view note = text;
  if (note.size() > kNoteBytes || !is_utf8(note))
    return failure(TALUS_E_ARGUMENT,
                   "talus_set_note: the text of %s is no UTF-8 of at most %zu bytes",
                   quoted(key).c_str(), kNoteBytes);
  notes_.insert_or_assign(std::string(key), std::string(note));
  return {};
}

bool Optimizer::has_begun(int64_t param, const StateSlot& slot) const {
  return steps(param) > 0 ||
         (slot.column == kHidden && model_.table.hidden_given[size_t(param)] != 0);
}

Status Optimizer::check_idle(void* stream) {
  if (on_cpu_) return {};
  bool capturing = false;
  TALUS_TRY(ask_device(stream, &capturing));
  if (!capturing) {
    TALUS_TRY(settle());
    return scaler_ ? scaler_->fetch() : Status();
  }
  return failure(TALUS_E_NOT_PREPARED,
                 "the stream is capturing, expected one that a checkpoint can wait for");
}

Status Optimizer::give_memory(std::span<const int64_t> params, void* stream, bool* allocated) {
  TALUS_TRY(kept(memory_->allocate(params, stream, allocated)));
  if (*allocated) columns_changed_ = ~0u;
  return {};
}

void Optimizer::reserve_for(const Restored& from) {
  model_.classes.reserve(size_t(model_.params.size()), from.steps.size());
}

void Optimizer::restore(Restored& from) noexcept {
  for (size_t g = 0; g < from.groups.size(); ++g) model_.groups[g] = from.groups[g];
  for (const Restored::Steps& s : from.steps) {
    model_.classes.set_steps(model_.table, s.param, s.steps);
    if (s.steps == 0) model_.table.hidden_given[size_t(s.param)] = s.master_given;
    if (s.steps > 0) model_.groups[size_t(model_.params[s.param].group)].start();
  }
  std::copy(from.settings.begin(), from.settings.end(), settings_);
  if (from.scaler && scaler_) (void)scaler_->restore(from.scaler->params, from.scaler->state);
  scaler_round_ = 0;
  drop_clip();
  clocks_ = from.clocks;
  if (!from.keeps_schedules) {
    std::swap(schedules_, from.schedules);
    const auto own = [&](ScheduleUse& use) {
      if (Schedule* const plateau = use->plateau()) plateau->set_owner(this);
    };
    for (Attachment& a : schedules_.items) own(a.schedule);
    for (LaterAttachment& l : schedules_.later) own(l.schedule);
    for (Group& group : model_.groups) group.end_now();
  }
  measured_ = false;
  notes_.swap(from.notes);
  damaged_ = false;
  values_changed_ = plan_changed_ = state_wanted_ = true;
  columns_changed_ = ~0u;
}

Status Optimizer::check_whole() const {
  if (!damaged_) return {};
  return failure(
      TALUS_E_STATE,
      "a load in place has failed half-way and the state is mixed, expected talus_load or "
      "talus_destroy");
}

}  // namespace talus
