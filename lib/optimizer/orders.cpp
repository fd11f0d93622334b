// Steps that the device decides on. The host orders them before it knows how those before them ended, and
// counts each as applied until a report says otherwise; whoever asks for counts waits (settle).
#include <algorithm>
#include <cmath>

#include "lib/base/float_contract.h"
#include "lib/base/float_environment.h"
#include "lib/optimizer/norms.h"
#include "lib/optimizer/optimizer.h"

namespace talus {

// Only the device knows whether the next step will be taken.
bool Optimizer::is_ordered() const {
  return !on_cpu_ && (scaler_ || foreign_scale_ || checks_gradients());
}

StepShape Optimizer::shape() const {
  const bool cuts = settings_[kMaxGradValue] > 0;
  return {is_ordered(), wants_norm(), checks_gradients(), total_wanted_,
          cuts,         norm_type(),  check_type()};
}

// Of what a device decides by. Sums of f64 overflow where no gradient is infinite: that skips no step, but
// where the norm is to clip.
double Optimizer::check_type() const {
  const bool may_overflow = has_f64_ && checks_gradients() && settings_[kMaxGradNorm] == 0;
  return may_overflow ? kInfinity : norm_type();
}

// ---- what is known ------------------------------------------------------------------------------

// Of the steps under way, those up to the reported one have ended; all: so have the others, untaken.
void Optimizer::take_end(const StepControl& report, bool all) {
  const bool any = report.call > orders_.call - orders_.under_way;
  if (!any && !all) return;
  const int64_t left = all ? 0 : orders_.call - report.call;
  const int64_t ended = orders_.under_way - left;
  const int64_t skipped = any ? clocks_.applied - left - report.applied : ended;
  if (any) orders_.last = report;
  if (ended > skipped) start_groups();
  orders_.under_way = left;
  clocks_.applied -= skipped;
  model_.classes.take_back_steps(skipped, model_.table, orders_.members);
}

void Optimizer::start_groups() {
  for (size_t p = 0; p < orders_.members.size(); ++p)
    if (orders_.members[p]) model_.groups[size_t(model_.params[int64_t(p)].group)].start();
}

// Told once, by the next step: a step before it was not taken, and was not skipped either.
Status Optimizer::check_fault() {
  const StepControl& last = orders_.last;
  if (last.fault_call <= orders_.told_fault) return {};
  orders_.told_fault = last.fault_call;
  switch (last.fault) {
    case kBadScale:
      return failure(TALUS_E_RANGE,
                     "a step before this call was not taken: the bound scale was not "
                     "2^-126 to 2^126 (talus_bind_scale)");
    case kNoOrder:
      return failure(TALUS_E_STATE,
                     "a graph of the step was replayed without talus_advance before it, and was "
                     "not taken");
    default:
      return failure(TALUS_E_STATE,
                     "a step before this call was not taken: the device has counted other steps "
                     "than were ordered");
  }
}

Status Optimizer::poll(Await await) {
  if (orders_.under_way == 0) return {};
  StepControl report;
  TALUS_TRY(from_backend(backend_->take_report(context_, await, &report), "report a step"));
  take_end(report, await == Await::all);
  return {};
}

Status Optimizer::settle() {
  if (on_cpu_ || orders_.under_way == 0) return {};
  TALUS_TRY(check_usable());
  return poll(Await::all);
}

// A parameter may join the classes of steps under way only if it was there then.
bool Optimizer::is_new_member(int64_t param) const {
  return orders_.under_way > 0 && !orders_.members[size_t(param)];
}

// ---- the order ----------------------------------------------------------------------------------

// Those who take part in all steps that are under way from here on.
void Optimizer::note_members() {
  const std::vector<int32_t>& classes = model_.table.scalar_class;
  const bool noted =
      orders_.moves == model_.classes.moves() && orders_.members.size() == classes.size();
  if (noted || orders_.under_way > 0) return;
  orders_.members.resize(classes.size());
  for (size_t p = 0; p < classes.size(); ++p) orders_.members[p] = classes[p] != kIdle;
  orders_.member_count = model_.classes.member_count();
  orders_.moves = model_.classes.moves();
}

// Few enough steps are under way for one more, and all of the same parameters.
Status Optimizer::make_room() {
  TALUS_TRY(poll(Await::none));
  if (orders_.under_way > 0 && orders_.member_count != model_.classes.member_count())
    return poll(Await::all);
  const int64_t classes = int64_t(model_.classes.classes().size());
  const int64_t room = row_room(int64_t(model_.table.count.size())) / std::max<int64_t>(classes, 1);
  const int64_t most = std::min(Orders::kMostUnderWay, room - 1);
  for (int64_t before = -1; orders_.under_way > most && before != orders_.under_way;) {
    before = orders_.under_way;
    TALUS_TRY(poll(Await::next));
  }
  return orders_.under_way > most ? poll(Await::all) : Status();
}

// Rows of all classes for each count of applied steps that is possible, the least last: what the groups
// hold then is for first steps.
Status Optimizer::fill_rows() {
  const std::span<const ScalarClass> classes = model_.classes.classes();
  const size_t candidates = size_t(orders_.under_way) + 1;
  if (ordered_rows_.capacity() < candidates * classes.size())  // once for as many as there will be
    ordered_rows_.reserve((Orders::kMostUnderWay + 1) * classes.size());
  ordered_rows_.resize(candidates * classes.size());
  for (size_t k = candidates; k-- > 0;) {
    Clocks at = clocks_;
    const int64_t untaken = orders_.under_way - int64_t(k);
    at.applied -= untaken;
    TALUS_TRY(evaluate_schedules(at));
    for (size_t c = 0; c < classes.size(); ++c) {
      if (classes[c].members == 0) continue;
      const size_t g = size_t(classes[c].group);
      const Group& group = model_.groups[g];
      Row& row = ordered_rows_[k * classes.size() + c];
      group.rule().scalars(group.now(), classes[c].steps - untaken + 1, row.scalar);
      row.gradient_factor = group.gradient_sign();
      row.group_factor = g < group_coef_.size() ? group_coef_[g] : 1;
    }
  }
  return {};
}

// What a schedule refuses for a count that may never be is asked again once the count is known.
Status Optimizer::predict_rows() {
  const Status status = fill_rows();
  if (status.ok() || orders_.under_way == 0) return status;
  TALUS_TRY(poll(Await::all));
  return fill_rows();
}

Status Optimizer::send_order(void* stream) {
  StepOrder order;
  order.call = orders_.call + 1;
  order.applied = clocks_.applied - orders_.under_way;
  order.candidates = orders_.under_way + 1;
  order.classes = int64_t(model_.classes.classes().size());
  order.factor = entry().factor;
  order.limit = entry().limit;
  order.max_norm = settings_[kMaxGradNorm];
  order.norm_type = check_type();
  order.scaler = scaler_ ? scaler_->memory() : nullptr;
  order.scale = scaler_ ? &scaler_->memory()->state.scale : foreign_scale_;
  order.found = foreign_found_;
  order.exact = orders_.under_way == 0;
  order.checks = checks_gradients();
  order.skip = skip_next_;
  order.skip_param = skip_param_;
  return from_backend(backend_->send_order(context_, &order, ordered_rows_.data(), stream),
                      "take an order");
}

Status Optimizer::measure_ordered(double type, bool tells, void* stream) {
  const Measure what{sum_of(type), entry(), nullptr, true, tells};
  return from_backend(backend_->measure(context_, &what, stream), "measure gradients");
}

// The launches of an ordered step. The norm that is told, and that of squares for the rules that read it,
// come behind the decision where that one reads another.
Status Optimizer::queue_decision(void* stream) {
  if (wants_norm() || checks_gradients()) TALUS_TRY(measure_ordered(check_type(), false, stream));
  return from_backend(backend_->decide(context_, stream), "decide on a step");
}

Status Optimizer::queue_passes(void* stream, bool recorded) {
  const bool told = norm_type() == check_type() || !wants_norm();
  if (!told) TALUS_TRY(measure_ordered(norm_type(), true, stream));
  if (total_wanted_ && norm_type() != 2) TALUS_TRY(measure_ordered(2, false, stream));
  return run_passes(stream, recorded, Order::decided);
}

// Until a report says otherwise.
void Optimizer::count_ordered() {
  note_members();
  ++orders_.call;
  ++orders_.under_way;
  model_.classes.count_step();
  ++clocks_.applied;
  ++clocks_.called;
  note_norm();
  norm_pending_ = false;
}

// What remains to be queued has to be: the device may have begun with it.
Status Optimizer::queue_rest(void* stream) {
  TALUS_TRY(begin_new(stream, Order::decided));
  TALUS_TRY(queue_passes(stream, false));
  return from_backend(backend_->queue_report(context_, stream), "report a step");
}

Status Optimizer::step_ordered(void* stream) {
  const FloatEnvironment ieee;
  const bool waits = settings_[kErrorIfNonfinite] != 0 && !scaler_;
  if (waits) TALUS_TRY(settle());
  const Told before{orders_.last, measured_, last_ordered_, measured_type_};
  fit_classes();
  TALUS_TRY(make_room());
  TALUS_TRY(check_fault());
  TALUS_TRY(predict_rows());
  TALUS_TRY(ready(StateMemory::Scope::with_gradient, stream));
  TALUS_TRY(send_row_gradients(stream));
  TALUS_TRY(send_order(stream));
  TALUS_TRY(queue_decision(stream));
  if (const Status status = queue_rest(stream); !status.ok()) return lose(status);
  count_ordered();
  if (waits) {
    TALUS_TRY(settle());
    if (orders_.last.found) return refuse_nonfinite(before);
  }
  close_gradients();
  return {};
}

// The step that has just been settled was skipped, and that was asked to be an error.
Status Optimizer::refuse_nonfinite(const Told& before) {
  --clocks_.called;
  const int64_t param = orders_.last.first_nonfinite;
  orders_.last = before.last;
  measured_ = before.measured;
  last_ordered_ = before.ordered;
  measured_type_ = before.type;
  drop_clip();
  return nonfinite_gradient(param);
}

Status Optimizer::advance_ordered(void* stream) {
  if (settings_[kErrorIfNonfinite] != 0 && !scaler_)
    return failure(TALUS_E_UNSUPPORTED,
                   "talus_advance: error_if_nonfinite has to wait for the step, which a graph "
                   "cannot, expected 0");
  TALUS_TRY(check_round());
  const FloatEnvironment ieee;
  fit_classes();
  if (orders_.under_way > 0)
    TALUS_TRY(from_backend(backend_->queue_report(context_, stream), "report a step"));
  TALUS_TRY(make_room());
  TALUS_TRY(check_fault());
  TALUS_TRY(predict_rows());
  TALUS_TRY(send_columns(stream));
  TALUS_TRY(send_order(stream));
  TALUS_TRY(begin_new(stream, Order::ahead));
  count_ordered();
  close_gradients();
  if (scaler_) scaler_->close_replayed();
  return {};
}

Status Optimizer::prepare_orders(void* stream) {
  if (!is_ordered() || orders_.control) return {};
  void* memory = nullptr;
  TALUS_TRY(kept(memory_->take_memory("control block", sizeof(StepControl), stream, &memory)));
  auto* const control = static_cast<StepControl*>(memory);
  const Status status =
      from_backend(backend_->prepare_orders(context_, control, stream), "prepare for orders");
  if (!status.ok()) {
    backend_->release(context_, memory, sizeof(StepControl), stream);
    return status;
  }
  orders_.control = control;
  return {};
}

}  // namespace talus
