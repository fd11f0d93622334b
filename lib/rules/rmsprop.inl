// RMSprop (Tieleman & Hinton 2012, lecture 6.5), centered (Graves 2013, eq. 38 to 45) and with
// momentum, as torch.optim.RMSprop defines it.
// No include guard: compiled once per lane. + - * / sqrt only.
struct RmsProp {
  enum { lr, alpha, eps, weight_decay, momentum, centered, maximize };
  static constexpr Hyper kHypers[] = {
      {"lr", TALUS_REAL, 1e-2, kNotNegative, 0, "step size"},
      {"alpha", TALUS_REAL, 0.99, {0, 1, 0}, 0, "decay of square_avg and grad_avg"},
      {"eps", TALUS_REAL, 1e-8, kNotNegative, 0, "added to the root"},
      {"weight_decay", TALUS_REAL, 0, kNotNegative, 0, "adds weight_decay * p to the gradient"},
      {"momentum", TALUS_REAL, 0, kNotNegative, TALUS_HYPER_FIXED,
       "decay of the buffer of scaled gradients; 0: none"},
      {"centered", TALUS_FLAG, 0, kSwitch, TALUS_HYPER_FIXED,
       "1: divide by the deviation from grad_avg"},
      {"maximize", TALUS_FLAG, 0, kSwitch, 0, "1: ascend; the decay still shrinks"},
  };

  static constexpr Algorithm kAlgorithms[] = {
      {"rmsprop",
       nullptr,
       "gradients divided by their running root mean square",
       {},
       "Tieleman & Hinton 2012, Coursera lecture 6.5",
       "recurrent networks and reinforcement learning"},
  };

  static bool has_momentum(const double* h) { return h[momentum] != 0; }
  static bool is_centered(const double* h) { return h[centered] != 0; }
  enum { square_avg, grad_avg, momentum_buffer };
  static constexpr Slot kSlots[] = {
      {"square_avg", {}, true, Shape::element, nullptr, "mean of squared gradients"},
      {"grad_avg", {}, false, Shape::element, is_centered, "mean of gradients; with centered only"},
      {"momentum_buffer",
       {},
       false,
       Shape::element,
       has_momentum,
       "decayed sum of scaled gradients; with momentum only"},
  };

  template <class S>
  struct Scalars {
    S lr, alpha, square_weight, eps, momentum;
    LerpWeight<S> mean_weight;
    S pulls, weight_decay;  // flag: decay in the gradient
  };

  static Scalars<double> scalars(const double* h, int64_t) {
    return {.lr = h[lr],
            .alpha = h[alpha],
            .square_weight = 1 - h[alpha],
            .eps = h[eps],
            .momentum = h[momentum],
            .mean_weight = lerp_weight(1 - h[alpha]),
            .pulls = h[weight_decay] != 0 ? 1.0 : 0.0,
            .weight_decay = h[weight_decay]};
  }

  static const char* conflict(const double*) { return nullptr; }
  static int variant(const double* h) { return 2 * is_centered(h) + has_momentum(h); }

  template <bool kCentered, bool kMomentum>
  struct Update : ElementPass {
    static constexpr Use kUses[] = {inout(kValue), in(kGradient), inout(slot(square_avg)),
                                    inout(slot(kCentered ? grad_avg : momentum_buffer)),
                                    inout(slot(momentum_buffer))};
    static constexpr int kUseCount = 3 + kCentered + kMomentum;

    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>& s, const S*, V* x, V*) {
      V &p = x[0], g = x[1], &v = x[2];
      if (s.pulls != 0) g = g + V(s.weight_decay) * p;
      v = V(s.alpha) * v + (V(s.square_weight) * g) * g;
      V variance = v;
      if constexpr (kCentered) {
        V& a = x[3];
        a = lerp(a, g, s.mean_weight);
        variance = maximum(v - a * a, V(0));  // rounding can leave it below zero
      }
      const V d = sqrt(variance) + V(s.eps);
      if constexpr (kMomentum) {
        V& b = x[3 + kCentered];
        b = V(s.momentum) * b + g / d;
        p = p - V(s.lr) * b;
      } else {
        p = p - (V(s.lr) * g) / d;
      }
    }
  };
  using Variants = List<List<Update<false, false>>, List<Update<false, true>>,
                        List<Update<true, false>>, List<Update<true, true>>>;
};
TALUS_RULE(RmsProp)
