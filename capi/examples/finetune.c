/* Fine-tunes a digit classifier with talus, in C99: learns digits 0 to 4, then all ten from there.
 *
 *     finetune [CHECKPOINT]    keeps what it learned first there (finetune.safetensors)
 *
 * The hidden layer is the base, the output layer the head; each is a group with a learning rate of its
 * own. Read freeze and unfreeze for rates that fall by epoch, decay_apart for functions of the host's
 * own, follow_validation for rates that wait for the validation loss. The program checks what it
 * shows: where something does not hold, it says so and exits with 1.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <talus.h>

#define TALUS_DIGITS_PROGRAM "finetune"
#include "digits_failure.h"
#include "digits_images.h"
#include "digits_tensor.h"
#include "perceptron.h"

enum { kBase, kHead, kGroups }; /* group 0 and 1, layer 0 and 1 */
enum { kBatch = 32 };

static const float kNoise = 0.3f; /* standard deviation, added to pixels in training */

typedef struct Data {
  Images training, validation, test;
} Data;

typedef struct Model {
  Network net;
  talus_optimizer *opt;
  uint64_t random; /* of initialisation, order and noise */
} Model;

static void expect(int holds, const char *what) {
  if (!holds) fail("does not hold", what);
}

/* ---- model ---------------------------------------------------------------------------------- */

static void add_layer(Model *model, int32_t group, int layer) {
  Network *net = &model->net;
  const Tensor *tensors[] = {&net->weight[layer], &net->bias[layer]};
  for (int i = 0; i < 2; ++i) {
    talus_param param =
        describe_tensor(tensors[i], TALUS_F32, sizeof(float), net->parameters, net->gradients);
    CHECK(talus_add_params(model->opt, group, 1, &param, NULL));
  }
}

static void create_model(Model *model, uint64_t seed) {
  int32_t head;
  model->random = seed;
  init_network(&model->net, &model->random);
  CHECK(talus_create("sgd", TALUS_CPU, 0, &model->opt));
  CHECK(talus_set(model->opt, TALUS_ALL, "momentum", 0.9));
  CHECK(talus_add_group(model->opt, NULL, &head));
  expect(head == kHead, "the second group is the head");
  add_layer(model, kBase, 0);
  add_layer(model, kHead, 1);
}

static void train_epoch(Model *model, Images images) {
  shuffle(images, &model->random);
  for (int at = 0; at < images.count; at += kBatch) {
    compute_gradients(&model->net, batch_at(images, at, kBatch), kNoise, &model->random);
    CHECK(talus_step(model->opt, NULL));
  }
}

static int same_bytes(const Network *a, const Network *b, const Tensor *tensor) {
  return memcmp(a->parameters + tensor->first, b->parameters + tensor->first,
                (size_t)tensor->count * sizeof *a->parameters) == 0;
}

static int same_layer(const Network *a, const Network *b, int layer) {
  return same_bytes(a, b, &a->weight[layer]) && same_bytes(a, b, &a->bias[layer]);
}

/* ---- what the groups' learning rates are ---------------------------------------------------- */

static double lr_now(const Model *model, int32_t group) {
  double lr;
  CHECK(talus_value_now(model->opt, group, "lr", &lr)); /* what the next step will use */
  return lr;
}

static void expect_lr(const Model *model, int32_t group, long long epoch, double expected) {
  double lr = lr_now(model, group);
  if (fabs(lr - expected) <= 1e-12 * expected) return;
  fprintf(stderr, "finetune: epoch %lld, group %d: lr is %.17g, expected %.17g\n", epoch, group, lr,
          expected);
  exit(1);
}

static void print_head(const char *title) {
  printf("\n%s\n  epoch  lr of base  lr of head  validation loss  accuracy\n", title);
}

static void print_epoch(const Model *model, long long epoch, Score score) {
  printf("  %5lld  %10.6f  %10.6f  %15.4f  %8.4f\n", epoch, lr_now(model, kBase),
         lr_now(model, kHead), score.loss, accuracy_of(score));
}

static talus_schedule *create_schedule(const char *kind) {
  talus_schedule *schedule;
  CHECK(talus_schedule_create(kind, &schedule));
  return schedule;
}

/* What it is attached to keeps it from now on. The clock is set by hand: t is the epoch. */
static void attach(Model *model, int32_t group, talus_schedule *schedule) {
  CHECK(talus_attach_schedule(model->opt, group, "lr", schedule, TALUS_CLOCK_MANUAL));
  talus_schedule_destroy(schedule);
}

/* ---- pretraining, and its checkpoint -------------------------------------------------------- */

/* A copy of the images of some digits, to be freed. */
static Images digits_below(Images images, int end) {
  Images some = {allocate((size_t)images.count, sizeof(Image)), 0};
  for (int i = 0; i < images.count; ++i)
    if (images.image[i].digit < end) some.image[some.count++] = images.image[i];
  return some;
}

static talus_io io_with(uint64_t flags) {
  talus_io io;
  memset(&io, 0, sizeof io);
  io.struct_size = sizeof io;
  io.flags = flags;
  return io;
}

static void pretrain(Model *model, const Data *data, const char *path) {
  enum { kEpochs = 10, kDigits = 5 };
  Images training = digits_below(data->training, kDigits);
  Images validation = digits_below(data->validation, kDigits);
  talus_io io = io_with(TALUS_SAVE_PARAMS);
  create_model(model, 1);
  CHECK(talus_set(model->opt, TALUS_ALL, "lr", 0.05));
  for (int epoch = 0; epoch < kEpochs; ++epoch) train_epoch(model, training);
  CHECK(talus_save(model->opt, path, &io, NULL));

  Score five = score_of(&model->net, validation), ten = score_of(&model->net, data->validation);
  printf("pretrained on digits 0 to 4: accuracy %.4f on these, %.4f on all ten\nsaved to %s\n",
         accuracy_of(five), accuracy_of(ten), path);
  expect(accuracy_of(five) > 0.9, "digits 0 to 4 are learned");
  free(training.image);
  free(validation.image);
}

/* Brings the weights; momentum starts afresh, for it was of another task. */
static void load_pretrained(Model *model, const char *path, const Network *saved) {
  talus_io io = io_with(TALUS_LOAD_PARAMS);
  create_model(model, 2);
  expect(!same_layer(&model->net, saved, kBase), "a new network is another one");
  CHECK(talus_load(model->opt, path, &io, NULL));
  expect(same_layer(&model->net, saved, kBase) && same_layer(&model->net, saved, kHead),
         "what is loaded is what was saved, byte for byte");
  for (int64_t i = 0; i < talus_param_count(model->opt); ++i)
    CHECK(talus_set_steps(model->opt, i, 0));
}

/* ---- freeze, unfreeze: StepLR by epoch ------------------------------------------------------ */

enum { kStepSize = 4, kFrozenEpochs = 8, kEpochs = 12 };

static const double kHeadLr = 0.05, kThawedLr = 0.04, kGamma = 0.5;

static Score tune(Model *model, const Data *data, int first, int end, double base, double head) {
  Score score = {0, 0, 1};
  for (int epoch = first; epoch < end; ++epoch) {
    double factor = epoch < kStepSize ? 1 : epoch < 2 * kStepSize ? kGamma : kGamma * kGamma;
    CHECK(talus_set_clock(model->opt, epoch));
    expect_lr(model, kBase, epoch, base * factor);
    expect_lr(model, kHead, epoch, head * factor);
    train_epoch(model, data->training);
    score = score_of(&model->net, data->validation);
    print_epoch(model, epoch, score);
  }
  return score;
}

/* One schedule serves both groups; each gives it its own base, and 0 stays 0. With gradients of NULL
 * (talus_bind_grads) a frozen group would be left out whole, which also saves its work. */
static Score freeze(Model *model, const Data *data) {
  talus_schedule *step = create_schedule("step");
  CHECK(talus_schedule_set(step, "step_size", kStepSize));
  CHECK(talus_schedule_set(step, "gamma", kGamma));
  attach(model, TALUS_ALL, step);
  CHECK(talus_set(model->opt, kBase, "lr", 0));
  CHECK(talus_set(model->opt, kHead, "lr", kHeadLr));
  print_head("all ten digits: the head learns on a frozen base, lr by step of 4 epochs");
  return tune(model, data, 0, kFrozenEpochs, 0, kHeadLr);
}

/* A change of the base value; the schedule goes on. */
static Score unfreeze(Model *model, const Data *data) {
  CHECK(talus_set(model->opt, kBase, "lr", kThawedLr));
  printf("  the base learns as well\n");
  return tune(model, data, kFrozenEpochs, kEpochs, kThawedLr, kHeadLr);
}

static void freeze_and_unfreeze(Model *model, const Data *data) {
  static Network before;
  before = model->net;
  Score pretrained = score_of(&before, data->validation), frozen = freeze(model, data);
  expect(same_layer(&model->net, &before, kBase), "a frozen base keeps its bytes");
  expect(!same_layer(&model->net, &before, kHead), "the head learns");
  expect(frozen.loss < pretrained.loss, "the head alone makes the validation loss better");
  Score thawed = unfreeze(model, data);
  expect(!same_layer(&model->net, &before, kBase), "a base that is no longer frozen moves");
  expect(thawed.loss < frozen.loss, "the base makes the validation loss better still");
  expect(accuracy_of(thawed) > 0.9, "all ten digits are learned");
  Score test = score_of(&model->net, data->test);
  printf("  test accuracy %.4f (%d of %d)\n", accuracy_of(test), test.right, test.count);
}

/* ---- a lambda for each group ---------------------------------------------------------------- */

typedef struct Decay {
  double factor;
  int64_t epochs; /* from one fall to the next */
} Decay;

/* The library calls it within the step and multiplies the group's own lr by what it returns. */
static double decayed(void *user, int64_t epoch) {
  const Decay *decay = (const Decay *)user;
  return pow(decay->factor, (double)(epoch / decay->epochs));
}

static void attach_decay(Model *model, int32_t group, Decay *decay) {
  talus_schedule *lambda = create_schedule("lambda");
  CHECK(talus_schedule_set_function(lambda, decayed, decay, NULL));
  attach(model, group, lambda);
}

/* The rates are checked against products, which the functions do not form. */
static void decay_apart(Model *model, const Data *data) {
  static Decay halve = {0.5, 30}, shrink = {0.95, 1};
  double base = 0.01, head = 0.05;
  Images few = batch_at(data->training, 0, 5 * kBatch); /* short epochs, for there are many */
  attach_decay(model, kBase, &halve);
  attach_decay(model, kHead, &shrink);
  CHECK(talus_set(model->opt, kBase, "lr", base));
  CHECK(talus_set(model->opt, kHead, "lr", head));
  print_head("a lambda each: base 0.5^(epoch / 30), head 0.95^epoch");
  for (int epoch = 0; epoch <= 60; ++epoch) {
    CHECK(talus_set_clock(model->opt, epoch));
    if (epoch == 30 || epoch == 60) base *= 0.5;
    if (epoch > 0) head *= 0.95;
    expect_lr(model, kBase, epoch, base);
    expect_lr(model, kHead, epoch, head);
    train_epoch(model, few);
    if (epoch % 15 == 0 || epoch == 29 || epoch == 59)
      print_epoch(model, epoch, score_of(&model->net, data->validation));
  }
}

/* ---- a plateau for each group --------------------------------------------------------------- */

static const double kFactor = 0.3, kFloor[kGroups] = {0.001, 0.0005};

/* A floor of its own is a schedule of its own; every report goes to both. */
static void attach_plateau(Model *model, int32_t group) {
  talus_schedule *plateau = create_schedule("plateau");
  CHECK(talus_schedule_set(plateau, "factor", kFactor));
  CHECK(talus_schedule_set(plateau, "patience", 2));
  CHECK(talus_schedule_set(plateau, "threshold", 0.01));
  CHECK(talus_schedule_set(plateau, "min_value", kFloor[group]));
  attach(model, group, plateau);
}

/* Returns whether the report made a rate fall. */
static int report(Model *model, double loss) {
  double before[kGroups], now[kGroups];
  for (int g = 0; g < kGroups; ++g) before[g] = lr_now(model, g);
  CHECK(talus_observe(model->opt, loss));
  for (int g = 0; g < kGroups; ++g) {
    now[g] = lr_now(model, g);
    expect(now[g] == before[g] || now[g] == fmax(before[g] * kFactor, kFloor[g]),
           "a plateau's lr stays or falls by its factor, to its floor at most");
  }
  return now[kBase] != before[kBase] || now[kHead] != before[kHead];
}

static void follow_validation(Model *model, const Data *data) {
  enum { kMostEpochs = 150 };
  int epoch = 0;
  for (int g = 0; g < kGroups; ++g) attach_plateau(model, g);
  CHECK(talus_set(model->opt, kBase, "lr", 0.02));
  CHECK(talus_set(model->opt, kHead, "lr", 0.05));
  print_head("a plateau each, down to 0.001 and 0.0005: epochs whose loss makes a lr fall");
  while (epoch < kMostEpochs &&
         (lr_now(model, kBase) > kFloor[kBase] || lr_now(model, kHead) > kFloor[kHead])) {
    train_epoch(model, data->training);
    Score score = score_of(&model->net, data->validation);
    if (report(model, score.loss)) print_epoch(model, epoch, score);
    ++epoch;
  }
  expect(lr_now(model, kBase) == kFloor[kBase] && lr_now(model, kHead) == kFloor[kHead],
         "both plateaus reach their floors");
}

/* ---- all of it ------------------------------------------------------------------------------ */

int main(int argc, char **argv) {
  static Model pretrained, model;
  static void (*const kParts[])(Model *, const Data *) = {freeze_and_unfreeze, decay_apart,
                                                          follow_validation};
  const char *path = argc > 1 ? argv[1] : "finetune.safetensors";
  if (argc > 2 || *path == '-') {
    fprintf(stderr, "finetune [CHECKPOINT]\n");
    return 2;
  }
  Images all = load_images(TALUS_DIGITS_CSV);
  shuffle_by_split(all);
  Data data = {third(all, 0), third(all, 1), third(all, 2)};
  pretrain(&pretrained, &data, path);
  for (size_t i = 0; i < sizeof kParts / sizeof *kParts; ++i) {
    load_pretrained(&model, path, &pretrained.net);
    kParts[i](&model, &data);
    talus_destroy(model.opt);
  }
  talus_destroy(pretrained.opt);
  free(all.image);
  if (fflush(stdout) != 0) fail("cannot be written", "standard output");
  return 0;
}
