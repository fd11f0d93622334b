/* Calls of a conformance script: schedules. */
#ifndef TALUS_TESTS_FFI_CONFORMANCE_SCHEDULE_CALLS_H
#define TALUS_TESTS_FFI_CONFORMANCE_SCHEDULE_CALLS_H
#include "run.h"

static talus_status schedule(Run *run, Words w) {
  talus_schedule *made;
  talus_status status = talus_schedule_create(w[1], &made);
  if (status != TALUS_OK) return status;
  add_object(&run->script, &run->objects, w[0], kSchedule, made);
  note_made(run, w[1]);
  return TALUS_OK;
}

static talus_status schedule_set(Run *run, Words w) {
  return talus_schedule_set(schedule_of(run, w[0]), w[1], double_of(run, w[2]));
}

static talus_status schedule_list(Run *run, Words w) {
  int64_t values[kMostWords], length = 0;
  for (; w[2 + length]; ++length) values[length] = int_of(run, w[2 + length]);
  return talus_schedule_set_list(schedule_of(run, w[0]), w[1], values, length);
}

static talus_status schedule_add(Run *run, Words w) {
  return talus_schedule_add(schedule_of(run, w[0]), schedule_of(run, w[1]));
}

static double falls(void *user, int64_t t) {
  double d = *(const double *)user;
  return d / (d + (double)t);
}

static talus_status schedule_function(Run *run, Words w) {
  double *d = malloc(sizeof *d);
  *d = double_of(run, w[1]);
  talus_status status = talus_schedule_set_function(schedule_of(run, w[0]), falls, d, free);
  if (status != TALUS_OK) free(d);
  return status;
}

static talus_status schedule_value(Run *run, Words w) {
  double value = 0;
  talus_status status =
      talus_schedule_value(schedule_of(run, w[0]), double_of(run, w[1]), int_of(run, w[2]), &value);
  return answer_value(run, status, value);
}

static talus_status attach(Run *run, Words w) {
  return talus_attach_schedule(opt_of(run, w[0]), index_of(run, w[1]), w[2], schedule_of(run, w[3]),
                               TALUS_CLOCK_APPLIED);
}

static talus_status value_now(Run *run, Words w) {
  double value = 0;
  talus_status status = talus_value_now(opt_of(run, w[0]), index_of(run, w[1]), w[2], &value);
  return answer_value(run, status, value);
}

static talus_status observe(Run *run, Words w) {
  return talus_observe(opt_of(run, w[0]), double_of(run, w[1]));
}
#endif
