// Groups, hyperparameters and settings: each call checks all it was given before it changes anything.
#include "lib/cpu/chunk_runner.h"
#include "lib/optimizer/norms.h"
#include "lib/optimizer/optimizer.h"

namespace talus {
namespace {

constexpr Hyper kSettings[] = {
    {"threads",
     TALUS_INTEGER,
     0,
     {0, kMaxThreads, 0},
     0,
     "most threads of a step, the caller's included; 0: as many as the process may use"},
    {"stats", TALUS_FLAG, 0, kSwitch, 0, "1: measure the norm of the gradients in each step"},
    {"check_pointers", TALUS_FLAG, 1, kSwitch, 0,
     "0: calls that bind skip the search for overlaps, and do not ask the driver whose memory it "
     "is"},
    {"check_rows", TALUS_FLAG, 0, kSwitch, 0,
     "1: on a device, steps wait and refuse gradients of rows that repeat a row or name none"},
    {"check_masters", TALUS_FLAG, 0, kSwitch, 0,
     "1: steps refuse a 16-bit parameter that is not its master rounded; reads both, waits for a "
     "device"},
    {"chunk_tiles",
     TALUS_INTEGER,
     double(kChunk / kTile),
     {1, 65536, 0},
     0,
     "most work that a thread takes at once, in tiles of 4,096 elements; threads share a step from "
     "8 "
     "such pieces on"},
    {"shard_bytes",
     TALUS_INTEGER,
     4294967296,
     {0, 9007199254740992, 0},
     0,
     "most bytes of state in one file of a checkpoint of several, of at least one tensor; 0: any"},
    {"grad_scale",
     TALUS_REAL,
     1,
     {0x1p-126, 0x1p126, 0},
     0,
     "what the loss was multiplied by: gradients are divided by it; 1 with a scaler"},
    {"max_grad_norm",
     TALUS_REAL,
     0,
     {0, kInfinity, 0},
     0,
     "most norm of all gradients, which are scaled down to it; inf: measure only; 0: off"},
    {"grad_norm_type", TALUS_REAL, 2, {1, kInfinity, 0}, 0, "of max_grad_norm: 1, 2 or inf"},
    {"max_grad_value", TALUS_REAL, 0, kNotNegative, 0,
     "most magnitude of an element of a gradient, before any norm; 0: off"},
    {"check_finite", TALUS_FLAG, 0, kSwitch, 0,
     "1: steps whose gradients are not all finite are skipped, as with a scaler or max_grad_norm"},
    {"error_if_nonfinite", TALUS_FLAG, 0, kSwitch, 0,
     "1: such a step is an error in place of a skip, but with a scaler"},
};
static_assert(std::size(kSettings) == kSettingCount);

Status find_setting(std::string_view name, int* out) {
  for (int i = 0; i < kSettingCount; ++i)
    if (name == kSettings[i].name) return *out = i, Status();
  return failure(TALUS_E_NAME, "no setting %s, expected one of: %s", quoted(name).c_str(),
                 join_names(settings(), [](const Hyper& h) { return h.name; }).c_str());
}

}  // namespace

std::span<const Hyper> settings() { return kSettings; }

Status Optimizer::add_group(const AlgorithmRef* algorithm, int32_t* group) {
  Group added(algorithm ? *algorithm : algorithm_);
  const int32_t index = int32_t(model_.groups.size());
  for (const Override& o : overrides_) {
    if (!added.find(o.name)) continue;
    TALUS_TRY(added.check(o.name, o.value, index));
    added.set(o.name, o.value);
  }
  std::vector<Attachment> scheduled;
  TALUS_TRY(attach_later(added, index, &scheduled));
  schedules_.items.reserve(schedules_.items.size() + scheduled.size());
  model_.groups.push_back(std::move(added));
  for (Attachment& a : scheduled) schedules_.items.push_back(std::move(a));
  values_changed_ = true;
  *group = index;
  return {};
}

Status Optimizer::set(int32_t group, std::string_view name, double value) {
  const size_t first = group == TALUS_ALL ? 0 : size_t(group);
  const size_t last = group == TALUS_ALL ? model_.groups.size() : first + 1;
  bool known = false;
  for (size_t g = first; g < last; ++g) {
    if (model_.groups[g].may_be_fixed(name)) TALUS_TRY(settle());  // it may have started by now
    if (group == TALUS_ALL && !model_.groups[g].find(name)) continue;
    TALUS_TRY(model_.groups[g].check(name, value, int32_t(g)));
    known = true;
  }
  if (!known) return model_.groups[0].check(name, value, 0);  // TALUS_E_NAME with what is known
  if (group == TALUS_ALL) remember(name, value);
  for (size_t g = first; g < last; ++g) {
    Group& changed = model_.groups[g];
    if (!changed.find(name)) continue;
    const bool fixed =
        changed.rule().hypers[size_t(find_hyper(changed.rule(), name))].flags & TALUS_HYPER_FIXED;
    const bool switches = (value != 0) != (*changed.find(name) != 0);
    const int variant = changed.variant();
    const bool needs_total = changed.needs_total();
    changed.set(name, value);
    base_changed(int32_t(g), name, value);
    if (fixed && switches) change_slots(int32_t(g));
    plan_changed_ |= variant != changed.variant() || needs_total != changed.needs_total();
  }
  values_changed_ = true;
  return {};
}

// One entry a spelling, the last one set behind: rules differ in what they call a spelling of what,
// and new groups take all in order. Hosts set lr for TALUS_ALL at every step.
void Optimizer::remember(std::string_view name, double value) {
  for (const Group& group : model_.groups) {
    if (!group.find(name)) continue;
    const char* const spelling = group.spelling(name);
    std::erase_if(overrides_, [&](const Override& known) { return name == known.name; });
    overrides_.push_back({spelling, value});
    return;
  }
}

// Before the group's first step only: other slots exist now.
void Optimizer::change_slots(int32_t group) {
  for (int64_t p = 0; p < model_.params.size(); ++p)
    if (model_.params[p].group == group) memory_->drop(p);
  plan_changed_ = state_wanted_ = true;
  index_states(0);
}

Status Optimizer::get(int32_t group, std::string_view name, double* value) const {
  const Group& g = model_.groups[size_t(group)];
  const double* found = g.find(name);
  if (!found) return g.check(name, 0, group);
  *value = *found;
  return {};
}

Status Optimizer::check_setting(int i, double value) const {
  if (!accepts(kSettings[i], value)) return refuse_value(kSettings[i], value, "settings");
  if (i == kGradNormType) TALUS_TRY(check_norm_type(value, "settings: grad_norm_type"));
  if (i >= kGradScale && i <= kErrorIfNonfinite) TALUS_TRY(check_gradient_setting(i, value));
  return {};
}

Status Optimizer::set_setting(std::string_view name, double value) {
  int i = 0;
  TALUS_TRY(find_setting(name, &i));
  TALUS_TRY(check_setting(i, value));
  if (i == kThreads) {
    BackendConfig config = config_;
    config.threads = value == 0 ? usable_threads() : int32_t(value);
    TALUS_TRY(configure(config));
  }
  if (i == kChunkTiles) set_chunk(int64_t(value) * kTile);
  settings_[i] = value;
  return {};
}

Status Optimizer::get_setting(std::string_view name, double* value) const {
  int i = 0;
  TALUS_TRY(find_setting(name, &i));
  *value = settings_[i];
  return {};
}

}  // namespace talus
