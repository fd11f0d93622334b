/* Steps that are all fixed cost, to be counted by callgrind: check_fixed_cost.py runs this. Prints
 * the library's build, then takes the steps of each case in the order of the command line.
 *   fixed_cost ALGORITHM:CASE... */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <talus.h>

enum { kWarmUp = 3, kSteps = 16, kMost = 1000, kExtent = 17 };

typedef struct cost_case {
  const char *name;
  int tensors, extent, gradients;
  talus_status status; /* of every step */
} cost_case;

static const cost_case kCases[] = {
    {"one", 1, 1, 1, TALUS_OK},
    {"1000x17", kMost, kExtent, kMost, TALUS_OK},
    {"frozen", kMost, kExtent, 1, TALUS_OK}, /* all but the first tensor without a gradient */
    {"idle", kMost, kExtent, 0, TALUS_E_STATE},
    {"empty", 0, 0, 0, TALUS_OK},
};

static void must(int condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "fixed_cost: %s: %s\n", what, talus_last_error());
  exit(1);
}

/* callgrind counts what talus_step does in here, and dumps when it returns. */
__attribute__((noinline)) void counted_steps(talus_optimizer *opt, talus_status expected) {
  for (int i = 0; i < kSteps; ++i) must(talus_step(opt, NULL) == expected, "step");
}

static void run(const char *algorithm, const cost_case *what) {
  static float data[kMost][kExtent], grad[kMost][kExtent];
  talus_optimizer *opt = NULL;
  must(talus_create(algorithm, TALUS_CPU, 0, &opt) == TALUS_OK, algorithm);
  must(talus_set_setting(opt, "threads", 1) == TALUS_OK, "threads");
  for (int t = 0; t < what->tensors; ++t) {
    const int64_t extent = what->extent;
    talus_param param;
    memset(&param, 0, sizeof param);
    param.struct_size = sizeof param;
    param.dtype = TALUS_F32;
    param.data = data[t];
    param.grad = t < what->gradients ? grad[t] : NULL;
    param.shape = &extent;
    param.ndim = 1;
    for (int i = 0; i < kExtent; ++i) data[t][i] = 1, grad[t][i] = (float)(t + i) / 1024;
    must(talus_add_params(opt, 0, 1, &param, NULL) == TALUS_OK, "add_params");
  }
  for (int i = 0; i < kWarmUp; ++i) must(talus_step(opt, NULL) == what->status, "warm-up");
  counted_steps(opt, what->status);
  talus_destroy(opt);
}

int main(int argc, char **argv) {
  puts(talus_build_info());
  for (int i = 1; i < argc; ++i) {
    char *const colon = strchr(argv[i], ':');
    size_t k = 0;
    must(colon != NULL, argv[i]);
    *colon = '\0';
    while (k < sizeof kCases / sizeof *kCases && strcmp(kCases[k].name, colon + 1) != 0) ++k;
    must(k < sizeof kCases / sizeof *kCases, "no such case");
    run(argv[i], &kCases[k]);
  }
  return 0;
}
