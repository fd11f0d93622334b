// The tile adder: the one place where a target sums (order: lib/table/norm.h). The gradient norm
// and the sums of rules go through it. No include guard: compiled in the namespace of its target.

inline constexpr int64_t kBlock =
    1024;  // elements staged at once; 2 operands of it are 8 KiB of L1
static_assert(kBlock % kTileLanes == 0, "a block must start at lane 0");
static_assert(kTile % kBlock == 0, "a tile is whole blocks");

// How terms come from memory: widened to double as they are, or times a factor in the compute type.
struct LoadPlain {
  template <class T>
  TALUS_FN auto some(const T* p) const {
    return load_f64(p);
  }
  template <class T>
  TALUS_FN double one(const T* p) const {
    return double(load_one(*p));
  }
};
template <class Compute>
struct LoadScaled {
  Compute factor;
  template <class T>
  TALUS_FN auto some(const T* p) const {
    return load_f64(p, factor);
  }
  template <class T>
  TALUS_FN double one(const T* p) const {
    return double(Compute(load_one(*p)) * factor);
  }
};

struct TileSum {
  static constexpr int kWidth = int(kLanes<double>), kVectors = kTileLanes / kWidth;

  alignas(64) double lane[kTileLanes];

  TALUS_FN void clear() {
    for (double& x : lane) x = 0;
  }

  // Whole rounds of lanes; up to 16 vectors of lanes stay in registers meanwhile. With AVX-512 these
  // are all, and memory is read in its order; narrower targets go over x more than once.
  template <Sum kSum, class T, class Load>
  void add_rounds(const T* x, int64_t n, int64_t left, Load load) {
    constexpr int kGroup = kVectors < 16 ? kVectors : 16;
    for (int l = 0; l < kTileLanes; l += kGroup * kWidth) {
      Vec<double> sum[kGroup];
      for (int k = 0; k < kGroup; ++k) sum[k] = Whole<double>().load(lane + l + k * kWidth);
      for (int64_t row = 0; row < n; row += kTileLanes) {
        if (l % kAsk == 0)
          for (int k = 0; k < kGroup * kWidth; k += kAsk)
            prefetch(x + row + l + k, left - row - l - k);
        for (int k = 0; k < kGroup; ++k)
          sum[k] = add_term<kSum>(sum[k], load.some(x + row + l + k * kWidth));
      }
      for (int k = 0; k < kGroup; ++k) Whole<double>().store(sum[k], lane + l + k * kWidth);
    }
  }

  // Adds n terms that start at lane 0, widened to double. `left`: as prefetch() asks; 0: they lie in
  // a cache.
  template <Sum kSum, class T, class Load = LoadPlain>
  void add_terms(const T* x, int64_t n, int64_t left = 0, Load load = {}) {
    const int64_t whole = n / kTileLanes * kTileLanes;
    add_rounds<kSum>(x, whole, left, load);
    for (int64_t i = whole; i < n; ++i)
      lane[i - whole] = add_term<kSum>(lane[i - whole], load.one(x + i));
  }

  template <Sum kSum>
  TALUS_FN void add_at(double* at, double x) {
    *at = add_term<kSum>(*at, x);
  }
  template <Sum kSum>
  TALUS_FN void add_at(double* at, float x) {
    add_at<kSum>(at, double(x));
  }
#if !TALUS_SCALAR_TARGET
  template <Sum kSum>
  TALUS_FN void add_at(double* at, Vec<double> x) {
    Whole<double>().store(add_term<kSum>(Whole<double>().load(at), x), at);
  }
  template <Sum kSum>
  TALUS_FN void add_at(double* at, Vec<float> x) {
    add_at<kSum>(at, lower_f64(x));
    add_at<kSum>(at + kWidth, upper_f64(x));
  }
#endif

  // Adds one vector or element of terms at `first`, widened to double. 0 as a term changes nothing.
  template <class V>
  TALUS_FN void add(Sum sum, V x, int64_t first) {
    switch (sum) {
      case Sum::own:  // evaluated elsewhere
      case Sum::plain: return add_at<Sum::plain>(lane + first, x);
      case Sum::squares: return add_at<Sum::squares>(lane + first, x);
      case Sum::magnitudes: return add_at<Sum::magnitudes>(lane + first, x);
      case Sum::largest: return add_at<Sum::largest>(lane + first, x);
    }
  }

  // The same of n terms that start at lane 0, behind a call: inlined it is nine tenths of a pass.
  template <class T>
  [[gnu::noinline]] void add_block(Sum sum, const T* x, int64_t n) {
    switch (sum) {
      case Sum::own:
      case Sum::plain: return add_terms<Sum::plain>(x, n);
      case Sum::squares: return add_terms<Sum::squares>(x, n);
      case Sum::magnitudes: return add_terms<Sum::magnitudes>(x, n);
      case Sum::largest: return add_terms<Sum::largest>(x, n);
    }
  }

  // Folds the lanes 64, 32, ... 1 apart.
  template <Sum kSum>
  double fold() {
    int width = kTileLanes / 2;
    for (; width >= kWidth; width /= 2)
      for (int l = 0; l < width; l += kWidth)
        Whole<double>().store(
            join<kSum>(Whole<double>().load(lane + l), Whole<double>().load(lane + l + width)),
            lane + l);
    for (; width > 0; width /= 2)
      for (int l = 0; l < width; ++l) lane[l] = join<kSum>(lane[l], lane[l + width]);
    return lane[0];
  }
  [[gnu::noinline]] double total(Sum sum) {
    return sum == Sum::largest ? fold<Sum::largest>() : fold<Sum::plain>();
  }
};
