// The tile adder: the one place where a target sums (order: lib/table/norm.h). The gradient norm
// and the sums of rules go through it. No include guard: compiled in the namespace of its target.

inline constexpr int64_t kBlock = 512;  // elements staged at once; 4 operands of it are 8 KiB of L1
static_assert(kBlock % kTileLanes == 0, "a block must start at lane 0");
static_assert(kTile % kBlock == 0, "a tile is whole blocks");

TALUS_FN double summand(Sum sum, double x) {
  switch (sum) {
    case Sum::plain: return x;
    case Sum::squares: return x * x;
    case Sum::magnitudes:
    case Sum::largest: return __builtin_fabs(x);
  }
  return x;
}

struct TileSum {
  alignas(64) double lane[kTileLanes];

  TALUS_FN void clear() {
    for (double& x : lane) x = 0;
  }

  // Adds n <= kBlock terms that start at lane 0; the sum is a template argument: no branch inside.
  template <Sum kSum, class T>
  void add_terms(const T* x, int64_t n) {
    for (int64_t row = 0; row < n; row += kTileLanes) {
      const int64_t width = n - row < kTileLanes ? n - row : kTileLanes;
      for (int64_t l = 0; l < width; ++l) {
        const double s = summand(kSum, double(x[row + l]));
        lane[l] = kSum == Sum::largest ? larger(lane[l], s) : lane[l] + s;
      }
    }
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
            sum == Sum::largest ? larger(lane[l], lane[l + width]) : lane[l] + lane[l + width];
    return lane[0];
  }

 private:
  TALUS_FN static double larger(double a, double b) {
    const double c = a >= b ? a : b;
    return a != a ? a : c;
  }
};
