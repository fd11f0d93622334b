/* Calls of a conformance script: scalers, norms, clips, masters. */
#ifndef TALUS_TESTS_FFI_CONFORMANCE_PRECISION_CALLS_H
#define TALUS_TESTS_FFI_CONFORMANCE_PRECISION_CALLS_H
#include "run.h"

static talus_status scaler(Run *run, Words w) {
  talus_scaler *made;
  talus_status status = talus_scaler_create(TALUS_CPU, 0, &made);
  if (status == TALUS_OK) add_object(&run->script, &run->objects, w[0], kScaler, made);
  return status;
}

static talus_status scaler_set(Run *run, Words w) {
  return talus_scaler_set(scaler_of(run, w[0]), w[1], double_of(run, w[2]));
}

static talus_status scale(Run *run, Words w) {
  double value = 0;
  talus_status status = talus_scaler_scale(scaler_of(run, w[0]), &value);
  return answer_value(run, status, value);
}

static talus_status attach_scaler(Run *run, Words w) {
  return talus_attach_scaler(opt_of(run, w[0]), scaler_of(run, w[1]));
}

static talus_status update(Run *run, Words w) {
  return talus_scaler_update(scaler_of(run, w[0]), NULL);
}

static talus_status norm(Run *run, Words w) {
  talus_optimizer *opt = opt_of(run, w[0]);
  double value = 0;
  talus_status status =
      talus_grad_norm(&opt, 1, index_of(run, w[1]), double_of(run, w[2]), &value, NULL);
  return answer_value(run, status, value);
}

static talus_status clip(Run *run, Words w) {
  talus_optimizer *opt = opt_of(run, w[0]);
  double value = 0, most = double_of(run, w[2]), type = double_of(run, w[3]);
  talus_status status =
      talus_clip_grad_norm(&opt, 1, index_of(run, w[1]), most, type, &value, NULL);
  return answer_value(run, status, value);
}

static talus_status export_param(Run *run, Words w) {
  const talus_optimizer *opt = opt_of(run, w[0]);
  int64_t param = int_of(run, w[1]), length = 1;
  talus_param info;
  memset(&info, 0, sizeof info);
  info.struct_size = sizeof info;
  talus_status status = talus_param_info(opt, param, &info);
  if (status != TALUS_OK) return status;
  for (int32_t i = 0; i < info.ndim; ++i) length *= info.shape[i];
  float *copy = calloc((size_t)length + 1, sizeof *copy);
  status = talus_export_param(opt_of(run, w[0]), w[2], param, copy, TALUS_F32, NULL);
  if (status == TALUS_OK) answer_elements(run, copy, TALUS_F32, length);
  free(copy);
  return status;
}

static talus_status bytes(Run *run, Words w) {
  talus_bytes out;
  memset(&out, 0, sizeof out);
  out.struct_size = sizeof out;
  talus_param param = describe(run, w[4], w[5]);
  param.dtype = dtype_of(&run->script, w[2]);
  param.grad_dtype = dtype_or_none(&run->script, w[3]);
  talus_status status = talus_bytes_per_param(opt_of(run, w[0]), index_of(run, w[1]), &param, &out);
  if (status != TALUS_OK) return status;
  const double fields[] = {out.param, out.grad, out.master, out.state, out.read, out.written};
  for (int i = 0; i < 6; ++i) answer_double(&run->script, fields[i]);
  return TALUS_OK;
}
#endif
