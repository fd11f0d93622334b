// Lion (Chen et al. 2023, Algorithm 2). Cautious updates (Liang et al. 2024) and cautious decay
// (Chen et al. 2025) are flags; the first needs two passes: a count over the tensor decides the step.
// No include guard: compiled once per lane. + - * / sqrt only.
struct Lion {
  enum { lr, beta1, beta2, weight_decay, cautious, cautious_weight_decay, maximize };
  static constexpr Hyper kHypers[] = {
      {"lr", TALUS_REAL, 1e-4, kNotNegative, 0, "step size"},
      {"beta1", TALUS_REAL, 0.9, kBelowOne, 0, "weight of the momentum in the update"},
      {"beta2", TALUS_REAL, 0.99, kBelowOne, 0, "decay of the momentum"},
      {"weight_decay", TALUS_REAL, 0, kNotNegative, 0, "shrinks p by lr * weight_decay first"},
      {"cautious", TALUS_FLAG, 0, kSwitch, 0,
       "1: move only where update and gradient have the same sign"},
      {"cautious_weight_decay", TALUS_FLAG, 0, kSwitch, 0,
       "1: decay only where the update does not push against p"},
      {"maximize", TALUS_FLAG, 0, kSwitch, 0, "1: ascend; the decay still shrinks"},
  };

  static constexpr Algorithm kAlgorithms[] = {
      {"lion",
       nullptr,
       "the sign of an interpolated momentum",
       {},
       "Chen et al. 2023, arXiv 2302.06675",
       "large models and batches, with half the state of AdamW"},
  };

  enum { exp_avg };
  static constexpr Slot kSlots[] = {
      {"exp_avg", {}, false, Shape::element, nullptr, "momentum m"},
  };

  template <class S>
  struct Scalars {
    S lr, beta1, weight1, beta2, weight2;
    S shrinks, aligned, keep;  // flags: decay, cautious decay; keep: 1 - lr * weight_decay
  };

  static Scalars<double> scalars(const double* h, int64_t) {
    return {.lr = h[lr],
            .beta1 = h[beta1],
            .weight1 = 1 - h[beta1],
            .beta2 = h[beta2],
            .weight2 = 1 - h[beta2],
            .shrinks = h[weight_decay] != 0 ? 1.0 : 0.0,
            .aligned = h[cautious_weight_decay],
            .keep = 1 - h[lr] * h[weight_decay]};
  }

  static const char* conflict(const double*) { return nullptr; }
  static int variant(const double* h) { return h[cautious] != 0; }

  // Where the update goes, but for its length.
  template <class V, class S>
  TALUS_FN static V direction(const Scalars<S>& s, V g, V m) {
    return V(s.beta1) * m + V(s.weight1) * g;
  }

  // The first of two passes where updates are cautious: how many elements agree.
  struct Count : ElementPass {
    static constexpr Use kUses[] = {in(kGradient), in(slot(exp_avg))};
    static constexpr int kUseCount = 2, kSumCount = 2, kValueCount = 1;
    static constexpr Sum kSums[] = {Sum::plain, Sum::plain};  // agreeing, all

    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>& s, const S*, V* x, V* term) {
      const V g = x[0], m = x[1];
      term[0] = agreement(direction(s, g, m), g);
      term[1] = V(1);
    }
    TALUS_FN static void fold(const Scalars<double>& s, const double* sums, double*,
                              double* values) {
      const double share = sums[0] / sums[1];
      values[0] = s.lr * (1 / (share >= 1e-3 ? share : 1e-3));
    }
  };
  template <bool kCautious>
  struct Update : ElementPass {
    static constexpr Use kUses[] = {inout(kValue), in(kGradient), inout(slot(exp_avg))};
    static constexpr int kUseCount = 3;

    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>& s, const S* part, V* x, V*) {
      V &p = x[0], g = x[1], &m = x[2];
      const V c = direction(s, g, m);
      if (s.shrinks != 0) {
        const V less = p * V(s.keep);
        p = s.aligned != 0 ? by_signs(c, p, less, p, less) : less;
      }
      if constexpr (kCautious)
        p = select(agreement(c, g) > V(0), p - V(part[0]) * sgn(c), p);
      else
        p = p - V(s.lr) * sgn(c);
      m = V(s.beta2) * m + V(s.weight2) * g;
    }
  };
  using Variants = List<List<Update<false>>, List<Count, Update<true>>>;
};
TALUS_RULE(Lion)
