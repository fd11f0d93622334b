// Gradients of rows: an element pass over the rows that are given, and a measure's over their
// values. Blocks are one warp. No include guard: compiled in the namespace of the kernels.

TALUS_FN int64_t row_of(const RowsArgs& args, int64_t j) {
  const void* const indices = args.indices;
  TALUS_ASSUME_GLOBAL(indices);
  return args.wide ? static_cast<const int64_t*>(indices)[j]
                   : int64_t(static_cast<const int32_t*>(indices)[j]);
}

// Operand k of the gradient's columns reads from the values that are given.
template <class Pass, class T>
TALUS_FN void take_values(const RowsArgs& args, int64_t first, Operands<Pass, T, false>& at) {
  each<Pass::kUseCount>([&](auto k) {
    if constexpr (Pass::kUses[k].column == kGradient)
      at.data[k] =
          const_cast<char*>(static_cast<const char*>(args.values)) + first * int64_t(at[k].size());
  });
}

// A warp a row. One that is not there is left out: nothing of it is touched. The 1: without it ptxas
// spills in f64.
template <class Rule, class Pass, class T>
__global__ void __launch_bounds__(kRowThreads, 1)
    rows_kernel(const __grid_constant__ RowsArgs args) {
  const Tables& tables = args.tables;
  const int32_t scalar_class = tables.members[args.tensor].scalar_class;
  if (scalar_class == kIdle) return;
  Uniform<Rule, T> u;
  if (!set_entry(tables, args.entry, u)) return;
  load_row(tables, scalar_class, u);
  for (int64_t j = blockIdx.x; j < args.count; j += gridDim.x) {
    const int64_t row = row_of(args, j);
    if (row < 0 || row >= args.rows) continue;
    for (int64_t begin = 0; begin < args.row_length; begin += kTile) {
      const int64_t left = args.row_length - begin;
      const Piece piece{uint64_t(row * args.row_length + begin),
                        uint32_t(left < kTile ? left : kTile), args.tensor};
      Operands<Pass, T, false> at = operands_of<Pass, T, false>(tables, piece);
      take_values(args, j * args.row_length + begin, at);
      update_piece<Rule>(u, at, piece.count);
    }
  }
}

// A warp a tile of the values, as if they were a tensor; the partials of their tensor take the sums.
template <Sum kSum, class T>
__global__ void __launch_bounds__(kRowThreads)
    rows_sum_kernel(const __grid_constant__ RowsArgs args) {
  using Gradients = typename Measuring<kSum>::Gradients;
  const Tables& tables = args.tables;
  Uniform<Measuring<kSum>, T> u;
  set_entry(tables, args.entry, u);
  const int64_t all = args.count * args.row_length;
  const Piece piece{0, 0, args.tensor};
  for (int64_t tile = blockIdx.x; tile * kTile < all; tile += gridDim.x) {
    Operands<Gradients, T, false> at;
    at.dtypes = uint32_t(dtype_of(tables.formats[piece.tensor], kGradient));
    at.has_visible = false;
    take_values(args, tile * kTile, at);
    const int64_t left = all - tile * kTile;
    TileSums<Gradients> sums =
        sum_tile<Measuring<kSum>>(u, {}, at, 0, uint32_t(left < kTile ? left : kTile));
    const double total = sums.template total<0>();
    if (threadIdx.x == 0) tables.partials[tables.tile_first[piece.tensor] + tile] = total;
  }
}
