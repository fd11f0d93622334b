// Steps that the device decides on: what their kernels read of the order and of the decision, and who
// decides. No include guard: compiled in the namespace of the kernels.

// The scalars of a class in this step.
TALUS_FN const Row& row_of(const Tables& tables, int32_t scalar_class) {
  const int64_t first =
      tables.control ? tables.control->candidate * tables.order->classes : int64_t(0);
  return tables.rows[first + scalar_class];
}

TALUS_FN double gradient_factor(const Tables& tables, const Row& row) {
  if (!tables.control) return row.gradient_factor;
  return row.gradient_factor * tables.control->factor * row.group_factor;
}

// Of the norm of all gradients, where the rule reads it.
TALUS_FN double norm_factor(const Tables& tables, const Row& row) {
  if (!tables.control) return row.group_factor;
  return tables.control->coef * row.group_factor;
}

TALUS_FN bool is_taken(const Tables& tables) { return !tables.control || tables.control->live; }

TALUS_FN double scale_of(const StepOrder& order) {
  const float* const scale = order.scale;
  if (!scale) return 1;
  TALUS_ASSUME_GLOBAL(scale);
  return *scale;
}

// The entry of a step, before it is decided.
TALUS_FN GradientEntry entry_of(const Tables& tables, const GradientEntry& given) {
  if (!tables.control) return given;
  const StepOrder& order = *tables.order;
  GradientEntry out;
  out.factor = entry_factor(order, scale_of(order));
  out.limit = order.limit;
  return out;
}

// And behind the decision. By value on either side: a reference to one of both spaces would be generic.
TALUS_FN GradientEntry decided_entry(const Tables& tables, const GradientEntry& given) {
  if (!tables.control) return given;
  const StepControl& control = *tables.control;
  GradientEntry out;
  out.factor = control.entry.factor;
  out.limit = control.entry.limit;
  return out;
}

// By one thread.
__global__ void __launch_bounds__(1) decide_kernel(const __grid_constant__ DecideArgs args) {
  const Tables& tables = args.tables;
  const StepOrder& order = *tables.order;
  const float* const flag = order.found;
  TALUS_ASSUME_GLOBAL(flag);
  const bool flagged = flag && *flag != 0;
  StepControl& control = *tables.control;
  decide_step(order, scale_of(order), flagged, tables.measured->total,
              tables.measured->first_nonfinite, &control);
  ScalerMemory* const scaler = order.scaler;
  TALUS_ASSUME_GLOBAL(scaler);
  if (control.found && scaler) scaler->found = 1;
}

__global__ void __launch_bounds__(1) scaler_kernel(const __grid_constant__ ScalerArgs args) {
  ScalerMemory& scaler = *args.scaler;
  ScalerState state = scaler.state;
  update_scaler(scaler.params, scaler.found != 0, &state);
  scaler.state = state;
  scaler.found = 0;
}
