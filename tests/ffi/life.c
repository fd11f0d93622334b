/* Ten thousand lives of everything that has a handle, in C: the resident set stops growing. */
#include <stdlib.h>
#include <string.h>

#include <talus.h>

#include "resident.h"

static void check(talus_status status) {
  if (status == TALUS_OK) return;
  fprintf(stderr, "%s: %s\n", talus_status_name(status), talus_last_error());
  exit(1);
}

static int32_t drop(void *user, const void *bytes, uint64_t count) {
  (void)bytes;
  *(uint64_t *)user += count;
  return 0;
}

static double half(void *user, int64_t t) {
  (void)user;
  return t > 0 ? 0.5 : 1;
}

static void attach(talus_optimizer *opt) {
  talus_schedule *warmup, *scaled, *both;
  check(talus_schedule_create("linear", &warmup));
  check(talus_schedule_create("lambda", &scaled));
  check(talus_schedule_set_function(scaled, half, malloc(64), free));
  check(talus_schedule_create("chained", &both));
  check(talus_schedule_add(both, warmup));
  check(talus_schedule_add(both, scaled));
  check(talus_attach_schedule(opt, TALUS_ALL, "lr", both, TALUS_CLOCK_APPLIED));
  talus_schedule_destroy(warmup);
  talus_schedule_destroy(scaled);
  talus_schedule_destroy(both);
}

static void add(talus_optimizer *opt, int32_t group, float *data, float *grad,
                const int64_t *shape) {
  talus_param param;
  memset(&param, 0, sizeof param);
  param.struct_size = sizeof param;
  param.dtype = TALUS_F32;
  param.data = data;
  param.grad = grad;
  param.shape = shape;
  param.ndim = 2;
  check(talus_add_params(opt, group, 1, &param, NULL));
}

static void save(talus_optimizer *opt) {
  uint64_t bytes = 0;
  talus_writer writer;
  memset(&writer, 0, sizeof writer);
  writer.struct_size = sizeof writer;
  writer.user = &bytes;
  writer.write = drop;
  check(talus_set_note(opt, "epoch", "1"));
  check(talus_save_to(opt, &writer, NULL, NULL));
  if (bytes == 0) exit(1);
}

static void live(void) {
  float w[2][6] = {{1, 2, 3, 4, 5, 6}}, g[6] = {1, 1, 1, 1, 1, 1};
  const int64_t shape[2] = {2, 3};
  talus_optimizer *opt;
  talus_scaler *scaler;
  int32_t group;
  double norm;
  check(talus_create("adamw", TALUS_CPU, 0, &opt));
  check(talus_add_group(opt, "lamb", &group));
  check(talus_scaler_create(TALUS_CPU, 0, &scaler));
  check(talus_attach_scaler(opt, scaler));
  attach(opt);
  for (int i = 0; i < 2; ++i) add(opt, i ? group : 0, w[i], g, shape);
  check(talus_clip_grad_norm(&opt, 1, TALUS_ALL, 1, 2, &norm, NULL));
  check(talus_step(opt, NULL));
  check(talus_scaler_update(scaler, NULL));
  save(opt);
  if (talus_set(opt, TALUS_ALL, "no_such", 1) != TALUS_E_NAME) exit(1);
  talus_scaler_destroy(scaler);
  talus_destroy(opt);
}

int main(void) { return grows(live); }
