// The tile adder: the one place where a target sums (order: lib/table/norm.h). The gradient norm
// and the sums of rules go through it. No include guard: compiled in the namespace of its target.

inline constexpr int64_t kBlock = 512;  // elements staged at once; 4 operands of it are 8 KiB of L1
static_assert(kBlock % kTileLanes == 0, "a block must start at lane 0");
static_assert(kTile % kBlock == 0, "a tile is whole blocks");

template <Sum kSum, class V>
TALUS_FN V add_term(V lane, V x) {
  if constexpr (kSum == Sum::plain) return lane + x;
  if constexpr (kSum == Sum::squares) return lane + x * x;
  if constexpr (kSum == Sum::magnitudes) return lane + abs(x);
  if constexpr (kSum == Sum::largest) return maximum(lane, abs(x));
}

struct TileSum {
  alignas(64) double lane[kTileLanes];

  TALUS_FN void clear() {
    for (double& x : lane) x = 0;
  }

  // A whole block, in the order of memory: up to 16 vectors of lanes stay in registers meanwhile.
  template <Sum kSum, class T>
  void add_block(const T* x) {
    constexpr int kWidth = int(kLanes<double>), kVectors = kTileLanes / kWidth;
    constexpr int kGroup = kVectors < 16 ? kVectors : 16;
    for (int l = 0; l < kTileLanes; l += kGroup * kWidth) {
      Vec<double> sum[kGroup];
      for (int k = 0; k < kGroup; ++k) sum[k] = Whole<double>().load(lane + l + k * kWidth);
      for (int64_t row = 0; row < kBlock; row += kTileLanes)
        for (int k = 0; k < kGroup; ++k)
          sum[k] = add_term<kSum>(sum[k], load_f64(x + row + l + k * kWidth));
      for (int k = 0; k < kGroup; ++k) Whole<double>().store(sum[k], lane + l + k * kWidth);
    }
  }

  // Adds n <= kBlock terms that start at lane 0, widened to double.
  template <Sum kSum, class T>
  void add_terms(const T* x, int64_t n) {
    if (n == kBlock) return add_block<kSum>(x);
    for (int64_t i = 0; i < n; ++i)
      lane[i % kTileLanes] = add_term<kSum>(lane[i % kTileLanes], double(load_one(x[i])));
  }

  template <class T>
  void add(Sum sum, const T* x, int64_t n) {
    switch (sum) {
      case Sum::plain: return add_terms<Sum::plain>(x, n);
      case Sum::squares: return add_terms<Sum::squares>(x, n);
      case Sum::magnitudes: return add_terms<Sum::magnitudes>(x, n);
      case Sum::largest: return add_terms<Sum::largest>(x, n);
    }
  }

  // Folds the lanes 64, 32, ... 1 apart.
  double total(Sum sum) {
    for (int width = kTileLanes / 2; width > 0; width /= 2)
      for (int l = 0; l < width; ++l)
        lane[l] =
            sum == Sum::largest ? maximum(lane[l], lane[l + width]) : lane[l] + lane[l + width];
    return lane[0];
  }
};
