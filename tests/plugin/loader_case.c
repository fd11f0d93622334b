/* Loads a copy of the library and does what the arguments say, one line of output each.
 *   loader_case LIBRARY COMMAND...
 *     path=FOLDERS  talus_set_plugin_path     cpu, cuda=ID  talus_create, a step on the CPU
 *     feature       talus_has_feature("cuda") list=LIST     names and their lines
 *     mapped=FILE   is that file loaded?      symbol=NAME   does the process see it?
 *     unload=FILE   closes it as often as it was opened, or ten times
 *     chdir=FOLDER  set=NAME=VALUE            close         unloads the library */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <talus.h>
#include <unistd.h>

static void *library;

static void find(const char *name, void *function) {
  void *symbol = dlsym(library, name);
  if (symbol == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  memcpy(function, &symbol, sizeof symbol);
}

static const char *last_error(void) {
  const char *(*text)(void);
  find("talus_last_error", &text);
  return text();
}

static void tell(const char *command, talus_status status) {
  const char *(*name)(talus_status);
  find("talus_status_name", &name);
  printf("%s: %s %s\n", command, name(status), status == TALUS_OK ? "" : last_error());
}

static talus_status create(int32_t type, int32_t id) {
  talus_status (*create_it)(const char *, int32_t, int32_t, talus_optimizer **);
  talus_status (*add_params)(talus_optimizer *, int32_t, int64_t, const talus_param *, int64_t *);
  talus_status (*step)(talus_optimizer *, void *);
  void (*destroy)(talus_optimizer *);
  static float data[3] = {1, 2, 3}, grad[3] = {1, 1, 1};
  static const int64_t extent = 3;
  talus_optimizer *opt = NULL;
  talus_param param;
  talus_status status;
  find("talus_create", &create_it);
  find("talus_add_params", &add_params);
  find("talus_step", &step);
  find("talus_destroy", &destroy);
  status = create_it("adamw", type, id, &opt);
  if ((status == TALUS_OK) != (opt != NULL)) exit(2);
  if (status == TALUS_OK && type == TALUS_CPU) {
    memset(&param, 0, sizeof param);
    param.struct_size = sizeof param;
    param.dtype = TALUS_F32;
    param.data = data;
    param.grad = grad;
    param.shape = &extent;
    param.ndim = 1;
    status = add_params(opt, 0, 1, &param, NULL);
    if (status == TALUS_OK) status = step(opt, NULL);
  }
  destroy(opt);
  return status;
}

static void list(const char *command, const char *name) {
  const char *(*name_at)(const char *, int32_t);
  const char *(*doc)(const char *, const char *);
  find("talus_name_at", &name_at);
  find("talus_name_doc", &doc);
  printf("%s:", command);
  for (int32_t i = 0; name_at(name, i) != NULL; ++i)
    printf(" %s (%s)", name_at(name, i), doc(name, name_at(name, i)));
  printf("\n");
}

static int is_mapped(const char *file) {
  void *handle = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  if (handle != NULL) dlclose(handle);
  return handle != NULL;
}

/* The handle that asks, and one of those that were open before. */
static void close_twice(const char *file) {
  void *handle = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  if (handle != NULL && dlclose(handle) == 0) dlclose(handle);
}

static void obey(const char *command) {
  const char *equals = strchr(command, '=');
  const char *value = equals == NULL ? "" : equals + 1;
  const size_t length = equals == NULL ? strlen(command) : (size_t)(equals - command);
#define IS(word) (strlen(word) == length && strncmp(command, word, length) == 0)
  if (IS("path")) {
    talus_status (*set_path)(const char *);
    find("talus_set_plugin_path", &set_path);
    tell(command, set_path(strcmp(value, "NULL") == 0 ? NULL : value));
  } else if (IS("cpu")) {
    tell(command, create(TALUS_CPU, 0));
  } else if (IS("cuda")) {
    tell(command, create(TALUS_CUDA, atoi(value)));
  } else if (IS("feature")) {
    int32_t (*has)(const char *);
    find("talus_has_feature", &has);
    const int32_t usable = has("cuda");
    printf("%s: %d %s\n", command, usable, usable ? "" : last_error());
  } else if (IS("list")) {
    list(command, value);
  } else if (IS("mapped")) {
    printf("%s: %d\n", command, is_mapped(value));
  } else if (IS("unload")) {
    for (int i = 0; i < 10 && is_mapped(value); ++i) close_twice(value);
    printf("%s: 0\n", command);
  } else if (IS("symbol")) {
    printf("%s: %d\n", command, dlsym(RTLD_DEFAULT, value) != NULL);
  } else if (IS("chdir")) {
    printf("%s: %d\n", command, chdir(value));
  } else if (IS("set")) {
    char *copy = strdup(value);
    putenv(copy);
    printf("%s: 0\n", command);
  } else if (IS("close")) {
    printf("%s: %d\n", command, dlclose(library));
    library = NULL;
  } else {
    exit(2);
  }
}

int main(int argc, char **argv) {
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  for (int i = 2; i < argc; ++i) obey(argv[i]);
  return 0;
}
