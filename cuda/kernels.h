// The kernels as a table of functions, and what the launcher must know of them. No device code here:
// whoever includes this needs no CUDA compiler.
#pragma once
#include <span>

#include "descriptors.h"

namespace talus::cuda {

using PassKernel = void (*)(PassArgs);
using BeginKernel = void (*)(BeginArgs);
using RowsKernel = void (*)(RowsArgs);
using FoldKernel = void (*)(FoldArgs);
using DecideKernel = void (*)(DecideArgs);
using ScalerKernel = void (*)(ScalerArgs);

struct PassEntry {
  PassKernel direct;    // every operand is f32; NULL: a fold alone
  PassKernel mixed[2];  // any dtypes, by compute type is f64
  FoldKernel fold;      // NULL without sums
  int threads, sum_count, value_count;
  RowsKernel rows[2] = {};  // by compute type is f64; NULL: the rule takes no gradients of rows

  PassKernel instance(bool is_f64, bool is_direct) const {
    return is_direct && !is_f64 ? direct : mixed[is_f64];
  }
};

struct RuleEntry {
  std::span<const std::span<const PassEntry>> variants;
  uint32_t slot_count, tensor_slots;  // bit k: slot k has one element for the tensor
};

std::span<const RuleEntry> rule_entries();

// What measures gradients, for one kind of sum.
struct MeasureKernels {
  PassEntry pass;  // its rows[] too
  FoldKernel total, norm;
};

struct CommonKernels {
  BeginKernel begin[2];  // by compute type is f64
  MeasureKernels squares, magnitudes, largest;
  DecideKernel decide;
  ScalerKernel scaler;
  int begin_threads, fold_threads, row_threads;

  const MeasureKernels& measure(Sum kind) const {
    return kind == Sum::squares ? squares : kind == Sum::magnitudes ? magnitudes : largest;
  }
};
const CommonKernels& common_kernels();

}  // namespace talus::cuda
