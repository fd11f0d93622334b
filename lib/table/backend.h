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
  int32_t threads;                  // at least 1
  talus_parallel_for parallel_for;  // NULL: the backend's own threads
  void* parallel_for_user;
  talus_allocator allocator;  // alloc NULL: the backend's own memory
};

// Work goes on `stream` in order. Hot functions never allocate and never wait. None throws.
struct Backend {
  uint32_t size;  // sizeof(Backend): a plugin of another build is refused
  const char* name;

  // Cold. create and set_config copy *config.
  int32_t (*create)(const BackendConfig* config, void** context);
  void (*destroy)(void* context);
  int32_t (*set_config)(void* context, const BackendConfig* config);
  void* (*allocate)(void* context, uint64_t bytes, uint64_t alignment, void* stream);  // NULL: none
  void (*release)(void* context, void* data, uint64_t bytes, void* stream);
  // The plan's arrays live until the next set_plan; the table's columns may change in between, and
  // set_column says so. `workspace` holds workspace_bytes(plan) and is kept as long.
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

// As set_column: the column of scalar classes.
inline constexpr int32_t kClassColumn = kColumnCount;

}  // namespace talus
