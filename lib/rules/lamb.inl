// LAMB (You et al. 2020, Algorithm 2) with the clip by the norm of all gradients of apex FusedLAMB.
// No include guard: compiled once per lane. + - * / sqrt only.
struct Lamb {
  enum {
    lr,
    bias_correction,
    beta1,
    beta2,
    eps,
    weight_decay,
    amsgrad,
    adam_w_mode,
    grad_averaging,
    max_grad_norm,
    use_nvlamb,
    maximize
  };
  static constexpr Hyper kHypers[] = {
      {"lr", TALUS_REAL, 1e-3, kNotNegative, 0, "step size"},
      {"bias_correction", TALUS_FLAG, 1, kSwitch, 0, "0: moments are used as they are"},
      {"beta1", TALUS_REAL, 0.9, kBelowOne, 0, "decay of the first moment"},
      {"beta2", TALUS_REAL, 0.999, kBelowOne, 0, "decay of the second moment"},
      {"eps", TALUS_REAL, 1e-6, kNotNegative, 0,
       "added to the root of the corrected second moment"},
      {"weight_decay", TALUS_REAL, 0.01, kNotNegative, 0, "see adam_w_mode"},
      {"amsgrad", TALUS_FLAG, 0, kOnlyZero, 0, "accepted for apex, which has none here either"},
      {"adam_w_mode", TALUS_FLAG, 1, kSwitch, 0,
       "1: add weight_decay * p to the update; 0: to the clipped gradient"},
      {"grad_averaging", TALUS_FLAG, 1, kSwitch, 0,
       "1: the gradient enters the first moment times 1 - beta1; 0: as it is"},
      {"max_grad_norm", TALUS_REAL, 1, kNotNegative, 0,
       "clips by the norm of all gradients of the optimizer; 0: off"},
      {"use_nvlamb", TALUS_FLAG, 0, kSwitch, 0, "1: trust ratio also without weight decay"},
      {"maximize", TALUS_FLAG, 0, kSwitch, 0, "1: ascend; the decay still shrinks"},
  };

  static constexpr Algorithm kAlgorithms[] = {
      {"lamb",
       nullptr,
       "AdamW scaled for each tensor by a trust ratio",
       {},
       "You et al. 2020, arXiv 1904.00962",
       "very large batches, as in pretraining of BERT"},
      {"fused_lamb", "lamb", "apex FusedLAMB", {}},
      {"fused_mixed_precision_lamb",
       "lamb",
       "apex FusedMixedPrecisionLamb: lamb on parameters that have a master",
       {}},
  };

  enum { exp_avg, exp_avg_sq };
  static constexpr Slot kSlots[] = {
      {"exp_avg", {}, false, Shape::element, nullptr, "first moment m"},
      {"exp_avg_sq", {}, true, Shape::element, nullptr, "second moment v"},
  };

  template <class S>
  struct Scalars {
    S lr, beta1, m_weight, beta2, v_weight, bias1, bias2, eps, weight_decay, max_grad_norm;
    S adds, pulls, trusts;  // flags: decay in the update, in the gradient; trust ratio
  };

  static Scalars<double> scalars(const double* h, int64_t t) {
    const bool decays = h[weight_decay] != 0, late = h[adam_w_mode] != 0;
    const bool corrected = h[bias_correction] != 0;
    return {.lr = h[lr],
            .beta1 = h[beta1],
            .m_weight = h[grad_averaging] != 0 ? 1 - h[beta1] : 1,
            .beta2 = h[beta2],
            .v_weight = 1 - h[beta2],
            .bias1 = corrected ? talus::bias_correction(h[beta1], t) : 1,
            .bias2 = corrected ? talus::bias_correction(h[beta2], t) : 1,
            .eps = h[eps],
            .weight_decay = h[weight_decay],
            .max_grad_norm = h[max_grad_norm],
            .adds = decays && late ? 1.0 : 0.0,
            .pulls = decays && !late ? 1.0 : 0.0,
            .trusts = decays || h[use_nvlamb] != 0 ? 1.0 : 0.0};
  }

  static const char* conflict(const double*) { return nullptr; }
  static bool needs_total(const double* h) { return h[max_grad_norm] > 0; }
  static int variant(const double*) { return 0; }

  // A norm that is not finite clips nothing: what to do then is not the rule's to say.
  struct Clip : TotalFold {
    static constexpr int kValueCount = 1;
    TALUS_FN static void fold(const Scalars<double>& s, const double* sums, double*,
                              double* values) {
      values[0] = 1;
      if (!(s.max_grad_norm > 0)) return;
      const double norm = std::sqrt(sums[0]);
      if (norm > s.max_grad_norm && norm < kInfinity) values[0] = norm / s.max_grad_norm;
    }
  };

  // Of the moments as stored, so that both passes see the same. Both divisors of quotient are in
  // (0, 1].
  template <class V, class S>
  TALUS_FN static V direction(const Scalars<S>& s, V p, V m, V v) {
    if (s.bias1 != 1) m = quotient(m, s.bias1);  // by 1 changes no bit, and costs
    if (s.bias2 != 1) v = quotient(v, s.bias2);
    V u = m / (sqrt(v) + V(s.eps));
    if (s.adds != 0) u = u + V(s.weight_decay) * p;
    return u;
  }

  struct Moments : ElementPass {
    static constexpr Use kUses[] = {in(kValue), in(kGradient), inout(slot(exp_avg)),
                                    inout(slot(exp_avg_sq))};
    static constexpr int kUseCount = 4, kSumCount = 2, kValueCount = 1;
    static constexpr Sum kSums[] = {Sum::squares, Sum::squares};

    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>& s, const S* clip, V* x, V* term) {
      V p = x[0], g = x[1], &m = x[2], &v = x[3];
      if (clip[0] != 1) g = quotient_of_any(g, clip[0]);
      if (s.pulls != 0) g = g + V(s.weight_decay) * p;
      m = V(s.beta1) * m + V(s.m_weight) * g;
      v = V(s.beta2) * v + (V(s.v_weight) * g) * g;
      term[0] = p;
      term[1] = direction(s, p, m, v);
    }

    TALUS_FN static void fold(const Scalars<double>& s, const double* sums, double*,
                              double* values) {
      const double p_norm = std::sqrt(sums[0]), u_norm = std::sqrt(sums[1]);
      const bool trusts = s.trusts != 0 && p_norm != 0 && u_norm != 0;  // a NaN is not 0
      values[0] = trusts ? s.lr * (p_norm / u_norm) : s.lr;
    }
  };

  struct Apply : ElementPass {
    static constexpr Use kUses[] = {inout(kValue), in(slot(exp_avg)), in(slot(exp_avg_sq))};
    static constexpr int kUseCount = 3;

    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>& s, const S* ratio, V* x, V*) {
      V& p = x[0];
      p = p - V(ratio[0]) * direction(s, p, x[1], x[2]);
    }
  };
  using Variants = List<List<Clip, Moments, Apply>>;
};
TALUS_RULE(Lamb)
