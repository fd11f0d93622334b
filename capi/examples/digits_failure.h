/* How a program ends where it cannot go on: 1 for what failed, 2 for a wrong command line. */
#ifndef TALUS_EXAMPLES_DIGITS_FAILURE_H
#define TALUS_EXAMPLES_DIGITS_FAILURE_H
#include <stdio.h>
#include <stdlib.h>

#include <talus.h>

/* Its name. */
#ifndef TALUS_DIGITS_PROGRAM
#define TALUS_DIGITS_PROGRAM "train_digits"
#endif

#define CHECK(call)                           \
  do {                                        \
    talus_status status_ = (call);            \
    if (status_ != TALUS_OK) refuse(status_); \
  } while (0)

static inline void refuse(talus_status status) {
  fprintf(stderr, TALUS_DIGITS_PROGRAM ": %s: %s\n", talus_status_name(status), talus_last_error());
  exit(1);
}

static void fail(const char *what, const char *where) {
  fprintf(stderr, TALUS_DIGITS_PROGRAM ": %s: %s\n", where, what);
  exit(1);
}

static inline void misuse(const char *what, const char *got) {
  fprintf(stderr, TALUS_DIGITS_PROGRAM ": %s '%s'; see " TALUS_DIGITS_PROGRAM " --help\n", what,
          got);
  exit(2);
}

static void *allocate(size_t count, size_t bytes) {
  void *memory = calloc(count, bytes);
  if (memory == NULL) fail("not enough memory", "calloc");
  return memory;
}

#endif
