// What follows sums: partials of a tensor into one, the rule's fold, the total over all tensors. One
// block a tensor. No include guard: compiled in the namespace of the kernels.

// fold_pairs of lib/table/norm.h by a whole block: x[i] takes x[i + d] for d = 1, 2, 4, ...
template <Sum kSum>
TALUS_FN double fold_pairs(double* x, uint64_t n) {
  for (uint64_t d = 1; d < n; d *= 2) {
    for (uint64_t i = threadIdx.x * 2 * d; i + d < n; i += blockDim.x * 2 * d)
      x[i] = join<kSum>(x[i], x[i + d]);
    __syncthreads();
  }
  return n ? x[0] : 0;
}

template <class Rule, class Pass>
TALUS_FN void fold_tensor(const FoldArgs& args, uint32_t tensor, const double* sums) {
  const Tables& tables = args.tables;
  typename Rule::template Scalars<double> s;
  __builtin_memcpy(&s, row_of(tables, tables.members[tensor].scalar_class).scalar, sizeof s);
  double slots[kMaxSlots], values[kMaxPartValues] = {};
  double* data[kMaxSlots];
  for (int k = 0; k < kMaxSlots; ++k) {
    slots[k] = 0;
    data[k] = nullptr;
    if ((args.tensor_slots >> k & 1) == 0) continue;
    data[k] = static_cast<double*>(tables.columns[(kFirstSlot + k) * tables.tensors + tensor]);
    TALUS_ASSUME_GLOBAL(data[k]);
    if (data[k]) slots[k] = *data[k];
  }
  Pass::fold(s, sums, slots, values);
  for (int k = 0; k < kMaxSlots; ++k)
    if (data[k]) *data[k] = slots[k];
  for (int k = 0; k < Pass::kValueCount; ++k)
    tables.part_values[int64_t(tensor) * kMaxPartValues + k] = values[k];
}

// The 1: without it ptxas spills in the longer folds.
template <class Rule, class Pass>
__global__ void __launch_bounds__(kFoldThreads, 1)
    fold_kernel(const __grid_constant__ FoldArgs args) {
  const Tables& tables = args.tables;
  const uint32_t tensor = args.tensor_list[blockIdx.x];
  if (tables.members[tensor].scalar_class == kIdle || !is_taken(tables)) return;  // the whole block
  const uint64_t first = tables.tile_first[tensor], tiles = tables.tile_first[tensor + 1] - first;
  const uint64_t stride = tables.tile_first[tables.tensors];
  double sums[Pass::kSumCount + 1];
  if constexpr (Pass::kTotal) {
    const Row& row = row_of(tables, tables.members[tensor].scalar_class);
    sums[0] = scaled_total(tables.measured->total, norm_factor(tables, row));
  }
  each<Pass::kSumCount>([&](auto k) {
    sums[k] = fold_pairs<Pass::kSums[k]>(tables.partials + k * stride + first, tiles);
  });
  if (threadIdx.x == 0) fold_tensor<Rule, Pass>(args, tensor, sums);
}

// A measure's partials of each tensor into its total.
template <Sum kSum>
__global__ void __launch_bounds__(kFoldThreads)
    total_kernel(const __grid_constant__ FoldArgs args) {
  const Tables& tables = args.tables;
  const int32_t rank = tables.members[blockIdx.x].rank;
  if (rank < 0) return;
  const uint64_t first = tables.tile_first[blockIdx.x];
  const double total =
      fold_pairs<kSum>(tables.partials + first, tables.tile_first[blockIdx.x + 1] - first);
  if (threadIdx.x != 0) return;
  tables.totals[rank] = total;
  tables.kept_totals[rank] = total;
}

// The first tensor whose total is not finite, or -1; in thread 0 of the block.
TALUS_FN int64_t find_nonfinite(const Tables& tables) {
  int64_t first = tables.tensors;
  for (int64_t t = threadIdx.x; t < tables.tensors && first == tables.tensors; t += blockDim.x) {
    const int32_t rank = tables.members[t].rank;
    if (rank >= 0 && !is_finite(tables.kept_totals[rank])) first = t;
  }
  tables.suspects[threadIdx.x] = first;
  __syncthreads();
  if (threadIdx.x == 0)
    for (uint32_t k = 1; k < blockDim.x; ++k)
      if (tables.suspects[k] < first) first = tables.suspects[k];
  return first < tables.tensors ? first : -1;
}

// The totals of all tensors that count into one; one block.
template <Sum kSum>
__global__ void __launch_bounds__(kFoldThreads) norm_kernel(const __grid_constant__ FoldArgs args) {
  const Tables& tables = args.tables;
  const double total =
      fold_pairs<kSum>(tables.totals, uint64_t(tables.members[tables.tensors].rank));
  int64_t first = -1;
  if (!is_finite(total)) first = find_nonfinite(tables);  // the whole block, or none
  if (threadIdx.x != 0) return;
  tables.measured->total = total;
  tables.measured->first_nonfinite = first;
  if (args.tells) tables.control->total = total;
}
