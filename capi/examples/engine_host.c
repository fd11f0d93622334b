/* An engine that keeps everything to itself: talus works in its memory and on its threads.
 *
 *     engine_host             print what held and what did not
 *     engine_host --verbose   and the library's log on stderr
 *
 * The engine fits three tensors to targets by weighted least squares with adamw, three times from
 * the same start:
 *   plain      talus as it comes
 *   hosted     the engine's allocator and thread loop
 *   resumed    also state in the engine's own memory; the optimizer is destroyed halfway, and a
 *              second one goes on from the same memory
 * Parameters and state must end bit-identical, and all memory must have come back. Exit status 0
 * only if that holds.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <talus.h>

#include "half.h"

enum { kThreads = 3, kTensors = 3, kMaxStates = 16, kSteps = 40, kArenaBytes = 32 << 20 };

#define CHECK(call)                                                              \
  do {                                                                           \
    if ((call) == TALUS_OK) break;                                               \
    fprintf(stderr, "engine_host: line %d: %s\n", __LINE__, talus_last_error()); \
    exit(1);                                                                     \
  } while (0)

/* Memory that only grows; it is given back as a whole. */
typedef struct Arena {
  char *base;
  uint64_t used, capacity;
} Arena;

/* What the hooks have seen. */
typedef struct Host {
  Arena arena;
  int64_t allocations, live_allocations, live_bytes, optimizers_done, loops, tasks;
} Host;

/* The engine's own tensor; bf16 to show the f32 master that talus keeps behind it. */
typedef struct Tensor {
  const char *name;
  int32_t dtype;
  int64_t count;
  void *data;
  float *grad, *target;
} Tensor;

typedef struct Model {
  Tensor tensors[kTensors];
} Model;

static void fail(const char *what) {
  fprintf(stderr, "engine_host: %s\n", what);
  exit(1);
}

static void *allocate(size_t bytes) {
  void *memory = calloc(1, bytes);
  if (memory == NULL) fail("not enough memory");
  return memory;
}

static Host create_host(void) {
  Host host = {{allocate(kArenaBytes), 0, kArenaBytes}, 0, 0, 0, 0, 0, 0};
  return host;
}

/* Returns NULL when the arena is full: the library then fails with TALUS_E_MEMORY. */
static void *take(Arena *arena, uint64_t bytes, uint64_t alignment) {
  uint64_t address = (uint64_t)(uintptr_t)arena->base + arena->used;
  uint64_t padding = (alignment - address % alignment) % alignment;
  if (padding + bytes > arena->capacity - arena->used) return NULL;
  void *memory = arena->base + arena->used + padding;
  arena->used += padding + bytes;
  return memory;
}

static void *host_alloc(void *user, uint64_t bytes, uint64_t alignment, void *stream) {
  Host *host = user;
  void *memory = take(&host->arena, bytes, alignment);
  (void)stream; /* the CPU has none */
  if (memory == NULL) return NULL;
  host->allocations += 1;
  host->live_allocations += 1;
  host->live_bytes += (int64_t)bytes;
  return memory;
}

static void host_release(void *user, void *data, uint64_t bytes, void *stream) {
  Host *host = user;
  (void)data, (void)stream;
  host->live_allocations -= 1;
  host->live_bytes -= (int64_t)bytes;
}

static void host_destroy(void *user) { ((Host *)user)->optimizers_done += 1; }

/* One thread's share of a loop: every kThreads-th task. */
typedef struct Share {
  talus_task task;
  void *context;
  int64_t first, count;
} Share;

static void *run_share(void *argument) {
  const Share *share = argument;
  for (int64_t i = share->first; i < share->count; i += kThreads) share->task(share->context, i);
  return NULL;
}

/* An engine would wake its own pool here; a thread that cannot be had is done by the caller. */
static void host_parallel_for(void *user, int64_t count, talus_task task, void *context) {
  Host *host = user;
  pthread_t threads[kThreads];
  Share shares[kThreads];
  int started[kThreads] = {0};
  for (int t = kThreads - 1; t >= 0; --t) {
    Share share = {task, context, t, count};
    shares[t] = share;
    if (t > 0 && t < count)
      started[t] = pthread_create(&threads[t], NULL, run_share, &shares[t]) == 0;
    if (!started[t]) run_share(&shares[t]);
  }
  for (int t = 1; t < kThreads; ++t)
    if (started[t]) pthread_join(threads[t], NULL);
  host->loops += 1;
  host->tasks += count;
}

static void print_log(void *user, int32_t level, const char *text) {
  fprintf(user, "talus[%d] %s\n", (int)level, text);
}

/* The same start for every run: numbers that bf16 holds exactly, each target its own. */
static Model create_model(void) {
  Model model = {{{"embedding", TALUS_BF16, 300007, NULL, NULL, NULL},
                  {"weight", TALUS_F32, 65537, NULL, NULL, NULL},
                  {"scale", TALUS_F32, 1, NULL, NULL, NULL}}};
  for (int t = 0; t < kTensors; ++t) {
    Tensor *tensor = &model.tensors[t];
    size_t count = (size_t)tensor->count;
    tensor->data = allocate(count * sizeof(float));
    tensor->grad = allocate(count * sizeof(float));
    tensor->target = allocate(count * sizeof(float));
    for (size_t i = 0; i < count; ++i) {
      float start = (float)(i % 97) / 64.0f - 0.75f;
      tensor->target[i] = start + (float)(i % 31) / 31.0f - 0.5f;
      if (tensor->dtype == TALUS_F32) ((float *)tensor->data)[i] = start;
      if (tensor->dtype == TALUS_BF16) ((uint16_t *)tensor->data)[i] = bf16_narrow(start);
    }
  }
  return model;
}

static void destroy_model(Model *model) {
  for (int t = 0; t < kTensors; ++t) {
    free(model->tensors[t].data);
    free(model->tensors[t].grad);
    free(model->tensors[t].target);
  }
}

static float element(const Tensor *tensor, int64_t i) {
  if (tensor->dtype == TALUS_F32) return ((const float *)tensor->data)[i];
  return bf16_widen(((const uint16_t *)tensor->data)[i]);
}

/* Returns the sum of w/2 (p - target)^2 with weights 1 to 3, and writes its gradients in f32. */
static double compute_gradients(Model *model) {
  double loss = 0;
  for (int t = 0; t < kTensors; ++t) {
    Tensor *tensor = &model->tensors[t];
    for (int64_t i = 0; i < tensor->count; ++i) {
      float weight = (float)(1 + i % 3), error = element(tensor, i) - tensor->target[i];
      tensor->grad[i] = weight * error;
      loss += 0.5 * weight * error * error;
    }
  }
  return loss;
}

static void add_tensors(talus_optimizer *opt, const Model *model) {
  talus_param params[kTensors];
  memset(params, 0, sizeof params);
  for (int t = 0; t < kTensors; ++t) {
    params[t].struct_size = sizeof params[t];
    params[t].dtype = model->tensors[t].dtype;
    params[t].grad_dtype = TALUS_F32; /* also for the bf16 parameter */
    params[t].data = model->tensors[t].data;
    params[t].grad = model->tensors[t].grad;
    params[t].name = model->tensors[t].name;
    params[t].shape = &model->tensors[t].count;
    params[t].ndim = 1;
  }
  CHECK(talus_add_params(opt, 0, kTensors, params, NULL));
}

static void set_hooks(talus_optimizer *opt, Host *host) {
  talus_allocator allocator;
  memset(&allocator, 0, sizeof allocator);
  allocator.struct_size = sizeof allocator;
  allocator.user = host;
  allocator.alloc = host_alloc;
  allocator.release = host_release;
  allocator.destroy = host_destroy;
  CHECK(talus_set_allocator(opt, &allocator));
  CHECK(talus_set_parallel_for(opt, host_parallel_for, host));
  CHECK(talus_set_setting(opt, "threads", kThreads));
}

/* host NULL: nothing but the library. */
static talus_optimizer *create_optimizer(const Model *model, Host *host) {
  talus_optimizer *opt;
  CHECK(talus_create("adamw", TALUS_CPU, 0, &opt));
  if (host != NULL) set_hooks(opt, host);
  CHECK(talus_set(opt, TALUS_ALL, "lr", 0.02));
  add_tensors(opt, model);
  return opt;
}

/* Returns the loss before the last step. */
static double take_steps(talus_optimizer *opt, Model *model, int count) {
  double loss = 0;
  for (int i = 0; i < count; ++i) {
    loss = compute_gradients(model);
    CHECK(talus_step(opt, NULL));
  }
  return loss;
}

static talus_state describe_state(const talus_optimizer *opt, int64_t i) {
  talus_state state;
  memset(&state, 0, sizeof state);
  state.struct_size = sizeof state;
  CHECK(talus_state_info(opt, i, &state));
  return state;
}

/* A master that the engine provides starts as the engine says: here as the parameter itself. */
static void init_master(const Tensor *tensor, float *master) {
  for (int64_t i = 0; i < tensor->count; ++i) master[i] = element(tensor, i);
}

/* Gives every state tensor a place in the engine's arena; memory[i] is that of state tensor i. */
static void provide_state(const talus_optimizer *opt, const Model *model, Arena *arena,
                          void *memory[]) {
  if (talus_state_count(opt) > kMaxStates) fail("more state tensors than expected");
  for (int64_t i = 0; i < talus_state_count(opt); ++i) {
    talus_state state = describe_state(opt, i);
    memory[i] = take(arena, state.bytes, state.alignment);
    if (memory[i] == NULL) fail("the arena is too small");
    if (strcmp(state.slot, "master_param") == 0)
      init_master(&model->tensors[state.param], memory[i]);
  }
}

static void bind_state(talus_optimizer *opt, void *const memory[]) {
  for (int64_t i = 0; i < talus_state_count(opt); ++i) {
    talus_state state = describe_state(opt, i);
    CHECK(talus_bind_state(opt, state.param, state.slot, memory[i], state.bytes));
  }
}

/* Half the steps, a new optimizer over the same memory, the other half. Returns the second one. */
static talus_optimizer *take_interrupted_steps(Model *model, Host *host) {
  void *memory[kMaxStates];
  talus_optimizer *opt = create_optimizer(model, host);
  provide_state(opt, model, &host->arena, memory);
  bind_state(opt, memory);
  take_steps(opt, model, kSteps / 2);
  talus_destroy(opt);

  opt = create_optimizer(model, host);
  bind_state(opt, memory);
  for (int t = 0; t < kTensors; ++t) CHECK(talus_set_steps(opt, t, kSteps / 2));
  take_steps(opt, model, kSteps - kSteps / 2);
  return opt;
}

static int same_parameters(const Model *a, const Model *b) {
  for (int t = 0; t < kTensors; ++t) {
    size_t bytes = (size_t)a->tensors[t].count * (a->tensors[t].dtype == TALUS_F32 ? 4 : 2);
    if (memcmp(a->tensors[t].data, b->tensors[t].data, bytes) != 0) return 0;
  }
  return 1;
}

static int same_state(const talus_optimizer *a, const talus_optimizer *b) {
  int64_t count = talus_state_count(a);
  if (count != talus_state_count(b)) return 0;
  for (int64_t i = 0; i < count; ++i) {
    talus_state x = describe_state(a, i), y = describe_state(b, i);
    if (x.param != y.param || strcmp(x.slot, y.slot) != 0 || x.bytes != y.bytes) return 0;
    if (memcmp(x.data, y.data, x.bytes) != 0) return 0;
  }
  return 1;
}

static uint64_t state_bytes(talus_optimizer *opt) {
  talus_stats stats;
  memset(&stats, 0, sizeof stats);
  stats.struct_size = sizeof stats;
  CHECK(talus_get_stats(opt, 1, &stats));
  return stats.state_bytes;
}

/* All memory has come back, and each optimizer has let go of the allocator. */
static int all_released(const Host *host, int64_t optimizers) {
  return host->live_allocations == 0 && host->live_bytes == 0 &&
         host->optimizers_done == optimizers;
}

static int report(const char *what, int holds) {
  printf("%s %s\n", holds ? "  ok  " : "FAILED", what);
  return holds;
}

int main(int argc, char **argv) {
  int verbose = argc == 2 && strcmp(argv[1], "--verbose") == 0;
  if (argc > 1 && !verbose) {
    fprintf(stderr, "usage: engine_host [--verbose]\n");
    return 2;
  }
  if (verbose) talus_set_log(print_log, TALUS_LOG_DEBUG, stderr);
  Model plain_model = create_model(), hosted_model = create_model(), resumed_model = create_model();
  Host hosted_host = create_host(), resumed_host = create_host();

  double first_loss = compute_gradients(&plain_model);
  talus_optimizer *plain = create_optimizer(&plain_model, NULL);
  double last_loss = take_steps(plain, &plain_model, kSteps);
  talus_optimizer *hosted = create_optimizer(&hosted_model, &hosted_host);
  take_steps(hosted, &hosted_model, kSteps);
  talus_optimizer *resumed = take_interrupted_steps(&resumed_model, &resumed_host);

  printf("loss %.1f, after %d steps %.1f\n", first_loss, (int)kSteps, last_loss);
  int good = report("the loss has fallen to less than a tenth", last_loss < 0.1 * first_loss);
  good &= report("hosted: parameters equal the plain run bit for bit",
                 same_parameters(&plain_model, &hosted_model));
  good &= report("hosted: state equals the plain run bit for bit", same_state(plain, hosted));
  good &= report("hosted: memory came from the engine", hosted_host.allocations > 0);
  good &= report("hosted: steps ran in the engine's loop", hosted_host.loops > 0);
  good &= report("resumed: parameters equal the plain run bit for bit",
                 same_parameters(&plain_model, &resumed_model));
  good &= report("resumed: state equals the plain run bit for bit", same_state(plain, resumed));
  good &= report("resumed: no state but the engine's own", state_bytes(resumed) == 0);

  talus_destroy(plain);
  talus_destroy(hosted);
  talus_destroy(resumed);
  good &= report("hosted: all memory has come back", all_released(&hosted_host, 1));
  good &= report("resumed: all memory has come back", all_released(&resumed_host, 2));
  printf("%lld allocations, %lld loops of %lld tasks in all\n", (long long)hosted_host.allocations,
         (long long)hosted_host.loops, (long long)hosted_host.tasks);

  destroy_model(&plain_model), destroy_model(&hosted_model), destroy_model(&resumed_model);
  free(hosted_host.arena.base), free(resumed_host.arena.base);
  return good ? 0 : 1;
}
