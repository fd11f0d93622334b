// The boundary between the core and what runs its kernels: plain data and C functions, so that a
// plugin can fill the same table. A backend knows rules by key only; it never sees a parameter
// group, a name or a schedule. Statuses are those of talus.h.
#pragma once
#include <cstdint>

#include "lib/table/chunk_plan.h"
#include "lib/table/step_order.h"

namespace talus {

// The scalars of one class, that is of all parameters of one group that have the same step count.
// A backend rounds each to the compute type once. 256 bytes.
struct Row {
  double scalar[kMaxScalars];
  double gradient_factor;  // last of all; negative: maximise
  // What is left of the norm of all gradients where the rule reads it, of an ordered step times the
  // device's own coefficient; there of gradients too.
  double group_factor;
};

// What a class puts into slots at its first step; by class, valid where `first` is 1.
struct BeginRow {
  int32_t first;
  uint32_t copies_param;      // bit k: slot k starts as the value of the parameter
  double initial[kMaxSlots];  // else it starts with this
};

// A gradient of some rows of one tensor, for the coming step alone. Its tensor has no gradient in the
// table meanwhile.
struct RowGradient {
  int64_t tensor, launch;
  int64_t rows, row_length;  // of the tensor
  int64_t count;             // of rows given
  const void* indices;
  const void* values;  // count x row_length of the tensor's gradient dtype
  bool wide;           // indices are int64, else int32

  int64_t index(int64_t j) const {
    return wide ? static_cast<const int64_t*>(indices)[j] : static_cast<const int32_t*>(indices)[j];
  }
};

// How set_row_gradients refuses: the list's member, the row given, and its index.
struct RowFault {
  int64_t gradient, position, index;
  bool repeats;  // else it is outside of the tensor
};

// What measure adds up: squares, magnitudes or the largest magnitude of gradients as they enter. Where
// one is not finite before the cut, nor is the total.
struct Measure {
  Sum kind = Sum::squares;
  GradientEntry entry;
  const uint8_t* classes =
      nullptr;           // by scalar class, 1: its tensors count; NULL: all that have one
  bool ordered = false;  // the entry is the order's
  bool tells = false;    // behind the decision, and the total is what it tells of the step
  bool glance =
      false;  // of the largest: only whether it is finite is asked, the total may be 0 then
};

struct Report {
  double total;             // of the measure
  int64_t first_nonfinite;  // the first tensor whose own total is not finite, -1: none
  int64_t launches;         // kernels queued since create; the CPU: 0
};

// What a backend finds on the machine, without making a context. Versions: 1000 * major + 10 * minor,
// 0 where there is none.
struct DeviceReport {
  int32_t status;  // TALUS_OK: the device can be used
  int32_t device_count;
  int32_t driver, runtime;
  int32_t capability;                  // 10 * major + minor
  uint64_t memory_total, memory_free;  // 0: not asked, that would make a context
  char name[128];
  char text[384];  // the state in words, with versions and the device's own error
};

struct BackendConfig {
  int32_t device;                   // ordinal; the CPU: 0
  int32_t threads;                  // at least 1
  talus_parallel_for parallel_for;  // NULL: the backend's own threads
  void* parallel_for_user;
  talus_allocator allocator;  // alloc NULL: the backend's own memory
};

// Of which step begin and run are: the host's; one that was ordered and has been decided; or, for begin,
// ahead of a graph that will decide it.
enum class Order : int32_t { none, decided, ahead };

// For which report to wait: none; the next one, where one is under way; what the device has decided once
// all its work is done (cold).
enum class Await : int32_t { none, next, all };

// Rows that a plan has room for: of all classes for one count of steps applied, and of some for more.
inline int64_t row_room(int64_t tensors) { return 2 * tensors + 64; }

// A plugin of another build is refused by these three.
inline constexpr uint32_t kBackendAbi = 6;

// Work goes on `stream` in order. Hot functions never allocate; they wait only where so many uploads
// are queued that none has room, for the oldest. None throws. While `stream` is being captured into a
// graph, measure, decide, run, update_scaler and fill_zero record what they would queue; what would have to upload, allocate
// or wait answers TALUS_E_NOT_PREPARED.
struct Backend {
  uint32_t size;    // sizeof(Backend)
  uint32_t abi;     // kBackendAbi
  int32_t version;  // TALUS_VERSION
  const char* name;
  // The last failure of a context in words, and the device's own number for it (0: none). context
  // NULL: the last one on this thread that had no context, as create's.
  const char* (*last_error)(const void* context, int64_t* detail);

  // Cold. create and set_config copy *config. probe may be asked before any create.
  int32_t (*probe)(int32_t device, DeviceReport* out);
  int32_t (*create)(const BackendConfig* config, void** context);
  void (*destroy)(void* context);
  int32_t (*set_config)(void* context, const BackendConfig* config);
  void* (*allocate)(void* context, uint64_t bytes, uint64_t alignment, void* stream);  // NULL: none
  void (*release)(void* context, void* data, uint64_t bytes, void* stream);
  // TALUS_E_ARGUMENT if [data, data + bytes) is not memory that kernels of this device may use; of
  // context NULL: that the host may use. last_error tells whose it is ("memory of the host").
  int32_t (*check_pointer)(void* context, const void* data, uint64_t bytes);
  // For all work of the device, on any stream.
  int32_t (*wait)(void* context);
  // Between host and device in either direction, or within one; waits for the stream.
  int32_t (*copy)(void* context, void* to, const void* from, uint64_t bytes, void* stream);
  // Two pinned buffers of `bytes` each, for copies that go on while the host works: the context keeps
  // them until asked again; 0 frees them. All three NULL: memory is the host's own and needs none.
  int32_t (*set_staging)(void* context, uint64_t bytes, void** buffers);
  // Queues a copy between memory of the device and buffer `side`, 0 or 1; and waits for that one.
  int32_t (*start_copy)(void* context, int32_t side, void* to, const void* from, uint64_t bytes,
                        void* stream);
  int32_t (*wait_copy)(void* context, int32_t side);
  // *out: 1 while `stream` is being captured.
  int32_t (*is_capturing)(void* context, void* stream, int32_t* out);
  // Takes everything anew, all columns too; a failure leaves the plan before in use. Its arrays live
  // until the next set_plan; columns may change in between, and set_column says so before a step.
  // `workspace` holds workspace_bytes(plan) and is kept as long.
  uint64_t (*workspace_bytes)(const PlanView* plan);
  int32_t (*set_plan)(void* context, const PlanView* plan, void* workspace, void* stream);
  // Waits for the last measure of this kind that was not ordered; stream: as of that step.
  int32_t (*read_report)(void* context, Sum kind, Report* out, void* stream);
  // The totals of tensors of the last measure, in order, those that counted; waits. *count: of them.
  // out holds tensor_count.
  int32_t (*read_totals)(void* context, double* out, int64_t* count, void* stream);

  // What measure and run take beside the table's gradients, until the next call; the list's memory is
  // kept as long. A row outside of its tensor: TALUS_E_ARGUMENT with *fault. checked: a device waits
  // and looks for such rows, and for rows that repeat, which the host sums and a device cannot take.
  // Allocates.
  int32_t (*set_row_gradients)(void* context, const RowGradient* list, int32_t count, bool checked,
                               RowFault* fault, void* stream);

  // Ordered steps, which a device decides on by itself (step_order.h). All six NULL: this one never does.
  // prepare_orders is cold and comes first: `control`, memory of the device, is kept until the next.
  int32_t (*prepare_orders)(void* context, StepControl* control, void* stream);
  // Hot from here on. The order of the coming step, and its rows, [candidate][class], of which there is
  // row_room.
  int32_t (*send_order)(void* context, const StepOrder* order, const Row* rows, void* stream);
  // Behind measure, where the step has one.
  int32_t (*decide)(void* context, void* stream);
  // Of the last step decided ahead of it on the stream.
  int32_t (*queue_report)(void* context, void* stream);
  // The newest that has arrived since the last, with call 0 where none has.
  int32_t (*take_report)(void* context, Await await, StepControl* out);
  int32_t (*update_scaler)(void* context, ScalerMemory* scaler, void* stream);

  // Hot.
  int32_t (*set_column)(void* context, int32_t column, void* stream);
  int32_t (*set_rows)(void* context, const Row* rows, int32_t count, void* stream);
  int32_t (*fill_zero)(void* context, void* data, uint64_t bytes, void* stream);
  int32_t (*measure)(void* context, const Measure* what, void* stream);
  int32_t (*begin)(void* context, const BeginRow* rows, int32_t count, Order order, void* stream);
  // entry: with a limit, or NULL: gradients enter as they are, and the rows' gradient_factor is all.
  // Of an ordered step the numbers are the order's.
  int32_t (*run)(void* context, int64_t launch, int32_t pass, const GradientEntry* entry,
                 Order order, void* stream);
};

// What a plugin exports, under this name: NULL for a core of another boundary.
inline constexpr const char* kBackendEntry = "talus_backend_entry_v1";
using BackendEntry = const Backend* (*)(uint32_t core_abi);

// For set_column, what is not an operand: scalar classes, and paths with hidden_given.
inline constexpr int32_t kClassColumn = kColumnCount, kFlagColumn = kColumnCount + 1;

}  // namespace talus
