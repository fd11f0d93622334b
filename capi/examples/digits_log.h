/* What train_digits writes while it trains: a log of epochs, and a trace of steps. */
#ifndef TALUS_EXAMPLES_DIGITS_LOG_H
#define TALUS_EXAMPLES_DIGITS_LOG_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <talus.h>

#include "digits_failure.h"
#include "perceptron.h"

static const char *const kLogHeader = "epoch,train_loss,validation_loss,validation_accuracy\n";

/* Leaves what a log from the first epoch on says of epochs before this one, for the checkpoint may
 * be older than the log; and nothing of one without its header, which is of another resumption.
 */
static void cut_log(FILE *log, const char *path, long long epoch) {
  char line[128];
  long end = 0;
  if (fgets(line, sizeof line, log) != NULL && strcmp(line, kLogHeader) == 0) {
    do end = ftell(log);
    while (fgets(line, sizeof line, log) != NULL && strtoll(line, NULL, 10) <= epoch);
  }
  if (fseek(log, end, SEEK_SET) != 0 || ftruncate(fileno(log), end) != 0)
    fail("cannot be continued", path);
}

/* NULL for a path of NULL. */
static FILE *open_new(const char *path, const char *header) {
  FILE *file = path ? fopen(path, "w") : NULL;
  if (path && file == NULL) fail("cannot be written", path);
  if (file) fputs(header, file);
  return file;
}

/* epoch: how many have been trained, by a run that is resumed or by none. */
static FILE *open_log(const char *path, int is_resumed, long long epoch) {
  FILE *log = path && is_resumed ? fopen(path, "r+") : NULL;
  if (log == NULL) return open_new(path, is_resumed ? "" : kLogHeader);
  cut_log(log, path, epoch);
  return log;
}

static FILE *open_trace(const char *path) { return open_new(path, "step,lr,train_loss\n"); }

static void log_epoch(FILE *log, long long epoch, double loss, Score validation) {
  if (log == NULL) return;
  fprintf(log, "%lld,%.6f,", epoch, loss);
  fprintf(log, "%.6f,%.6f\n", validation.loss, accuracy_of(validation));
}

/* Before the step, numbered from 0: with the lr that it will use, in the first group. */
static void trace_step(FILE *trace, const talus_optimizer *opt, long long step, double loss) {
  double lr;
  if (trace == NULL) return;
  CHECK(talus_value_now(opt, 0, "lr", &lr));
  fprintf(trace, "%lld,%.17g,%.6f\n", step, lr, loss);
}

static void close_log(FILE *log, const char *path) {
  if (log && (ferror(log) | fclose(log))) fail("cannot be written", path);
}

#endif
