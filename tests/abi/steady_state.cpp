// A step in the steady state allocates nothing, and nothing the library does prints. The program
// stands between the library and malloc, so that also what does not go through operator new counts.
#include <talus.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#if !defined(__GLIBC__)
int main() {
  std::puts("SKIPPED: the C library is not glibc, whose malloc this program wraps");
  return 77;
}
#else

static std::atomic<long> allocations{0};

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* data, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) noexcept {
  ++allocations;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) noexcept {
  ++allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* data, size_t bytes) noexcept {
  ++allocations;
  return __libc_realloc(data, bytes);
}
void* memalign(size_t alignment, size_t bytes) noexcept {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** data, size_t alignment, size_t bytes) noexcept {
  ++allocations;
  *data = __libc_memalign(alignment, bytes);
  return *data == nullptr ? ENOMEM : 0;
}
}

namespace {

// Tells on the real standard error: the test has taken descriptor 2 away from everybody else.
int report_to = 2;

[[noreturn]] void fail(const char* what, long got) {
  dprintf(report_to, "%s: got %ld, expected 0\n", what, got);
  _exit(1);
}

void must(bool condition, const char* what) {
  if (condition) return;
  dprintf(report_to, "not so: %s (last error: %s)\n", what, talus_last_error());
  _exit(1);
}

struct Tensor {
  int32_t dtype, grad_dtype;
  std::vector<unsigned char> data, grad, other_grad;
  int64_t extent;

  Tensor(int32_t type, int32_t grad_type, int64_t count)
      : dtype(type),
        grad_dtype(grad_type),
        data(size_t(count * (type >> 11)), 0x3c),  // every byte 3c: a small number in each dtype
        grad(size_t(count * (grad_type >> 11)), 0x3b),
        other_grad(grad.size(), 0x3a),
        extent(count) {}
};

std::vector<Tensor> make_tensors() {
  std::vector<Tensor> tensors;
  for (const int64_t count : {200000, 1, 0, 4096, 17}) {
    tensors.emplace_back(TALUS_F32, TALUS_F32, count);
    tensors.emplace_back(TALUS_BF16, TALUS_F32, count);
    tensors.emplace_back(TALUS_F64, TALUS_F64, count);
  }
  return tensors;
}

talus_optimizer* make(const char* algorithm, std::vector<Tensor>& tensors) {
  talus_optimizer* opt = nullptr;
  must(talus_create(algorithm, TALUS_CPU, 0, &opt) == TALUS_OK, "create");
  talus_set(opt, TALUS_ALL, "momentum", 0.9);  // refused by adamw, which must not print either
  for (Tensor& tensor : tensors) {
    talus_param param{};
    param.struct_size = sizeof param;
    param.dtype = tensor.dtype;
    param.grad_dtype = tensor.grad_dtype;
    param.data = tensor.data.data();
    param.grad = tensor.grad.data();
    param.shape = &tensor.extent;
    param.ndim = 1;
    must(talus_add_params(opt, 0, 1, &param, nullptr) == TALUS_OK, "add_params");
  }
  return opt;
}

void host_loop(void*, int64_t count, talus_task task, void* context) {
  for (int64_t i = 0; i < count; ++i) task(context, i);
}

enum class Run { one_thread, threads, host_loop, measured };

void configure(talus_optimizer* opt, Run run) {
  const double threads = run == Run::one_thread ? 1 : 4;
  must(talus_set_setting(opt, "threads", threads) == TALUS_OK, "threads");
  if (run == Run::host_loop)
    must(talus_set_parallel_for(opt, host_loop, nullptr) == TALUS_OK, "parallel_for");
  if (run == Run::measured) must(talus_set_setting(opt, "stats", 1) == TALUS_OK, "stats");
}

// As a host trains: other gradients every step, a schedule, a look at the statistics.
void check_allocations(const char* algorithm, Run run) {
  std::vector<Tensor> tensors = make_tensors();
  talus_optimizer* opt = make(algorithm, tensors);
  configure(opt, run);
  std::vector<void*> grads[2];
  for (Tensor& tensor : tensors) {
    grads[0].push_back(tensor.grad.data());
    grads[1].push_back(tensor.other_grad.data());
  }
  must(talus_step(opt, nullptr) == TALUS_OK, "first step");
  long count = 0;
  for (int step = 2; step <= 100; ++step) {
    must(talus_set(opt, 0, "lr", 1e-3 / step) == TALUS_OK, "lr");  // may allocate: not the step
    talus_stats stats{};
    stats.struct_size = sizeof stats;
    const long before = allocations;
    must(talus_bind_grads(opt, 0, int64_t(tensors.size()), grads[step % 2].data()) == TALUS_OK,
         "bind_grads");
    must(talus_step(opt, nullptr) == TALUS_OK, "step");
    must(talus_get_stats(opt, 1, &stats) == TALUS_OK, "stats");
    count += allocations - before;
  }
  if (count != 0) fail("allocations of steps 2 to 100", count);
  talus_destroy(opt);
}

talus_schedule* made(const char* kind) {
  talus_schedule* schedule = nullptr;
  must(talus_schedule_create(kind, &schedule) == TALUS_OK, "schedule_create");
  return schedule;
}

void set(talus_schedule* schedule, const char* name, double value) {
  must(talus_schedule_set(schedule, name, value) == TALUS_OK, name);
}

void add_piece(talus_schedule* to, talus_schedule* piece) {
  must(talus_schedule_add(to, piece) == TALUS_OK, "schedule_add");
  talus_schedule_destroy(piece);
}

void attach(talus_optimizer* opt, const char* hyper, talus_schedule* schedule, int32_t clock) {
  must(talus_attach_schedule(opt, TALUS_ALL, hyper, schedule, clock) == TALUS_OK, "attach");
  talus_schedule_destroy(schedule);
}

// Every kind, in compositions of some depth.
talus_schedule* make_sequence() {
  talus_schedule *sequence = made("sequential"), *chain = made("chained");
  const int64_t milestones[] = {10, 30, 60};
  must(talus_schedule_set_list(sequence, "milestones", milestones, 3) == TALUS_OK, "milestones");
  add_piece(sequence, made("linear"));
  talus_schedule* const cosine = made("cosine_restarts");
  set(cosine, "T_0", 3);
  add_piece(sequence, cosine);
  for (const char* kind : {"constant", "polynomial", "inverse_sqrt", "wsd", "multistep"})
    add_piece(chain, made(kind));
  talus_schedule* const power = made("exponential");
  set(power, "gamma", 0.99);
  add_piece(chain, power);
  add_piece(sequence, chain);
  talus_schedule* const product = made("multiplicative");
  const talus_schedule_function factor = [](void*, int64_t) { return 0.999; };
  must(talus_schedule_set_function(product, factor, nullptr, nullptr) == TALUS_OK, "function");
  add_piece(sequence, product);
  return sequence;
}

void check_schedules(const char* algorithm, const char* decayed, Run run) {
  std::vector<Tensor> tensors = make_tensors();
  talus_optimizer* opt = make(algorithm, tensors);
  configure(opt, run);
  attach(opt, "lr", make_sequence(), TALUS_CLOCK_APPLIED);
  talus_schedule* const plateau = made("plateau");
  set(plateau, "patience", 3);
  attach(opt, "weight_decay", plateau, TALUS_CLOCK_CALLED);
  talus_schedule* const cycle = made("one_cycle");
  set(cycle, "total_steps", 90);
  attach(opt, decayed, cycle, TALUS_CLOCK_MANUAL);
  must(talus_step(opt, nullptr) == TALUS_OK, "first step");
  long count = 0;
  for (int step = 2; step <= 100; ++step) {
    must(talus_observe(opt, 1) == TALUS_OK, "observe");  // may allocate: not the step
    double value = 0;
    const long before = allocations;
    must(talus_set_clock(opt, step) == TALUS_OK, "set_clock");
    must(talus_value_now(opt, 0, "lr", &value) == TALUS_OK, "value_now");
    must(talus_step(opt, nullptr) == TALUS_OK, "step with schedules");
    count += allocations - before;
  }
  if (count != 0) fail("allocations of steps 2 to 100 with schedules", count);
  talus_destroy(opt);
}

// Tables of rows, some given more than once, in another order each time.
void check_rows(const char* algorithm, Run run) {
  constexpr int64_t kRows = 3000, kLength = 3, kGiven = 2000;
  std::vector<Tensor> tables;
  talus_optimizer* opt = nullptr;
  must(talus_create(algorithm, TALUS_CPU, 0, &opt) == TALUS_OK, "create");
  tables.emplace_back(TALUS_F32, TALUS_F32, kRows * kLength);
  tables.emplace_back(TALUS_BF16, TALUS_BF16, kRows * kLength);
  tables.emplace_back(TALUS_F64, TALUS_F64, kRows * kLength);
  const int64_t shape[] = {kRows, kLength};
  for (Tensor& table : tables) {
    talus_param param{};
    param.struct_size = sizeof param;
    param.dtype = table.dtype;
    param.data = table.data.data();
    param.shape = shape;
    param.ndim = 2;
    must(talus_add_params(opt, 0, 1, &param, nullptr) == TALUS_OK, "add_params");
  }
  configure(opt, run);
  std::vector<int64_t> indices(kGiven);
  long count = 0;
  for (int step = 1; step <= 50; ++step) {
    for (int64_t j = 0; j < kGiven; ++j) indices[size_t(j)] = j * 7 * step % (kRows / 2);
    talus_rows rows{};
    rows.struct_size = sizeof rows;
    rows.index_dtype = TALUS_I64;
    rows.count = kGiven;
    rows.indices = indices.data();
    const long before = allocations;
    for (size_t t = 0; t < tables.size(); ++t) {
      rows.values = tables[t].grad.data();
      must(talus_bind_rows(opt, int64_t(t), &rows) == TALUS_OK, "bind_rows");
    }
    must(talus_step(opt, nullptr) == TALUS_OK, "step of rows");
    if (step > 2) count += allocations - before;
  }
  if (count != 0) fail("allocations of steps 3 to 50 with rows", count);
  talus_destroy(opt);
}

// Every kind of refusal, and the calls that the loops above leave out.
void make_noise() {
  std::vector<Tensor> tensors = make_tensors();
  talus_optimizer* opt = make("sgd", tensors);
  talus_optimizer* none = nullptr;
  talus_create("no such rule", TALUS_CPU, 0, &none);
  talus_create(nullptr, 99, -1, nullptr);
  talus_set(opt, 5, "lr", 1);
  talus_set(opt, 0, "lr", -1);
  talus_add_params(opt, 0, -1, nullptr, nullptr);
  talus_bind_state(opt, 0, "no such slot", opt, 1);
  talus_step(opt, opt);
  talus_set_log(nullptr, TALUS_LOG_DEBUG, nullptr);
  talus_zero_grad(opt, TALUS_ZERO_UNBIND, nullptr);
  talus_step(opt, nullptr);
  talus_has_feature("no such feature");
  talus_schedule* schedule = nullptr;
  talus_schedule_create("no such kind", &schedule);
  schedule = made("lambda");
  talus_schedule_set(schedule, "no such name", 1);
  talus_schedule_add(schedule, schedule);
  talus_attach_schedule(opt, 0, "lr", schedule, TALUS_CLOCK_APPLIED);
  talus_schedule_destroy(schedule);
  talus_observe(opt, 1);
  talus_destroy(opt);
}

}  // namespace

int main() {
  const long before = allocations;
  void* volatile probe = std::malloc(16);
  std::free(probe);
  must(allocations > before, "the wrapped malloc is in use");

  const int file = fileno(std::tmpfile());
  report_to = dup(2);
  must(file >= 0 && report_to >= 0, "a file for what is printed");
  must(dup2(file, 1) == 1 && dup2(file, 2) == 2, "dup2");

  for (const char* algorithm : {"adamw", "sgd"})
    for (const Run run : {Run::one_thread, Run::threads, Run::host_loop, Run::measured})
      check_allocations(algorithm, run);
  for (const Run run : {Run::one_thread, Run::threads, Run::host_loop, Run::measured}) {
    check_schedules("adamw", "beta1", run);
    check_schedules("sgd", "momentum", run);
  }
  for (const char* algorithm : {"sparse_adam", "sgd"})
    for (const Run run : {Run::one_thread, Run::threads, Run::host_loop, Run::measured})
      check_rows(algorithm, run);
  make_noise();

  std::fflush(nullptr);
  struct stat printed {};
  must(fstat(file, &printed) == 0, "fstat");
  if (printed.st_size != 0) fail("bytes printed", long(printed.st_size));
  return 0;
}
#endif
