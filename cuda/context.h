// One optimizer's share of a device: its plan there, the ring that uploads pass through, failures.
#pragma once
#include <memory>
#include <vector>

#include "plan.h"
#include "ring.h"
#include "status.h"

namespace talus::cuda {

// Pinned memory that checkpoints pass through.
struct Staging {
  void* buffer[2] = {};
  cudaEvent_t passed[2] = {};
};

// Copies of the control block on their way to the host: the newest that has arrived is what is known.
struct Reports {
  static constexpr int kSlots = 16;
  StepControl* slots = nullptr;  // pinned
  cudaEvent_t arrived[kSlots] = {};
  int64_t queued = 0, taken = 0;  // since the first
};

struct Context {
  explicit Context(const BackendConfig& from);

  BackendConfig config;
  Failures failures;
  int64_t process;     // that created it
  bool pools = false;  // the device allocates in stream order
  Ring ring;
  std::unique_ptr<Plan> plan;

  std::vector<RowGradient> row_gradients;  // of the coming step

  Staging staging;

  Measured* measured_here = nullptr;  // pinned, by kind: what the device has measured
  cudaEvent_t measured = nullptr;     // behind the last measure that was not captured
  bool measure_captured = false;      // a graph may leave some, too
  int64_t measured_count = 0;         // tensors in the last one
  int64_t launches = 0;

  StepControl* control = nullptr;  // the core's, on the device
  Reports reports;

  bool is_forked() const;  // this is a child of the process that created it
  int32_t usable();
};

// This thread's last failure of a call that had no context.
Failures& without_context();

// Makes the context's device current and gives the caller's back.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
  cudaError_t error() const { return error_; }

 private:
  int before_ = 0;
  bool restore_ = false;
  cudaError_t error_;
};

// What every function of a context begins with: it may be used, and its device is current.
#define TALUS_ENTER(context)                                                                       \
  Failures& failures = (context).failures;                                                         \
  if (const int32_t status_ = (context).usable(); status_ != TALUS_OK) return status_;             \
  const DeviceGuard guard((context).config.device);                                                \
  if (const int32_t status_ = failures.check(guard.error(), "cudaSetDevice"); status_ != TALUS_OK) \
  return status_

// *out: whether the stream is being captured into a graph.
int32_t is_captured(Context& x, cudaStream_t stream, bool* out);

// TALUS_E_NOT_PREPARED, naming what would be done, if the stream is being captured.
int32_t refuse_capture(Context& x, cudaStream_t stream, const char* what);

// Through the ring. `what` names the table.
int32_t upload(Context& x, void* to, const void* data, size_t bytes, cudaStream_t stream,
               const char* what);

// Parts of the table of functions, by file: memory.cpp, staging.cpp, tables.cpp, rows.cpp, measure.cpp,
// control.cpp, launch.cpp.
void* allocate(void* context, uint64_t bytes, uint64_t alignment, void* stream);
void release(void* context, void* data, uint64_t bytes, void* stream);
int32_t check_pointer(void* context, const void* data, uint64_t bytes);
int32_t wait(void* context);
int32_t copy(void* context, void* to, const void* from, uint64_t bytes, void* stream);
int32_t fill_zero(void* context, void* data, uint64_t bytes, void* stream);

void free_staging(Staging& staging);
int32_t set_staging(void* context, uint64_t bytes, void** buffers);
int32_t start_copy(void* context, int32_t side, void* to, const void* from, uint64_t bytes,
                   void* stream);
int32_t wait_copy(void* context, int32_t side);

uint64_t workspace_bytes(const PlanView* plan);
int32_t set_plan(void* context, const PlanView* plan, void* workspace, void* stream);
int32_t set_column(void* context, int32_t column, void* stream);
int32_t set_rows(void* context, const Row* rows, int32_t count, void* stream);

int32_t set_row_gradients(void* context, const RowGradient* list, int32_t count, bool checked,
                          RowFault* fault, void* stream);

int32_t measure(void* context, const Measure* what, void* stream);
int32_t read_report(void* context, Sum kind, Report* out, void* stream);
int32_t read_totals(void* context, double* out, int64_t* count, void* stream);
int32_t begin(void* context, const BeginRow* rows, int32_t count, Order order, void* stream);
int32_t run(void* context, int64_t launch, int32_t pass, const GradientEntry* entry, Order order,
            void* stream);

void free_reports(Reports& reports);
int32_t prepare_orders(void* context, StepControl* control, void* stream);
int32_t send_order(void* context, const StepOrder* order, const Row* rows, void* stream);
int32_t decide(void* context, void* stream);
int32_t queue_report(void* context, void* stream);
int32_t take_report(void* context, Await await, StepControl* out);
int32_t update_scaler(void* context, ScalerMemory* scaler, void* stream);

inline Context& get(void* context) { return *static_cast<Context*>(context); }
inline cudaStream_t as_stream(void* stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace talus::cuda
