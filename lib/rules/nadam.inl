// NAdam (Dozat 2016, with its momentum schedule), as torch.optim.NAdam defines it.
// No include guard: compiled once per lane. + - * / sqrt only.
struct Nadam {
  enum { lr, beta1, beta2, eps, weight_decay, momentum_decay, decoupled_weight_decay, maximize };
  static constexpr Hyper kHypers[] = {
      {"lr", TALUS_REAL, 2e-3, kNotNegative, 0, "step size"},
      {"beta1", TALUS_REAL, 0.9, kBelowOne, 0, "decay of the first moment"},
      {"beta2", TALUS_REAL, 0.999, kBelowOne, 0, "decay of the second moment"},
      {"eps", TALUS_REAL, 1e-8, kNotNegative, 0,
       "added to the root of the corrected second moment"},
      {"weight_decay", TALUS_REAL, 0, kNotNegative, 0, "see decoupled_weight_decay"},
      {"momentum_decay", TALUS_REAL, 4e-3, kNotNegative, 0,
       "psi: the momentum is beta1 * (1 - 0.96^(t * psi) / 2)"},
      {"decoupled_weight_decay", TALUS_FLAG, 0, kSwitch, 0,
       "1: shrink p by lr * weight_decay first; 0: add weight_decay * p to the gradient",
       "adam_w_mode"},
      {"maximize", TALUS_FLAG, 0, kSwitch, 0, "1: ascend; the decay still shrinks"},
  };

  static constexpr Algorithm kAlgorithms[] = {
      {"nadam",
       nullptr,
       "Adam with Nesterov momentum",
       {},
       "Dozat 2016, ICLR workshop",
       "what Adam is for, with a faster start"},
  };

  enum { exp_avg, exp_avg_sq, mu_product };
  static constexpr Slot kSlots[] = {
      {"exp_avg", {}, false, Shape::element, nullptr, "first moment m"},
      {"exp_avg_sq", {}, true, Shape::element, nullptr, "second moment v"},
      {"mu_product",
       {Initial::constant, 1, 0},
       true,
       Shape::tensor,
       nullptr,
       "product of the momenta of all steps"},
  };

  template <class S>
  struct Scalars {
    S lr, mu, next_mu;  // momentum of this step and of the next
    LerpWeight<S> m_weight;
    S beta2, v_weight, bias2, eps;
    S shrinks, pulls;      // flags: decoupled decay of p, decay in the gradient
    S keep, weight_decay;  // keep: 1 - lr * weight_decay
  };

  static double momentum(const double* h, int64_t t) {
    return h[beta1] * (1 - 0.5 * talus::host_pow(0.96, double(t) * h[momentum_decay]));
  }

  static Scalars<double> scalars(const double* h, int64_t t) {
    const bool decays = h[weight_decay] != 0, decoupled = h[decoupled_weight_decay] != 0;
    return {.lr = h[lr],
            .mu = momentum(h, t),
            .next_mu = momentum(h, t + 1),
            .m_weight = lerp_weight(1 - h[beta1]),
            .beta2 = h[beta2],
            .v_weight = 1 - h[beta2],
            .bias2 = talus::bias_correction(h[beta2], t),
            .eps = h[eps],
            .shrinks = decays && decoupled ? 1.0 : 0.0,
            .pulls = decays && !decoupled ? 1.0 : 0.0,
            .keep = 1 - h[lr] * h[weight_decay],
            .weight_decay = h[weight_decay]};
  }

  static const char* conflict(const double*) { return nullptr; }
  static int variant(const double*) { return 0; }

  // What the corrections need of the past is one number for the tensor.
  enum { gradient_step, moment_step };
  struct Advance : FoldPass {
    static constexpr int kValueCount = 2;

    TALUS_FN static void fold(const Scalars<double>& s, const double*, double* slots,
                              double* values) {
      const double product = slots[mu_product] = slots[mu_product] * s.mu;
      values[gradient_step] = s.lr * (1 - s.mu) / (1 - product);
      values[moment_step] = s.lr * s.next_mu / (1 - product * s.next_mu);
    }
  };

  struct Update : ElementPass {
    static constexpr Use kUses[] = {inout(kValue), in(kGradient), inout(slot(exp_avg)),
                                    inout(slot(exp_avg_sq))};
    static constexpr int kUseCount = 4;

    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>& s, const S* part, V* x, V*) {
      V &p = x[0], g = x[1], &m = x[2], &v = x[3];
      if (s.shrinks != 0) p = p * V(s.keep);
      if (s.pulls != 0) g = g + V(s.weight_decay) * p;
      m = lerp(m, g, s.m_weight);
      v = V(s.beta2) * v + (V(s.v_weight) * g) * g;
      V corrected = v;
      if (s.bias2 != 1) corrected = quotient(v, s.bias2);  // at most 1, so subnormals are exact too
      const V d = sqrt(corrected) + V(s.eps);
      p = p - (V(part[gradient_step]) * g) / d;
      p = p - (V(part[moment_step]) * m) / d;
    }
  };
  using Variants = List<List<Advance, Update>>;
};
TALUS_RULE(Nadam)
