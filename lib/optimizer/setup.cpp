// What surrounds the step: groups, values, parameters, gradients, state, hooks. Each call checks
// all it was given before it changes anything.
#include <algorithm>

#include "lib/base/log.h"
#include "lib/cpu/backend.h"
#include "lib/cpu/chunk_runner.h"
#include "lib/cpu/kernels.h"
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
     "0: bind calls skip the search for overlaps with other tensors"},
};
static_assert(std::size(kSettings) == kSettingCount);

Status find_setting(std::string_view name, int* out) {
  for (int i = 0; i < kSettingCount; ++i)
    if (name == kSettings[i].name) return *out = i, Status();
  return failure(TALUS_E_NAME, "no setting \"%.*s\", expected one of: %s", int(name.size()),
                 name.data(),
                 join_names(settings(), [](const Hyper& h) { return h.name; }).c_str());
}

}  // namespace

std::span<const Hyper> settings() { return kSettings; }

// ---- life ------------------------------------------------------------------------------------

Status Optimizer::create(const AlgorithmRef& algorithm, std::unique_ptr<Optimizer>* out) {
  const TargetInfo* target = nullptr;
  TALUS_TRY(choose_cpu_target(&target));
  std::unique_ptr<Optimizer> made(new Optimizer);
  made->backend_ = &cpu_backend();
  made->config_.threads = usable_threads();
  if (const int32_t status = made->backend_->create(&made->config_, &made->context_);
      status != TALUS_OK)
    return failure(status, "cannot create the %s backend", made->backend_->name);
  made->memory_ = std::make_unique<StateMemory>(made->model_, *made->backend_, made->context_);
  made->algorithm_ = algorithm;
  made->model_.groups.emplace_back(algorithm);
  for (int i = 0; i < kSettingCount; ++i) made->settings_[i] = kSettings[i].def;
  log_line(TALUS_LOG_INFO, "optimizer \"%s\" on %s, target %s", algorithm.algorithm->name,
           made->backend_->name, target->kernels->target);
  *out = std::move(made);
  return {};
}

Optimizer::~Optimizer() {
  memory_.reset();
  if (workspace_) backend_->release(context_, workspace_, workspace_bytes_, nullptr);
  if (context_) backend_->destroy(context_);
  if (config_.allocator.destroy) config_.allocator.destroy(config_.allocator.user);
}

Status Optimizer::configure(const BackendConfig& config) {
  if (const int32_t status = backend_->set_config(context_, &config); status != TALUS_OK)
    return failure(status, "the %s backend cannot take %d threads", backend_->name, config.threads);
  config_ = config;
  return {};
}

Status Optimizer::set_parallel_for(talus_parallel_for run, void* user) {
  BackendConfig config = config_;
  config.parallel_for = run;
  config.parallel_for_user = run ? user : nullptr;
  return configure(config);
}

Status Optimizer::set_allocator(const talus_allocator& allocator) {
  if (memory_->bytes() || workspace_)
    return failure(TALUS_E_STATE,
                   "talus_set_allocator: %llu bytes are allocated already, expected a call before "
                   "prepare and step",
                   static_cast<unsigned long long>(memory_->bytes() + workspace_bytes_));
  BackendConfig config = config_;
  config.allocator = allocator;
  const talus_allocator before = config_.allocator;
  TALUS_TRY(configure(config));
  if (before.destroy) before.destroy(before.user);
  return {};
}

void Optimizer::set_chunk(int64_t elements) {
  chunk_ = elements;
  plan_changed_ = true;
}

// ---- groups and values -----------------------------------------------------------------------

Status Optimizer::add_group(const AlgorithmRef* algorithm, int32_t* group) {
  Group added(algorithm ? *algorithm : algorithm_);
  const int32_t index = int32_t(model_.groups.size());
  for (const Override& o : overrides_) {
    if (!added.find(o.name)) continue;
    TALUS_TRY(added.check(o.name, o.value, index));
    added.set(o.name, o.value);
  }
  model_.groups.push_back(std::move(added));
  values_changed_ = true;
  *group = index;
  return {};
}

Status Optimizer::set(int32_t group, std::string_view name, double value) {
  const size_t first = group == TALUS_ALL ? 0 : size_t(group);
  const size_t last = group == TALUS_ALL ? model_.groups.size() : first + 1;
  bool known = false;
  for (size_t g = first; g < last; ++g) {
    if (group == TALUS_ALL && !model_.groups[g].find(name)) continue;
    TALUS_TRY(model_.groups[g].check(name, value, int32_t(g)));
    known = true;
  }
  if (!known) return model_.groups[0].check(name, value, 0);  // TALUS_E_NAME with what is known
  if (group == TALUS_ALL) overrides_.push_back({std::string(name), value});
  for (size_t g = first; g < last; ++g) {
    Group& changed = model_.groups[g];
    if (!changed.find(name)) continue;
    const bool fixed =
        changed.rule().hypers[size_t(find_hyper(changed.rule(), name))].flags & TALUS_HYPER_FIXED;
    const bool switches = (value != 0) != (*changed.find(name) != 0);
    changed.set(name, value);
    if (fixed && switches) change_slots(int32_t(g));
  }
  values_changed_ = true;
  return {};
}

// Before the group's first step only: other slots exist now.
void Optimizer::change_slots(int32_t group) {
  for (int64_t p = 0; p < model_.params.size(); ++p)
    if (model_.params[p].group == group) memory_->drop(p);
  plan_changed_ = state_wanted_ = true;
  first_state_.clear();
}

Status Optimizer::get(int32_t group, std::string_view name, double* value) const {
  const Group& g = model_.groups[size_t(group)];
  const double* found = g.find(name);
  if (!found) return g.check(name, 0, group);
  *value = *found;
  return {};
}

Status Optimizer::set_setting(std::string_view name, double value) {
  int i = 0;
  TALUS_TRY(find_setting(name, &i));
  TALUS_TRY(check_range(kSettings[i], value, "settings"));
  if (i == kThreads) {
    BackendConfig config = config_;
    config.threads = value == 0 ? usable_threads() : int32_t(value);
    TALUS_TRY(configure(config));
  }
  settings_[i] = value;
  return {};
}

Status Optimizer::get_setting(std::string_view name, double* value) const {
  int i = 0;
  TALUS_TRY(find_setting(name, &i));
  *value = settings_[i];
  return {};
}

// ---- parameters and gradients ----------------------------------------------------------------

Status Optimizer::add_params(int32_t group, std::span<const talus_param> params, int64_t* first) {
  const int64_t before = model_.params.size();
  plan_changed_ = true;  // the columns may move, even if this fails
  Status status;
  try {
    status = add_checked(group, params);
  } catch (...) {
    take_back(before);
    throw;
  }
  if (!status.ok()) {
    take_back(before);
    return status;
  }
  for (int64_t p = before; p < model_.params.size(); ++p)
    if (model_.table.data(kGradient, p)) model_.classes.join(model_.table, p);
  state_wanted_ = gradients_changed_ = true;
  first_state_.clear();
  if (first) *first = before;
  return {};
}

Status Optimizer::add_checked(int32_t group, std::span<const talus_param> params) {
  const size_t before = size_t(model_.params.size()), after = before + params.size();
  model_.table.reserve(after);
  model_.classes.reserve(after, params.size());
  memory_->reserve(after);
  for (size_t i = 0; i < params.size(); ++i) {
    Parameter p;
    TALUS_TRY(describe(params[i], int64_t(i), int64_t(before + i), &p));
    p.group = group;
    TALUS_TRY(model_.params.add(p, params[i].data, int64_t(i)));
    const int64_t row = int64_t(before + i);
    model_.table.add_row(p.count);  // reserved: nothing throws from here on
    model_.table.set(kValue, row, params[i].data, p.dtype);
    model_.table.set(kGradient, row, params[i].grad, p.grad_dtype);
    model_.table.seal(row);
    model_.classes.add_parameter(group);
    memory_->add_parameter();
  }
  return check_new_gradients(int64_t(before));
}

void Optimizer::take_back(int64_t n) {
  model_.params.truncate(n, model_.table);
  model_.table.truncate(size_t(n));
  model_.classes.truncate(size_t(n));
  memory_->truncate(size_t(n));
}

// New gradients against all data, and the gradients that were there against the new data.
Status Optimizer::check_new_gradients(int64_t first) const {
  uintptr_t low = UINTPTR_MAX, high = 0;
  for (int64_t p = first; p < model_.params.size(); ++p) {
    TALUS_TRY(check_grad(p, model_.table.data(kGradient, p)));
    const uintptr_t begin = uintptr_t(model_.table.data(kValue, p));
    if (model_.params[p].count == 0) continue;
    low = std::min(low, begin);
    high =
        std::max(high, begin + uintptr_t(model_.params[p].count * size_of(model_.params[p].dtype)));
  }
  for (int64_t p = 0; p < first; ++p) {
    const uintptr_t grad = uintptr_t(model_.table.data(kGradient, p));
    const uintptr_t bytes =
        uintptr_t(model_.params[p].count * size_of(model_.params[p].grad_dtype));
    if (grad && grad < high && grad + bytes > low)
      TALUS_TRY(check_grad(p, model_.table.data(kGradient, p)));
  }
  return {};
}

Status Optimizer::check_grad(int64_t param, const void* grad) const {
  const Parameter& p = model_.params[param];
  if (!grad) return {};
  return model_.params.check_overlap(grad, uint64_t(p.count * size_of(p.grad_dtype)), param,
                                     "grad");
}

Status Optimizer::bind_data(int64_t param, void* data) {
  const Parameter& p = model_.params[param];
  TALUS_TRY(check_pointer(data, p, p.dtype, param, "data"));
  if (p.count > 0) {
    const uint64_t bytes = uint64_t(p.count * size_of(p.dtype));
    MemoryMap& memory = model_.params.memory();
    auto own = memory.take(model_.table.data(kValue, param));  // its old place does not count
    Status status;
    if (settings_[kCheckPointers] != 0)
      status = model_.params.check_overlap(data, bytes, param, "data");
    for (int64_t q = 0; status.ok() && settings_[kCheckPointers] != 0 && q < model_.params.size();
         ++q) {
      const char* grad = static_cast<const char*>(model_.table.data(kGradient, q));
      const uint64_t grad_bytes =
          uint64_t(model_.params[q].count * size_of(model_.params[q].grad_dtype));
      if (grad && grad < static_cast<char*>(data) + bytes &&
          grad + grad_bytes > static_cast<char*>(data))
        status = failure(
            TALUS_E_ARGUMENT,
            "parameter %lld \"%s\": data at %p overlaps the gradient of parameter %lld \"%s\", "
            "expected memory of its own",
            static_cast<long long>(param), p.name.c_str(), data, static_cast<long long>(q),
            model_.params[q].name.c_str());
    }
    memory.put(std::move(own), status.ok() ? data : model_.table.data(kValue, param), bytes);
    TALUS_TRY(status);
  }
  model_.table.set_data(kValue, param, data);
  if (const int32_t s = backend_->set_column(context_, kValue, nullptr); s != TALUS_OK)
    return failure(s, "the %s backend cannot take the pointer", backend_->name);
  return {};
}

Status Optimizer::bind_grads(int64_t first, std::span<void* const> grads) {
  size_t moves = 0;
  for (size_t i = 0; i < grads.size(); ++i) {
    const int64_t param = first + int64_t(i);
    void* const bound = model_.table.data(kGradient, param);
    if (grads[i] == bound) continue;
    if (!bound) ++moves;
    if (!grads[i]) continue;
    const Parameter& p = model_.params[param];
    TALUS_TRY(check_pointer(grads[i], p, p.grad_dtype, param, "grad"));
    if (settings_[kCheckPointers] != 0) TALUS_TRY(check_grad(param, grads[i]));
  }
  if (moves) model_.classes.reserve(size_t(model_.params.size()), moves);
  for (size_t i = 0; i < grads.size(); ++i) set_grad(first + int64_t(i), grads[i]);
  return {};
}

// After classes.reserve: does not throw.
void Optimizer::set_grad(int64_t param, void* grad) {
  void* const bound = model_.table.data(kGradient, param);
  if (grad == bound) return;
  model_.table.set_data(kGradient, param, grad);
  gradients_changed_ = true;
  if (grad && !bound) {
    model_.classes.join(model_.table, param);
    state_wanted_ = state_wanted_ || !memory_->complete(param);
  } else if (!grad) {
    model_.classes.leave(model_.table, param);
  }
}

Status Optimizer::zero_grad(bool unbind, void* stream) {
  for (int64_t p = 0; p < model_.params.size(); ++p) {
    void* const grad = model_.table.data(kGradient, p);
    if (!grad) continue;
    const Parameter& param = model_.params[p];
    if (unbind)
      set_grad(p, nullptr);
    else if (const int32_t s = backend_->fill_zero(
                 context_, grad, uint64_t(param.count * size_of(param.grad_dtype)), stream);
             s != TALUS_OK)
      return failure(s, "the %s backend cannot fill a gradient", backend_->name);
  }
  return {};
}

// ---- state -----------------------------------------------------------------------------------

void Optimizer::index_states() const {
  if (!first_state_.empty()) return;
  std::vector<int64_t> first{0};
  first.reserve(size_t(model_.params.size()) + 1);
  for (int64_t p = 0; p < model_.params.size(); ++p) {
    int64_t count = 0;
    for_each_slot(model_, p, [&](const StateSlot&) { ++count; });
    first.push_back(first.back() + count);
  }
  first_state_ = std::move(first);
}

int64_t Optimizer::state_count() const {
  index_states();
  return first_state_.back();
}

void Optimizer::state_at(int64_t i, int64_t* param, StateSlot* out) const {
  index_states();
  const auto next = std::upper_bound(first_state_.begin(), first_state_.end(), i);
  *param = next - first_state_.begin() - 1;
  int64_t left = i - first_state_[size_t(*param)];
  for_each_slot(model_, *param, [&](const StateSlot& s) {
    if (left-- == 0) *out = s;
  });
}

void* Optimizer::state_data(int64_t param, const StateSlot& slot) const {
  return model_.table.data(slot.column, param);
}

uint64_t Optimizer::state_alignment(int64_t, const StateSlot& slot) const {
  return uint64_t(size_of(slot.dtype));
}

bool Optimizer::find_slot_of(int64_t param, std::string_view name, StateSlot* out) const {
  bool found = false;
  for_each_slot(model_, param, [&](const StateSlot& s) {
    if (name == s.name) *out = s, found = true;
  });
  return found;
}

Status Optimizer::bind_state(int64_t param, std::string_view name, void* data, uint64_t bytes) {
  const Parameter& p = model_.params[param];
  const auto where = text("parameter %lld \"%s\"", static_cast<long long>(param), p.name.c_str());
  StateSlot slot{};
  if (!find_slot_of(param, name, &slot)) {
    std::string known;
    for_each_slot(model_, param, [&](const StateSlot& s) {
      known += (known.empty() ? "" : ", ") + std::string(s.name);
    });
    return failure(TALUS_E_NAME, "%s has no slot \"%.*s\", it has: %s", where.c_str(),
                   int(name.size()), name.data(), known.empty() ? "none" : known.c_str());
  }
  if (bytes != slot.bytes())
    return failure(TALUS_E_ARGUMENT, "%s: slot \"%s\" was given %llu bytes, expected %llu",
                   where.c_str(), slot.name, static_cast<unsigned long long>(bytes),
                   static_cast<unsigned long long>(slot.bytes()));
  Parameter as_slot;
  as_slot.name = p.name, as_slot.count = slot.count;
  TALUS_TRY(check_pointer(data, as_slot, slot.dtype, param, slot.name));
  if (slot.count > 0) {
    MemoryMap& memory = model_.params.memory();
    void* const old = memory_->is_bound(param, slot) ? state_data(param, slot) : nullptr;
    auto own = memory.take(old, {param, slot.column});
    const Status status = model_.params.check_overlap(data, bytes, param, slot.name);
    memory.put(std::move(own), status.ok() ? data : old, bytes);
    TALUS_TRY(status);
  }
  memory_->bind(param, slot, data);
  if (slot.column == kHidden) model_.table.hidden_given[size_t(param)] = 1;
  if (const int32_t s = backend_->set_column(context_, slot.column, nullptr); s != TALUS_OK)
    return failure(s, "the %s backend cannot take the pointer", backend_->name);
  return {};
}

Status Optimizer::set_steps(int64_t param, int64_t steps) {
  if (steps > 0) {
    Status missing;
    for_each_slot(model_, param, [&](const StateSlot& s) {
      if (missing.ok() && s.count > 0 && !state_data(param, s))
        missing = failure(TALUS_E_STATE,
                          "parameter %lld \"%s\": slot \"%s\" has no memory yet, expected "
                          "talus_bind_state or talus_prepare before talus_set_steps",
                          static_cast<long long>(param), model_.params[param].name.c_str(), s.name);
    });
    TALUS_TRY(missing);
  }
  model_.classes.reserve(size_t(model_.params.size()), 1);
  model_.classes.set_steps(model_.table, param, steps);
  if (steps > 0) model_.groups[size_t(model_.params[param].group)].start();
  gradients_changed_ = true;
  return {};
}

}  // namespace talus
