// The launches of a step: one a kernel key and pass, and what follows sums.
#include "launch.h"

#include <algorithm>
#include <cmath>

namespace talus::cuda {
namespace {

// Of a capture that fails nothing has run.
bool is_surely_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &capture) == cudaSuccess &&
         capture != cudaStreamCaptureStatusNone;
}

}  // namespace

int32_t launch_kernel(Context& x, const void* kernel, int64_t blocks, int threads, void* args,
                      cudaStream_t stream, const char* what, Behind behind) {
  void* arguments[] = {args};
  const cudaError_t error = cudaLaunchKernel(kernel, dim3(unsigned(blocks)),
                                             dim3(unsigned(threads)), arguments, 0, stream);
  if (error == cudaSuccess) {
    ++x.launches;
    return TALUS_OK;
  }
  const bool lost = behind == Behind::part && !is_sticky(error) && !is_surely_captured(stream);
  return x.failures.check(error, what, lost);
}

int32_t begin(void* context, const BeginRow* rows, int32_t count, Order order, void* stream_) {
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
    const BeginArgs args{tables_of(x, order != Order::none), info.first_chunk, rule.slot_count,
                         rule.tensor_slots, order};
    TALUS_LAUNCH(x, common_kernels().begin[info.is_f64()], info.chunk_count,
                 common_kernels().begin_threads, args, stream, "launch of the first values");
  }
  return TALUS_OK;
}

// The kernels of f32 alone do not cut: any mix of dtypes does.
int32_t run(void* context, int64_t launch_index, int32_t pass_index, const GradientEntry* entry,
            Order order, void* stream_) {
  Context& x = get(context);
  TALUS_ENTER(x);
  const cudaStream_t stream = as_stream(stream_);
  const Plan& plan = *x.plan;
  const LaunchInfo& info = plan.launches[size_t(launch_index)];
  const PassEntry& pass = info.passes()[size_t(pass_index)];
  const Tables tables = tables_of(x, order != Order::none);
  const EntryArgs enters{entry ? *entry : GradientEntry(), uint32_t(entry != nullptr)};
  const PassArgs args{tables, info.first_chunk, pass_index > 0 && plan.has_parts, enters};
  Behind behind = Behind::nothing;
  if (pass.direct) {
    TALUS_LAUNCH(x, pass.instance(info.is_f64(), info.direct && !entry), info.chunk_count,
                 pass.threads, args, stream, "launch of a pass");
    behind = Behind::part;
  }
  for (const RowGradient& rows : x.row_gradients) {
    if (rows.launch != launch_index || rows.count == 0) continue;
    TALUS_LAUNCH(x, pass.rows[info.is_f64()], std::min(rows.count, kMostBlocks),
                 common_kernels().row_threads, rows_args(tables, rows, enters), stream,
                 "launch of a pass over rows", behind);
    behind = Behind::part;
  }
  if (!pass.fold) return TALUS_OK;
  const FoldArgs fold{tables, plan.at.tensor_list + info.first_tensor, info.rule().slot_count,
                      info.rule().tensor_slots};
  TALUS_LAUNCH(x, pass.fold, info.tensor_count, common_kernels().fold_threads, fold, stream,
               "launch of a fold", behind);
  return TALUS_OK;
}

}  // namespace talus::cuda
