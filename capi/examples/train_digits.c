/* Trains a digit classifier with talus: a whole training program in C99.
 *
 *     train_digits --optimizer sgd --set lr=0.05 --dtype bf16
 *
 * The network and its gradients (perceptron.h) are the program's own affair; talus sees pointers,
 * dtypes and names. For the use of the library read create_optimizer, train_epoch and train, and
 * for checkpoints digits_checkpoint.h: a run that is stopped, also inside an epoch, and resumed
 * gives the bits of one that is not.
 * Nothing here knows what algorithms and hyperparameters there are, so a new one runs at once.
 *
 * Fixed before any tuning: the split into three thirds by kSplitSeed, whatever --seed is; the
 * initialisation (init_network); the default seed, 1. Tuned on the validation third only: kHidden,
 * kNoise, kPresets and the defaults of --epochs and --batch. The test third is read once, at the
 * end of the run.
 */
#define _POSIX_C_SOURCE 200809L /* isatty, fileno, ftruncate */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <talus.h>

#include "digits_checkpoint.h"
#include "digits_failure.h"
#include "digits_images.h"
#include "digits_log.h"
#include "digits_options.h"
#include "digits_schedule.h"
#include "digits_tensor.h"
#include "perceptron.h"

static const float kNoise = 0.3f; /* standard deviation, added to pixels in training */

/* What suits this task better than the library's defaults, by the algorithm's own name. */
static const struct {
  const char *algorithm, *name;
  double value;
} kPresets[] = {
    {"adamw", "lr", 0.01}, {"adam", "lr", 0.01}, {"sgd", "lr", 0.1}, {"sgd", "momentum", 0.9}};

/* A network's numbers in the dtype of the run: in f32 its own memory, else a 16-bit copy of it; and
 * what talus sees of them. */
typedef struct Storage {
  const Dtype *dtype;
  void *data, *grad;
  void *talus_data, *talus_grad, *talus_indices;
} Storage;

/* On the CPU talus sees the host's own memory; train_digits_cuda.c copies to a device and back. */
#ifndef TALUS_DIGITS_DEVICE
#define TALUS_DIGITS_DEVICE TALUS_CPU
static void *to_device(void *data, size_t bytes) { return (void)bytes, data; }
static void send(void *device, const void *data, size_t bytes) {
  (void)device, (void)data, (void)bytes;
}
static void fetch(void *data, const void *device, size_t bytes) {
  (void)data, (void)device, (void)bytes;
}
static void release(void *device) { (void)device; }
#endif

typedef struct Run {
  Options options;
  Network net;
  Storage storage;
  talus_optimizer *opt;
  Images training, validation, test;
  Position at;
  FILE *log, *trace;
} Run;

static size_t element_bytes(const Storage *storage) { return storage->dtype->narrow ? 2 : 4; }

/* What the network computed goes to talus: 16-bit gradients are rounded from its f32 ones. */
static void store_gradients(const Network *net, const Storage *storage) {
  uint16_t *grad = storage->grad;
  for (int i = 0; storage->dtype->narrow && i < kParameters; ++i)
    grad[i] = storage->dtype->narrow(net->gradients[i]);
  send(storage->talus_grad, grad, kParameters * element_bytes(storage));
}

/* What talus updated goes to the network, which computes in f32. */
static void load_parameters(Network *net, const Storage *storage) {
  const uint16_t *data = storage->data;
  fetch(storage->data, storage->talus_data, kParameters * element_bytes(storage));
  for (int i = 0; storage->dtype->widen && i < kParameters; ++i)
    net->parameters[i] = storage->dtype->widen(data[i]);
}

static Storage create_storage(const Dtype *dtype, Network *net) {
  static int32_t indices[kWidest];
  Storage storage = {dtype, net->parameters, net->gradients, NULL, NULL, NULL};
  size_t bytes = kParameters * element_bytes(&storage);
  if (dtype->narrow) {
    uint16_t *data = storage.data = allocate(1, bytes);
    storage.grad = allocate(1, bytes);
    for (int i = 0; i < kParameters; ++i) data[i] = dtype->narrow(net->parameters[i]);
  }
  storage.talus_data = to_device(storage.data, bytes);
  storage.talus_grad = to_device(storage.grad, bytes);
  for (int i = 0; i < kWidest; ++i) indices[i] = i;
  storage.talus_indices = to_device(indices, sizeof indices);
  load_parameters(net, &storage);
  return storage;
}

static void destroy_storage(Storage *storage) {
  release(storage->talus_data);
  release(storage->talus_grad);
  release(storage->talus_indices);
  if (storage->dtype->narrow == NULL) return;
  free(storage->data);
  free(storage->grad);
}

/* Hands a tensor to a group, once: the pointers stay the same for the whole run. */
static void add_tensor(talus_optimizer *opt, int32_t group, const Run *run, const Tensor *tensor) {
  const Storage *storage = &run->storage;
  void *grad = run->options.rows ? NULL : storage->talus_grad;
  /* Behind a 16-bit parameter talus keeps an f32 master. */
  talus_param param = describe_tensor(tensor, storage->dtype->id, element_bytes(storage),
                                      storage->talus_data, grad);
  CHECK(talus_add_params(opt, group, 1, &param, NULL));
}

/* Gives the gradients as rows, which here are all of them: for rules that take no other. */
static void bind_rows(const Run *run) {
  const Storage *storage = &run->storage;
  for (int i = 0; i < 2 * kLayers; ++i) {
    const Tensor *tensor = i % 2 ? &run->net.bias[i / 2] : &run->net.weight[i / 2];
    talus_rows rows;
    memset(&rows, 0, sizeof rows);
    rows.struct_size = sizeof rows;
    rows.index_dtype = TALUS_I32;
    rows.count = tensor->shape[0];
    rows.indices = storage->talus_indices;
    rows.values = (char *)storage->talus_grad + (size_t)tensor->first * element_bytes(storage);
    CHECK(talus_bind_rows(run->opt, i, &rows)); /* in the order in which they were added */
  }
}

static talus_hyper describe_hyper(const char *algorithm, int32_t i) {
  talus_hyper hyper;
  memset(&hyper, 0, sizeof hyper);
  hyper.struct_size = sizeof hyper;
  CHECK(talus_hyper_info(algorithm, i, &hyper));
  return hyper;
}

static int has_hyper(const char *algorithm, const char *name) {
  for (int32_t i = 0; i < talus_hyper_count(algorithm); ++i)
    if (strcmp(describe_hyper(algorithm, i).name, name) == 0) return 1;
  return 0;
}

static void set_hypers(talus_optimizer *opt, const Options *options) {
  const char *algorithm = talus_group_algorithm(opt, 0); /* "adam", also where an alias was given */
  for (size_t i = 0; i < sizeof kPresets / sizeof *kPresets; ++i)
    if (strcmp(kPresets[i].algorithm, algorithm) == 0)
      CHECK(talus_set(opt, TALUS_ALL, kPresets[i].name, kPresets[i].value));
  for (int i = 0; i < options->set_count; ++i)
    CHECK(talus_set(opt, TALUS_ALL, options->sets[i].name, options->sets[i].value));
}

/* The weights are group 0; the biases have a group of their own, since they do not decay. */
static talus_optimizer *create_optimizer(const Run *run) {
  const Options *options = &run->options;
  talus_optimizer *opt;
  int32_t biases;
  CHECK(talus_create(options->optimizer, TALUS_DIGITS_DEVICE, 0, &opt));
  set_hypers(opt, options);
  CHECK(talus_add_group(opt, NULL, &biases)); /* with the values set for TALUS_ALL so far */
  if (has_hyper(talus_group_algorithm(opt, biases), "weight_decay"))
    CHECK(talus_set(opt, biases, "weight_decay", 0));
  if (options->threads >= 0) CHECK(talus_set_setting(opt, "threads", (double)options->threads));
  for (int l = 0; l < kLayers; ++l) {
    add_tensor(opt, 0, run, &run->net.weight[l]);
    add_tensor(opt, biases, run, &run->net.bias[l]);
  }
  return opt;
}

/* Prints lr, weight_decay and whatever differs from the library's defaults. */
static void print_hypers(const talus_optimizer *opt, const char *algorithm) {
  const char *separator = ": ";
  printf("%s", algorithm);
  for (int32_t i = 0; i < talus_hyper_count(algorithm); ++i) {
    talus_hyper hyper = describe_hyper(algorithm, i);
    double value;
    CHECK(talus_get(opt, 0, hyper.name, &value));
    int always = strcmp(hyper.name, "lr") == 0 || strcmp(hyper.name, "weight_decay") == 0;
    if (!always && value == hyper.def) continue;
    printf("%s%s %g", separator, hyper.name, value);
    separator = ", ";
  }
  printf("\n");
}

static void print_stats(talus_optimizer *opt, const Storage *storage) {
  talus_stats stats;
  memset(&stats, 0, sizeof stats);
  stats.struct_size = sizeof stats;
  CHECK(talus_get_stats(opt, 1, &stats));
  printf("%lld steps of %d %s parameters, %llu bytes of state\n", (long long)stats.steps,
         (int)kParameters, storage->dtype->name, (unsigned long long)stats.state_bytes);
}

/* The parameters as f32, which tells runs apart to the last bit. */
static void write_parameters(const Network *net, const char *path) {
  FILE *file = path ? fopen(path, "wb") : NULL;
  if (path == NULL) return;
  if (file == NULL) fail("cannot be written", path);
  size_t written = fwrite(net->parameters, sizeof *net->parameters, kParameters, file);
  if (fclose(file) != 0 || written != kParameters) fail("cannot be written", path);
}

static void print_score(const char *part, Score score) {
  printf("%s accuracy %.4f (%d of %d)\n", part, accuracy_of(score), score.right, score.count);
}

static long long steps_of(const Run *run) {
  long long batch = run->options.batch, in_epoch = (run->training.count + batch - 1) / batch;
  return run->at.epoch * in_epoch + (run->at.image + batch - 1) / batch;
}

static int is_stopped(const Run *run) {
  return run->options.stop_after >= 0 && steps_of(run) >= run->options.stop_after;
}

/* Takes a step for each batch, from where the epoch is; leaves the mean loss of an image. */
static void train_epoch(Run *run) {
  Images images = run->training;
  while (run->at.image < images.count && !is_stopped(run)) {
    Images batch = batch_at(images, run->at.image, run->options.batch);
    double loss = compute_gradients(&run->net, batch, kNoise, &run->at.random);
    run->at.loss += loss * batch.count / images.count;
    store_gradients(&run->net, &run->storage);
    if (run->options.rows) bind_rows(run);
    trace_step(run->trace, run->opt, steps_of(run), loss);
    CHECK(talus_step(run->opt, NULL));
    load_parameters(&run->net, &run->storage);
    run->at.image += batch.count;
  }
}

static void show_progress(long long epoch, long long epochs, Score validation) {
  enum { kBar = 30 };
  char bar[kBar + 1] = {0};
  for (int i = 0; i < kBar; ++i) bar[i] = i < epoch * kBar / epochs ? '#' : '.';
  fprintf(stderr, "\r[%s] epoch %lld of %lld, validation accuracy %.4f%s", bar, epoch, epochs,
          accuracy_of(validation), epoch == epochs ? "\n" : "");
}

static int waits_for_reports(const Options *options) {
  int waits = 0;
  for (int i = 0; i < options->schedule_count; ++i) waits |= options->schedules[i].has_plateau;
  return waits;
}

static void end_epoch(Run *run, int progress) {
  Score score = score_of(&run->net, run->validation);
  long long epoch = ++run->at.epoch;
  if (progress) show_progress(epoch, run->options.epochs, score);
  log_epoch(run->log, epoch, run->at.loss, score);
  if (waits_for_reports(&run->options)) CHECK(talus_observe(run->opt, score.loss));
  run->at.image = 0;
  run->at.loss = 0;
}

/* Without a schedule, the learning rate falls in a straight line to lr / epochs. */
static void train(Run *run) {
  long long epochs = run->options.epochs;
  int progress = !run->options.quiet && isatty(fileno(stderr));
  int has_lr = has_hyper(talus_group_algorithm(run->opt, 0), "lr");
  int falls = has_lr && !has_schedule(run->opt, "lr");
  while (run->at.epoch < epochs && !is_stopped(run)) {
    double left = 1 - (double)run->at.epoch / (double)epochs;
    if (falls) CHECK(talus_set(run->opt, TALUS_ALL, "lr", run->at.lr * left));
    CHECK(talus_set_clock(run->opt, run->at.epoch));
    if (run->at.image == 0) shuffle(run->training, &run->at.random);
    train_epoch(run);
    if (run->at.image == run->training.count) end_epoch(run, progress);
  }
}

/* Of the optimizer as set up: talus_load brings the lr of the epoch that was saved. */
static void start(Run *run, Images all) {
  const Options *options = &run->options;
  if (has_hyper(talus_group_algorithm(run->opt, 0), "lr"))
    CHECK(talus_get(run->opt, 0, "lr", &run->at.lr));
  char *signature = sign_run(options, all);
  if (options->resume) {
    resume(run->opt, options->resume, signature, &run->at, run->training);
    load_parameters(&run->net, &run->storage);
  }
  for (int i = 0; i < options->schedule_count; ++i)
    attach_schedule(run->opt, &run->options.schedules[i], options->resume != NULL);
  keep_note(run->opt, kSignature, signature);
  free(signature);
}

/* A run that was stopped has not ended, and does not look at the test third. */
static void report(const Run *run) {
  print_stats(run->opt, &run->storage);
  print_score("validation", score_of(&run->net, run->validation));
  if (run->at.epoch == run->options.epochs)
    print_score("test", score_of(&run->net, run->test));
  else
    printf("stopped after %lld steps, in epoch %lld of %lld\n", steps_of(run), run->at.epoch + 1,
           run->options.epochs);
}

int main(int argc, char **argv) {
  static Run run;
  run.options = parse_options(argc, argv);
  run.at.random = (uint64_t)run.options.seed;
  Images all = load_images(run.options.data);
  shuffle_by_split(all);
  run.training = third(all, 0), run.validation = third(all, 1), run.test = third(all, 2);
  init_network(&run.net, &run.at.random);
  run.storage = create_storage(run.options.dtype, &run.net);
  run.opt = create_optimizer(&run);

  print_hypers(run.opt, run.options.optimizer);
  start(&run, all);
  run.log = open_log(run.options.log, run.options.resume != NULL, run.at.epoch);
  run.trace = open_trace(run.options.trace);
  train(&run);
  close_log(run.log, run.options.log);
  close_log(run.trace, run.options.trace);
  write_parameters(&run.net, run.options.parameters);
  if (run.options.save) save(run.opt, run.options.save, &run.at, run.training);
  report(&run);

  talus_destroy(run.opt);
  destroy_storage(&run.storage);
  free(all.image);
  if (fflush(stdout) != 0) fail("cannot be written", "standard output");
  return 0;
}
