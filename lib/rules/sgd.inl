// SGD with momentum (Sutskever et al. 2013) as torch.optim.SGD and apex FusedSGD define it.
// No include guard: compiled once per lane. + - * / sqrt only.
struct Sgd {
  enum {
    lr,
    momentum,
    dampening,
    weight_decay,
    nesterov,
    wd_after_momentum,
    materialize_master_grads,
    maximize
  };
  static constexpr Hyper kHypers[] = {
      {"lr", TALUS_REAL, 1e-3, kNotNegative, 0, "step size"},
      {"momentum", TALUS_REAL, 0, kNotNegative, TALUS_HYPER_FIXED,
       "decay of the buffer; 0: none. The first buffer is the gradient itself"},
      {"dampening", TALUS_REAL, 0, kAny, 0, "1 - dampening weighs the gradient in the buffer"},
      {"weight_decay", TALUS_REAL, 0, kNotNegative, 0, "adds weight_decay * p to the gradient"},
      {"nesterov", TALUS_FLAG, 0, kSwitch, 0,
       "1: look ahead by one momentum step; needs momentum > 0 and dampening = 0"},
      {"wd_after_momentum", TALUS_FLAG, 0, kSwitch, 0,
       "1: add the decay to the direction, behind the momentum"},
      {"materialize_master_grads", TALUS_FLAG, 1, kSwitch, 0,
       "accepted for apex; either way gradients are widened in registers"},
      {"maximize", TALUS_FLAG, 0, kSwitch, 0, "1: ascend; the decay still shrinks"},
  };

  static constexpr Algorithm kAlgorithms[] = {
      {"sgd",
       nullptr,
       "stochastic gradient descent with momentum",
       {},
       "Sutskever et al. 2013, ICML 28(3)",
       "convolutional networks, with a tuned lr and schedule"},
      {"fused_sgd", "sgd", "apex FusedSGD", {}},
  };

  static bool has_momentum(const double* h) { return h[momentum] != 0; }
  enum { momentum_buffer };
  static constexpr Slot kSlots[] = {
      {"momentum_buffer",
       {},
       false,
       Shape::element,
       has_momentum,
       "decayed sum of gradients; with momentum only"},
  };

  template <class S>
  struct Scalars {
    S lr, momentum, weight, nesterov, first;  // weight: 1 - dampening; first: no buffer yet
    S early, late, weight_decay;              // flags: decay before or behind the momentum
  };

  static Scalars<double> scalars(const double* h, int64_t t) {
    const bool decays = h[weight_decay] != 0, late = h[wd_after_momentum] != 0;
    return {.lr = h[lr],
            .momentum = h[momentum],
            .weight = 1 - h[dampening],
            .nesterov = h[nesterov],
            .first = t == 1 ? 1.0 : 0.0,
            .early = decays && !late ? 1.0 : 0.0,
            .late = decays && late ? 1.0 : 0.0,
            .weight_decay = h[weight_decay]};
  }

  static constexpr const char* kRows = "with momentum 0 and weight_decay 0";
  static constexpr bool kRowsOnly = false;
  static const char* rows_conflict(const double* h) {
    if (h[momentum] != 0) return "momentum would move rows that are not given, expected 0";
    if (h[weight_decay] != 0) return "weight_decay would move rows that are not given, expected 0";
    return nullptr;
  }
  static const char* conflict(const double* h) {
    if (h[nesterov] != 0 && (!has_momentum(h) || h[dampening] != 0))
      return "nesterov = 1 needs momentum > 0 and dampening = 0";
    return nullptr;
  }
  static int variant(const double* h) { return has_momentum(h); }

  template <bool kMomentum>
  struct Update : ElementPass {
    static constexpr Use kUses[] = {inout(kValue), in(kGradient), inout(slot(momentum_buffer))};
    static constexpr int kUseCount = kMomentum ? 3 : 2;

    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>& s, const S*, V* x, V*) {
      V &p = x[0], d = x[1];
      if (s.early != 0) d = d + V(s.weight_decay) * p;
      if constexpr (kMomentum) d = through_momentum(s, d, x[2]);
      if (s.late != 0) d = d + V(s.weight_decay) * p;
      p = p - V(s.lr) * d;
    }
  };
  using Variants = List<List<Update<false>>, List<Update<true>>>;
};
TALUS_RULE(Sgd)
