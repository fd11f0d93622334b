/* What a conformance script has given names to, for conformance.c; and elements as bits. */
#ifndef TALUS_TESTS_FFI_CONFORMANCE_OBJECTS_H
#define TALUS_TESTS_FFI_CONFORMANCE_OBJECTS_H
#include <talus.h>

#include "script.h"

enum { kMostObjects = 512 };
typedef enum Kind { kOptimizer, kSchedule, kScaler, kArray } Kind;

typedef struct Object {
  char name[64];
  Kind kind;
  void *memory; /* a handle, or the elements of an array; NULL: destroyed */
  int32_t dtype;
  int64_t count;
  int64_t *rows; /* of an array: the rows that it was bound as the gradient of */
} Object;

typedef struct Objects {
  Object at[kMostObjects];
  int count;
} Objects;

static Object *look_up(Objects *objects, const char *name) {
  for (int i = 0; i < objects->count; ++i)
    if (strcmp(objects->at[i].name, name) == 0) return &objects->at[i];
  return NULL;
}

static Object *find_object(const Script *script, Objects *objects, const char *name, Kind kind) {
  Object *found = look_up(objects, name);
  if (found == NULL || found->kind != kind || found->memory == NULL)
    stop_at(script, "there is no %s of this kind", name);
  return found;
}

static Object *add_object(const Script *script, Objects *objects, const char *name, Kind kind,
                          void *memory) {
  Object *object = &objects->at[objects->count];
  if (look_up(objects, name)) stop_at(script, "%s is there already", name);
  if (objects->count == kMostObjects || strlen(name) >= sizeof object->name || memory == NULL)
    stop_at(script, "no room for %s", name);
  ++objects->count;
  memset(object, 0, sizeof *object);
  memcpy(object->name, name, strlen(name));
  object->kind = kind;
  object->memory = memory;
  return object;
}

/* Gives back what is behind a name, once; the name stays known. */
static void destroy_object(Object *object) {
  void *memory = object->memory;
  object->memory = NULL;
  switch (object->kind) {
    case kOptimizer: talus_destroy(memory); break;
    case kSchedule: talus_schedule_destroy(memory); break;
    case kScaler: talus_scaler_destroy(memory); break;
    case kArray: free(memory); break;
  }
  free(object->rows);
  object->rows = NULL;
}

/* Arrays last, which optimizers may point to. */
static void destroy_objects(Objects *objects) {
  for (int arrays = 0; arrays < 2; ++arrays)
    for (int i = 0; i < objects->count; ++i)
      if ((objects->at[i].kind == kArray) == arrays) destroy_object(&objects->at[i]);
}

static int32_t dtype_of(const Script *script, const char *word) {
  if (strcmp(word, "f64") == 0) return TALUS_F64;
  if (strcmp(word, "f32") == 0) return TALUS_F32;
  if (strcmp(word, "f16") == 0) return TALUS_F16;
  if (strcmp(word, "bf16") == 0) return TALUS_BF16;
  stop_at(script, "\"%s\" is no dtype", word);
}

static int32_t dtype_or_none(const Script *script, const char *word) {
  return strcmp(word, "-") == 0 ? 0 : dtype_of(script, word);
}

/* Hex digits of an element: two a byte. */
static size_t digits_of(int32_t dtype) { return (size_t)(dtype >> 8) / 4; }

static unsigned long long element_bits(const void *data, int32_t dtype, int64_t i) {
  switch (digits_of(dtype)) {
    case 4: return ((const uint16_t *)data)[i];
    case 8: return ((const uint32_t *)data)[i];
    default: return ((const uint64_t *)data)[i];
  }
}

static void set_element(void *data, int32_t dtype, int64_t i, uint64_t bits) {
  switch (digits_of(dtype)) {
    case 4: ((uint16_t *)data)[i] = (uint16_t)bits; break;
    case 8: ((uint32_t *)data)[i] = (uint32_t)bits; break;
    default: ((uint64_t *)data)[i] = bits; break;
  }
}

/* Reads "2x3" to shape and returns the count of extents. */
static int32_t parse_shape(const Script *script, const char *word, int64_t *shape, int32_t most) {
  int32_t ndim = 0;
  for (char *end; ndim < most; word = end + 1) {
    shape[ndim++] = strtoll(word, &end, 10);
    if (*end == 0) return ndim;
    if (end == word || *end != 'x') break;
  }
  stop_at(script, "\"%s\" is no shape", word);
}
#endif
