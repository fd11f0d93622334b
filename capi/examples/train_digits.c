/* Trains a digit classifier with talus: a whole training program in C99.
 *
 *     train_digits --optimizer sgd --set lr=0.05 --dtype bf16
 *
 * The network and its gradients (perceptron.h) are the program's own affair; talus sees pointers,
 * dtypes and names. For the use of the library read create_optimizer, train_epoch and train.
 * Nothing here knows what algorithms and hyperparameters there are, so a new one runs at once.
 *
 * Fixed before any tuning: the split into three thirds by kSplitSeed, whatever --seed is; the
 * initialisation (init_network); the default seed, 1. Tuned on the validation third only: kHidden,
 * kNoise, kPresets and the defaults of --epochs and --batch. The test third is read once, at the
 * end of the run.
 */
#define _POSIX_C_SOURCE 200809L /* isatty, fileno */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <talus.h>

#include "half.h"
#include "perceptron.h"

#ifndef TALUS_DIGITS_CSV
#define TALUS_DIGITS_CSV "digits.csv"
#endif

enum { kMaxSets = 32, kMaxImages = 10000 };
static const uint64_t kSplitSeed = 1797;
static const float kNoise = 0.3f; /* standard deviation, added to pixels in training */

/* What suits this task better than the library's defaults, by the algorithm's own name. */
static const struct {
  const char *algorithm, *name;
  double value;
} kPresets[] = {
    {"adamw", "lr", 0.01}, {"adam", "lr", 0.01}, {"sgd", "lr", 0.1}, {"sgd", "momentum", 0.9}};

/* How parameters and gradients are stored. */
typedef struct Dtype {
  const char *name;
  int32_t id;
  float (*widen)(uint16_t); /* NULL for f32: nothing to convert */
  uint16_t (*narrow)(float);
} Dtype;

static const Dtype kDtypes[] = {{"f32", TALUS_F32, NULL, NULL},
                                {"bf16", TALUS_BF16, bf16_widen, bf16_narrow},
                                {"f16", TALUS_F16, f16_widen, f16_narrow}};

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

typedef struct Options {
  const char *optimizer, *data, *log, *save;
  const Dtype *dtype;
  struct {
    const char *name;
    double value;
  } sets[kMaxSets];
  int set_count;
  long long seed, epochs, batch, threads; /* threads -1: not given */
  int quiet, rows;
} Options;

typedef struct Run {
  Options options;
  Network net;
  Storage storage;
  talus_optimizer *opt;
  Images training, validation, test;
  uint64_t random;
} Run;

#define CHECK(call)                           \
  do {                                        \
    talus_status status_ = (call);            \
    if (status_ != TALUS_OK) refuse(status_); \
  } while (0)

static void refuse(talus_status status) {
  fprintf(stderr, "train_digits: %s: %s\n", talus_status_name(status), talus_last_error());
  exit(1);
}

static void fail(const char *what, const char *where) {
  fprintf(stderr, "train_digits: %s: %s\n", where, what);
  exit(1);
}

static void misuse(const char *what, const char *got) {
  fprintf(stderr, "train_digits: %s '%s'; see train_digits --help\n", what, got);
  exit(2);
}

static void *allocate(size_t count, size_t bytes) {
  void *memory = calloc(count, bytes);
  if (memory == NULL) fail("not enough memory", "calloc");
  return memory;
}

/* Reads "p,p,...,p,digit": 64 pixels of 0 .. 16. Returns 0 where the line is anything else. */
static int parse_image(const char *line, Image *image) {
  for (int i = 0; i <= kPixels; ++i) {
    char *end;
    long value = strtol(line, &end, 10);
    int last = i == kPixels;
    if (end == line || value < 0 || value > (last ? kClasses - 1 : 16)) return 0;
    if (last) image->digit = (int)value;
    if (last) return *end == '\n' || *end == '\0';
    if (*end != ',') return 0;
    image->pixels[i] = (float)value / 16.0f;
    line = end + 1;
  }
  return 0;
}

static Images load_images(const char *path) {
  Images images = {allocate(kMaxImages, sizeof(Image)), 0};
  char line[512];
  FILE *file = fopen(path, "r");
  if (file == NULL) fail("cannot be opened", path);
  while (fgets(line, sizeof line, file) != NULL) {
    if (images.count == kMaxImages) fail("too many images", path);
    if (!parse_image(line, &images.image[images.count++])) {
      fprintf(stderr, "train_digits: line %d: ", images.count);
      fail("expected 64 pixels of 0 to 16 and a digit", path);
    }
  }
  if (ferror(file)) fail("cannot be read", path);
  fclose(file);
  if (images.count < 3) fail("too few images for three thirds", path);
  return images;
}

static Images third(Images all, int which) {
  Images part = {all.image + which * (all.count / 3), all.count / 3};
  return part;
}

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
  size_t offset = (size_t)tensor->first * element_bytes(storage);
  talus_param param;
  memset(&param, 0, sizeof param);
  param.struct_size = sizeof param;
  param.dtype = storage->dtype->id; /* behind a 16-bit parameter talus keeps an f32 master */
  param.data = (char *)storage->talus_data + offset;
  param.grad = run->options.rows ? NULL : (char *)storage->talus_grad + offset;
  param.name = tensor->name;
  param.shape = tensor->shape;
  param.ndim = tensor->ndim;
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
static void save(const Network *net, const char *path) {
  FILE *file = path ? fopen(path, "wb") : NULL;
  if (path == NULL) return;
  if (file == NULL) fail("cannot be written", path);
  size_t written = fwrite(net->parameters, sizeof *net->parameters, kParameters, file);
  if (fclose(file) != 0 || written != kParameters) fail("cannot be written", path);
}

static void print_score(const char *part, Score score) {
  printf("%s accuracy %.4f (%d of %d)\n", part, accuracy_of(score), score.right, score.count);
}

/* Takes a step for each batch; returns the mean loss of an image. */
static double train_epoch(Run *run) {
  Images images = run->training;
  double loss = 0;
  for (int first = 0; first < images.count; first += (int)run->options.batch) {
    Images batch = {images.image + first, images.count - first};
    if (batch.count > run->options.batch) batch.count = (int)run->options.batch;
    loss += compute_gradients(&run->net, batch, kNoise, &run->random) * batch.count / images.count;
    store_gradients(&run->net, &run->storage);
    if (run->options.rows) bind_rows(run);
    CHECK(talus_step(run->opt, NULL));
    load_parameters(&run->net, &run->storage);
  }
  return loss;
}

static void show_progress(long long epoch, long long epochs, Score validation) {
  enum { kBar = 30 };
  char bar[kBar + 1] = {0};
  for (int i = 0; i < kBar; ++i) bar[i] = i < epoch * kBar / epochs ? '#' : '.';
  fprintf(stderr, "\r[%s] epoch %lld of %lld, validation accuracy %.4f%s", bar, epoch, epochs,
          accuracy_of(validation), epoch == epochs ? "\n" : "");
}

static FILE *open_log(const char *path) {
  FILE *log = path ? fopen(path, "w") : NULL;
  if (path && !log) fail("cannot be written", path);
  if (log) fprintf(log, "epoch,train_loss,validation_loss,validation_accuracy\n");
  return log;
}

/* The learning rate falls in a straight line to lr / epochs. */
static void train(Run *run) {
  long long epochs = run->options.epochs;
  int progress = !run->options.quiet && isatty(fileno(stderr));
  int has_lr = has_hyper(talus_group_algorithm(run->opt, 0), "lr");
  FILE *log = open_log(run->options.log);
  double lr = 0;
  if (has_lr) CHECK(talus_get(run->opt, 0, "lr", &lr));
  for (long long epoch = 0; epoch < epochs; ++epoch) {
    double left = 1 - (double)epoch / (double)epochs;
    if (has_lr) CHECK(talus_set(run->opt, TALUS_ALL, "lr", lr * left));
    shuffle(run->training, &run->random);
    double loss = train_epoch(run);
    Score score = score_of(&run->net, run->validation);
    if (progress) show_progress(epoch + 1, epochs, score);
    if (log) fprintf(log, "%lld,%.6f,", epoch + 1, loss);
    if (log) fprintf(log, "%.6f,%.6f\n", score.loss, accuracy_of(score));
  }
  if (log && (ferror(log) | fclose(log))) fail("cannot be written", run->options.log);
}

static void print_names(const char *list) {
  printf("  %s:", list);
  for (int32_t i = 0; i < talus_name_count(list); ++i) printf(" %s", talus_name_at(list, i));
  printf("\n");
}

static void print_help(void) {
  printf(
      "Trains a small network on 8 x 8 digits and prints its accuracy on images it never saw.\n\n"
      "  --optimizer NAME   an algorithm or alias below (adamw)\n"
      "  --set NAME=VALUE   a hyperparameter of it; may be given again\n"
      "  --dtype NAME       of parameters and gradients: f32, bf16 or f16 (f32)\n"
      "  --epochs N         passes over the training images (80)\n"
      "  --batch N          images of a step (32)\n"
      "  --seed N           of initialisation, batches and noise (1)\n"
      "  --threads N        most threads of a step, 0: all; never changes a result\n"
      "  --data FILE        lines of 64 pixels of 0 to 16 and the digit\n"
      "  --log FILE         CSV: epoch,train_loss,validation_loss,validation_accuracy\n"
      "  --save FILE        the parameters after training, raw f32\n"
      "  --rows             give gradients as rows, all of them, as sparse_adam must\n"
      "  --quiet            no progress bar, which a terminal gets\n"
      "  --help\n\n"
      "Example: train_digits --optimizer sgd --set lr=0.05 --set nesterov=1 --dtype bf16\n\n");
  print_names("algorithms");
  print_names("aliases");
  exit(0);
}

static long long parse_integer(const char *option, const char *text, long long min, long long max) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (end == text || *end != '\0' || errno != 0 || value < min || value > max) {
    fprintf(stderr, "train_digits: %s takes an integer of %lld to %lld, got '%s'\n", option, min,
            max, text);
    exit(2);
  }
  return value;
}

static void parse_set(Options *options, char *text) {
  char *equals = strchr(text, '='), *end = NULL;
  if (options->set_count == kMaxSets) misuse("too many --set, at", text);
  double value = equals ? strtod(equals + 1, &end) : 0;
  if (equals == NULL || equals == text || end == equals + 1 || *end != '\0')
    misuse("--set takes NAME=NUMBER, got", text);
  *equals = '\0';
  options->sets[options->set_count].name = text;
  options->sets[options->set_count++].value = value;
}

static const Dtype *parse_dtype(const char *text) {
  for (size_t i = 0; i < sizeof kDtypes / sizeof *kDtypes; ++i)
    if (strcmp(kDtypes[i].name, text) == 0) return &kDtypes[i];
  misuse("--dtype takes f32, bf16 or f16, got", text);
  return NULL;
}

static void parse_value(Options *options, const char *option, char *value) {
  const struct {
    const char *option;
    long long *number, min, max;
  } numbers[] = {{"--epochs", &options->epochs, 1, 100000},
                 {"--batch", &options->batch, 1, 100000},
                 {"--seed", &options->seed, 0, INT64_MAX},
                 {"--threads", &options->threads, 0, 100000}};
  const struct {
    const char *option, **text;
  } texts[] = {{"--optimizer", &options->optimizer},
               {"--data", &options->data},
               {"--log", &options->log},
               {"--save", &options->save}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i) {
    if (strcmp(numbers[i].option, option) != 0) continue;
    *numbers[i].number = parse_integer(option, value, numbers[i].min, numbers[i].max);
    return;
  }
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    if (strcmp(texts[i].option, option) != 0) continue;
    *texts[i].text = value;
    return;
  }
  if (strcmp(option, "--set") == 0)
    parse_set(options, value);
  else if (strcmp(option, "--dtype") == 0)
    options->dtype = parse_dtype(value);
  else
    misuse("unknown option", option);
}

static Options parse_options(int argc, char **argv) {
  Options options = {
      "adamw", TALUS_DIGITS_CSV, NULL, NULL, &kDtypes[0], {{NULL, 0}}, 0, 1, 80, 32, -1, 0, 0};
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--help") == 0) print_help();
    int quiet = strcmp(argv[i], "--quiet") == 0, rows = strcmp(argv[i], "--rows") == 0;
    options.quiet |= quiet;
    options.rows |= rows;
    if (quiet || rows) continue;
    if (i + 1 == argc) misuse("unknown option, or nothing after it:", argv[i]);
    parse_value(&options, argv[i], argv[i + 1]);
    ++i;
  }
  const char *rows = talus_name_doc("row_gradients", options.optimizer);
  options.rows |= rows != NULL && strcmp(rows, "takes no others") == 0;
  return options;
}

int main(int argc, char **argv) {
  static Run run;
  uint64_t split = kSplitSeed;
  run.options = parse_options(argc, argv);
  run.random = (uint64_t)run.options.seed;
  Images all = load_images(run.options.data);
  shuffle(all, &split);
  run.training = third(all, 0), run.validation = third(all, 1), run.test = third(all, 2);
  init_network(&run.net, &run.random);
  run.storage = create_storage(run.options.dtype, &run.net);
  run.opt = create_optimizer(&run);

  print_hypers(run.opt, run.options.optimizer);
  train(&run);
  save(&run.net, run.options.save);
  print_stats(run.opt, &run.storage);
  print_score("validation", score_of(&run.net, run.validation));
  print_score("test", score_of(&run.net, run.test));

  talus_destroy(run.opt);
  destroy_storage(&run.storage);
  free(all.image);
  if (fflush(stdout) != 0) fail("cannot be written", "standard output");
  return 0;
}
