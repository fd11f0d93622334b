/* Checkpoints of train_digits: talus keeps the optimizer and the parameters, and as notes what the
 * program must know besides to go on exactly: where it is, in which order, and with what options.
 */
#ifndef TALUS_EXAMPLES_DIGITS_CHECKPOINT_H
#define TALUS_EXAMPLES_DIGITS_CHECKPOINT_H
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <talus.h>

#include "digits_failure.h"
#include "digits_images.h"
#include "digits_options.h"
#include "perceptron.h"

/* Where a run is: `image` of the epoch's images have been learned from. */
typedef struct Position {
  long long epoch;
  int image;
  double loss, lr; /* of the epoch so far; at the start of the run */
  uint64_t random;
} Position;

/* Notes. The signature says what may not change between a run and its resumption. */
static const char *const kSignature = "digits.options", *const kEpoch = "digits.epoch",
                         *const kImage = "digits.image", *const kLoss = "digits.loss",
                         *const kLr = "digits.lr", *const kRandom = "digits.random",
                         *const kOrder = "digits.order";

static void keep_note(talus_optimizer *opt, const char *key, const char *text) {
  CHECK(talus_set_note(opt, key, text));
}

static void keep_integer(talus_optimizer *opt, const char *key, uint64_t value) {
  char text[24];
  snprintf(text, sizeof text, "%" PRIu64, value);
  keep_note(opt, key, text);
}

/* In hexadecimal, which reads back as the same double. */
static void keep_real(talus_optimizer *opt, const char *key, double value) {
  char text[32];
  snprintf(text, sizeof text, "%a", value);
  keep_note(opt, key, text);
}

/* The order in which the epoch takes the images. */
static void keep_order(talus_optimizer *opt, Images training) {
  enum { kDigits = 12 };
  char *text = allocate((size_t)training.count, kDigits), *end = text;
  for (int i = 0; i < training.count; ++i)
    end += snprintf(end, kDigits, i ? " %d" : "%d", training.image[i].number);
  keep_note(opt, kOrder, text);
  free(text);
}

/* Freed by the caller. `path` has been loaded. */
static char *find_note(const talus_optimizer *opt, const char *key, const char *path) {
  uint64_t bytes = 0;
  talus_get_note(opt, key, NULL, 0, &bytes);
  if (bytes == 0) fail("is no checkpoint of train_digits, which has notes of where it was", path);
  char *text = allocate(bytes, 1);
  CHECK(talus_get_note(opt, key, text, bytes, NULL));
  return text;
}

static uint64_t find_integer(const talus_optimizer *opt, const char *key, const char *path) {
  char *text = find_note(opt, key, path), *end;
  uint64_t value = strtoull(text, &end, 10);
  if (end == text || *end != '\0') fail("has a note that is no integer", path);
  free(text);
  return value;
}

static double find_real(const talus_optimizer *opt, const char *key, const char *path) {
  char *text = find_note(opt, key, path), *end;
  double value = strtod(text, &end);
  if (end == text || *end != '\0') fail("has a note that is no number", path);
  free(text);
  return value;
}

/* Puts image `number` at place `to`, if it has none yet. */
static int place_image(Images training, int to, long number) {
  for (int i = to; i < training.count; ++i) {
    if (training.image[i].number != number) continue;
    Image other = training.image[to];
    training.image[to] = training.image[i];
    training.image[i] = other;
    return 1;
  }
  return 0;
}

static void find_order(const talus_optimizer *opt, const char *path, Images training) {
  char *text = find_note(opt, kOrder, path), *at = text;
  for (int i = 0; i < training.count; ++i)
    if (!place_image(training, i, strtol(at, &at, 10))) fail("has an order of other images", path);
  if (*at != '\0') fail("has an order of more images", path);
  free(text);
}

/* Everything that shapes a run's numbers, as text; freed by the caller. */
static char *sign_run(const Options *options, Images all) {
  size_t room = 256 + strlen(options->optimizer), used;
  for (int i = 0; i < options->set_count; ++i) room += strlen(options->sets[i].name) + 40;
  for (int i = 0; i < options->schedule_count; ++i) room += strlen(options->schedules[i].text) + 2;
  char *text = allocate(room, 1);
  used = (size_t)snprintf(text, room,
                          "--optimizer %s --dtype %s --epochs %lld --batch %lld --seed %lld%s, "
                          "%d images %016" PRIx64,
                          options->optimizer, options->dtype->name, options->epochs, options->batch,
                          options->seed, options->rows ? " --rows" : "", all.count, hash_of(all));
  for (int i = 0; i < options->set_count; ++i)
    used += (size_t)snprintf(text + used, room - used, ", %s=%.17g", options->sets[i].name,
                             options->sets[i].value);
  for (int i = 0; i < options->schedule_count; ++i)
    used += (size_t)snprintf(text + used, room - used, ", %s", options->schedules[i].text);
  return text;
}

static void check_signature(const talus_optimizer *opt, const char *path, const char *ours) {
  char *theirs = find_note(opt, kSignature, path);
  if (strcmp(theirs, ours) != 0) {
    fprintf(stderr, "train_digits: %s: was made with\n    %s\nand cannot go on with\n    %s\n",
            path, theirs, ours);
    exit(1);
  }
  free(theirs);
}

/* Brings back optimizer, parameters, position and order. `ours`: what sign_run says of this run. */
static void resume(talus_optimizer *opt, const char *path, const char *ours, Position *at,
                   Images training) {
  talus_io io;
  memset(&io, 0, sizeof io);
  io.struct_size = sizeof io;
  io.flags = TALUS_LOAD_PARAMS;
  CHECK(talus_load(opt, path, &io, NULL));
  check_signature(opt, path, ours);
  uint64_t image = find_integer(opt, kImage, path);
  if (image >= (uint64_t)training.count) fail("has a place behind the last image", path);
  at->image = (int)image;
  at->epoch = (long long)find_integer(opt, kEpoch, path);
  at->loss = find_real(opt, kLoss, path);
  at->lr = find_real(opt, kLr, path);
  at->random = find_integer(opt, kRandom, path);
  find_order(opt, path, training);
}

static void save(talus_optimizer *opt, const char *path, const Position *at, Images training) {
  keep_integer(opt, kEpoch, (uint64_t)at->epoch);
  keep_integer(opt, kImage, (uint64_t)at->image);
  keep_real(opt, kLoss, at->loss);
  keep_real(opt, kLr, at->lr);
  keep_integer(opt, kRandom, at->random);
  keep_order(opt, training);
  talus_io io;
  memset(&io, 0, sizeof io);
  io.struct_size = sizeof io;
  io.flags = TALUS_SAVE_PARAMS;
  CHECK(talus_save(opt, path, &io, NULL));
}

#endif
