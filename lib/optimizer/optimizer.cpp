// The step: the whole story on one screen, then its parts in the order of their calls. What
// surrounds it is in life.cpp, values.cpp, tensors.cpp and states.cpp.
#include "lib/optimizer/optimizer.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "lib/base/float_contract.h"
#include "lib/base/float_environment.h"
#include "lib/optimizer/norms.h"
#include "lib/table/step_law.h"

namespace talus {
Status Optimizer::step(void* stream) {
  bool capturing = false;
  if (!on_cpu_) TALUS_TRY(ask_device(stream, &capturing));      // usable? being recorded?
  TALUS_TRY(check_step());                                      // something is bound
  TALUS_TRY(check_round());                                     // once with a scaler
  TALUS_TRY(check_conflicts());                                 // values fit each other
  TALUS_TRY(check_gradients(false));                            // and what is bound
  if (capturing) return capture(stream);                        // recorded, not taken: capture.cpp
  TALUS_TRY(check_masters(stream));                             // none written from outside
  if (is_ordered()) return step_ordered(stream);                // the device decides: orders.cpp
  TALUS_TRY(settle());                                          // what it decided before
  const FloatEnvironment ieee;                                  // for what the host computes
  TALUS_TRY(evaluate_schedules(clocks_));                       // values of this step, in double
  TALUS_TRY(ready(StateMemory::Scope::with_gradient, stream));  // steady state: nothing to do
  TALUS_TRY(send_row_gradients(stream));                        // some rows in place of a gradient
  TALUS_TRY(measure(stream));                                   // norm and check, if asked
  if (stats_.found) return skip_step();                         // gradients.cpp
  TALUS_TRY(send_scalars(stream));                              // one row per class, in double
  TALUS_TRY(begin_new(stream, Order::none));                    // first-timers: state and master
  TALUS_TRY(run_passes(stream, false, Order::none));            // the rule
  count_step();
  close_gradients();
  return {};
}

Status Optimizer::prepare(void* stream) {
  bool capturing = false;
  if (!on_cpu_) TALUS_TRY(ask_device(stream, &capturing));
  TALUS_TRY(check_conflicts());
  if (capturing)
    return failure(TALUS_E_NOT_PREPARED,
                   "talus_prepare: the stream is capturing, expected a call before the capture");
  return ready(StateMemory::Scope::all, stream);
}

Status Optimizer::check_usable() const {
  if (on_cpu()) return {};
  if (getpid() != process_)
    return failure(TALUS_E_FORKED,
                   "the optimizer was created in process %lld and this is its child: no device "
                   "survives fork, expected talus_create here",
                   static_cast<long long>(process_));
  return lost_;
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
  total_wanted_ = false;
  for (size_t g = 0; g < model_.groups.size(); ++g) {
    TALUS_TRY(model_.groups[g].check_conflict(int32_t(g)));
    total_wanted_ = total_wanted_ || model_.groups[g].needs_total();
  }
  values_changed_ = false;
  return {};
}

// A row of scalars for each class there is; binding gradients makes classes.
void Optimizer::fit_classes() {
  const size_t classes = model_.classes.classes().size();
  if (rows_.size() >= classes) return;
  begin_rows_.resize(classes);
  rows_.resize(classes);
}

// Memory, plan and columns as the step needs them: all of it, or nothing has changed.
Status Optimizer::ready(StateMemory::Scope scope, void* stream) {
  fit_classes();
  bool allocated = false;
  if (state_wanted_ || scope == StateMemory::Scope::all) {
    TALUS_TRY(kept(memory_->allocate(scope, stream, &allocated)));
    if (allocated) columns_changed_ = ~0u;
  }
  if (plan_changed_) {
    Status status;
    try {
      status = build_plan(stream);
    } catch (...) {
      if (allocated) memory_->take_back();
      throw;
    }
    if (!status.ok() && allocated) memory_->take_back();
    TALUS_TRY(status);
  }
  state_wanted_ = false;
  TALUS_TRY(prepare_orders(stream));
  return send_columns(stream);
}

Status Optimizer::build_plan(void* stream) {
  std::vector<KernelKey> keys;
  keys.reserve(size_t(model_.params.size()));
  for (int64_t p = 0; p < model_.params.size(); ++p) keys.push_back(model_.key_of(p));
  ChunkPlan plan;
  plan.build(model_.table, keys, chunk_);
  const PlanView view = plan.view(model_.table);
  const uint64_t bytes = backend_->workspace_bytes(&view);
  void* workspace = nullptr;
  if (bytes) TALUS_TRY(kept(memory_->take_memory("workspace", bytes, stream, &workspace)));
  const Status status =
      from_backend(backend_->set_plan(context_, &view, workspace, stream), "take the plan");
  if (!status.ok()) {
    if (workspace) backend_->release(context_, workspace, bytes, stream);
    return status;
  }
  if (workspace_) backend_->release(context_, workspace_, workspace_bytes_, stream);
  workspace_ = workspace;
  workspace_bytes_ = bytes;
  plan_ = std::move(plan);  // moves the arrays that view points to
  has_f64_ = std::any_of(plan_.launches().begin(), plan_.launches().end(),
                         [](const Launch& l) { return l.key.compute == Dtype::f64; });
  plan_changed_ = false;
  columns_changed_ = 0;
  ++plans_;
  return {};
}

Status Optimizer::send_columns(void* stream) {
  for (int32_t c = 0; c <= kFlagColumn && columns_changed_ != 0; ++c)
    if (columns_changed_ >> c & 1)
      TALUS_TRY(from_backend(backend_->set_column(context_, c, stream), "take pointers"));
  columns_changed_ = 0;
  return {};
}

Status Optimizer::from_backend(int32_t status, const char* what) {
  if (status == TALUS_OK) return {};
  int64_t detail = 0;
  const char* const why = backend_->last_error(context_, &detail);
  const Status said(status, text("the %s backend failed to %s: %s", backend_->name, what, why),
                    detail);
  return kept(said);
}

// Remembers the end of the device.
Status Optimizer::kept(const Status& status) {
  return status.code() == TALUS_E_DEVICE_LOST ? lose(status) : status;
}

// Every later call that needs the device answers with the first reason.
Status Optimizer::lose(const Status& why) {
  lost_ =
      Status(TALUS_E_DEVICE_LOST, why.text() + "; nothing but talus_destroy is left", why.detail());
  return lost_;
}

Status Optimizer::read_stats(bool wait, StepStats* out) {
  if (!on_cpu_ && orders_.under_way > 0) TALUS_TRY(poll(wait ? Await::all : Await::none));
  if (wait) TALUS_TRY(fetch_norm());
  const FloatEnvironment ieee;  // whatever the caller's
  stats_.loss_scale = known_scale();
  if (last_ordered_) {
    const StepControl& last = orders_.last;
    stats_.grad_norm = norm_of(measured_type_, last.total);
    stats_.clip_factor = last.coef;
    stats_.found = last.found != 0;
    stats_.nonfinite_param = last.first_nonfinite;
    stats_.loss_scale = last.scale;
  }
  if (wait) TALUS_TRY(read_loss_scale(&stats_.loss_scale));
  if (!measured_) stats_.grad_norm = __builtin_nan("");
  stats_.steps = clocks_.applied - orders_.under_way;
  stats_.skipped = clocks_.called - clocks_.applied;
  *out = stats_;
  return {};
}

// What the step has measured is on its way.
void Optimizer::note_norm() {
  measured_ = wants_norm();
  measured_type_ = norm_type();
  norm_pending_ = measured_ && !on_cpu_;
  last_ordered_ = is_ordered();
}

Status Optimizer::fetch_norm() {
  if (!norm_pending_) return {};
  Report report{};
  TALUS_TRY(from_backend(backend_->read_report(context_, sum_of(measured_type_), &report, nullptr),
                         "report"));
  const FloatEnvironment ieee;
  stats_.grad_norm = norm_of(measured_type_, report.total);
  norm_pending_ = false;
  return {};
}

Status Optimizer::send_scalars(void* stream) {
  const GradientEntry entry = this->entry();
  const double factor = std::isfinite(entry.limit) ? coef_ : entry.factor * coef_;
  const std::span<const ScalarClass> classes = model_.classes.classes();
  for (size_t c = 0; c < classes.size(); ++c) {
    if (classes[c].members == 0) continue;
    const Group& group = model_.groups[size_t(classes[c].group)];
    group.rule().scalars(group.now(), classes[c].steps + 1, rows_[c].scalar);
    const bool clipped = size_t(classes[c].group) < group_coef_.size();
    const double group_coef = clipped ? group_coef_[size_t(classes[c].group)] : 1;
    rows_[c].gradient_factor = group.gradient_sign() * factor * group_coef;
    rows_[c].group_factor = coef_ * group_coef;
  }
  return from_backend(backend_->set_rows(context_, rows_.data(), int32_t(classes.size()), stream),
                      "take scalars");
}

// Of an ordered step: where none of those under way may turn out to have been taken.
Status Optimizer::begin_new(void* stream, Order order) {
  const int64_t doubtful = order == Order::none ? 0 : orders_.under_way;
  if (!model_.classes.any_first(doubtful)) return {};
  const std::span<const ScalarClass> classes = model_.classes.classes();
  for (size_t c = 0; c < classes.size(); ++c) {
    const Group& group = model_.groups[size_t(classes[c].group)];
    BeginRow& row = begin_rows_[c];
    row = {classes[c].members > 0 && classes[c].steps == doubtful, 0, {}};
    for (size_t k = 0; k < group.rule().slots.size(); ++k) {
      const Initial& initial = group.rule().slots[k].initial;
      if (initial.kind == Initial::param) row.copies_param |= 1u << k;
      row.initial[k] = initial.kind == Initial::hyper ? group.now()[initial.index] : initial.value;
    }
  }
  return from_backend(
      backend_->begin(context_, begin_rows_.data(), int32_t(classes.size()), order, stream),
      "begin");
}

Status Optimizer::run_passes(void* stream, bool recorded, Order order) {
  const GradientEntry entry = this->entry();
  const GradientEntry* const cut = std::isfinite(entry.limit) ? &entry : nullptr;
  for (size_t i = 0; i < plan_.launches().size(); ++i) {
    const KernelKey& key = plan_.launches()[i].key;
    const VariantInfo& variant = rules()[size_t(key.rule)].variants[size_t(key.variant)];
    for (size_t pass = 0; pass < variant.passes.size(); ++pass)
      if (const Status status =
              from_backend(backend_->run(context_, int64_t(i), int32_t(pass), cut, order, stream),
                           "step");
          !status.ok())  // behind another launch, some tensors have been updated and others not
        return recorded || (i == 0 && pass == 0) ? status : lose(status);
  }
  return {};
}

void Optimizer::count_step() {
  for (const ScalarClass& c : model_.classes.classes())
    if (c.members > 0) model_.groups[size_t(c.group)].start();
  model_.classes.count_step();
  note_norm();
  ++clocks_.applied;
  ++clocks_.called;
}

}  // namespace talus
