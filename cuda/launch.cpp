// The launches of a step: one a kernel key and pass, and what follows sums.
#include <algorithm>
#include <cstring>

#include "context.h"

namespace talus::cuda {
namespace {

// What goes together: behind a pass its rows and its fold must follow.
enum class Behind { nothing, part };

// Of a capture that fails nothing has run.
bool is_surely_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &capture) == cudaSuccess &&
         capture != cudaStreamCaptureStatusNone;
}

template <class Args>
int32_t launch(Context& x, void (*kernel)(Args), int64_t blocks, int threads, Args args,
               cudaStream_t stream, const char* what, Behind behind = Behind::nothing) {
  void* arguments[] = {&args};
  const cudaError_t error =
      cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(unsigned(blocks)),
                       dim3(unsigned(threads)), arguments, 0, stream);
  if (error == cudaSuccess) {
    ++x.launches;
    return TALUS_OK;
  }
  const bool lost = behind == Behind::part && !is_sticky(error) && !is_surely_captured(stream);
  return x.failures.check(error, what, lost);
}

#define TALUS_LAUNCH(...)                                                                 \
  do {                                                                                    \
    if (const int32_t status_ = launch(__VA_ARGS__); status_ != TALUS_OK) return status_; \
  } while (false)

constexpr int64_t kMostBlocks = INT32_MAX;

RowsArgs rows_args(const Plan& plan, const RowGradient& rows) {
  return {plan.tables(), rows.indices,    rows.values,           rows.count,
          rows.rows,     rows.row_length, uint32_t(rows.tensor), uint32_t(rows.wide)};
}

// Of given values there are no more than the tensor has elements, where rows are different; sums of
// tiles beyond them are 0, which leaves a total as it is.
int32_t measure_rows(Context& x, const RowGradient& rows, cudaStream_t stream) {
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
    TALUS_LAUNCH(x, common_kernels().rows_squares[is_f64], std::min(tiles, kMostBlocks),
                 common_kernels().row_threads, rows_args(plan, rows), stream,
                 "launch of the norm of rows");
  return TALUS_OK;
}

}  // namespace

// Partials by tile, totals by tensor, one sum, which goes to the host without a wait.
int32_t measure(void* context, const Measure* what, void* stream_) {
  Context& x = get(context);
  TALUS_ENTER(x);
  if (what->kind != Sum::squares || what->classes || !what->entry.is_plain())
    return failures.fail(TALUS_E_UNSUPPORTED, "norms of plain squares of all gradients only");
  const cudaStream_t stream = as_stream(stream_);
  const Plan& plan = *x.plan;
  const Tables tables = plan.tables();
  const CommonKernels& common = common_kernels();
  bool captured = false;
  if (const int32_t status = is_captured(x, stream, &captured); status != TALUS_OK) return status;
  for (const LaunchInfo& info : plan.launches)
    TALUS_LAUNCH(x, common.squares.instance(info.is_f64(), info.direct), info.chunk_count,
                 common.squares.threads, PassArgs{tables, info.first_chunk, 0}, stream,
                 "launch of the gradient norm");
  for (const RowGradient& rows : x.row_gradients)
    if (const int32_t status = measure_rows(x, rows, stream); status != TALUS_OK) return status;
  const FoldArgs fold{tables, nullptr, 0, 0};
  if (tables.tensors > 0)
    TALUS_LAUNCH(x, common.total, tables.tensors, common.fold_threads, fold, stream,
                 "launch of the totals of tensors");
  TALUS_LAUNCH(x, common.norm, 1, common.fold_threads, fold, stream, "launch of the total norm");
  TALUS_CALL(
      cudaMemcpyAsync(x.norm, tables.sum_squares, sizeof(double), cudaMemcpyDeviceToHost, stream));
  x.norm_captured |= captured;
  if (!captured) TALUS_CALL(cudaEventRecord(x.measured, stream));
  return TALUS_OK;
}

int32_t read_report(void* context, Report* out, void*) {
  Context& x = get(context);
  TALUS_ENTER(x);
  if (x.norm_captured)  // nobody says what is replayed, when and on which stream
    TALUS_CALL(cudaDeviceSynchronize());
  else
    TALUS_CALL(cudaEventSynchronize(x.measured));
  *out = {*x.norm, -1, x.launches};
  return TALUS_OK;
}

int32_t read_totals(void* context, double* out, int64_t* count, void* stream) {
  Context& x = get(context);
  TALUS_ENTER(x);
  *count = x.plan->members.back().rank;
  return copy(context, out, x.plan->at.totals, uint64_t(*count) * sizeof(double), stream);
}

int32_t begin(void* context, const BeginRow* rows, int32_t count, void* stream_) {
  Context& x = get(context);
  TALUS_ENTER(x);
  const cudaStream_t stream = as_stream(stream_);
  const Plan& plan = *x.plan;
  if (const int32_t status = upload(x, plan.at.begin_rows, rows, size_t(count) * sizeof(BeginRow),
                                    stream, "upload of first values");
      status != TALUS_OK)
    return status;
  for (const LaunchInfo& info : plan.launches) {
    const RuleEntry& rule = info.rule();
    const BeginArgs args{plan.tables(), info.first_chunk, rule.slot_count, rule.tensor_slots};
    TALUS_LAUNCH(x, common_kernels().begin[info.is_f64()], info.chunk_count,
                 common_kernels().begin_threads, args, stream, "launch of the first values");
  }
  return TALUS_OK;
}

int32_t run(void* context, int64_t launch_index, int32_t pass_index, const GradientEntry* entry,
            void* stream_) {
  Context& x = get(context);
  TALUS_ENTER(x);
  if (entry) return failures.fail(TALUS_E_UNSUPPORTED, "gradients that are cut");
  const cudaStream_t stream = as_stream(stream_);
  const Plan& plan = *x.plan;
  const LaunchInfo& info = plan.launches[size_t(launch_index)];
  const PassEntry& pass = info.passes()[size_t(pass_index)];
  const PassArgs args{plan.tables(), info.first_chunk, pass_index > 0 && plan.has_parts};
  Behind behind = Behind::nothing;
  if (pass.direct) {
    TALUS_LAUNCH(x, pass.instance(info.is_f64(), info.direct), info.chunk_count, pass.threads, args,
                 stream, "launch of a pass");
    behind = Behind::part;
  }
  for (const RowGradient& rows : x.row_gradients) {
    if (rows.launch != launch_index || rows.count == 0) continue;
    TALUS_LAUNCH(x, pass.rows[info.is_f64()], std::min(rows.count, kMostBlocks),
                 common_kernels().row_threads, rows_args(plan, rows), stream,
                 "launch of a pass over rows", behind);
    behind = Behind::part;
  }
  if (!pass.fold) return TALUS_OK;
  const FoldArgs fold{args.tables, plan.at.tensor_list + info.first_tensor, info.rule().slot_count,
                      info.rule().tensor_slots};
  TALUS_LAUNCH(x, pass.fold, info.tensor_count, common_kernels().fold_threads, fold, stream,
               "launch of a fold", behind);
  return TALUS_OK;
}

}  // namespace talus::cuda
