// Sums of gradients: partials by tile, totals by tensor, one total, which goes to the host without a wait.
#include <algorithm>
#include <cmath>

#include "launch.h"

namespace talus::cuda {
namespace {

// Of given values there are no more than the tensor has elements, where rows are different; sums of
// tiles beyond them are 0, which leaves a total as it is.
int32_t measure_rows(Context& x, const PassEntry& pass, const Tables& tables,
                     const RowGradient& rows, const EntryArgs& entry, cudaStream_t stream) {
  Failures& failures = x.failures;
  const Plan& plan = *x.plan;
  const int64_t* const first = plan.view.tile_first + rows.tensor;
  if (rows.count > rows.rows)
    return failures.fail(TALUS_E_ARGUMENT, "%lld rows of a tensor of %lld cannot be different",
                         static_cast<long long>(rows.count), static_cast<long long>(rows.rows));
  TALUS_CALL(cudaMemsetAsync(plan.at.partials + first[0], 0,
                             size_t(first[1] - first[0]) * sizeof(double), stream));
  const int64_t tiles = (rows.count * rows.row_length + kTile - 1) / kTile;
  const bool is_f64 = plan.view.table.column[kValue].dtype[rows.tensor] == Dtype::f64;
  if (tiles > 0)
    TALUS_LAUNCH(x, pass.rows[is_f64], std::min(tiles, kMostBlocks), common_kernels().row_threads,
                 rows_args(tables, rows, entry), stream, "launch of the norm of rows");
  return TALUS_OK;
}

// Whose ranks count.
int32_t send_scope(Context& x, const Measure& what, cudaStream_t stream, Tables* tables) {
  Plan& plan = *x.plan;
  x.measured_count = plan.members.back().rank;
  if (!what.classes) return TALUS_OK;
  plan.find_members(what.classes);
  x.measured_count = plan.next_members.back().rank;
  tables->members = plan.at.scope_members;
  return upload(x, plan.at.scope_members, plan.next_members.data(),
                plan.next_members.size() * sizeof(Member), stream, "upload of what is measured");
}

}  // namespace

// A cut, and where a sum of anything but squares is scaled, takes what marks elements that are not
// finite, which the kernels of f32 alone do not.
int32_t measure(void* context, const Measure* what, void* stream_) {
  Context& x = get(context);
  TALUS_ENTER(x);
  const cudaStream_t stream = as_stream(stream_);
  const Plan& plan = *x.plan;
  const MeasureKernels& kernels = common_kernels().measure(what->kind);
  const CommonKernels& common = common_kernels();
  bool captured = false;
  if (const int32_t status = is_captured(x, stream, &captured); status != TALUS_OK) return status;
  Tables tables = tables_of(x, what->ordered);
  const bool scales = what->ordered || !what->entry.is_plain();
  const bool marks = std::isfinite(what->entry.limit) || (what->kind != Sum::squares && scales);
  const EntryArgs entry{what->entry, marks};
  for (const LaunchInfo& info : plan.launches)
    TALUS_LAUNCH(x, kernels.pass.instance(info.is_f64(), info.direct && !marks), info.chunk_count,
                 kernels.pass.threads, PassArgs{tables, info.first_chunk, 0, entry}, stream,
                 "launch of the gradient norm");
  for (const RowGradient& rows : x.row_gradients)
    if (const int32_t status = measure_rows(x, kernels.pass, tables, rows, entry, stream);
        status != TALUS_OK)
      return status;
  if (const int32_t status = send_scope(x, *what, stream, &tables); status != TALUS_OK)
    return status;
  const FoldArgs fold{tables, nullptr, 0, 0, what->tells};
  if (tables.tensors > 0)
    TALUS_LAUNCH(x, kernels.total, tables.tensors, common.fold_threads, fold, stream,
                 "launch of the totals of tensors");
  TALUS_LAUNCH(x, kernels.norm, 1, common.fold_threads, fold, stream, "launch of the total norm");
  if (what->ordered) return TALUS_OK;  // reported with the decision
  TALUS_CALL(cudaMemcpyAsync(x.measured_here + int(what->kind), tables.measured, sizeof(Measured),
                             cudaMemcpyDeviceToHost, stream));
  x.measure_captured |= captured;
  if (!captured) TALUS_CALL(cudaEventRecord(x.measured, stream));
  return TALUS_OK;
}

int32_t read_report(void* context, Sum kind, Report* out, void*) {
  Context& x = get(context);
  TALUS_ENTER(x);
  if (x.measure_captured)  // nobody says what is replayed, when and on which stream
    TALUS_CALL(cudaDeviceSynchronize());
  else
    TALUS_CALL(cudaEventSynchronize(x.measured));
  const Measured& measured = x.measured_here[int(kind)];
  *out = {measured.total, measured.first_nonfinite, x.launches};
  return TALUS_OK;
}

int32_t read_totals(void* context, double* out, int64_t* count, void* stream) {
  Context& x = get(context);
  *count = x.measured_count;
  return copy(context, out, x.plan->at.kept_totals, uint64_t(*count) * sizeof(double), stream);
}

}  // namespace talus::cuda
