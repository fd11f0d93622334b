// Lion (Chen et al. 2023, Algorithm 2).
// No include guard: compiled once per lane. + - * / sqrt only.
struct Lion {
  enum { lr, beta1, beta2, weight_decay, maximize };
  static constexpr Hyper kHypers[] = {
      {"lr", TALUS_REAL, 1e-4, kNotNegative, 0, "step size"},
      {"beta1", TALUS_REAL, 0.9, kBelowOne, 0, "weight of the momentum in the update"},
      {"beta2", TALUS_REAL, 0.99, kBelowOne, 0, "decay of the momentum"},
      {"weight_decay", TALUS_REAL, 0, kNotNegative, 0, "shrinks p by lr * weight_decay first"},
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
    S shrinks, keep;  // flag: decay; keep: 1 - lr * weight_decay
  };

  static Scalars<double> scalars(const double* h, int64_t) {
    return {.lr = h[lr],
            .beta1 = h[beta1],
            .weight1 = 1 - h[beta1],
            .beta2 = h[beta2],
            .weight2 = 1 - h[beta2],
            .shrinks = h[weight_decay] != 0 ? 1.0 : 0.0,
            .keep = 1 - h[lr] * h[weight_decay]};
  }

  static const char* conflict(const double*) { return nullptr; }
  static int variant(const double*) { return 0; }

  struct Update : ElementPass {
    static constexpr Use kUses[] = {inout(kValue), in(kGradient), inout(slot(exp_avg))};
    static constexpr int kUseCount = 3;

    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>& s, const S*, V* x, V*) {
      V &p = x[0], g = x[1], &m = x[2];
      const V c = V(s.beta1) * m + V(s.weight1) * g;
      if (s.shrinks != 0) p = p * V(s.keep);
      p = p - V(s.lr) * sgn(c);
      m = V(s.beta2) * m + V(s.weight2) * g;
    }
  };
  using Variants = List<List<Update>>;
};
TALUS_RULE(Lion)
