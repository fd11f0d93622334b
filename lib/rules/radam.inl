// RAdam (Liu et al. 2020, Algorithm 2), as torch.optim.RAdam defines it.
// No include guard: compiled once per lane. + - * / sqrt only.
struct Radam {
  enum { lr, beta1, beta2, eps, weight_decay, decoupled_weight_decay, maximize };
  static constexpr Hyper kHypers[] = {
      {"lr", TALUS_REAL, 1e-3, kNotNegative, 0, "step size"},
      {"beta1", TALUS_REAL, 0.9, kBelowOne, 0, "decay of the first moment"},
      {"beta2", TALUS_REAL, 0.999, kBelowOne, 0,
       "decay of the second moment; up to 0.6 no step is rectified"},
      {"eps", TALUS_REAL, 1e-8, kNotNegative, 0,
       "added to the root of the uncorrected second moment"},
      {"weight_decay", TALUS_REAL, 0, kNotNegative, 0, "see decoupled_weight_decay"},
      {"decoupled_weight_decay", TALUS_FLAG, 0, kSwitch, 0,
       "1: shrink p by lr * weight_decay first; 0: add weight_decay * p to the gradient",
       "adam_w_mode"},
      {"maximize", TALUS_FLAG, 0, kSwitch, 0, "1: ascend; the decay still shrinks"},
  };

  static constexpr Algorithm kAlgorithms[] = {
      {"radam",
       nullptr,
       "Adam that waits until its second moment can be trusted",
       {},
       "Liu et al. 2020, arXiv 1908.03265",
       "Adam without a warm-up of lr"},
  };

  enum { exp_avg, exp_avg_sq };
  static constexpr Slot kSlots[] = {
      {"exp_avg", {}, false, Shape::element, nullptr, "first moment m"},
      {"exp_avg_sq", {}, true, Shape::element, nullptr, "second moment v"},
  };

  template <class S>
  struct Scalars {
    LerpWeight<S> m_weight;
    S beta2, v_weight, eps;
    S rectified, step_size;  // rectified: flag, this step divides by the root of v
    S shrinks, pulls;        // flags: decoupled decay of p, decay in the gradient
    S keep, weight_decay;    // keep: 1 - lr * weight_decay
  };

  static Scalars<double> scalars(const double* h, int64_t t) {
    const bool decays = h[weight_decay] != 0, decoupled = h[decoupled_weight_decay] != 0;
    const double bias1 = talus::bias_correction(h[beta1], t);
    const double bias2 = talus::bias_correction(h[beta2], t);
    // Lengths of the averages that an exponential one stands for: at last, and now.
    const double at_last = 2 / (1 - h[beta2]) - 1;
    const double now = at_last - 2 * double(t) * talus::power(h[beta2], t).high / bias2;
    const bool rectified = now > 5;
    double step_size = h[lr] / bias1;
    if (rectified) {
      const double r =
          std::sqrt(((now - 4) * (now - 2) * at_last) / ((at_last - 4) * (at_last - 2) * now));
      step_size = h[lr] * r * std::sqrt(bias2) / bias1;
    }
    return {.m_weight = lerp_weight(1 - h[beta1]),
            .beta2 = h[beta2],
            .v_weight = 1 - h[beta2],
            .eps = h[eps],
            .rectified = rectified ? 1.0 : 0.0,
            .step_size = step_size,
            .shrinks = decays && decoupled ? 1.0 : 0.0,
            .pulls = decays && !decoupled ? 1.0 : 0.0,
            .keep = 1 - h[lr] * h[weight_decay],
            .weight_decay = h[weight_decay]};
  }

  static const char* conflict(const double*) { return nullptr; }
  static int variant(const double*) { return 0; }

  struct Update : ElementPass {
    static constexpr Use kUses[] = {inout(kValue), in(kGradient), inout(slot(exp_avg)),
                                    inout(slot(exp_avg_sq))};
    static constexpr int kUseCount = 4;

    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>& s, const S*, V* x, V*) {
      V &p = x[0], g = x[1], &m = x[2], &v = x[3];
      if (s.shrinks != 0) p = p * V(s.keep);
      if (s.pulls != 0) g = g + V(s.weight_decay) * p;
      m = lerp(m, g, s.m_weight);
      v = V(s.beta2) * v + (V(s.v_weight) * g) * g;
      V d = V(s.step_size) * m;
      if (s.rectified != 0) d = d / (sqrt(v) + V(s.eps));
      p = p - d;
    }
  };
  using Variants = List<List<Update>>;
};
TALUS_RULE(Radam)
