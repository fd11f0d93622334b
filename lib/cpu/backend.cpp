// The CPU backend: one region of threads per pass and kernel key, in the host's own memory.
#include "lib/cpu/backend.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "lib/base/float_contract.h"
#include "lib/base/float_environment.h"
#include "lib/cpu/chunk_runner.h"
#include "lib/cpu/kernels.h"
#include "lib/cpu/row_gradients.h"
#include "lib/rules/registry.h"
#include "lib/table/norm.h"
#include "lib/table/step_law.h"

namespace talus {
namespace {

constexpr int64_t kFillBytes = 1 << 20;  // one piece of fill_zero

struct Context {
  BackendConfig config{};
  const KernelTable* kernels = nullptr;
  ChunkRunner runner;
  PlanView plan{};
  double* partials = nullptr;     // [sum][tile]
  double* part_values = nullptr;  // [tensor][kMaxPartValues]
  const Row* rows = nullptr;
  Report report{};
  std::vector<double> totals;  // of tensors, by the last measure; reserved for all
  std::vector<CoalescedRows> row_gradients;
  int32_t row_gradient_count = 0;  // of them in use: their memory is kept
};

Context& get(void* context) { return *static_cast<Context*>(context); }

// Some chunks of a plan under one function. `first` is added to the runner's chunk numbers.
struct Region {
  const PlanView* plan;
  const PassCall* call;
  SegmentsFn function;
  int64_t first;
};

void run_region(Context& x, const Launch& launch, const PassCall& call, SegmentsFn function) {
  Region region{&x.plan, &call, function, launch.first_chunk};
  x.runner.run(
      launch.chunk_count, kSerialBelow,
      [](void* p, int64_t c) {
        const Region& r = *static_cast<const Region*>(p);
        const int64_t* first = r.plan->chunk_first + r.first + c;
        r.function(*r.call, r.plan->segments + first[0], r.plan->segments + first[1]);
      },
      &region);
}

PassCall call_of(Context& x) {
  PassCall call{};
  call.plan = &x.plan;
  call.rows = x.rows;
  call.partials = x.partials;
  call.partial_stride = x.plan.tile_first[x.plan.table.tensor_count];
  return call;
}

bool is_f64(const Launch& launch) { return launch.key.compute == Dtype::f64; }

const VariantInfo& variant_of(const Launch& launch) {
  return rules()[size_t(launch.key.rule)].variants[size_t(launch.key.variant)];
}

int64_t tiles_of(const PlanView& plan, int64_t tensor) {
  return plan.tile_first[tensor + 1] - plan.tile_first[tensor];
}

// ---- the rule's fold, once per tensor --------------------------------------------------------

struct FoldCall {
  const PassCall* call;
  const PassInfo* pass;
  std::span<const Slot> slots;
  double* part_values;
  double total;  // of the last measure
};

void fold_tensor(const FoldCall& f, int64_t tensor) {
  const TableView& table = f.call->plan->table;
  const Row& row = f.call->rows[table.scalar_class[tensor]];
  double sums[kMaxSums] = {scaled_total(f.total, row.group_factor)}, slots[kMaxSlots] = {},
         *scalar[kMaxSlots] = {};
  for (size_t k = 0; k < f.pass->sums.size(); ++k)
    sums[k] = fold_pairs(f.pass->sums[k], f.call->partial(int(k), tensor, 0),
                         tiles_of(*f.call->plan, tensor));
  for (size_t k = 0; k < f.slots.size(); ++k) {
    if (f.slots[k].shape != Shape::tensor) continue;
    scalar[k] = static_cast<double*>(table.column[kFirstSlot + k].data[tensor]);
    if (scalar[k]) slots[k] = *scalar[k];
  }
  f.pass->fold(row.scalar, sums, slots, f.part_values + tensor * kMaxPartValues);
  for (size_t k = 0; k < f.slots.size(); ++k)
    if (scalar[k]) *scalar[k] = slots[k];
}

void fold_launch(Context& x, const Launch& launch, const PassCall& call, const PassInfo& pass) {
  const FoldCall fold{&call, &pass, rules()[size_t(launch.key.rule)].slots, x.part_values,
                      x.report.total};
  struct Work {
    const FoldCall* fold;
    const PlanView* plan;
    int64_t first;
  } work{&fold, &x.plan, launch.first_chunk};
  x.runner.run(
      launch.chunk_count, kSerialBelow,
      [](void* p, int64_t c) {
        const Work& w = *static_cast<const Work*>(p);
        const int64_t* first = w.plan->chunk_first + w.first + c;
        for (const Segment* g = w.plan->segments + first[0]; g != w.plan->segments + first[1]; ++g)
          if (g->begin == 0 && w.plan->table.scalar_class[g->tensor] != kIdle)
            fold_tensor(*w.fold, g->tensor);
      },
      &work);
}

// ---- the table of functions ------------------------------------------------------------------

int32_t set_config(void* context, const BackendConfig* config) {
  try {
    get(context).runner.configure(config->threads, config->parallel_for, config->parallel_for_user);
    get(context).config = *config;
    return TALUS_OK;
  } catch (const std::bad_alloc&) {
    return TALUS_E_MEMORY;
  }
}

void destroy(void* context) { delete static_cast<Context*>(context); }

int32_t create(const BackendConfig* config, void** out) {
  const TargetInfo* target = nullptr;
  if (!choose_cpu_target(&target).ok()) return TALUS_E_NAME;
  Context* context = new (std::nothrow) Context;
  if (!context) return TALUS_E_MEMORY;
  context->kernels = target->kernels;
  if (const int32_t status = set_config(context, config); status != TALUS_OK) {
    destroy(context);
    return status;
  }
  *out = context;
  return TALUS_OK;
}

int32_t probe(int32_t, DeviceReport* out) {
  *out = {};
  out->device_count = 1;
  return TALUS_OK;
}

// Any address may be the host's own.
int32_t check_pointer(void*, const void*, uint64_t) { return TALUS_OK; }

int32_t wait(void*) { return TALUS_OK; }

int32_t copy(void*, void* to, const void* from, uint64_t bytes, void*) {
  if (bytes) std::memcpy(to, from, bytes);
  return TALUS_OK;
}

int32_t is_capturing(void*, void*, int32_t* out) { return *out = 0, TALUS_OK; }

void* allocate(void* context, uint64_t bytes, uint64_t alignment, void* stream) {
  const talus_allocator& a = get(context).config.allocator;
  if (a.alloc) return a.alloc(a.user, bytes, alignment, stream);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void release(void* context, void* data, uint64_t bytes, void* stream) {
  const talus_allocator& a = get(context).config.allocator;
  if (a.alloc)
    a.release(a.user, data, bytes, stream);
  else
    std::free(data);
}

// Sums that the hungriest pass keeps at once; the measure needs one.
int64_t sum_rows(const PlanView& plan) {
  size_t most = 1;
  for (int64_t i = 0; i < plan.launch_count; ++i)
    for (const PassInfo& pass : variant_of(plan.launches[i]).passes)
      most = std::max(most, pass.sums.size());
  return int64_t(most);
}

int64_t partial_count(const PlanView& plan) {
  return sum_rows(plan) * plan.tile_first[plan.table.tensor_count];
}

bool has_part_values(const PlanView& plan) {
  for (int64_t i = 0; i < plan.launch_count; ++i)
    for (const PassInfo& pass : variant_of(plan.launches[i]).passes)
      if (pass.value_count > 0) return true;
  return false;
}

uint64_t workspace_bytes(const PlanView* plan) {
  const int64_t values = has_part_values(*plan) ? plan->table.tensor_count * kMaxPartValues : 0;
  return uint64_t(partial_count(*plan) + values) * sizeof(double);
}

int32_t set_plan(void* context, const PlanView* plan, void* workspace, void*) {
  Context& x = get(context);
  try {
    x.totals.reserve(size_t(plan->table.tensor_count));
  } catch (const std::bad_alloc&) {
    return TALUS_E_MEMORY;
  }
  x.plan = *plan;
  x.partials = static_cast<double*>(workspace);
  x.part_values = has_part_values(*plan) ? x.partials + partial_count(*plan) : nullptr;
  return TALUS_OK;
}

int32_t read_report(void* context, Sum, Report* out, void*) {
  *out = get(context).report;
  return TALUS_OK;
}

// The table is the host's own memory: a changed column is seen as it is.
int32_t set_column(void*, int32_t, void*) { return TALUS_OK; }

int32_t set_rows(void* context, const Row* rows, int32_t, void*) {
  get(context).rows = rows;
  return TALUS_OK;
}

int32_t fill_zero(void* context, void* data, uint64_t bytes, void*) {
  struct Fill {
    char* data;
    int64_t bytes;
  } fill{static_cast<char*>(data), int64_t(bytes)};
  get(context).runner.run((fill.bytes + kFillBytes - 1) / kFillBytes, 4,
                          [](void* p, int64_t c) {
                            const Fill& f = *static_cast<const Fill*>(p);
                            std::memset(f.data + c * kFillBytes, 0,
                                        size_t(std::min(kFillBytes, f.bytes - c * kFillBytes)));
                          },
                          &fill);
  return TALUS_OK;
}

// The row gradient of a tensor, or NULL.
const CoalescedRows* rows_of(const Context& x, int64_t tensor) {
  for (int32_t i = 0; i < x.row_gradient_count; ++i)
    if (x.row_gradients[size_t(i)].gradient().tensor == tensor) return &x.row_gradients[size_t(i)];
  return nullptr;
}

int32_t set_row_gradients(void* context, const RowGradient* list, int32_t count, bool,
                          RowFault* fault, void*) {
  Context& x = get(context);
  const FloatEnvironment ieee;
  x.row_gradient_count = 0;
  try {
    if (size_t(count) > x.row_gradients.size()) x.row_gradients.resize(size_t(count));
    for (int32_t i = 0; i < count; ++i) {
      const Dtype dtype = x.plan.table.column[kGradient].dtype[list[i].tensor];
      const Dtype param = x.plan.table.column[kValue].dtype[list[i].tensor];
      const int64_t outside = x.row_gradients[size_t(i)].take(list[i], dtype, compute_type(param));
      if (outside < 0) continue;
      *fault = {i, outside, list[i].index(outside), false};
      return TALUS_E_ARGUMENT;
    }
  } catch (const std::bad_alloc&) {
    return TALUS_E_MEMORY;
  }
  x.row_gradient_count = count;
  return TALUS_OK;
}

// Rows that a thread takes at once: about as much as a chunk of the plan, but few short ones, since
// each may wait for memory of its own.
int64_t chunk_rows(const CoalescedRows& rows) {
  constexpr int64_t kMost = 512;
  return std::clamp(kChunk / rows.gradient().row_length, int64_t{1}, kMost);
}

void run_row_gradient(Context& x, const CoalescedRows& rows, const PassCall& call,
                      SegmentsFn function) {
  struct Work {
    const CoalescedRows* rows;
    const PassCall* call;
    SegmentsFn function;
    int64_t rows_at_once;
  } work{&rows, &call, function, chunk_rows(rows)};
  x.runner.run((rows.count() + work.rows_at_once - 1) / work.rows_at_once, kSerialBelow,
               [](void* p, int64_t c) {
                 const Work& w = *static_cast<const Work*>(p);
                 update_rows(*w.call, *w.rows, w.function, c * w.rows_at_once,
                             std::min((c + 1) * w.rows_at_once, w.rows->count()));
               },
               &work);
}

// Whether a tensor counts in a measure.
bool counts(const Context& x, const Measure& what, int64_t tensor) {
  const int32_t scalar_class = x.plan.table.scalar_class[tensor];
  if (scalar_class == kIdle || tiles_of(x.plan, tensor) == 0) return false;
  return !what.classes || what.classes[scalar_class] != 0;
}

// The first tensor whose total is not finite: totals are as many as counted, in order.
int64_t find_nonfinite(const Context& x, const Measure& what, const double* totals) {
  for (int64_t t = 0; t < x.plan.table.tensor_count; ++t)
    if (counts(x, what, t) && !std::isfinite(*totals++)) return t;
  return -1;
}

// Tiles of a tensor, then tensors in order, by adjacent pairs; the totals move to the front.
int32_t measure(void* context, const Measure* what, void*) {
  Context& x = get(context);
  PassCall call = call_of(x);
  call.measured = what->kind;
  call.entry = what->entry.is_plain() ? nullptr : &what->entry;
  call.glance = what->glance && what->entry.factor <= 1;  // above 1 the product may overflow
  const FloatEnvironment ieee;
  for (int64_t i = 0; i < x.plan.launch_count; ++i)
    run_region(x, x.plan.launches[i], call, x.kernels->measure[is_f64(x.plan.launches[i])]);
  for (int32_t i = 0; i < x.row_gradient_count; ++i) {
    const CoalescedRows& rows = x.row_gradients[size_t(i)];
    const bool wide = is_f64(x.plan.launches[rows.gradient().launch]);
    measure_rows(call, rows, x.kernels->measure[wide]);
  }
  x.totals.clear();
  for (int64_t t = 0; t < x.plan.table.tensor_count; ++t) {
    if (!counts(x, *what, t)) continue;
    const CoalescedRows* const rows = rows_of(x, t);
    x.totals.push_back(fold_pairs(what->kind, call.partial(0, t, 0),
                                  rows ? tiles_of(*rows) : tiles_of(x.plan, t)));
  }
  const int64_t count = int64_t(x.totals.size());
  std::copy(x.totals.begin(), x.totals.end(), x.partials);  // folding overwrites
  x.report.total = fold_pairs(what->kind, x.partials, count);
  x.report.first_nonfinite =
      std::isfinite(x.report.total) ? -1 : find_nonfinite(x, *what, x.totals.data());
  return TALUS_OK;
}

int32_t read_totals(void* context, double* out, int64_t* count, void*) {
  const std::vector<double>& totals = get(context).totals;
  std::copy(totals.begin(), totals.end(), out);
  *count = int64_t(totals.size());
  return TALUS_OK;
}

int32_t begin(void* context, const BeginRow* rows, int32_t, Order, void*) {
  Context& x = get(context);
  PassCall call = call_of(x);
  call.begin_rows = rows;
  for (int64_t i = 0; i < x.plan.launch_count; ++i) {
    const Launch& launch = x.plan.launches[i];
    const std::span<const Slot> slots = rules()[size_t(launch.key.rule)].slots;
    call.slots = slots.data();
    call.slot_count = int(slots.size());
    run_region(x, launch, call, x.kernels->begin[is_f64(launch)]);
  }
  return TALUS_OK;
}

int32_t run(void* context, int64_t launch_index, int32_t pass_index, const GradientEntry* entry,
            Order, void*) {
  Context& x = get(context);
  const Launch& launch = x.plan.launches[launch_index];
  const PassInfo& pass = variant_of(launch).passes[size_t(pass_index)];
  PassCall call = call_of(x);
  call.entry = entry;
  call.part_values = pass_index > 0 ? x.part_values : nullptr;
  const auto* passes = x.kernels->update[launch.key.rule][launch.key.variant];
  if (!pass.uses.empty()) run_region(x, launch, call, passes[pass_index][is_f64(launch)]);
  for (int32_t i = 0; i < x.row_gradient_count; ++i)
    if (x.row_gradients[size_t(i)].gradient().launch == launch_index)
      run_row_gradient(x, x.row_gradients[size_t(i)], call, passes[pass_index][is_f64(launch)]);
  if (pass.fold) fold_launch(x, launch, call, pass);
  return TALUS_OK;
}

const char* last_error(const void*, int64_t* detail) {
  *detail = 0;
  return "";
}

constexpr Backend kBackend = {sizeof(Backend),
                              kBackendAbi,
                              TALUS_VERSION,
                              "cpu",
                              last_error,
                              probe,
                              create,
                              destroy,
                              set_config,
                              allocate,
                              release,
                              check_pointer,
                              wait,
                              copy,
                              nullptr,  // staging: there is no other memory
                              nullptr,
                              nullptr,
                              is_capturing,
                              workspace_bytes,
                              set_plan,
                              read_report,
                              read_totals,
                              set_row_gradients,
                              nullptr,  // orders: the host sees the gradients itself
                              nullptr,
                              nullptr,
                              nullptr,
                              nullptr,
                              nullptr,
                              set_column,
                              set_rows,
                              fill_zero,
                              measure,
                              begin,
                              run};

}  // namespace

const Backend& cpu_backend() { return kBackend; }

void cpu_run_region(void* context, int64_t launch, SegmentsFn function) {
  Context& x = get(context);
  run_region(x, x.plan.launches[launch], call_of(x), function);
}

}  // namespace talus
