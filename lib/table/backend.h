// The boundary between the core and what runs its kernels: plain data and C functions, so that a
// plugin can fill the same table. A backend knows rules by key only; it never sees a parameter
// group, a name or a schedule. Statuses are those of talus.h.
#pragma once
#include <cstdint>

#include "lib/table/chunk_plan.h"

namespace talus {

// The scalars of one class, that is of all parameters of one group that have the same step count.
// A backend rounds each to the compute type once. 256 bytes.
struct Row {
  double scalar[kMaxScalars];
  double gradient_sign;  // -1: maximise
  double unused;
};

// What a class puts into slots at its first step; by class, valid where `first` is 1.
struct BeginRow {
  int32_t first;
  uint32_t copies_param;      // bit k: slot k starts as the value of the parameter
  double initial[kMaxSlots];  // else it starts with this
};

// The gradients of all parameters that have one, squared and summed; -> read_report.
struct Report {
  double sum_squares;
};

struct BackendConfig {
  int32_t device;                   // ordinal; the CPU: 0
  int32_t threads;                  // at least 1
  talus_parallel_for parallel_for;  // NULL: the backend's own threads
  void* parallel_for_user;
  talus_allocator allocator;  // alloc NULL: the backend's own memory
};

// A plugin of another build is refused by these three.
inline constexpr uint32_t kBackendAbi = 1;

// Work goes on `stream` in order. Hot functions never allocate and never wait. None throws. What a
// device will add when it comes: rows of several steps ahead stamped with their step number, factor
// and veto in device memory, a report without waiting.
struct Backend {
  uint32_t size;    // sizeof(Backend)
  uint32_t abi;     // kBackendAbi
  int32_t version;  // TALUS_VERSION
  const char* name;
  // The last failure of a context in words, and the device's own number for it (0: none).
  const char* (*last_error)(const void* context, int64_t* detail);

  // Cold. create and set_config copy *config.
  int32_t (*create)(const BackendConfig* config, void** context);
  void (*destroy)(void* context);
  int32_t (*set_config)(void* context, const BackendConfig* config);
  void* (*allocate)(void* context, uint64_t bytes, uint64_t alignment, void* stream);  // NULL: none
  void (*release)(void* context, void* data, uint64_t bytes, void* stream);
  // Takes everything anew, all columns too; a failure leaves the plan before in use. Its arrays live
  // until the next set_plan; columns may change in between, and set_column says so before a step. `workspace` holds workspace_bytes(plan) and is kept as long.
  uint64_t (*workspace_bytes)(const PlanView* plan);
  int32_t (*set_plan)(void* context, const PlanView* plan, void* workspace, void* stream);
  int32_t (*read_report)(void* context, Report* out, void* stream);  // waits

  // Hot.
  int32_t (*set_column)(void* context, int32_t column, void* stream);
  int32_t (*set_rows)(void* context, const Row* rows, int32_t count, void* stream);
  int32_t (*fill_zero)(void* context, void* data, uint64_t bytes, void* stream);
  int32_t (*measure)(void* context, void* stream);
  int32_t (*begin)(void* context, const BeginRow* rows, int32_t count, void* stream);
  int32_t (*run)(void* context, int64_t launch, int32_t pass, double gradient_factor, void* stream);
};

// For set_column, what is not an operand: scalar classes, and paths with hidden_given.
inline constexpr int32_t kClassColumn = kColumnCount, kFlagColumn = kColumnCount + 1;

}  // namespace talus
