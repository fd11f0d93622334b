// Gradients of rows as a device takes them: kept until the step, checked on the host if asked.
#include <new>
#include <unordered_set>

#include "context.h"

namespace talus::cuda {
namespace {

// Waits for the indices. *found: the rows are different and all there.
int32_t check_rows(Context& x, const RowGradient& rows, RowFault* fault, cudaStream_t stream,
                   bool* found) {
  TALUS_ENTER(x);
  *found = true;
  if (rows.count == 0) return TALUS_OK;
  const size_t bytes = size_t(rows.count) * (rows.wide ? 8 : 4);
  const std::unique_ptr<char[]> memory(new char[bytes]);
  TALUS_CALL(cudaMemcpyAsync(memory.get(), rows.indices, bytes, cudaMemcpyDeviceToHost, stream));
  TALUS_CALL(cudaStreamSynchronize(stream));
  RowGradient here = rows;
  here.indices = memory.get();
  std::unordered_set<int64_t> seen;
  for (int64_t j = 0; j < rows.count && *found; ++j) {
    const int64_t row = here.index(j);
    const bool is_there = row >= 0 && row < rows.rows;
    *found = is_there && seen.insert(row).second;
    if (!*found) *fault = {fault->gradient, j, row, is_there};
  }
  return TALUS_OK;
}

}  // namespace

int32_t set_row_gradients(void* context, const RowGradient* list, int32_t count, bool checked,
                          RowFault* fault, void* stream) {
  Context& x = get(context);
  try {
    x.row_gradients.clear();
    for (int32_t i = 0; checked && i < count; ++i) {
      RowFault at{i, 0, 0, false};
      bool found = true;
      const int32_t status = check_rows(x, list[i], &at, as_stream(stream), &found);
      if (status != TALUS_OK) return status;
      if (found) continue;
      *fault = at;
      return TALUS_E_ARGUMENT;
    }
    x.row_gradients.assign(list, list + count);
    return TALUS_OK;
  } catch (const std::bad_alloc&) {
    return x.failures.fail(TALUS_E_MEMORY, "the host has no memory for gradients of rows");
  }
}

}  // namespace talus::cuda
