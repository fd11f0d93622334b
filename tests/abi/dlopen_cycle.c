/* Loads, uses and unloads the library a hundred times, then two copies of it side by side. Not
 * linked with talus.
 *   dlopen_cycle LIBRARY COPY     COPY is overwritten with the bytes of LIBRARY */
#include <dirent.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <talus.h>
#include <unistd.h>

enum { kCycles = 100, kWarmUp = 10, kCount = 100000, kSteps = 3 };

typedef struct library {
  void *handle;
  talus_status (*create)(const char *, int32_t, int32_t, talus_optimizer **);
  void (*destroy)(talus_optimizer *);
  talus_status (*set_setting)(talus_optimizer *, const char *, double);
  talus_status (*add_params)(talus_optimizer *, int32_t, int64_t, const talus_param *, int64_t *);
  talus_status (*step)(talus_optimizer *, void *);
  const char *(*last_error)(void);
} library;

#define REQUIRE(condition)                                                    \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

/* POSIX promises that an object pointer of dlsym holds a function; ISO C has no cast for it. */
static void find(void *handle, const char *name, void *function) {
  void *symbol = dlsym(handle, name);
  REQUIRE(symbol != NULL);
  memcpy(function, &symbol, sizeof symbol);
}

static library load(const char *path) {
  library lib;
  lib.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (lib.handle == NULL) fprintf(stderr, "%s\n", dlerror());
  REQUIRE(lib.handle != NULL);
  find(lib.handle, "talus_create", &lib.create);
  find(lib.handle, "talus_destroy", &lib.destroy);
  find(lib.handle, "talus_set_setting", &lib.set_setting);
  find(lib.handle, "talus_add_params", &lib.add_params);
  find(lib.handle, "talus_step", &lib.step);
  find(lib.handle, "talus_last_error", &lib.last_error);
  return lib;
}

/* Trains `data` on threads of the library, and leaves an error text behind. */
static void use(const library *lib, float *data, const char *wrong_name) {
  static float grad[kCount];
  static const int64_t extent = kCount;
  talus_optimizer *opt = NULL;
  talus_param param;
  for (int i = 0; i < kCount; ++i) data[i] = 1, grad[i] = (float)(i % 7 - 3);
  memset(&param, 0, sizeof param);
  param.struct_size = sizeof param;
  param.dtype = TALUS_F32;
  param.data = data;
  param.grad = grad;
  param.shape = &extent;
  param.ndim = 1;
  REQUIRE(lib->create("adamw", TALUS_CPU, 0, &opt) == TALUS_OK);
  REQUIRE(lib->set_setting(opt, "threads", 3) == TALUS_OK);
  REQUIRE(lib->add_params(opt, 0, 1, &param, NULL) == TALUS_OK);
  for (int i = 0; i < kSteps; ++i) REQUIRE(lib->step(opt, NULL) == TALUS_OK);
  REQUIRE(lib->set_setting(opt, wrong_name, 1) == TALUS_E_NAME);
  lib->destroy(opt);
}

static int thread_count(void) {
  int count = 0;
  DIR *tasks = opendir("/proc/self/task");
  if (tasks == NULL) return 1;
  for (struct dirent *task = readdir(tasks); task != NULL; task = readdir(tasks))
    count += task->d_name[0] != '.';
  closedir(tasks);
  return count;
}

/* A thread that has been joined is listed by the kernel for a moment yet. */
static int all_threads_end(void) {
  for (int i = 0; i < 1000 && thread_count() > 1; ++i) usleep(1000);
  return thread_count() == 1;
}

static long resident_pages(void) {
  long size = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL) return 0;
  if (fscanf(file, "%ld %ld", &size, &resident) != 2) resident = 0;
  fclose(file);
  return resident;
}

/* What the library registered for fork must have gone with it. */
static void fork_without_library(void) {
  int status = 1;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(0);
  REQUIRE(waitpid(child, &status, 0) == child && status == 0);
}

static void check_cycles(const char *path) {
  static float data[kCount], first[kCount];
  long pages = 0;
  for (int cycle = 0; cycle < kCycles; ++cycle) {
    const library lib = load(path);
    use(&lib, data, "nonsense");
    if (cycle == 0) memcpy(first, data, sizeof first);
    REQUIRE(memcmp(first, data, sizeof first) == 0);
    REQUIRE(all_threads_end());
    REQUIRE(dlclose(lib.handle) == 0);
    REQUIRE(dlopen(path, RTLD_NOW | RTLD_NOLOAD) == NULL); /* it is gone, so the next load is one */
    if (cycle % 10 == 0) fork_without_library();
    if (cycle == kWarmUp) pages = resident_pages();
  }
  REQUIRE(resident_pages() - pages < 512);
}

static void copy(const char *from, const char *to) {
  static char block[1 << 16];
  size_t bytes;
  FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
  REQUIRE(in != NULL && out != NULL);
  while ((bytes = fread(block, 1, sizeof block, in)) > 0)
    REQUIRE(fwrite(block, 1, bytes, out) == bytes);
  fclose(in);
  REQUIRE(fclose(out) == 0);
}

/* Two builds in one process, as two frameworks would bring them: each has its own state. */
static void check_two_copies(const char *path, const char *other_path) {
  static float a[kCount], b[kCount];
  copy(path, other_path);
  const library one = load(path), two = load(other_path);
  REQUIRE(one.create != two.create);
  use(&one, a, "name_in_one");
  use(&two, b, "name_in_two");
  REQUIRE(memcmp(a, b, sizeof a) == 0);
  REQUIRE(strstr(one.last_error(), "name_in_one") != NULL);
  REQUIRE(strstr(two.last_error(), "name_in_two") != NULL);
  REQUIRE(dlclose(one.handle) == 0);
  use(&two, b, "name_in_two");
  REQUIRE(memcmp(a, b, sizeof a) == 0);
  REQUIRE(dlclose(two.handle) == 0);
  remove(other_path);
}

int main(int argc, char **argv) {
  REQUIRE(argc == 3);
  check_cycles(argv[1]);
  check_two_copies(argv[1], argv[2]);
  return 0;
}
