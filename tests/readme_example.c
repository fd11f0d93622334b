/* The example of README.md, which tests/check_readme.py compares with this file word for word. */
#include <stdio.h>
#include <talus.h>

static int failed(talus_status status) {
  if (status != TALUS_OK) fprintf(stderr, "%s\n", talus_last_error());
  return status != TALUS_OK;
}

int main(void) {
  float w[3] = {0, 0, 0}, gradient[3];
  const float target[3] = {1, -2, 3};
  const int64_t shape[1] = {3};

  talus_param param = {0};
  param.struct_size = sizeof param;
  param.dtype = TALUS_F32;
  param.data = w;
  param.grad = gradient;
  param.name = "w";
  param.shape = shape;
  param.ndim = 1;

  talus_optimizer *opt = NULL;
  if (failed(talus_create("adamw", TALUS_CPU, 0, &opt))) return 1;
  if (failed(talus_set(opt, TALUS_ALL, "lr", 0.05))) return 1;
  if (failed(talus_add_params(opt, 0, 1, &param, NULL))) return 1;
  for (int step = 0; step < 200; ++step) {
    for (int i = 0; i < 3; ++i) gradient[i] = 2 * (w[i] - target[i]);
    if (failed(talus_step(opt, NULL))) return 1;
  }
  printf("w = %.2f %.2f %.2f\n", w[0], w[1], w[2]); /* close to 1 -2 3 */
  talus_destroy(opt);
  return 0;
}
