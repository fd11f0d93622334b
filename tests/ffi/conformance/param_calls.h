/* Calls of a conformance script: parameters, gradients, state, steps. */
#ifndef TALUS_TESTS_FFI_CONFORMANCE_PARAM_CALLS_H
#define TALUS_TESTS_FFI_CONFORMANCE_PARAM_CALLS_H
#include "run.h"

static talus_param describe(Run *run, const char *state, const char *master) {
  talus_param param;
  memset(&param, 0, sizeof param);
  param.struct_size = sizeof param;
  param.state_dtype = dtype_or_none(&run->script, state);
  if (strcmp(master, "none") == 0)
    param.master = TALUS_MASTER_NONE;
  else if (dtype_or_none(&run->script, master) == TALUS_F32)
    param.master = TALUS_MASTER_F32;
  return param;
}

static talus_status add_param(Run *run, Words w) {
  const Object *data = array_of(run, w[3]);
  const Object *grad = strcmp(w[4], "-") == 0 ? NULL : array_of(run, w[4]);
  int64_t shape[8] = {data->count};
  talus_param param = describe(run, w[6], w[7]);
  param.ndim = strcmp(w[5], "-") == 0 ? 1 : parse_shape(&run->script, w[5], shape, 8);
  param.shape = shape;
  param.dtype = data->dtype;
  param.data = data->memory;
  param.name = w[2];
  if (grad) {
    param.grad = grad->memory;
    param.grad_dtype = grad->dtype;
  }
  return talus_add_params(opt_of(run, w[0]), index_of(run, w[1]), 1, &param, NULL);
}

static talus_status bind(Run *run, Words w) {
  void *grad = strcmp(w[2], "-") == 0 ? NULL : array_of(run, w[2])->memory;
  return talus_bind_grads(opt_of(run, w[0]), int_of(run, w[1]), 1, &grad);
}

static talus_status bind_rows(Run *run, Words w) {
  Object *values = array_of(run, w[2]);
  talus_rows rows;
  memset(&rows, 0, sizeof rows);
  rows.struct_size = sizeof rows;
  rows.index_dtype = TALUS_I64;
  while (w[3 + rows.count]) ++rows.count;
  free(values->rows); /* those of the last step */
  values->rows = calloc((size_t)rows.count + 1, sizeof *values->rows);
  for (int64_t i = 0; i < rows.count; ++i) values->rows[i] = int_of(run, w[3 + i]);
  rows.indices = values->rows;
  rows.values = values->memory;
  return talus_bind_rows(opt_of(run, w[0]), int_of(run, w[1]), &rows);
}

static talus_status set_group(Run *run, Words w) {
  int64_t param = int_of(run, w[2]);
  return talus_move_params(opt_of(run, w[0]), index_of(run, w[1]), 1, &param);
}

static talus_status remove_param(Run *run, Words w) {
  int64_t param = int_of(run, w[1]);
  return talus_remove_params(opt_of(run, w[0]), 1, &param);
}

static talus_status find(Run *run, Words w) {
  return answer_int(run, TALUS_OK, talus_find_param(opt_of(run, w[0]), w[1]));
}

static talus_status zero_grad(Run *run, Words w) {
  return talus_zero_grad(opt_of(run, w[0]), TALUS_ZERO_FILL, NULL);
}

static talus_status slot(Run *run, Words w) {
  const talus_optimizer *opt = opt_of(run, w[0]);
  for (int64_t i = 0; i < talus_state_count(opt); ++i) {
    talus_state state;
    memset(&state, 0, sizeof state);
    state.struct_size = sizeof state;
    talus_status status = talus_state_info(opt, i, &state);
    if (status != TALUS_OK) return status;
    if (state.param != int_of(run, w[1]) || strcmp(state.slot, w[2]) != 0) continue;
    answer_elements(run, state.data, state.dtype, state.count);
    return TALUS_OK;
  }
  stop_at(&run->script, "parameter %s has no slot %s", w[1], w[2]);
}

static talus_status steps(Run *run, Words w) {
  int64_t taken = 0;
  talus_status status = talus_steps(opt_of(run, w[0]), int_of(run, w[1]), &taken);
  return answer_int(run, status, taken);
}

static talus_status set_steps(Run *run, Words w) {
  return talus_set_steps(opt_of(run, w[0]), int_of(run, w[1]), int_of(run, w[2]));
}

/* ---- the step ---- */

static talus_status step(Run *run, Words w) { return talus_step(opt_of(run, w[0]), NULL); }
static talus_status advance(Run *run, Words w) { return talus_advance(opt_of(run, w[0]), NULL); }

static int32_t closure(void *user, double *loss) {
  *loss = *(const double *)user;
  return 0;
}

static talus_status step_closure(Run *run, Words w) {
  double given = double_of(run, w[1]), loss = 0;
  talus_status status = talus_step_closure(opt_of(run, w[0]), closure, &given, &loss, NULL);
  return answer_value(run, status, loss);
}

static talus_status stat(Run *run, Words w) {
  talus_stats stats;
  memset(&stats, 0, sizeof stats);
  stats.struct_size = sizeof stats;
  talus_status status = talus_get_stats(opt_of(run, w[0]), 1, &stats);
  if (strcmp(w[1], "found_inf") == 0) return answer_int(run, status, stats.found_inf);
  if (strcmp(w[1], "steps") == 0) return answer_int(run, status, stats.steps);
  if (strcmp(w[1], "skipped") == 0) return answer_int(run, status, stats.skipped);
  if (strcmp(w[1], "nonfinite_param") == 0) return answer_int(run, status, stats.nonfinite_param);
  stop_at(&run->script, "no field %s", w[1]);
}
#endif
