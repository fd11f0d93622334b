// Adamax (Kingma & Ba 2015, Algorithm 2), with eps inside the maximum as torch.optim.Adamax has it.
// No include guard: compiled once per lane. + - * / sqrt only.
struct Adamax {
  enum { lr, beta1, beta2, eps, weight_decay, maximize };
  static constexpr Hyper kHypers[] = {
      {"lr", TALUS_REAL, 2e-3, kNotNegative, 0, "step size"},
      {"beta1", TALUS_REAL, 0.9, kBelowOne, 0, "decay of the first moment"},
      {"beta2", TALUS_REAL, 0.999, kBelowOne, 0, "decay of the infinity norm"},
      {"eps", TALUS_REAL, 1e-8, kNotNegative, 0, "added to each |gradient| under the maximum"},
      {"weight_decay", TALUS_REAL, 0, kNotNegative, 0, "adds weight_decay * p to the gradient"},
      {"maximize", TALUS_FLAG, 0, kSwitch, 0, "1: ascend; the decay still shrinks"},
  };

  static constexpr Algorithm kAlgorithms[] = {
      {"adamax",
       nullptr,
       "Adam with the largest gradient in place of the second moment",
       {},
       "Kingma & Ba 2015, section 7, arXiv 1412.6980",
       "gradients with rare large values, as of embeddings"},
  };

  enum { exp_avg, exp_inf };
  static constexpr Slot kSlots[] = {
      {"exp_avg", {}, false, Shape::element, nullptr, "first moment m"},
      {"exp_inf", {}, true, Shape::element, nullptr, "decayed largest |gradient| u"},
  };

  template <class S>
  struct Scalars {
    LerpWeight<S> m_weight;
    S beta2, step_size, eps;
    S pulls, weight_decay;  // pulls: flag, decay in the gradient
  };

  static Scalars<double> scalars(const double* h, int64_t t) {
    return {.m_weight = lerp_weight(1 - h[beta1]),
            .beta2 = h[beta2],
            .step_size = h[lr] / talus::bias_correction(h[beta1], t),
            .eps = h[eps],
            .pulls = h[weight_decay] != 0 ? 1.0 : 0.0,
            .weight_decay = h[weight_decay]};
  }

  static const char* conflict(const double*) { return nullptr; }
  static int variant(const double*) { return 0; }

  struct Update : ElementPass {
    static constexpr Use kUses[] = {inout(kValue), in(kGradient), inout(slot(exp_avg)),
                                    inout(slot(exp_inf))};
    static constexpr int kUseCount = 4;

    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>& s, const S*, V* x, V*) {
      V &p = x[0], g = x[1], &m = x[2], &u = x[3];
      if (s.pulls != 0) g = g + V(s.weight_decay) * p;
      m = lerp(m, g, s.m_weight);
      u = maximum(V(s.beta2) * u, abs(g) + V(s.eps));
      p = p - (V(s.step_size) * m) / u;
    }
  };
  using Variants = List<List<Update>>;
};
TALUS_RULE(Adamax)
