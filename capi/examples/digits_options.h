/* The command line of train_digits: what can be asked, and the defaults. */
#ifndef TALUS_EXAMPLES_DIGITS_OPTIONS_H
#define TALUS_EXAMPLES_DIGITS_OPTIONS_H
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <talus.h>

#include "digits_failure.h"
#include "digits_images.h"
#include "digits_schedule.h"
#include "half.h"

enum { kMaxSets = 32 };

/* How parameters and gradients are stored. */
typedef struct Dtype {
  const char *name;
  int32_t id;
  float (*widen)(uint16_t); /* NULL for f32: nothing to convert */
  uint16_t (*narrow)(float);
} Dtype;

static const Dtype kDtypes[] = {{"f32", TALUS_F32, NULL, NULL},
                                {"bf16", TALUS_BF16, bf16_widen, bf16_narrow},
                                {"f16", TALUS_F16, f16_widen, f16_narrow}};

typedef struct Options {
  const char *optimizer, *data, *log, *trace, *parameters, *save, *resume;
  const Dtype *dtype;
  struct {
    const char *name;
    double value;
  } sets[kMaxSets];
  int set_count;
  ScheduleOption schedules[kMaxSchedules];
  int schedule_count;
  long long seed, epochs, batch, threads, stop_after; /* the last two -1: not given */
  int quiet, rows;
} Options;

static void print_names(const char *list) {
  printf("  %s:", list);
  for (int32_t i = 0; i < talus_name_count(list); ++i) printf(" %s", talus_name_at(list, i));
  printf("\n");
}

static void print_help(void) {
  printf(
      "Trains a small network on 8 x 8 digits and prints its accuracy on images it never saw.\n\n"
      "  --optimizer NAME   an algorithm or alias below (adamw)\n"
      "  --set NAME=VALUE   a hyperparameter of it; may be given again\n"
      "  --schedule SPEC    for a hyperparameter, one argument; may be given again:\n"
      "                     HYPER KIND [NAME=NUMBER...] [milestones=T,T...] [(PIECE)...]\n"
      "                     [clock=applied|called|manual]; PIECE: from KIND on; manual: epochs;\n"
      "                     plateau gets the validation loss; with none for lr, that falls in\n"
      "                     a line to lr / epochs\n"
      "  --dtype NAME       of parameters and gradients: f32, bf16 or f16 (f32)\n"
      "  --epochs N         passes over the training images (80)\n"
      "  --batch N          images of a step (32)\n"
      "  --seed N           of initialisation, batches and noise (1)\n"
      "  --threads N        most threads of a step, 0: all; never changes a result\n"
      "  --data FILE        lines of 64 pixels of 0 to 16 and the digit\n"
      "  --log FILE         CSV: epoch,train_loss,validation_loss,validation_accuracy;\n"
      "                     --resume continues it, or writes the rest without a header\n"
      "  --trace FILE       CSV of the steps of this run: step,lr,train_loss\n"
      "  --parameters FILE  the parameters at the end, raw f32\n"
      "  --save FILE        a checkpoint at the end: .safetensors, or .safetensors.index.json\n"
      "  --resume FILE      goes on where such a checkpoint was made, with the same options\n"
      "  --stop-after N     ends when N steps have been taken, those before --resume counted\n"
      "  --rows             give gradients as rows, all of them, as sparse_adam must\n"
      "  --quiet            no progress bar, which a terminal gets\n"
      "  --help\n\n"
      "Example: train_digits --optimizer sgd --set lr=0.05 --set nesterov=1 --dtype bf16\n\n");
  print_names("algorithms");
  print_names("aliases");
  exit(0);
}

static long long parse_integer(const char *option, const char *text, long long min, long long max) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (end == text || *end != '\0' || errno != 0 || value < min || value > max) {
    fprintf(stderr, "train_digits: %s takes an integer of %lld to %lld, got '%s'\n", option, min,
            max, text);
    exit(2);
  }
  return value;
}

static void parse_set(Options *options, char *text) {
  char *equals = strchr(text, '='), *end = NULL;
  if (options->set_count == kMaxSets) misuse("too many --set, at", text);
  double value = equals ? strtod(equals + 1, &end) : 0;
  if (equals == NULL || equals == text || end == equals + 1 || *end != '\0')
    misuse("--set takes NAME=NUMBER, got", text);
  *equals = '\0';
  options->sets[options->set_count].name = text;
  options->sets[options->set_count++].value = value;
}

static void add_schedule(Options *options, const char *text) {
  if (options->schedule_count == kMaxSchedules) misuse("too many --schedule, at", text);
  options->schedules[options->schedule_count++] = parse_schedule(text);
}

static const Dtype *parse_dtype(const char *text) {
  for (size_t i = 0; i < sizeof kDtypes / sizeof *kDtypes; ++i)
    if (strcmp(kDtypes[i].name, text) == 0) return &kDtypes[i];
  misuse("--dtype takes f32, bf16 or f16, got", text);
  return NULL;
}

static void parse_value(Options *options, const char *option, char *value) {
  const struct {
    const char *option;
    long long *number, min, max;
  } numbers[] = {{"--epochs", &options->epochs, 1, 100000},
                 {"--batch", &options->batch, 1, 100000},
                 {"--seed", &options->seed, 0, INT64_MAX},
                 {"--threads", &options->threads, 0, 100000},
                 {"--stop-after", &options->stop_after, 0, INT64_MAX}};
  const struct {
    const char *option, **text;
  } texts[] = {{"--optimizer", &options->optimizer},
               {"--data", &options->data},
               {"--log", &options->log},
               {"--trace", &options->trace},
               {"--parameters", &options->parameters},
               {"--save", &options->save},
               {"--resume", &options->resume}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i) {
    if (strcmp(numbers[i].option, option) != 0) continue;
    *numbers[i].number = parse_integer(option, value, numbers[i].min, numbers[i].max);
    return;
  }
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    if (strcmp(texts[i].option, option) != 0) continue;
    *texts[i].text = value;
    return;
  }
  if (strcmp(option, "--set") == 0)
    parse_set(options, value);
  else if (strcmp(option, "--schedule") == 0)
    add_schedule(options, value);
  else if (strcmp(option, "--dtype") == 0)
    options->dtype = parse_dtype(value);
  else
    misuse("unknown option", option);
}

static int ends_with(const char *text, const char *end) {
  size_t length = strlen(text), tail = strlen(end);
  return length > tail && strcmp(text + length - tail, end) == 0;
}

/* Before any training, for this name is read after it. */
static void check_save(const char *path) {
  if (path == NULL || ends_with(path, ".safetensors")) return;
  if (!ends_with(path, ".safetensors.index.json"))
    misuse("--save takes a name ending in .safetensors or .safetensors.index.json, got", path);
}

static Options parse_options(int argc, char **argv) {
  Options options = {.optimizer = "adamw",
                     .data = TALUS_DIGITS_CSV,
                     .dtype = &kDtypes[0],
                     .seed = 1,
                     .epochs = 80,
                     .batch = 32,
                     .threads = -1,
                     .stop_after = -1};
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--help") == 0) print_help();
    int quiet = strcmp(argv[i], "--quiet") == 0, rows = strcmp(argv[i], "--rows") == 0;
    options.quiet |= quiet;
    options.rows |= rows;
    if (quiet || rows) continue;
    if (i + 1 == argc) misuse("unknown option, or nothing after it:", argv[i]);
    parse_value(&options, argv[i], argv[i + 1]);
    ++i;
  }
  check_save(options.save);
  const char *rows = talus_name_doc("row_gradients", options.optimizer);
  options.rows |= rows != NULL && strcmp(rows, "takes no others") == 0;
  return options;
}

#endif
