// LARS (You et al. 2017): SGD with momentum behind a layer-wise trust factor, and its form with a
// clip, apex LARC. No include guard: compiled once per lane. + - * / sqrt only.
struct Lars {
  enum {
    lr,
    momentum,
    dampening,
    nesterov,
    weight_decay,
    trust_coefficient,
    trust_clip,
    eps,
    maximize
  };
  static constexpr Hyper kHypers[] = {
      {"lr", TALUS_REAL, 1e-3, kNotNegative, 0, "step size"},
      {"momentum", TALUS_REAL, 0.9, kNotNegative, TALUS_HYPER_FIXED,
       "decay of the buffer; 0: none. The first buffer is the scaled gradient itself"},
      {"dampening", TALUS_REAL, 0, kAny, 0, "1 - dampening weighs the gradient in the buffer"},
      {"nesterov", TALUS_FLAG, 0, kSwitch, 0,
       "1: look ahead by one momentum step; needs momentum > 0 and dampening = 0"},
      {"weight_decay", TALUS_REAL, 0, kNotNegative, 0,
       "adds weight_decay * p to the gradient, inside the trust factor"},
      {"trust_coefficient", TALUS_REAL, 0.001, kNotNegative, 0,
       "scales the norm of p over that of the gradient; 0: no trust factor"},
      {"trust_clip", TALUS_FLAG, 0, kSwitch, 0,
       "1: the trust factor is the step size itself, at most lr; 0: a factor of lr"},
      {"eps", TALUS_REAL, 1e-8, kNotNegative, 0, "added to the norms in the divisor"},
      {"maximize", TALUS_FLAG, 0, kSwitch, 0, "1: ascend; the decay still shrinks"},
  };

  static constexpr Preset kClipped[] = {{trust_coefficient, 0.02}, {trust_clip, 1}};
  static constexpr Algorithm kAlgorithms[] = {
      {"lars",
       nullptr,
       "SGD with a local lr for each tensor",
       {},
       "You, Gitman & Ginsburg 2017, arXiv 1708.03888",
       "convolutional networks with very large batches"},
      {"larc", nullptr, "LARS with the local lr capped at lr, as apex LARC", kClipped,
       "You, Gitman & Ginsburg 2017, arXiv 1708.03888",
       "large batches without warm-up; lr stays the upper bound"},
  };

  static bool has_momentum(const double* h) { return h[momentum] != 0; }
  enum { momentum_buffer };
  static constexpr Slot kSlots[] = {
      {"momentum_buffer",
       {},
       false,
       Shape::element,
       has_momentum,
       "decayed sum of scaled gradients; with momentum only"},
  };

  template <class S>
  struct Scalars {
    S lr, momentum, weight, nesterov, first;  // weight: 1 - dampening; first: no buffer yet
    S decays, weight_decay;                   // decays: flag
    S trust, clips, eps;                      // clips: flag
  };

  static Scalars<double> scalars(const double* h, int64_t t) {
    return {.lr = h[lr],
            .momentum = h[momentum],
            .weight = 1 - h[dampening],
            .nesterov = h[nesterov],
            .first = t == 1 ? 1.0 : 0.0,
            .decays = h[weight_decay] != 0 ? 1.0 : 0.0,
            .weight_decay = h[weight_decay],
            .trust = h[trust_coefficient],
            .clips = h[trust_clip],
            .eps = h[eps]};
  }

  static const char* conflict(const double* h) {
    if (h[nesterov] != 0 && (!has_momentum(h) || h[dampening] != 0))
      return "nesterov = 1 needs momentum > 0 and dampening = 0";
    return nullptr;
  }
  static int variant(const double* h) { return has_momentum(h); }

  struct Norms : ElementPass {
    static constexpr Use kUses[] = {in(kValue), in(kGradient)};
    static constexpr int kUseCount = 2, kSumCount = 2, kValueCount = 1;
    static constexpr Sum kSums[] = {Sum::squares, Sum::squares};

    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>&, const S*, V* x, V* term) {
      term[0] = x[0];
      term[1] = x[1];
    }

    // The clip asks before it divides: lr = 0 gives 1, and a NaN stays one.
    TALUS_FN static void fold(const Scalars<double>& s, const double* sums, double*,
                              double* values) {
      const double p_norm = std::sqrt(sums[0]), g_norm = std::sqrt(sums[1]);
      double& factor = values[0];
      factor = 1;
      if (!(s.trust > 0) || p_norm == 0 || g_norm == 0) return;
      factor = s.trust * p_norm / (g_norm + s.weight_decay * p_norm + s.eps);
      if (s.clips != 0) factor = factor >= s.lr ? 1 : factor / s.lr;
    }
  };

  template <bool kMomentum>
  struct Update : ElementPass {
    static constexpr Use kUses[] = {inout(kValue), in(kGradient), inout(slot(momentum_buffer))};
    static constexpr int kUseCount = kMomentum ? 3 : 2;

    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>& s, const S* factor, V* x, V*) {
      V &p = x[0], d = x[1];
      if (s.decays != 0) d = d + V(s.weight_decay) * p;
      d = d * V(factor[0]);
      if constexpr (kMomentum) d = through_momentum(s, d, x[2]);
      p = p - V(s.lr) * d;
    }
  };
  using Variants = List<List<Norms, Update<false>>, List<Norms, Update<true>>>;
};
TALUS_RULE(Lars)
