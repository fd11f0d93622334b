/* A host that finds libtalus while it runs: it links nothing of talus, starts where there is none, and
 * says what is wrong with one that it cannot use. talus.h is for types and numbers alone.
 *
 *     load_talus [LIBRARY]     a file, or a name for the loader; libtalus.so.0 by default
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <talus.h>

enum { kAbi = 0 }; /* that the types here are of: the number of the SONAME */

/* What this host calls. The members' types are those of the prototypes in talus.h. */
typedef struct Talus {
  void *library;
  uint32_t (*abi_version)(void);
  uint32_t (*version)(void);
  const char *(*status_name)(talus_status);
  const char *(*last_error)(void);
  talus_status (*create)(const char *, int32_t, int32_t, talus_optimizer **);
  void (*destroy)(talus_optimizer *);
  talus_status (*set)(talus_optimizer *, int32_t, const char *, double);
  talus_status (*add_params)(talus_optimizer *, int32_t, int64_t, const talus_param *, int64_t *);
  talus_status (*step)(talus_optimizer *, void *);
} Talus;

static int complain(const char *path, const char *what, const char *detail) {
  fprintf(stderr, "load_talus: %s: %s%s\n", path, what, detail);
  return 0;
}

/* POSIX promises that an object pointer of dlsym holds a function; ISO C has no cast for it. */
static int find(void *library, const char *path, const char *name, void *function) {
  void *symbol = dlsym(library, name);
  if (symbol == NULL) return complain(path, "is no libtalus, it lacks ", name);
  memcpy(function, &symbol, sizeof symbol);
  return 1;
}

static int find_all(Talus *talus, const char *path) {
  void *library = talus->library;
  return find(library, path, "talus_version", &talus->version) &&
         find(library, path, "talus_status_name", &talus->status_name) &&
         find(library, path, "talus_last_error", &talus->last_error) &&
         find(library, path, "talus_create", &talus->create) &&
         find(library, path, "talus_destroy", &talus->destroy) &&
         find(library, path, "talus_set", &talus->set) &&
         find(library, path, "talus_add_params", &talus->add_params) &&
         find(library, path, "talus_step", &talus->step);
}

/* Asks for the ABI before anything else is called: it says what the other functions take. */
static int has_our_abi(const Talus *talus, const char *path) {
  char text[64];
  unsigned found = talus->abi_version() >> 16;
  if (found == kAbi) return 1;
  snprintf(text, sizeof text, "%u, expected %d", found, kAbi);
  return complain(path, "is a libtalus of ABI ", text);
}

/* Returns 0 where the library is missing or another, and has said so. */
static int load(Talus *talus, const char *path) {
  memset(talus, 0, sizeof *talus);
  talus->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (talus->library == NULL) return complain(path, "cannot be loaded: ", dlerror());
  if (find(talus->library, path, "talus_abi_version", &talus->abi_version) &&
      has_our_abi(talus, path) && find_all(talus, path))
    return 1;
  dlclose(talus->library);
  return 0;
}

static int failed(const Talus *talus, talus_status status) {
  if (status == TALUS_OK) return 0;
  fprintf(stderr, "load_talus: %s: %s\n", talus->status_name(status), talus->last_error());
  return 1;
}

/* Mean square error of w0 x + w1 y + w2 against 2x - 3y + 1 over a grid, and its gradient. */
static double evaluate(const float w[3], float gradient[3]) {
  double loss = 0, sum[3] = {0, 0, 0};
  for (int i = 0; i < 25; ++i) {
    double x[3] = {i % 5 / 4.0, i / 5 / 4.0, 1}, error = -(2 * x[0] - 3 * x[1] + 1);
    for (int k = 0; k < 3; ++k) error += w[k] * x[k];
    for (int k = 0; k < 3; ++k) sum[k] += 2 * error * x[k] / 25;
    loss += error * error / 25;
  }
  for (int k = 0; k < 3; ++k) gradient[k] = (float)sum[k];
  return loss;
}

/* Returns 0 if the loss fell to a hundredth. */
static int train(const Talus *talus, talus_optimizer *opt) {
  float w[3] = {0, 0, 0}, gradient[3];
  const int64_t shape[1] = {3};
  talus_param param;
  double first = evaluate(w, gradient), last = first;
  memset(&param, 0, sizeof param);
  param.struct_size = sizeof param;
  param.dtype = TALUS_F32;
  param.data = w;
  param.grad = gradient;
  param.name = "line";
  param.shape = shape;
  param.ndim = 1;
  if (failed(talus, talus->set(opt, TALUS_ALL, "lr", 0.1))) return 1;
  if (failed(talus, talus->add_params(opt, 0, 1, &param, NULL))) return 1;
  for (int step = 0; step < 200; ++step) {
    if (failed(talus, talus->step(opt, NULL))) return 1;
    last = evaluate(w, gradient);
  }
  printf("w = %.2f %.2f %.2f, loss %.4f to %.4f\n", w[0], w[1], w[2], first, last);
  return last > first / 100;
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "libtalus.so.0";
  talus_optimizer *opt;
  Talus talus;
  if (!load(&talus, path)) return 1;
  uint32_t version = talus.version();
  printf("libtalus %u.%u.%u\n", (unsigned)(version >> 16), (unsigned)(version >> 8 & 0xff),
         (unsigned)(version & 0xff));
  if (failed(&talus, talus.create("adamw", TALUS_CPU, 0, &opt))) return 1;
  int status = train(&talus, opt);
  talus.destroy(opt);
  return dlclose(talus.library) != 0 || status;
}
