// A plugin without a device, for tests of everything around one: two devices whose memory is mapped
// out except during a call, so that whoever else touches it dies, and whose kernels are the CPU
// backend's. It fails on demand:
//   TALUS_FAKE       abi, size, version, refuse: another build; no_driver, old_driver, no_device,
//                    device_error: what probe finds; wrong: a bit of what is copied is another
//   TALUS_FAKE_FAIL  FUNCTION:N:STATUS:NUMBER  call N of FUNCTION from now on ends so
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "lib/cpu/backend.h"
#include "lib/table/step_law.h"
#include "tests/plugin/fake_plugin.h"

using namespace talus;

namespace {

constexpr int32_t kDevices = 2;
constexpr size_t kDeviceBytes = size_t{64} << 20, kAllBytes = kDevices * kDeviceBytes;

bool is(const char* variable, const char* value) {
  const char* const set = std::getenv(variable);
  return set && std::strcmp(set, value) == 0;
}

/* memory of the devices */

// Mapped twice: where optimizers see it, and where copies go without a change of protection.
struct Arena {
  int file = make_file();
  char *base = map(PROT_NONE), *behind = map(PROT_READ | PROT_WRITE);
  size_t used[kDevices] = {}, live[kDevices] = {};

  int32_t device_of(const void* data) const {  // -1: the host
    const auto at = uintptr_t(data) - uintptr_t(base);
    return at < kAllBytes ? int32_t(at / kDeviceBytes) : -1;
  }
  // Where a copy finds what an optimizer knows as `data`.
  char* reach(const void* data) const {
    char* const at = const_cast<char*>(static_cast<const char*>(data));
    return device_of(data) < 0 ? at : behind + (at - base);
  }
  void protect(int how) const { mprotect(base, kAllBytes, how); }

 private:
  static int make_file() {
    const int made = memfd_create("fake device", 0);
    return ftruncate(made, off_t(kAllBytes)) == 0 ? made : -1;
  }
  char* map(int how) const {
    return static_cast<char*>(mmap(nullptr, kAllBytes, how, MAP_SHARED, file, 0));
  }
};

Arena& arena() {
  static Arena only;
  return only;
}

// Device memory can be touched while one of these lives.
struct Kernel {
  Kernel() { arena().protect(PROT_READ | PROT_WRITE); }
  ~Kernel() { arena().protect(PROT_NONE); }
};

/* contexts and failures */

struct Context {
  void* cpu = nullptr;
  BackendConfig config{};
  pid_t process = getpid();
  int32_t lost = TALUS_OK;
  std::string text;
  int64_t detail = 0;
  // Kept, as a device does: the core's own may change after the call.
  std::vector<Row> rows;
  TableView given{};
  std::vector<void*> columns[kColumnCount];
  std::vector<int32_t> classes;
  std::vector<uint8_t> flags;
  std::vector<std::function<int32_t()>> graph;
  std::vector<char> staging[2];
  Report measured[4] = {};
  // Ordered steps.
  StepOrder order;
  std::vector<Row> ordered_rows, taken_rows;
  StepControl* control = nullptr;  // on the device
  bool reported = true;
  int64_t launches = 0;
};

thread_local std::string g_text;
thread_local int64_t g_detail = 0;
FakeLog g_log;
Context* g_last = nullptr;

int32_t fail(Context* x, int32_t status, const std::string& text, int64_t detail) {
  (x ? x->text : g_text) = text;
  (x ? x->detail : g_detail) = detail;
  if (x && status == TALUS_E_DEVICE_LOST) x->lost = status;
  return status;
}

int32_t planned_failure(Context* x, const char* function) {
  static std::string plan;
  static int calls = 0;
  const char* const set = std::getenv("TALUS_FAKE_FAIL");
  if (plan != (set ? set : "")) plan = set ? set : "", calls = 0;
  char name[32] = "";
  int call = 0, status = 0, number = 0;
  if (std::sscanf(plan.c_str(), "%31[^:]:%d:%d:%d", name, &call, &status, &number) != 4 ||
      std::strcmp(name, function) != 0 || ++calls != call)
    return TALUS_OK;
  return fail(x, status, std::string("fakeCall(") + function + "): error " + std::to_string(number),
              number);
}

// What every call does first.
int32_t enter(Context* x, const char* function, void* stream) {
  ++g_log.calls;
  g_log.stream = stream;
  if (x->process != getpid()) return fail(x, TALUS_E_FORKED, "a device does not survive fork", 0);
  if (x->lost) return x->lost;
  return planned_failure(x, function);
}

#define ENTER(stream)                                \
  Context* const x = static_cast<Context*>(context); \
  if (const int32_t entered = enter(x, __func__, stream)) return entered

const Backend& cpu() { return cpu_backend(); }

const char* last_error(const void* context, int64_t* detail) {
  const auto* x = static_cast<const Context*>(context);
  *detail = x ? x->detail : g_detail;
  return x ? x->text.c_str() : g_text.c_str();
}

int32_t probe(int32_t device, DeviceReport* out) {
  *out = {};
  out->runtime = 13000;
  const auto refuse = [&](int32_t status, const char* text, int64_t detail) {
    std::snprintf(out->text, sizeof out->text, "%s (fake)", text);
    return fail(nullptr, out->status = status, out->text, detail);
  };
  if (is("TALUS_FAKE", "no_driver")) return refuse(TALUS_E_UNSUPPORTED, "no driver", 35);
  out->driver = is("TALUS_FAKE", "old_driver") ? 11040 : 13020;
  if (is("TALUS_FAKE", "old_driver")) return refuse(TALUS_E_UNSUPPORTED, "old driver", 35);
  if (is("TALUS_FAKE", "no_device")) return refuse(TALUS_E_UNSUPPORTED, "no device", 100);
  if (is("TALUS_FAKE", "device_error")) return refuse(TALUS_E_DEVICE, "count failed", 999);
  out->device_count = kDevices;
  out->capability = 90;
  out->memory_total = kDeviceBytes;
  std::snprintf(out->name, sizeof out->name, "Fake %d", device);
  std::snprintf(out->text, sizeof out->text, "ready");
  return TALUS_OK;
}

int32_t create(const BackendConfig* config, void** context) {
  if (const int32_t status = planned_failure(nullptr, "create")) return status;
  auto* const x = new Context;
  x->config = *config;
  BackendConfig own = *config;
  own.device = 0, own.threads = 1, own.parallel_for = nullptr, own.allocator = {};
  if (cpu().create(&own, &x->cpu) != TALUS_OK) return delete x, TALUS_E_INTERNAL;
  *context = g_last = x;
  return TALUS_OK;
}

void destroy(void* context) {
  auto* const x = static_cast<Context*>(context);
  cpu().destroy(x->cpu);
  if (g_last == x) g_last = nullptr;
  delete x;
}

int32_t set_config(void* context, const BackendConfig* config) {
  ENTER(nullptr);
  x->config = *config;
  return TALUS_OK;
}

void* allocate(void* context, uint64_t bytes, uint64_t alignment, void* stream) {
  auto* const x = static_cast<Context*>(context);
  if (enter(x, "allocate", stream) != TALUS_OK) return nullptr;
  const talus_allocator& a = x->config.allocator;
  if (a.alloc) return a.alloc(a.user, bytes, alignment, stream);
  Arena& all = arena();
  size_t& used = all.used[x->config.device];
  used = (used + 255) / 256 * 256;
  if (used + bytes > kDeviceBytes) return nullptr;
  char* const data = all.base + size_t(x->config.device) * kDeviceBytes + used;
  used += bytes;
  all.live[x->config.device] += bytes;
  std::memset(all.reach(data), 0xff, bytes);  // NaN: nobody may count on zeros
  return data;
}

void release(void* context, void* data, uint64_t bytes, void* stream) {
  auto* const x = static_cast<Context*>(context);
  const talus_allocator& a = x->config.allocator;
  if (a.alloc) return a.release(a.user, data, bytes, stream);
  size_t& live = arena().live[x->config.device];
  live -= bytes;
  if (live == 0) arena().used[x->config.device] = 0;
}

int32_t check_pointer(void* context, const void* data, uint64_t) {
  auto* const x = static_cast<Context*>(context);
  ++g_log.pointers;
  const int32_t found = arena().device_of(data), expected = x ? x->config.device : -1;
  if (found == expected) return TALUS_OK;
  return fail(x, TALUS_E_ARGUMENT,
              found < 0 ? "memory of the host" : "memory of CUDA device " + std::to_string(found),
              0);
}

int32_t wait(void* context) {
  ENTER(nullptr);
  return TALUS_OK;
}

int32_t copy(void* context, void* to, const void* from, uint64_t bytes, void* stream) {
  ENTER(stream);
  if (bytes) std::memcpy(arena().reach(to), arena().reach(from), bytes);
  auto* const there = arena().reach(to);  // of the host: itself
  if (is("TALUS_FAKE", "wrong") && bytes > 100 && there == to) there[100] ^= 1;
  return TALUS_OK;
}

int32_t set_staging(void* context, uint64_t bytes, void** buffers) {
  ENTER(nullptr);
  for (size_t side = 0; side < 2; ++side) {
    x->staging[side].assign(bytes, 0);
    if (bytes) buffers[side] = x->staging[side].data();
  }
  return TALUS_OK;
}

int32_t start_copy(void* context, int32_t, void* to, const void* from, uint64_t bytes,
                   void* stream) {
  ENTER(stream);
  std::memcpy(arena().reach(to), arena().reach(from), bytes);
  return TALUS_OK;
}

int32_t wait_copy(void* context, int32_t) {
  ENTER(nullptr);
  return TALUS_OK;
}

int32_t is_capturing(void* context, void* stream, int32_t* out) {
  if (const int32_t lost = static_cast<Context*>(context)->lost) return lost;
  *out = stream == kFakeCapture;
  return TALUS_OK;
}

// Now, or at every replay of what was captured.
template <class F>
int32_t queue(Context* x, void* stream, F work) {
  const auto launch = [x, work] {
    const Kernel kernel;
    ++x->launches;
    return work(x);
  };
  if (stream != kFakeCapture) return launch();
  x->graph.push_back(launch);
  return TALUS_OK;
}

uint64_t workspace_bytes(const PlanView* plan) { return cpu().workspace_bytes(plan); }

// In place: the plan that the CPU backend has points there.
void take_column(Context& x, int32_t column) {
  const TableView& from = x.given;
  const auto take = [&](auto& to, const auto* data) {
    to.resize(size_t(from.tensor_count));
    std::copy(data, data + from.tensor_count, to.begin());
  };
  if (column == kClassColumn)
    take(x.classes, from.scalar_class);
  else if (column == kFlagColumn)
    take(x.flags, from.hidden_given);
  else
    take(x.columns[column], from.column[column].data);
}

int32_t set_plan(void* context, const PlanView* plan, void* workspace, void* stream) {
  ENTER(stream);
  x->given = plan->table;
  for (int32_t c = 0; c <= kFlagColumn; ++c) take_column(*x, c);
  PlanView own = *plan;
  for (int32_t c = 0; c < kColumnCount; ++c) own.table.column[c].data = x->columns[c].data();
  own.table.scalar_class = x->classes.data();
  own.table.hidden_given = x->flags.data();
  return cpu().set_plan(x->cpu, &own, workspace, nullptr);
}

int32_t read_report(void* context, Sum kind, Report* out, void* stream) {
  ENTER(stream);
  *out = x->measured[int(kind)];
  out->launches = x->launches;
  return TALUS_OK;
}

int32_t read_totals(void* context, double* out, int64_t* count, void* stream) {
  ENTER(stream);
  return cpu().read_totals(x->cpu, out, count, nullptr);
}

int32_t set_column(void* context, int32_t column, void* stream) {
  ENTER(stream);
  take_column(*x, column);
  return cpu().set_column(x->cpu, column, nullptr);
}

int32_t set_rows(void* context, const Row* rows, int32_t count, void* stream) {
  ENTER(stream);
  x->rows.assign(rows, rows + count);
  return cpu().set_rows(x->cpu, x->rows.data(), count, nullptr);
}

int32_t fill_zero(void* context, void* data, uint64_t bytes, void* stream) {
  ENTER(stream);
  return queue(x, stream,
               [=](Context* c) { return cpu().fill_zero(c->cpu, data, bytes, nullptr); });
}

// What the order points to.
double scale_of(const StepOrder& order) { return order.scale ? double(*order.scale) : 1; }

int32_t measure(void* context, const Measure* what, void* stream) {
  ENTER(stream);
  return queue(x, stream, [kept = *what](Context* c) {
    Measure now = kept;
    if (kept.ordered) now.entry = {entry_factor(c->order, scale_of(c->order)), c->order.limit};
    const int32_t status = cpu().measure(c->cpu, &now, nullptr);
    if (status) return status;
    Report& report = c->measured[int(kept.kind)];
    if (const int32_t failed = cpu().read_report(c->cpu, kept.kind, &report, nullptr))
      return failed;
    if (kept.tells) c->control->total = report.total;
    return int32_t(TALUS_OK);
  });
}

int32_t prepare_orders(void* context, StepControl* control, void* stream) {
  ENTER(stream);
  const Kernel kernel;
  *(x->control = control) = StepControl();
  return TALUS_OK;
}

int32_t send_order(void* context, const StepOrder* order, const Row* rows, void* stream) {
  ENTER(stream);
  x->order = *order;
  x->ordered_rows.assign(rows, rows + order->candidates * order->classes);
  return TALUS_OK;
}

Sum kind_of(double type) {
  return type == 2 ? Sum::squares : type == 1 ? Sum::magnitudes : Sum::largest;
}

// The rows of a step that is taken, with the factor that the device has found.
int32_t take_rows(Context* c) {
  const auto first = c->ordered_rows.begin() + c->control->candidate * c->order.classes;
  c->taken_rows.assign(first, first + c->order.classes);
  for (Row& row : c->taken_rows) {
    row.gradient_factor = row.gradient_factor * c->control->factor * row.group_factor;
    row.group_factor = c->control->coef * row.group_factor;
  }
  return cpu().set_rows(c->cpu, c->taken_rows.data(), int32_t(c->order.classes), nullptr);
}

int32_t decide(void* context, void* stream) {
  ENTER(stream);
  return queue(x, stream, [](Context* c) {
    const Report& measured = c->measured[int(kind_of(c->order.norm_type))];
    decide_step(c->order, scale_of(c->order), c->order.found && *c->order.found != 0,
                measured.total, measured.first_nonfinite, c->control);
    if (c->control->found && c->order.scaler) c->order.scaler->found = 1;
    return c->control->live ? take_rows(c) : TALUS_OK;
  });
}

int32_t queue_report(void* context, void* stream) {
  ENTER(stream);
  x->reported = false;
  return TALUS_OK;
}

int32_t take_report(void* context, Await await, StepControl* out) {
  ENTER(nullptr);
  const Kernel kernel;
  *out = StepControl();
  if (!x->reported || await == Await::all) *out = *x->control;
  x->reported = true;
  return TALUS_OK;
}

int32_t update_scaler(void* context, ScalerMemory* scaler, void* stream) {
  ENTER(stream);
  return queue(x, stream, [=](Context*) {
    talus::update_scaler(scaler->params, scaler->found != 0, &scaler->state);
    scaler->found = 0;
    return TALUS_OK;
  });
}

int32_t set_row_gradients(void* context, const RowGradient* list, int32_t count, bool checked,
                          RowFault* fault, void* stream) {
  ENTER(stream);
  const Kernel kernel;  // the CPU's looks at the rows
  return cpu().set_row_gradients(x->cpu, list, count, checked, fault, nullptr);
}

int32_t begin(void* context, const BeginRow* rows, int32_t count, Order order, void* stream) {
  ENTER(stream);
  const std::vector<BeginRow> kept(rows, rows + count);
  return queue(x, stream, [=](Context* c) {
    const bool decided = order == Order::decided;
    if (decided && !(c->control->live && c->control->candidate == 0)) return TALUS_OK;
    if (order == Order::ahead && candidate_of(c->order, *c->control, false) != 0) return TALUS_OK;
    return cpu().begin(c->cpu, kept.data(), count, Order::none, nullptr);
  });
}

int32_t run(void* context, int64_t launch, int32_t pass, const GradientEntry* entry, Order order,
            void* stream) {
  ENTER(stream);
  const GradientEntry given = entry ? *entry : GradientEntry();
  return queue(x, stream, [=, cuts = entry != nullptr](Context* c) {
    if (order == Order::decided && !c->control->live) return TALUS_OK;
    const GradientEntry enters = order == Order::decided ? c->control->entry : given;
    return cpu().run(c->cpu, launch, pass, cuts ? &enters : nullptr, Order::none, nullptr);
  });
}

Backend make_table() {
  Backend t{};
  t.size = sizeof t;
  t.abi = kBackendAbi;
  t.version = TALUS_VERSION;
  t.name = "cuda";
  t.last_error = last_error;
  t.probe = probe;
  t.create = create;
  t.destroy = destroy;
  t.set_config = set_config;
  t.allocate = allocate;
  t.release = release;
  t.check_pointer = check_pointer;
  t.wait = wait;
  t.copy = copy;
  t.set_staging = set_staging;
  t.start_copy = start_copy;
  t.wait_copy = wait_copy;
  t.is_capturing = is_capturing;
  t.workspace_bytes = workspace_bytes;
  t.set_plan = set_plan;
  t.read_report = read_report;
  t.read_totals = read_totals;
  t.set_row_gradients = set_row_gradients;
  t.prepare_orders = prepare_orders;
  t.send_order = send_order;
  t.decide = decide;
  t.queue_report = queue_report;
  t.take_report = take_report;
  t.update_scaler = update_scaler;
  t.set_column = set_column;
  t.set_rows = set_rows;
  t.fill_zero = fill_zero;
  t.measure = measure;
  t.begin = begin;
  t.run = run;
  if (is("TALUS_FAKE", "abi")) t.abi += 1;
  if (is("TALUS_FAKE", "size")) t.size += 8;
  if (is("TALUS_FAKE", "version")) t.version += 1;
  return t;
}

}  // namespace

extern "C" {

#if defined(TALUS_FAKE_UNDEFINED)
void talus_fake_is_nowhere();
#endif

#if defined(TALUS_FAKE_STRANGER)
#define talus_backend_entry_v1 talus_fake_entry
#endif
const Backend* talus_backend_entry_v1(uint32_t core_abi) {
#if defined(TALUS_FAKE_UNDEFINED)
  talus_fake_is_nowhere();
#endif
  static const Backend table = make_table();
  return core_abi != kBackendAbi || is("TALUS_FAKE", "refuse") ? nullptr : &table;
}

const FakeLog* talus_fake_log(void) { return &g_log; }

int32_t talus_fake_replay(void) {
  if (!g_last || g_last->graph.empty()) return TALUS_E_STATE;
  for (const auto& launch : g_last->graph)
    if (const int32_t status = launch()) return status;
  return TALUS_OK;
}

}  // extern "C"
