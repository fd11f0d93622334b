// Passes with sums, and measures of gradients: a warp adds up one tile in the order of lib/table/norm.h,
// where a thread holds four neighbours of the 128 lanes. No include guard: compiled in the namespace
// of the kernels.

inline constexpr int kHeld = kTileLanes / 32;
inline constexpr uint32_t kAllThreads = 0xffffffff;

// The sums of one tile in this thread's lanes.
template <class Pass>
struct TileSums {
  double lane[Pass::kSumCount][kHeld];

  TALUS_FN TileSums() {
    each<Pass::kSumCount>([&](auto k) {
#pragma unroll
      for (int h = 0; h < kHeld; ++h) lane[k][h] = 0;
    });
  }
  template <int k, class T, class S>
  TALUS_FN static double summand(const S& scalars, const T* term) {
    if constexpr (Pass::kSums[k] == Sum::own)
      return Pass::summand(scalars, double(term[k]), double(term[Pass::kSumCount]));
    else
      return double(term[k]);
  }
  template <class T, class S>
  TALUS_FN void add(const S& scalars, const T* term, int h) {
    each<Pass::kSumCount>([&](auto k) {
      lane[k][h] = add_term<Pass::kSums[k]>(lane[k][h], summand<k>(scalars, term));
    });
  }
  // Folds the 128 lanes 64, 32, ... 4 apart over the warp, then 2 and 1 apart; in thread 0 of it.
  template <int k>
  TALUS_FN double total() {
    constexpr Sum kSum = Pass::kSums[k];
    for (int w = 16; w > 0; w /= 2) {
#pragma unroll
      for (int h = 0; h < kHeld; ++h)
        lane[k][h] = join<kSum>(lane[k][h], __shfl_down_sync(kAllThreads, lane[k][h], w));
    }
#pragma unroll
    for (int w = kHeld / 2; w > 0; w /= 2) {
#pragma unroll
      for (int h = 0; h < w; ++h) lane[k][h] = join<kSum>(lane[k][h], lane[k][h + w]);
    }
    return lane[k][0];
  }
};

// A pass over the n elements of one tile that begins at `first` of a piece, by one warp. wide: the
// scalars in double, for own summands only.
template <class Rule, class Pass, class T, bool kDirect>
TALUS_FN TileSums<Pass> sum_tile(const Uniform<Rule, T>& u,
                                 const typename Rule::template Scalars<double>& wide,
                                 const Operands<Pass, T, kDirect>& at, uint32_t first, uint32_t n) {
  constexpr uint32_t kRound = kTileLanes;
  const uint32_t own = threadIdx.x % 32 * kHeld;
  TileSums<Pass> sums;
  uint32_t off = 0;  // kHeld elements of the dtype of half the size are one access
  const auto check = [&](const Operand<T, kDirect>& x) {
    off |= uint32_t(reinterpret_cast<uintptr_t>(x.at(first))) & (x.size() * kHeld - 1) & 15;
  };
  each<Pass::kUseCount>([&](auto k) { check(at[k]); });
  if (at.has_visible) check(at[at.kVisible]);
  const uint32_t whole = off == 0 ? n / kRound * kRound : 0;
  for (uint32_t i = 0; i < whole; i += kRound) {
    T term[kHeld][Pass::kSumCount + 1];
    update_some<Rule, kHeld>(u, at, first + i + own, term);
#pragma unroll
    for (int h = 0; h < kHeld; ++h) sums.add(wide, term[h], h);
  }
  for (uint32_t i = whole; i < n; i += kRound) {
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      T term[1][Pass::kSumCount + 1];
      if (i + own + h >= n) continue;
      update_some<Rule, 1>(u, at, first + i + own + h, term);
      sums.add(wide, term[0], h);
    }
  }
  return sums;
}

// Warps take the tiles of the block's pieces in turn.
template <class Rule, class Pass, class T, bool kDirect>
__global__ void __launch_bounds__(kSumThreads, sizeof(T) == 8 ? 3 : 4)
    sum_kernel(const __grid_constant__ PassArgs args) {
  Uniform<Rule, T> u;
  if (!set_entry(args.tables, args.entry, u)) return;
  constexpr uint32_t kWarps = kSumThreads / 32;
  const Tables& tables = args.tables;
  const int64_t stride = int64_t(tables.tile_first[tables.tensors]);
  uint32_t turn = threadIdx.x / 32;  // tiles until this warp's next
  for_each_piece<Pass>(args, u, [&](const Piece& piece) {
    const uint32_t tiles = (piece.count + uint32_t(kTile) - 1) / uint32_t(kTile);
    uint32_t tile = turn;
    typename Rule::template Scalars<double> wide;
    if constexpr (kHasOwnSum<Pass>)
      __builtin_memcpy(&wide, row_of(tables, tables.members[piece.tensor].scalar_class).scalar,
                       sizeof wide);
    for (; tile < tiles; tile += kWarps) {
      const uint32_t first = tile * uint32_t(kTile), left = piece.count - first;
      TileSums<Pass> sums = sum_tile<Rule>(u, wide, operands_of<Pass, T, kDirect>(tables, piece),
                                           first, left < uint32_t(kTile) ? left : uint32_t(kTile));
      const int64_t at = int64_t(tables.tile_first[piece.tensor]) + int64_t(piece.begin / kTile);
      each<Pass::kSumCount>([&](auto k) {
        const double total = sums.template total<k>();
        if (threadIdx.x % 32 == 0) tables.partials[k * stride + at + tile] = total;
      });
    }
    turn = tile - tiles;
  });
}

// The measure as a pass: sums of the gradients as they enter.
template <Sum kSum>
struct Measuring {
  template <class S>
  struct Scalars {};
  struct Gradients : ElementPass {
    static constexpr Use kUses[] = {in(kGradient)};
    static constexpr int kUseCount = 1, kSumCount = 1;
    static constexpr Sum kSums[] = {kSum};
    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>&, const S*, V* x, V* term) {
      term[0] = x[0];
    }
  };
};
