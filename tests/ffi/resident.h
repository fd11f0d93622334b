/* Whether memory grows with each life of something. */
#ifndef TALUS_TESTS_FFI_RESIDENT_H
#define TALUS_TESTS_FFI_RESIDENT_H
#include <stdio.h>
#include <unistd.h>

/* The bound: 1 MiB over kLives is a leak of 105 bytes a life, less than the smallest handle with what
 * belongs to it. What allocators keep for themselves is there after the warm-up. */
enum { kWarmUp = 1000, kLives = 10000, kMostBytes = 1 << 20 };

static long resident_bytes(void) {
  long size = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL) return 0;
  if (fscanf(file, "%ld %ld", &size, &resident) != 2) resident = 0;
  fclose(file);
  return resident * sysconf(_SC_PAGESIZE);
}

/* Returns 1 and says so if it does; 77 where it cannot be seen. */
static int grows(void (*live)(void)) {
  for (int i = 0; i < kWarmUp; ++i) live();
  long before = resident_bytes();
  if (before == 0) return printf("SKIPPED: no /proc/self/statm\n"), 77;
  for (int i = 0; i < kLives; ++i) live();
  long grown = resident_bytes() - before;
  printf("%ld bytes more after %d lives, at most %d\n", grown, kLives, kMostBytes);
  return grown > kMostBytes;
}
#endif
