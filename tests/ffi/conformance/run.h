/* One run of a conformance script: what its words mean, and what a call answers. */
#ifndef TALUS_TESTS_FFI_CONFORMANCE_RUN_H
#define TALUS_TESTS_FFI_CONFORMANCE_RUN_H
#include "objects.h"
#include "scratch_folder.h"
#include "script.h"

typedef struct Run {
  Script script;
  Objects objects;
  ScratchFolder folder;
  char made[2048]; /* rules and kinds of schedules, with spaces around each */
} Run;

typedef const char *const *Words; /* of a call, behind its name */

static talus_optimizer *opt_of(Run *run, const char *name) {
  return find_object(&run->script, &run->objects, name, kOptimizer)->memory;
}

static Object *array_of(Run *run, const char *name) {
  return find_object(&run->script, &run->objects, name, kArray);
}

static talus_schedule *schedule_of(Run *run, const char *name) {
  if (strcmp(name, "-") == 0) return NULL;
  return find_object(&run->script, &run->objects, name, kSchedule)->memory;
}

static talus_scaler *scaler_of(Run *run, const char *name) {
  if (strcmp(name, "-") == 0) return NULL;
  return find_object(&run->script, &run->objects, name, kScaler)->memory;
}

static int64_t int_of(Run *run, const char *word) { return to_int(&run->script, word); }
static int32_t index_of(Run *run, const char *word) { return (int32_t)int_of(run, word); }
static double double_of(Run *run, const char *word) { return to_double(&run->script, word); }

static void answer_elements(Run *run, const void *data, int32_t dtype, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    answer(&run->script, "%0*llx", (int)digits_of(dtype), element_bits(data, dtype, i));
}

static talus_status answer_value(Run *run, talus_status status, double value) {
  if (status == TALUS_OK) answer_double(&run->script, value);
  return status;
}

static talus_status answer_int(Run *run, talus_status status, int64_t value) {
  if (status == TALUS_OK) answer(&run->script, "%lld", (long long)value);
  return status;
}

/* Notes that the script has made one of this rule or kind. */
static void note_made(Run *run, const char *name) {
  size_t length = strlen(run->made);
  if (length + strlen(name) + 3 > sizeof run->made) stop_at(&run->script, "too many names");
  sprintf(run->made + length, " %s ", name);
}
#endif
