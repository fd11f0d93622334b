// Steps in a graph of the device: recorded once, then advanced and replayed. What changes from step to
// step lies in device memory that the graph reads, so a replay needs nothing of the host but that.
#include "lib/base/float_contract.h"
#include "lib/base/float_environment.h"
#include "lib/optimizer/optimizer.h"

namespace talus {

Status Optimizer::ask_device(void* stream, bool* out) {
  TALUS_TRY(check_usable());
  int32_t capturing = 0;
  TALUS_TRY(from_backend(backend_->is_capturing(context_, stream, &capturing),
                         "tell whether the stream is capturing"));
  *out = capturing != 0;
  return {};
}

// Launches alone: a graph keeps where an upload came from, not what it was.
Status Optimizer::capture(void* stream) {
  if (!row_gradients_.empty())
    return failure(
        TALUS_E_UNSUPPORTED,
        "talus_step on a capturing stream: %zu parameters have gradients of rows, which a "
        "graph cannot take, expected dense ones",
        row_gradients_.size());
  if (is_ordered() && settings_[kErrorIfNonfinite] != 0 && !scaler_)
    return failure(TALUS_E_UNSUPPORTED,
                   "talus_step on a capturing stream: error_if_nonfinite has to wait for the step, "
                   "which a graph cannot, expected 0");
  if (settings_[kCheckMasters] != 0)
    return failure(
        TALUS_E_UNSUPPORTED,
        "talus_step on a capturing stream: check_masters reads masters back, which a graph "
        "cannot, expected 0");
  const bool lacks_control = is_ordered() && !orders_.control;
  const char* const missing = state_wanted_           ? "state has no memory"
                              : lacks_control         ? "what the device decides has no memory"
                              : plan_changed_         ? "the plan is not built"
                              : columns_changed_ != 0 ? "pointers have changed"
                                                      : nullptr;
  if (missing)
    return failure(
        TALUS_E_NOT_PREPARED,
        "talus_step on a capturing stream: %s, expected talus_prepare before the capture", missing);
  TALUS_TRY(send_row_gradients(stream));  // none: an eager step may have left its own
  if (is_ordered()) {
    TALUS_TRY(queue_decision(stream));
    TALUS_TRY(queue_passes(stream, true));
  } else {
    TALUS_TRY(queue_norms(stream));
    TALUS_TRY(run_passes(stream, true, Order::none));
  }
  if (scaler_) scaler_->forget_graph();  // its update is recorded behind the steps
  captured_ = {plans_, shape()};
  return {};
}

// Whether the launches of the last capture are still those of a step.
Status Optimizer::check_replay() const {
  if (captured_.plan == 0)
    return failure(
        TALUS_E_STATE,
        "talus_advance: no step has been captured, expected talus_prepare and talus_step "
        "on a capturing stream");
  if (plan_changed_ || state_wanted_ || captured_.plan != plans_)
    return failure(TALUS_E_STATE,
                   "talus_advance: a graph of the step no longer fits what has been added or set, "
                   "expected talus_prepare and another capture");
  const StepShape now = shape();
  if (captured_.shape.norm != now.norm)
    return failure(TALUS_E_STATE,
                   "talus_advance: the graph of the step was captured %s the norm of gradients "
                   "(setting \"stats\"), expected talus_prepare and another capture",
                   now.norm ? "without" : "with");
  if (!(captured_.shape == now))
    return failure(TALUS_E_STATE,
                   "talus_advance: the graph of the step was captured with other ways to scale, "
                   "check or clip gradients (a scaler, max_grad_norm, max_grad_value), expected "
                   "talus_prepare and another capture");
  return {};
}

// What a step does around its launches. First-timers begin here, ahead of the graph.
Status Optimizer::advance(void* stream) {
  if (on_cpu())
    return failure(TALUS_E_UNSUPPORTED,
                   "talus_advance: the CPU captures no steps, expected talus_step");
  bool capturing = false;
  TALUS_TRY(ask_device(stream, &capturing));
  TALUS_TRY(check_step());
  TALUS_TRY(check_conflicts());
  if (capturing)
    return failure(TALUS_E_STATE,
                   "talus_advance: the stream is capturing, expected a call before each replay");
  if (!row_gradients_.empty())
    return failure(
        TALUS_E_UNSUPPORTED,
        "talus_advance: %zu parameters have gradients of rows, which a graph cannot take, "
        "expected dense ones",
        row_gradients_.size());
  TALUS_TRY(check_replay());
  TALUS_TRY(check_masters(stream));
  if (is_ordered()) return advance_ordered(stream);
  if (skip_next_) return refuse_replay();
  TALUS_TRY(settle());
  const FloatEnvironment ieee;
  TALUS_TRY(evaluate_schedules(clocks_));
  fit_classes();
  TALUS_TRY(send_columns(stream));
  TALUS_TRY(send_scalars(stream));
  TALUS_TRY(begin_new(stream, Order::none));
  count_step();
  close_gradients();
  return {};
}

// A clip by call has found what skips a step, and this graph has none that decides.
Status Optimizer::refuse_replay() {
  const int64_t param = skip_param_;
  drop_clip();
  return Status(
      TALUS_E_NONFINITE,
      "talus_advance: the gradients that talus_clip_grad_norm has measured are not finite, "
      "and the graph skips no step, expected no replay, or check_finite or max_grad_norm "
      "before the capture",
      param);
}

}  // namespace talus
