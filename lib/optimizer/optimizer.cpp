// The step: the whole story on one screen, then its parts in the order of their calls. What
// surrounds it is in life.cpp, values.cpp, tensors.cpp and states.cpp.
#include "lib/optimizer/optimizer.h"

#include <cmath>

#include "lib/base/float_contract.h"
#include "lib/base/float_environment.h"

namespace talus {
namespace {

// A backend's status with the name of what it was asked for.
Status from_backend(int32_t status, const char* what) {
  if (status == TALUS_OK) return {};
  return failure(status, "backend failed to %s: %s", what,
                 status == TALUS_E_MEMORY ? "out of memory" : "see the status");
}

}  // namespace

Status Optimizer::step(void* stream) {
  TALUS_TRY(check_step());                                      // something is bound
  TALUS_TRY(check_conflicts());                                 // values fit each other
  TALUS_TRY(ready(StateMemory::Scope::with_gradient, stream));  // steady state: nothing to do
  const FloatEnvironment ieee;                                  // for the host scalars
  TALUS_TRY(measure(stream));                                   // gradient norm, if asked
  TALUS_TRY(send_scalars(stream));                              // one row per class, in double
  TALUS_TRY(begin_new(stream));                                 // first-timers: state and master
  TALUS_TRY(run_passes(stream));                                // the rule
  count_step();
  return {};
}

Status Optimizer::prepare(void* stream) {
  TALUS_TRY(check_conflicts());
  return ready(StateMemory::Scope::all, stream);
}

Status Optimizer::check_step() const {
  if (model_.classes.any_member()) return {};
  for (const int64_t count : model_.table.count)
    if (count > 0)
      return failure(
          TALUS_E_STATE,
          "talus_step: none of the %lld parameters has a gradient, expected at least one "
          "(talus_bind_grads)",
          static_cast<long long>(model_.params.size()));
  return {};
}

Status Optimizer::check_conflicts() {
  if (!values_changed_) return {};
  for (size_t g = 0; g < model_.groups.size(); ++g)
    TALUS_TRY(model_.groups[g].check_conflict(int32_t(g)));
  values_changed_ = false;
  return {};
}

// All memory that is wanted or none: a plan is drafted first and adopted once the state is there.
Status Optimizer::ready(StateMemory::Scope scope, void* stream) {
  const size_t classes = model_.classes.classes().size();
  if (rows_.size() < classes) {
    begin_rows_.resize(classes);
    rows_.resize(classes);
  }
  const bool allocates = state_wanted_ || scope == StateMemory::Scope::all;
  if (!plan_changed_) return allocates ? allocate_state(scope, stream) : Status();
  Draft draft;
  TALUS_TRY(draft_plan(&draft, stream));
  Status status;
  try {
    if (allocates) status = allocate_state(scope, stream);
  } catch (...) {
    release_workspace(draft.workspace, draft.bytes, stream);
    throw;
  }
  if (status.ok()) return adopt_plan(std::move(draft), stream);
  release_workspace(draft.workspace, draft.bytes, stream);
  return status;
}

Status Optimizer::allocate_state(StateMemory::Scope scope, void* stream) {
  TALUS_TRY(memory_->allocate(scope, stream));
  state_wanted_ = false;
  return {};
}

Status Optimizer::draft_plan(Draft* out, void* stream) {
  std::vector<KernelKey> keys;
  keys.reserve(size_t(model_.params.size()));
  for (int64_t p = 0; p < model_.params.size(); ++p) keys.push_back(model_.key_of(p));
  out->plan.build(model_.table, keys, chunk_);
  const PlanView view = out->plan.view(model_.table);
  out->bytes = backend_->workspace_bytes(&view);
  if (out->bytes == 0) return {};
  out->workspace = backend_->allocate(context_, out->bytes, kStateAlignment, stream);
  if (out->workspace) return {};
  return failure(TALUS_E_MEMORY, "workspace: the allocator has no %llu bytes",
                 static_cast<unsigned long long>(out->bytes));
}

Status Optimizer::adopt_plan(Draft draft, void* stream) {
  release_workspace(workspace_, workspace_bytes_, stream);
  plan_ = std::move(draft.plan);
  workspace_ = draft.workspace;
  workspace_bytes_ = draft.bytes;
  plan_changed_ = false;
  const PlanView view = plan_.view(model_.table);
  return from_backend(backend_->set_plan(context_, &view, workspace_, stream), "take the plan");
}

void Optimizer::release_workspace(void* workspace, uint64_t bytes, void* stream) {
  if (workspace) backend_->release(context_, workspace, bytes, stream);
}

Status Optimizer::measure(void* stream) {
  stats_.grad_norm = __builtin_nan("");
  if (settings_[kStats] == 0) return {};
  TALUS_TRY(from_backend(backend_->measure(context_, stream), "measure gradients"));
  Report report{};
  TALUS_TRY(from_backend(backend_->read_report(context_, &report, stream), "report"));
  stats_.grad_norm = std::sqrt(report.sum_squares);
  return {};
}

Status Optimizer::send_scalars(void* stream) {
  const std::span<const ScalarClass> classes = model_.classes.classes();
  for (size_t c = 0; c < classes.size(); ++c) {
    if (classes[c].members == 0) continue;
    const Group& group = model_.groups[size_t(classes[c].group)];
    group.rule().scalars(group.values(), classes[c].steps + 1, rows_[c].scalar);
    rows_[c].gradient_sign = group.gradient_sign();
  }
  if (gradients_changed_) {
    TALUS_TRY(from_backend(backend_->set_column(context_, kGradient, stream), "take gradients"));
    TALUS_TRY(from_backend(backend_->set_column(context_, kClassColumn, stream), "take classes"));
    gradients_changed_ = false;
  }
  return from_backend(backend_->set_rows(context_, rows_.data(), int32_t(classes.size()), stream),
                      "take scalars");
}

Status Optimizer::begin_new(void* stream) {
  if (!model_.classes.any_first()) return {};
  const std::span<const ScalarClass> classes = model_.classes.classes();
  for (size_t c = 0; c < classes.size(); ++c) {
    const Group& group = model_.groups[size_t(classes[c].group)];
    BeginRow& row = begin_rows_[c];
    row = {classes[c].members > 0 && classes[c].steps == 0, 0, {}};
    for (size_t k = 0; k < group.rule().slots.size(); ++k) {
      const Initial& initial = group.rule().slots[k].initial;
      if (initial.kind == Initial::param) row.copies_param |= 1u << k;
      row.initial[k] =
          initial.kind == Initial::hyper ? group.values()[initial.index] : initial.value;
    }
  }
  return from_backend(
      backend_->begin(context_, begin_rows_.data(), int32_t(classes.size()), stream), "begin");
}

Status Optimizer::run_passes(void* stream) {
  const double gradient_factor = 1;
  for (size_t i = 0; i < plan_.launches().size(); ++i) {
    const KernelKey& key = plan_.launches()[i].key;
    const VariantInfo& variant = rules()[size_t(key.rule)].variants[size_t(key.variant)];
    for (size_t pass = 0; pass < variant.passes.size(); ++pass)
      TALUS_TRY(from_backend(
          backend_->run(context_, int64_t(i), int32_t(pass), gradient_factor, stream), "step"));
  }
  return {};
}

void Optimizer::count_step() {
  for (const ScalarClass& c : model_.classes.classes())
    if (c.members > 0) model_.groups[size_t(c.group)].start();
  model_.classes.count_step();
  ++stats_.steps;
}

}  // namespace talus
