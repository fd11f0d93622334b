/* Calls of a conformance script: optimizers, groups, hyperparameters, arrays. */
#ifndef TALUS_TESTS_FFI_CONFORMANCE_OPTIMIZER_CALLS_H
#define TALUS_TESTS_FFI_CONFORMANCE_OPTIMIZER_CALLS_H
#include "run.h"

static talus_status optimizer(Run *run, Words w) {
  talus_optimizer *opt;
  talus_status status = talus_create(w[1], TALUS_CPU, 0, &opt);
  if (status != TALUS_OK) return status;
  add_object(&run->script, &run->objects, w[0], kOptimizer, opt);
  note_made(run, w[1]);
  return TALUS_OK;
}

static talus_status group(Run *run, Words w) {
  int32_t index;
  return talus_add_group(opt_of(run, w[0]), w[1], &index);
}

static talus_status set(Run *run, Words w) {
  return talus_set(opt_of(run, w[0]), index_of(run, w[1]), w[2], double_of(run, w[3]));
}

static talus_status get(Run *run, Words w) {
  double value = 0;
  talus_status status = talus_get(opt_of(run, w[0]), index_of(run, w[1]), w[2], &value);
  return answer_value(run, status, value);
}

static talus_status setting(Run *run, Words w) {
  return talus_set_setting(opt_of(run, w[0]), w[1], double_of(run, w[2]));
}

static talus_status get_setting(Run *run, Words w) {
  double value = 0;
  talus_status status = talus_get_setting(opt_of(run, w[0]), w[1], &value);
  return answer_value(run, status, value);
}

static talus_status count(Run *run, Words w) {
  return answer_int(run, TALUS_OK, talus_name_count(w[0]));
}

/* ---- arrays ---- */

static talus_status fill(Run *run, Words w) {
  Object *array = array_of(run, w[0]);
  int64_t i = 0;
  for (; w[1 + i]; ++i) {
    if (i == array->count) stop_at(&run->script, "more than %lld elements", (long long)i);
    set_element(array->memory, array->dtype, i,
                to_bits(&run->script, w[1 + i], digits_of(array->dtype)));
  }
  if (i != array->count) stop_at(&run->script, "got %lld elements", (long long)i);
  return TALUS_OK;
}

static talus_status make_array(Run *run, Words w) {
  int32_t dtype = dtype_of(&run->script, w[1]);
  int64_t length = 0;
  Words elements = w + 2;
  while (elements[length]) ++length;
  Object *array = add_object(&run->script, &run->objects, w[0], kArray,
                             calloc((size_t)length + 1, digits_of(dtype) / 2));
  array->dtype = dtype;
  array->count = length;
  for (int64_t i = 0; i < length; ++i)
    set_element(array->memory, dtype, i, to_bits(&run->script, elements[i], digits_of(dtype)));
  return TALUS_OK;
}

static talus_status read_array(Run *run, Words w) {
  const Object *array = array_of(run, w[0]);
  answer_elements(run, array->memory, array->dtype, array->count);
  return TALUS_OK;
}

static talus_status same(Run *run, Words w) {
  const Object *a = array_of(run, w[0]), *b = array_of(run, w[1]);
  size_t bytes = (size_t)a->count * digits_of(a->dtype) / 2;
  if (a->dtype != b->dtype || a->count != b->count || memcmp(a->memory, b->memory, bytes) != 0)
    stop_at(&run->script, "%s and %s differ", w[0], w[1]);
  return TALUS_OK;
}
#endif
