/* A program outside of talus: its headers and library are the installed ones. Prints what one step of
 * sgd leaves, for a check of which library that was. */
#include <stdio.h>
#include <talus.h>

int main(void) {
  float weights[3] = {1, 2, 3}, gradient[3] = {1, 1, 1};
  const int64_t shape[1] = {3};
  talus_param param = {0};
  talus_optimizer *opt = NULL;
  int ok;

  param.struct_size = sizeof param;
  param.dtype = TALUS_F32;
  param.data = weights;
  param.grad = gradient;
  param.name = "weights";
  param.shape = shape;
  param.ndim = 1;
  ok = !talus_create("sgd", TALUS_CPU, 0, &opt) && !talus_set(opt, TALUS_ALL, "lr", 0.5) &&
       !talus_add_params(opt, 0, 1, &param, NULL) && !talus_step(opt, NULL);
  talus_destroy(opt);
  talus_has_feature("cuda"); /* looks for plugins beside whatever has the library inside */
  if (!ok) {
    fprintf(stderr, "%s\n", talus_last_error());
    return 1;
  }
  printf("%u %g %g %g\n", (unsigned)talus_version(), weights[0], weights[1], weights[2]);
  return !(talus_version() == TALUS_VERSION && weights[0] == 0.5f && weights[2] == 2.5f);
}
