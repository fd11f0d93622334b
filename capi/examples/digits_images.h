/* The images that the examples learn from: a file of them, and its thirds. */
#ifndef TALUS_EXAMPLES_DIGITS_IMAGES_H
#define TALUS_EXAMPLES_DIGITS_IMAGES_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "digits_failure.h"
#include "perceptron.h"

#ifndef TALUS_DIGITS_CSV
#define TALUS_DIGITS_CSV "digits.csv"
#endif

enum { kMaxImages = 10000 };

static const uint64_t kSplitSeed = 1797;

/* Reads "p,p,...,p,digit": 64 pixels of 0 .. 16. Returns 0 where the line is anything else. */
static int parse_image(const char *line, Image *image) {
  for (int i = 0; i <= kPixels; ++i) {
    char *end;
    long value = strtol(line, &end, 10);
    int last = i == kPixels;
    if (end == line || value < 0 || value > (last ? kClasses - 1 : 16)) return 0;
    if (last) image->digit = (int)value;
    if (last) return *end == '\n' || *end == '\0';
    if (*end != ',') return 0;
    image->pixels[i] = (float)value / 16.0f;
    line = end + 1;
  }
  return 0;
}

static Images load_images(const char *path) {
  Images images = {(Image *)allocate(kMaxImages, sizeof(Image)), 0}; /* C++ wants the cast */
  char line[512];
  FILE *file = fopen(path, "r");
  if (file == NULL) fail("cannot be opened", path);
  while (fgets(line, sizeof line, file) != NULL) {
    if (images.count == kMaxImages) fail("too many images", path);
    images.image[images.count].number = images.count;
    if (!parse_image(line, &images.image[images.count++])) {
      fprintf(stderr, TALUS_DIGITS_PROGRAM ": line %d: ", images.count);
      fail("expected 64 pixels of 0 to 16 and a digit", path);
    }
  }
  if (ferror(file)) fail("cannot be read", path);
  fclose(file);
  if (images.count < 3) fail("too few images for three thirds", path);
  return images;
}

/* Training, validation and test are a third each, of an order that no seed of a run changes. */
static void shuffle_by_split(Images all) {
  uint64_t random = kSplitSeed;
  shuffle(all, &random);
}

static Images third(Images all, int which) {
  Images part = {all.image + which * (all.count / 3), all.count / 3};
  return part;
}

/* The images from first on, at most so many. */
static Images batch_at(Images images, int first, long long most) {
  Images batch = {images.image + first, images.count - first};
  if (batch.count > most) batch.count = (int)most;
  return batch;
}

/* Tells sets of images apart: FNV-1a of pixels and digits. */
static inline uint64_t hash_of(Images images) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (int i = 0; i < images.count; ++i) {
    for (int p = 0; p < kPixels; ++p)
      hash = (hash ^ (uint64_t)(images.image[i].pixels[p] * 16.0f)) * 0x100000001b3u;
    hash = (hash ^ (uint64_t)images.image[i].digit) * 0x100000001b3u;
  }
  return hash;
}

#endif
