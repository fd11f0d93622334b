/* Calls of a conformance script: checkpoints and files; and destroy. */
#ifndef TALUS_TESTS_FFI_CONFORMANCE_FILE_CALLS_H
#define TALUS_TESTS_FFI_CONFORMANCE_FILE_CALLS_H
#include "run.h"

static const char *path_of(Run *run, const char *name) {
  return path_in(&run->script, &run->folder, name);
}

static talus_status save(Run *run, Words w) {
  return talus_save(opt_of(run, w[0]), path_of(run, w[1]), NULL, NULL);
}

static talus_status load(Run *run, Words w) {
  return talus_load(opt_of(run, w[0]), path_of(run, w[1]), NULL, NULL);
}

static talus_status truncate_file(Run *run, Words w) {
  if (truncate(path_of(run, w[0]), int_of(run, w[1])) != 0)
    stop_at(&run->script, "%s cannot be cut", w[0]);
  return TALUS_OK;
}

static talus_status same_file(Run *run, Words w) {
  if (!same_bytes(&run->script, path_of(run, w[0]), path_of(run, w[1])))
    stop_at(&run->script, "%s and %s differ", w[0], w[1]);
  return TALUS_OK;
}

static talus_status destroy(Run *run, Words w) {
  Object *object = look_up(&run->objects, w[0]);
  if (object == NULL || object->kind == kArray) stop_at(&run->script, "there is no %s", w[0]);
  if (object->memory) destroy_object(object);
  return TALUS_OK;
}
#endif
