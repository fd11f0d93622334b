/* The examples of capi/COMING_FROM_TORCH.md, and whether they do what the page says. What stands between
 * the marks is its C blocks; tests/check_migration.py compares them word for word.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <talus.h>

#define CHECK(call)                                          \
  do {                                                       \
    if ((call) != TALUS_OK) stop(#call, talus_last_error()); \
  } while (0)

enum { kEpochs = 100, kBatches = 2, kSteps = kEpochs * kBatches };

/* The lr of epochs first to last. */
typedef struct Row {
  int first, last;
  double lr;
} Row;

static double weight, gradient = 1, before_step[kSteps + 1];
static int step_count;

static void stop(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

/* The weight falls by lr in each step, so that what it was tells every lr that was used. */
static void compute_gradients(void) { before_step[step_count++] = weight; }

/* ---- on the page */
/* StepLR(optimizer, step_size=30, gamma=0.1) */
static void attach_step(talus_optimizer *opt) {
  talus_schedule *schedule;
  CHECK(talus_schedule_create("step", &schedule));
  CHECK(talus_schedule_set(schedule, "step_size", 30));
  CHECK(talus_schedule_set(schedule, "gamma", 0.1));
  CHECK(talus_attach_schedule(opt, TALUS_ALL, "lr", schedule, TALUS_CLOCK_MANUAL));
  talus_schedule_destroy(schedule); /* what it is attached to keeps it */
}

/* Epochs and their lr, where talus_set has set 0.05. */
static const Row kStep[] = {{0, 29, 0.05}, {30, 59, 0.005}, {60, 89, 0.0005}, {90, 99, 0.00005}};
/* ---- */

/* ---- on the page */
/* MultiStepLR(optimizer, milestones=[30, 80], gamma=0.1) */
static void attach_multistep(talus_optimizer *opt) {
  const int64_t milestones[] = {30, 80};
  talus_schedule *schedule;
  CHECK(talus_schedule_create("multistep", &schedule));
  CHECK(talus_schedule_set_list(schedule, "milestones", milestones, 2));
  CHECK(talus_schedule_set(schedule, "gamma", 0.1));
  CHECK(talus_attach_schedule(opt, TALUS_ALL, "lr", schedule, TALUS_CLOCK_MANUAL));
  talus_schedule_destroy(schedule);
}

static const Row kMultistep[] = {{0, 29, 0.05}, {30, 79, 0.005}, {80, 99, 0.0005}};
/* ---- */

/* ---- on the page */
/* ExponentialLR(optimizer, gamma=0.95) */
static void attach_exponential(talus_optimizer *opt) {
  talus_schedule *schedule;
  CHECK(talus_schedule_create("exponential", &schedule));
  CHECK(talus_schedule_set(schedule, "gamma", 0.95));
  CHECK(talus_attach_schedule(opt, TALUS_ALL, "lr", schedule, TALUS_CLOCK_MANUAL));
  talus_schedule_destroy(schedule);
}

static const Row kExponential[] = {{0, 0, 0.05},
                                   {1, 1, 0.0475},
                                   {2, 2, 0.045125},
                                   {10, 10, 0.02993684696191893},
                                   {50, 50, 0.003847248763835656}};
/* ---- */

/* ---- on the page */
/* Before the steps of an epoch: which epoch it is. */
static void train_setting_before(talus_optimizer *opt) {
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    CHECK(talus_set_clock(opt, epoch));
    for (int batch = 0; batch < kBatches; ++batch) {
      compute_gradients();
      CHECK(talus_step(opt, NULL));
    }
  }
}

/* After them, where scheduler.step() stands in torch: which epoch is next. The first is 0 already. */
static void train_setting_after(talus_optimizer *opt) {
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    for (int batch = 0; batch < kBatches; ++batch) {
      compute_gradients();
      CHECK(talus_step(opt, NULL));
    }
    CHECK(talus_set_clock(opt, epoch + 1));
  }
}
/* ---- */

/* What torch warns of, scheduler.step() before optimizer.step(): the next epoch, set too early. */
static void train_one_ahead(talus_optimizer *opt) {
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    CHECK(talus_set_clock(opt, epoch + 1));
    for (int batch = 0; batch < kBatches; ++batch) {
      compute_gradients();
      CHECK(talus_step(opt, NULL));
    }
  }
}

/* With nothing set: t counts the steps, as with scheduler.step() after each of them. */
static void train_by_steps(talus_optimizer *opt) {
  for (int step = 0; step < kSteps; ++step) {
    compute_gradients();
    CHECK(talus_step(opt, NULL));
  }
}

static talus_optimizer *create_optimizer(void) {
  talus_optimizer *opt;
  talus_param param;
  memset(&param, 0, sizeof param);
  param.struct_size = sizeof param;
  param.dtype = TALUS_F64;
  param.data = &weight;
  param.grad = &gradient;
  CHECK(talus_create("sgd", TALUS_CPU, 0, &opt));
  CHECK(talus_set(opt, TALUS_ALL, "momentum", 0));
  CHECK(talus_set(opt, TALUS_ALL, "lr", 0.05));
  CHECK(talus_add_params(opt, 0, 1, &param, NULL));
  return opt;
}

static void expect_lr(const char *what, int step, double expected) {
  double used = before_step[step] - before_step[step + 1];
  if (fabs(used - expected) <= 1e-14) return; /* the weight is below 10: an ulp is 1.8e-15 */
  fprintf(stderr, "%s: step %d used lr %.17g, expected %.17g\n", what, step, used, expected);
  exit(1);
}

static void train(void (*attach)(talus_optimizer *), void (*loop)(talus_optimizer *)) {
  talus_optimizer *opt = create_optimizer();
  weight = 0, step_count = 0;
  attach(opt);
  loop(opt);
  before_step[kSteps] = weight;
  if (step_count != kSteps) stop("loop", "not as many steps as there are batches");
  talus_destroy(opt);
}

/* ahead: epochs that the clock is in front. */
static void check_rows(const char *what, const Row *rows, size_t count, int ahead) {
  for (size_t i = 0; i < count; ++i)
    for (int epoch = rows[i].first; epoch <= rows[i].last; ++epoch)
      for (int batch = 0; batch < kBatches && epoch >= ahead; ++batch)
        expect_lr(what, (epoch - ahead) * kBatches + batch, rows[i].lr);
}

static void attach_exponential_by_steps(talus_optimizer *opt) {
  talus_schedule *schedule;
  CHECK(talus_schedule_create("exponential", &schedule));
  CHECK(talus_schedule_set(schedule, "gamma", 0.95));
  CHECK(talus_attach_schedule(opt, TALUS_ALL, "lr", schedule, TALUS_CLOCK_APPLIED));
  talus_schedule_destroy(schedule);
}

int main(void) {
  const struct {
    const char *name;
    void (*attach)(talus_optimizer *);
    const Row *rows;
    size_t count;
  } tables[] = {{"step", attach_step, kStep, sizeof kStep / sizeof *kStep},
                {"multistep", attach_multistep, kMultistep, sizeof kMultistep / sizeof *kMultistep},
                {"exponential", attach_exponential, kExponential,
                 sizeof kExponential / sizeof *kExponential}};
  for (size_t i = 0; i < sizeof tables / sizeof *tables; ++i) {
    train(tables[i].attach, train_setting_before);
    check_rows(tables[i].name, tables[i].rows, tables[i].count, 0);
    train(tables[i].attach, train_setting_after);
    check_rows(tables[i].name, tables[i].rows, tables[i].count, 0);
    train(tables[i].attach, train_one_ahead);
    check_rows(tables[i].name, tables[i].rows, tables[i].count, 1);
  }
  train(attach_exponential_by_steps, train_by_steps);
  for (size_t i = 0; i < sizeof kExponential / sizeof *kExponential; ++i)
    expect_lr("by steps", kExponential[i].first, kExponential[i].lr);
  return 0;
}
