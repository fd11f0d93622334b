/* Mixed precision of train_digits: what the network computes in, what talus stores, and what the loss
 * is multiplied by.
 *
 *        the network computes in    talus holds                              loss scale
 *   O0   f32                        f32 parameters and gradients             none
 *   O1   16 bits, from a cast copy  f32 parameters and gradients             for f16: dynamic
 *   O2   16 bits                    16-bit parameters and gradients, and     for f16: dynamic
 *                                   f32 masters
 *
 * Without a level the network computes in f32, whatever --dtype parameters are stored in.
 */
#ifndef TALUS_EXAMPLES_DIGITS_AMP_H
#define TALUS_EXAMPLES_DIGITS_AMP_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <talus.h>

#include "digits_failure.h"
#include "half.h"

enum { kMaxSets = 32, kNoLevel = -1, kAmpSignature = 160 + kMaxSets * 64 };

/* A value for something that has a name in the library. */
typedef struct Setting {
  const char *name;
  double value;
} Setting;

/* How parameters and gradients are stored, or what the network computes in. */
typedef struct Dtype {
  const char *name;
  int32_t id;
  float (*widen)(uint16_t); /* NULL for f32: nothing to convert */
  uint16_t (*narrow)(float);
  float (*round)(float);
} Dtype;

static const Dtype kDtypes[] = {{"f32", TALUS_F32, NULL, NULL, NULL},
                                {"bf16", TALUS_BF16, bf16_widen, bf16_narrow, bf16_round},
                                {"f16", TALUS_F16, f16_widen, f16_narrow, f16_round}};

/* What suits runs of 1,500 steps: with the library's growth_interval of 2000 none would see the scale
 * grow. */
static const Setting kScalerPreset = {"growth_interval", 100};

typedef struct Amp {
  int level;                         /* 0, 1, 2 or kNoLevel */
  const Dtype *half;                 /* of levels 1 and 2 */
  double loss_scale;                 /* fixed; 0: as the level says */
  double loss_weight, max_grad_norm; /* of the loss; 0: off */
  Setting scaler[kMaxSets];
  int scaler_count;
} Amp;

/* What parameters and gradients are stored in, where --dtype said `dtype`. */
static const Dtype *stored_dtype(const Amp *amp, const Dtype *dtype) {
  return amp->level == 2 ? amp->half : dtype;
}

/* NULL: the network computes in f32. */
static float (*rounding_of(const Amp *amp))(float) {
  return amp->level > 0 ? amp->half->round : NULL;
}

/* bf16 has the exponents of f32, and needs none. */
static int has_scaler(const Amp *amp) {
  return amp->loss_scale != 0 || (amp->level > 0 && amp->half->id == TALUS_F16);
}

static void set_scaler(talus_scaler *scaler, const char *name, double value) {
  CHECK(talus_scaler_set(scaler, name, value));
}

/* The caller's to destroy; NULL where the run needs none. */
static talus_scaler *create_scaler(const Amp *amp, int32_t device) {
  talus_scaler *scaler;
  if (!has_scaler(amp)) return NULL;
  CHECK(talus_scaler_create(device, 0, &scaler));
  set_scaler(scaler, kScalerPreset.name, kScalerPreset.value);
  for (int i = 0; i < amp->scaler_count; ++i)
    set_scaler(scaler, amp->scaler[i].name, amp->scaler[i].value);
  if (amp->loss_scale == 0) return scaler;
  set_scaler(scaler, "dynamic", 0); /* steps are skipped all the same */
  set_scaler(scaler, "init_scale", amp->loss_scale);
  return scaler;
}

/* Before talus_load, which brings the scaler's state. */
static void set_up_gradients(talus_optimizer *opt, const Amp *amp, talus_scaler *scaler) {
  if (scaler) CHECK(talus_attach_scaler(opt, scaler));
  if (amp->max_grad_norm > 0) CHECK(talus_set_setting(opt, "max_grad_norm", amp->max_grad_norm));
}

/* 1 without a scaler. */
static double scale_of(talus_scaler *scaler) {
  double scale = 1;
  if (scaler) CHECK(talus_scaler_scale(scaler, &scale));
  return scale;
}

static talus_stats stats_of(talus_optimizer *opt) {
  talus_stats stats;
  memset(&stats, 0, sizeof stats);
  stats.struct_size = sizeof stats;
  CHECK(talus_get_stats(opt, 1, &stats));
  return stats;
}

static int checks_gradients(const Amp *amp) { return has_scaler(amp) || amp->max_grad_norm > 0; }

/* Takes a step, and returns 1 where it was skipped over gradients that are not finite. */
static int step_and_update(talus_optimizer *opt, const Amp *amp, talus_scaler *scaler) {
  CHECK(talus_step(opt, NULL));
  if (scaler) CHECK(talus_scaler_update(scaler, NULL));
  return checks_gradients(amp) && stats_of(opt).found_inf;
}

/* What one element of `param` costs, with the read that finds what is not finite. */
static void print_amp(const Amp *amp, const talus_optimizer *opt, const talus_param *param,
                      talus_scaler *scaler, long long skipped) {
  talus_bytes bytes;
  memset(&bytes, 0, sizeof bytes);
  bytes.struct_size = sizeof bytes;
  CHECK(talus_bytes_per_param(opt, 0, param, &bytes));
  double moved = bytes.read + bytes.written;
  if (checks_gradients(amp)) moved += bytes.grad;
  if (amp->level != kNoLevel)
    printf("mixed precision O%d, %s: ", amp->level, amp->level ? amp->half->name : "f32");
  printf("loss scale %.9g, %lld steps skipped; bytes of a parameter: %g stored, %g moved\n",
         scale_of(scaler), skipped, bytes.param + bytes.grad + bytes.master + bytes.state, moved);
}

/* What of this shapes a run's numbers: nothing, or at most kAmpSignature bytes. */
static void sign_amp(const Amp *amp, char *text, size_t room) {
  size_t used = 0;
  if (amp->level != kNoLevel)
    used += (size_t)snprintf(text, room, ", --amp O%d --amp-dtype %s", amp->level, amp->half->name);
  const Setting reals[] = {{"loss-scale", amp->loss_scale},
                           {"max-grad-norm", amp->max_grad_norm},
                           {"loss-weight", amp->loss_weight == 1 ? 0 : amp->loss_weight}};
  for (size_t i = 0; i < sizeof reals / sizeof *reals; ++i)
    if (reals[i].value != 0)
      used +=
          (size_t)snprintf(text + used, room - used, ", --%s %.17g", reals[i].name, reals[i].value);
  for (int i = 0; i < amp->scaler_count; ++i)
    used += (size_t)snprintf(text + used, room - used, ", %s=%.17g", amp->scaler[i].name,
                             amp->scaler[i].value);
}

#endif
