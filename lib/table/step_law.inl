// How a step is decided and a loss scale moves, in double: the same text for the host and for the device
// that does it alone. No include guard: compiled once for the host (step_law.h) and once in the namespace
// of the kernels, which defines TALUS_FN first.

template <class T>
TALUS_FN bool is_finite(T x) {
  return x - x == 0;
}

// PyTorch's clip_grad_norm_, its eps included.
TALUS_FN double clip_coefficient(double max_norm, double norm) {
  const double coef = max_norm / (norm + 1e-6);
  return coef > 1 ? 1 : coef;
}

// Of what measure adds up.
TALUS_FN double norm_of(double norm_type, double total) {
  return norm_type == 2 ? __builtin_sqrt(total) : total;
}

// The sum of squares of which the norm is `factor` times as much: the root of a square is exact.
TALUS_FN double scaled_total(double total, double factor) {
  if (factor == 1) return total;
  const double norm = __builtin_sqrt(total) * factor;
  return norm * norm;
}

// One update of a scaler. Products in double, rounded once to what the scale is held as.
TALUS_FN void update_scaler(const double* p, bool found, ScalerState* s) {
  if (found) {
    s->growth = 0;
    ++s->consecutive_skips;
    ++s->total_skips;
    s->hysteresis = s->hysteresis > 1 ? s->hysteresis - 1 : 0;
    if (p[kDynamic] == 0 || s->hysteresis != 0) return;
    const float lower = float(double(s->scale) * p[kBackoffFactor]), least = float(p[kMinScale]);
    s->scale = lower > least ? lower : least;
    return;
  }
  s->consecutive_skips = 0;
  s->hysteresis = int64_t(p[kHysteresis]);
  ++s->growth;
  if (double(s->growth) < p[kGrowthInterval]) return;
  s->growth = 0;
  if (p[kDynamic] == 0) return;
  const float higher = float(double(s->scale) * p[kGrowthFactor]), most = float(p[kMaxScale]);
  s->scale = higher < most ? higher : most;
}

// The factor of gradients as they enter an ordered step. scale: what the order's points to.
TALUS_FN double entry_factor(const StepOrder& order, double scale) {
  return order.scale ? 1 / scale : order.factor;
}

// Which of its rows an ordered step takes. again: the order was for a step before.
TALUS_FN int64_t candidate_of(const StepOrder& order, const StepControl& c, bool again) {
  return order.exact && !again ? 0 : c.applied - order.applied;
}

// Whether the step is taken, and how. total, first_nonfinite: of the measure before, if there was one;
// flagged: the order's flag is raised.
TALUS_FN void decide_step(const StepOrder& order, double scale, bool flagged, double total,
                          int64_t first_nonfinite, StepControl* c) {
  const bool again = c->call == order.call;
  c->candidate = candidate_of(order, *c, again);
  c->applied = order.applied + c->candidate;
  c->call = order.call;
  c->live = c->found = 0;
  const bool has_row = c->candidate >= 0 && c->candidate < order.candidates;
  const bool has_scale = scale >= 0x1p-126 && scale <= 0x1p126;
  const int32_t fault = again ? kNoOrder : !has_row ? kNoRow : !has_scale ? kBadScale : kNoFault;
  if (fault != kNoFault) {
    c->fault = fault;
    c->fault_call = order.call;
    return;
  }
  const bool overflown = order.checks && !is_finite(total);
  c->scale = scale;
  c->entry.factor = entry_factor(order, scale);
  c->entry.limit = order.limit;
  c->total = total;
  c->first_nonfinite = order.skip ? order.skip_param : overflown ? first_nonfinite : -1;
  c->coef = 1;
  if (!overflown && order.max_norm > 0)
    c->coef = clip_coefficient(order.max_norm, norm_of(order.norm_type, total));
  c->factor = is_finite(order.limit) ? c->coef : c->entry.factor * c->coef;
  c->found = order.skip || flagged || overflown;
  c->live = !c->found;
  c->applied += c->live;
}
