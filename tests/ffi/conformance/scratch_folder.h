/* A new folder for the files of a conformance script, removed with all that was made in it. */
#ifndef TALUS_TESTS_FFI_CONFORMANCE_SCRATCH_FOLDER_H
#define TALUS_TESTS_FFI_CONFORMANCE_SCRATCH_FOLDER_H
#include <unistd.h>

#include "script.h"

enum { kMostFiles = 16 };

typedef struct ScratchFolder {
  char path[256];
  char files[kMostFiles][512]; /* whose names were asked for */
  int count;
} ScratchFolder;

static void make_folder(ScratchFolder *folder) {
  const char *parent = getenv("TMPDIR");
  snprintf(folder->path, sizeof folder->path, "%s/talus-conformance-XXXXXX",
           parent ? parent : "/tmp");
  if (mkdtemp(folder->path) == NULL) {
    perror(folder->path);
    exit(1);
  }
}

/* Returns the path of a file in the folder; it lives as long as that. */
static const char *path_in(const Script *script, ScratchFolder *folder, const char *name) {
  char path[512];
  int length = snprintf(path, sizeof path, "%s/%s", folder->path, name);
  if (length < 0 || length >= (int)sizeof path) stop_at(script, "too long a name");
  for (int i = 0; i < folder->count; ++i)
    if (strcmp(folder->files[i], path) == 0) return folder->files[i];
  if (folder->count == kMostFiles) stop_at(script, "more than %d files", kMostFiles);
  return strcpy(folder->files[folder->count++], path);
}

static void remove_folder(const ScratchFolder *folder) {
  for (int i = 0; i < folder->count; ++i) remove(folder->files[i]); /* some were never made */
  if (rmdir(folder->path) != 0) perror(folder->path);
}

static FILE *open_in(const Script *script, const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) stop_at(script, "%s cannot be read", path);
  return file;
}

/* Returns whether both have the same bytes. */
static int same_bytes(const Script *script, const char *path_a, const char *path_b) {
  FILE *a = open_in(script, path_a), *b = open_in(script, path_b);
  int from_a, from_b;
  do {
    from_a = getc(a);
    from_b = getc(b);
  } while (from_a == from_b && from_a != EOF);
  fclose(a);
  fclose(b);
  return from_a == from_b;
}
#endif
