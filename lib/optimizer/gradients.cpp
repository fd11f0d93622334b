// How gradients enter a step: scaled back, checked, cut, clipped, without ever being written; and the
// step that is skipped because they are not finite. The order is unscale, check, cut, norm, clip.
#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/base/float_contract.h"
#include "lib/base/float_environment.h"
#include "lib/optimizer/optimizer.h"
#include "lib/optimizer/norms.h"
#include "lib/table/norm.h"
#include "lib/table/step_law.h"

namespace talus {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

}  // namespace

Sum sum_of(double norm_type) {
  return norm_type == 2 ? Sum::squares : norm_type == 1 ? Sum::magnitudes : Sum::largest;
}

Status check_norm_type(double type, const char* what) {
  if (type == 1 || type == 2 || type == kInfinite) return {};
  return failure(TALUS_E_RANGE, "%s is %g, expected 1, 2 or infinity", what, type);
}

// ---- what is asked for --------------------------------------------------------------------------

Status Optimizer::check_gradient_setting(int setting, double value) const {
  if (setting == kGradScale && value != 1 && (scaler_ || foreign_scale_))
    return failure(TALUS_E_STATE, "settings: grad_scale is %g beside a scaler, expected 1", value);
  return {};
}

Status Optimizer::check_own_scale(const char* function) const {
  if (settings_[kGradScale] == 1) return {};
  return failure(TALUS_E_STATE, "%s: the setting grad_scale is %g, expected 1 beside a scaler",
                 function, settings_[kGradScale]);
}

Status Optimizer::attach_scaler(std::shared_ptr<Scaler> scaler) {
  if (scaler) {
    if (!scaler->is_on(*backend_, config_.device))
      return failure(TALUS_E_ARGUMENT,
                     "talus_attach_scaler: the scaler is not on %s device %d, expected one that "
                     "was created there, as the optimizer",
                     backend_->name, config_.device);
    TALUS_TRY(check_own_scale("talus_attach_scaler"));
    if (foreign_scale_)
      return failure(
          TALUS_E_STATE,
          "talus_attach_scaler: a scale is bound (talus_bind_scale), expected NULL there "
          "first");
  }
  if (scaler_ == scaler) return {};  // the round goes on
  if (scaler && scaler != last_scaler_.lock()) scaler_round_ = 0;
  scaler_.swap(scaler);
  return {};
}

Status Optimizer::bind_scale(const float* scale, const float* found) {
  if (scale) {
    TALUS_TRY(check_own_scale("talus_bind_scale"));
    if (scaler_)
      return failure(TALUS_E_STATE,
                     "talus_bind_scale: a scaler is attached, expected talus_attach_scaler with "
                     "NULL first");
  }
  for (const float* const each : {scale, found})
    if (each && settings_[kCheckPointers] != 0 && !on_cpu_)
      TALUS_TRY(from_backend(backend_->check_pointer(context_, each, sizeof *each),
                             each == scale ? "take the scale" : "take the flag"));
  foreign_scale_ = scale;
  foreign_found_ = found;
  return {};
}

bool Optimizer::checks_gradients() const {
  return scaler_ || (foreign_scale_ && !foreign_found_) || settings_[kMaxGradNorm] > 0 ||
         settings_[kCheckFinite] != 0;
}

// The norm of all gradients: somebody asks for it, a clip or a rule does.
bool Optimizer::wants_norm() const {
  return settings_[kStats] != 0 || total_wanted_ || settings_[kMaxGradNorm] > 0;
}

// Of what the norm of a step is, as far as anybody but a rule asks for it.
double Optimizer::norm_type() const {
  return settings_[kStats] != 0 || settings_[kMaxGradNorm] > 0 ? settings_[kGradNormType] : 2;
}

// As far as the host knows: not the scale of a scaler on a device, nor a bound one there.
double Optimizer::known_scale() const {
  if (!on_cpu_) return settings_[kGradScale];
  return scaler_          ? double(scaler_->state().scale)
         : foreign_scale_ ? double(*foreign_scale_)
                          : settings_[kGradScale];
}

// Waits for a device.
Status Optimizer::read_loss_scale(double* out) {
  if (scaler_) return scaler_->read_scale(out);
  if (on_cpu_ || !foreign_scale_) return *out = known_scale(), Status();
  float scale = 1;
  TALUS_TRY(from_backend(backend_->wait(context_), "wait for the scale"));
  TALUS_TRY(from_backend(backend_->copy(context_, &scale, foreign_scale_, sizeof scale, nullptr),
                         "report the scale"));
  return *out = double(scale), Status();
}

GradientEntry Optimizer::entry() const {
  const double limit = settings_[kMaxGradValue];
  return {1 / known_scale(), limit > 0 ? limit : kInfinite};
}

// Of the optimizers of a scaler each steps once between two updates.
Status Optimizer::check_round() const {
  if (on_cpu_ && foreign_scale_ && !(*foreign_scale_ >= 0x1p-126f && *foreign_scale_ <= 0x1p126f))
    return failure(TALUS_E_RANGE, "talus_step: the bound scale is %g, expected 2^-126 to 2^126",
                   double(*foreign_scale_));
  if (!scaler_ || scaler_round_ != scaler_->round()) return {};
  return failure(TALUS_E_STATE,
                 "talus_step: this optimizer has stepped with its scaler already, expected "
                 "talus_scaler_update before");
}

// ---- norms --------------------------------------------------------------------------------------

Status Optimizer::measure_norm(const NormScope& scope, const GradientEntry& entry, void* stream,
                               Report* out) {
  Measure what{sum_of(scope.type), entry, nullptr};
  if (scope.group != TALUS_ALL) {
    const std::span<const ScalarClass> classes = model_.classes.classes();
    in_scope_.resize(classes.size());
    for (size_t c = 0; c < classes.size(); ++c) in_scope_[c] = classes[c].group == scope.group;
    what.classes = in_scope_.data();
  }
  TALUS_TRY(from_backend(backend_->measure(context_, &what, stream), "measure gradients"));
  if (!on_cpu_) return {};  // it reports later
  return from_backend(backend_->read_report(context_, what.kind, out, stream), "report");
}

// Before the passes of a step: the norm, what it says of the step, and what rules read of it.
Status Optimizer::measure(void* stream) {
  const FloatEnvironment ieee;
  const StepStats before = stats_;
  coef_ = 1;
  stats_.found = skip_next_ || (on_cpu_ && foreign_found_ && *foreign_found_ != 0);
  stats_.nonfinite_param = skip_next_ ? skip_param_ : -1;
  const double type = norm_type();
  bool has_squares = false;
  Report report{0, -1, 0};
  if (wants_norm()) {
    TALUS_TRY(measure_norm({TALUS_ALL, type}, entry(), stream, &report));
    stats_.grad_norm = norm_of(type, report.total);
    has_squares = type == 2;
    if (checks_gradients() && !std::isfinite(report.total)) {
      has_squares = false;
      TALUS_TRY(look_for_nonfinite(stream, &report));
    } else if (settings_[kMaxGradNorm] > 0) {
      coef_ = clip_coefficient(settings_[kMaxGradNorm], stats_.grad_norm);
    }
  } else if (checks_gradients()) {
    TALUS_TRY(glance(stream, &report));
  }
  if (stats_.found && settings_[kErrorIfNonfinite] != 0 && !scaler_) {
    const int64_t param = stats_.nonfinite_param;
    stats_ = before;
    drop_clip();
    return nonfinite_gradient(param);
  }
  if (stats_.found || !total_wanted_ || has_squares) return {};
  return measure_norm({TALUS_ALL, 2}, entry(), stream, &report);
}

// A check alone, with no norm of it.
Status Optimizer::glance(void* stream, Report* report) {
  Measure what{Sum::largest, entry()};
  what.glance = true;
  TALUS_TRY(from_backend(backend_->measure(context_, &what, stream), "check gradients"));
  TALUS_TRY(from_backend(backend_->read_report(context_, what.kind, report, stream), "report"));
  if (std::isfinite(report->total)) return {};
  stats_.found = true;
  stats_.nonfinite_param = report->first_nonfinite;
  return {};
}

// The launches of a graph that decides nothing.
Status Optimizer::queue_norms(void* stream) {
  Report later{0, -1, 0};
  const double type = norm_type();
  if (wants_norm()) TALUS_TRY(measure_norm({TALUS_ALL, type}, entry(), stream, &later));
  if (!total_wanted_ || type == 2) return {};
  return measure_norm({TALUS_ALL, 2}, entry(), stream, &later);
}

// Of a norm that is not finite. A sum of f64 overflows where no gradient is infinite: that alone skips
// no step, but where the norm is to clip.
Status Optimizer::look_for_nonfinite(void* stream, Report* report) {
  if (settings_[kMaxGradNorm] == 0 && settings_[kGradNormType] != kInfinite)
    TALUS_TRY(measure_norm({TALUS_ALL, kInfinite}, entry(), stream, report));
  if (std::isfinite(report->total)) return {};
  stats_.found = true;
  stats_.nonfinite_param = report->first_nonfinite;
  return {};
}

// Tensors that count in a norm, in order: as many as there are totals.
template <class Use>
void Optimizer::each_counted(int32_t group, Use use) const {
  for (int64_t p = 0; p < model_.params.size(); ++p) {
    const int32_t in_class = model_.table.scalar_class[size_t(p)];
    if (in_class == kIdle || model_.table.count[size_t(p)] == 0) continue;
    const int32_t of = model_.classes.classes()[size_t(in_class)].group;
    if (group == TALUS_ALL || of == group) use(p, size_t(of));
  }
}

// What clips by call have left of totals so far, for another one before the same step.
void Optimizer::scale_totals(const NormScope& scope, double* total,
                             int64_t* first_nonfinite) const {
  const FloatEnvironment ieee;
  each_counted(scope.group, [&](int64_t param, size_t group) {
    const double coef = group < group_coef_.size() ? group_coef_[group] : 1;
    *total = scope.type == 2 ? scaled_total(*total, coef) : *total * coef;
    if (*first_nonfinite < 0 && !std::isfinite(*total)) *first_nonfinite = param;
    ++total;
  });
}

Status Optimizer::tensor_totals(const NormScope& scope, void* stream, std::vector<double>* out) {
  bool capturing = false;
  if (!on_cpu_) TALUS_TRY(ask_device(stream, &capturing));
  if (capturing)
    return failure(TALUS_E_UNSUPPORTED,
                   "a norm on a capturing stream: its value is wanted now, expected another stream "
                   "or the setting max_grad_norm");
  TALUS_TRY(check_conflicts());
  TALUS_TRY(check_gradients(false));
  TALUS_TRY(ready(StateMemory::Scope::with_gradient, stream));
  const FloatEnvironment ieee;
  TALUS_TRY(send_row_gradients(stream));
  TALUS_TRY(fetch_norm());  // of the last step, before another takes its place
  GradientEntry enters = entry();
  double scale = 1;
  TALUS_TRY(read_loss_scale(&scale));
  if (!(scale >= 0x1p-126 && std::isfinite(scale)))
    return failure(TALUS_E_RANGE, "the bound scale is %g, expected 2^-126 to 2^126", scale);
  enters.factor = 1 / scale;
  Report report{};
  TALUS_TRY(measure_norm(scope, enters, stream, &report));
  const size_t before = out->size();
  out->resize(before + size_t(model_.params.size()));
  int64_t count = 0;
  TALUS_TRY(from_backend(backend_->read_totals(context_, out->data() + before, &count, stream),
                         "report totals"));
  out->resize(before + size_t(count));
  return {};
}

// A clip of one group changes the norm of all, which its rules would read.
Status Optimizer::check_clip(int32_t group) {
  TALUS_TRY(check_conflicts());
  if (group == TALUS_ALL || !total_wanted_ || model_.groups.size() == 1) return {};
  return failure(
      TALUS_E_UNSUPPORTED,
      "talus_clip_grad_norm: group is %d, and a rule of this optimizer reads the norm of all "
      "gradients, expected TALUS_ALL",
      group);
}

void Optimizer::clip_next(int32_t group, double coef, bool found, int64_t param) {
  if (found && !skip_next_) skip_param_ = param;
  skip_next_ = skip_next_ || found;
  for (size_t g = 0; g < group_coef_.size(); ++g)
    if (group == TALUS_ALL || size_t(group) == g) group_coef_[g] *= coef;
}

void Optimizer::reserve_clip() { group_coef_.resize(model_.groups.size(), 1); }

namespace {

void join_norm(double type, std::vector<double>* totals, double* norm) {
  const FloatEnvironment ieee;
  *norm = norm_of(type, fold_pairs(sum_of(type), totals->data(), int64_t(totals->size())));
}

}  // namespace

Status grad_norm(std::span<Optimizer* const> of, const NormScope& scope, void* stream,
                 double* norm) {
  std::vector<double> totals;
  for (Optimizer* const each : of) TALUS_TRY(each->tensor_totals(scope, stream, &totals));
  join_norm(scope.type, &totals, norm);
  return {};
}

Status clip_grad_norm(std::span<Optimizer* const> of, const NormScope& scope, double max_norm,
                      void* stream, double* norm) {
  if (!(max_norm > 0))
    return failure(TALUS_E_RANGE, "max_norm is %g, expected more than 0 (infinity: measure only)",
                   max_norm);
  for (Optimizer* const each : of) {
    TALUS_TRY(each->check_clip(scope.group));
    each->reserve_clip();
  }
  std::vector<double> totals;
  std::vector<int64_t> nonfinite(of.size(), -1);
  for (size_t i = 0; i < of.size(); ++i) {
    const size_t first = totals.size();
    TALUS_TRY(of[i]->tensor_totals(scope, stream, &totals));
    of[i]->scale_totals(scope, totals.data() + first, &nonfinite[i]);
  }
  join_norm(scope.type, &totals, norm);
  const FloatEnvironment ieee;
  const bool found = !std::isfinite(*norm);
  const double coef = found ? 1 : clip_coefficient(max_norm, *norm);
  for (size_t i = 0; i < of.size(); ++i) of[i]->clip_next(scope.group, coef, found, nonfinite[i]);
  return {};
}

// ---- the end of a step --------------------------------------------------------------------------

// A clip by call is for one step, taken or not.
void Optimizer::drop_clip() {
  std::fill(group_coef_.begin(), group_coef_.end(), 1);
  skip_next_ = false;
  skip_param_ = -1;
}

// What is over with a step, taken or not.
void Optimizer::close_gradients() {
  if (scaler_) {
    scaler_->note(stats_.found);
    scaler_round_ = scaler_->round();
    last_scaler_ = scaler_;
  }
  drop_clip();
  stats_.clip_factor = coef_;
  drop_all_rows();
}

Status Optimizer::nonfinite_gradient(int64_t param) const {
  if (param < 0) return Status(TALUS_E_NONFINITE, "talus_step: gradients are not finite", param);
  return Status(TALUS_E_NONFINITE,
                text("talus_step: the gradient of parameter %lld %s is not finite",
                     static_cast<long long>(param), quoted(model_.params[param].name).c_str()),
                param);
}

// Nothing of the optimizer changes but the count of calls.
Status Optimizer::skip_step() {
  ++clocks_.called;
  note_norm();
  close_gradients();
  return {};
}

}  // namespace talus
