// Adam (Kingma & Ba 2015, Algorithm 1), with the decoupled decay of AdamW (Loshchilov & Hutter 2019,
// Algorithm 2) and AMSGrad (Reddi et al. 2018, Algorithm 2). Cautious updates (Liang et al. 2024),
// cautious decay (Chen et al. 2025) and StableAdamW (Wortsman et al. 2023, Algorithm 2) are flags;
// the first and the last need two passes, for a sum over the tensor decides the step size.
// No include guard: compiled once per lane. + - * / sqrt only.
struct Adam {
  enum {
    lr,
    beta1,
    beta2,
    eps,
    weight_decay,
    amsgrad,
    bias_correction,
    decoupled_weight_decay,
    cautious,
    cautious_weight_decay,
    stable,
    maximize
  };
  static constexpr Hyper kHypers[] = {
      {"lr", TALUS_REAL, 1e-3, kNotNegative, 0, "step size"},
      {"beta1", TALUS_REAL, 0.9, kBelowOne, 0, "decay of the first moment"},
      {"beta2", TALUS_REAL, 0.999, kBelowOne, 0, "decay of the second moment"},
      {"eps", TALUS_REAL, 1e-8, kNotNegative, 0,
       "added to the root of the corrected second moment"},
      {"weight_decay", TALUS_REAL, 0, kNotNegative, 0, "see decoupled_weight_decay"},
      {"amsgrad", TALUS_FLAG, 0, kSwitch, TALUS_HYPER_FIXED,
       "1: divide by the largest second moment so far"},
      {"bias_correction", TALUS_FLAG, 1, kSwitch, 0, "0: moments are used as they are"},
      {"decoupled_weight_decay", TALUS_FLAG, 0, kSwitch, 0,
       "1: shrink p by lr * weight_decay first; 0: add weight_decay * p to the gradient",
       "adam_w_mode"},
      {"cautious", TALUS_FLAG, 0, kSwitch, 0,
       "1: move only where first moment and gradient have the same sign"},
      {"cautious_weight_decay", TALUS_FLAG, 0, kSwitch, 0,
       "1: decoupled decay only where the update does not push against p"},
      {"stable", TALUS_FLAG, 0, kSwitch, 0,
       "1: divide lr by the root mean square of g / sqrt(v) where that is above 1"},
      {"maximize", TALUS_FLAG, 0, kSwitch, 0, "1: ascend; the decay still shrinks"},
  };

  static constexpr Preset kDecoupled[] = {{decoupled_weight_decay, 1}};
  static constexpr Preset kAdamW[] = {{weight_decay, 0.01}, {decoupled_weight_decay, 1}};
  static constexpr Algorithm kAlgorithms[] = {
      {"adam",
       nullptr,
       "Adam, weight decay in the gradient",
       {},
       "Kingma & Ba 2015, arXiv 1412.6980",
       "most networks, with little tuning; no or little decay"},
      {"adamw", nullptr, "Adam with decoupled weight decay", kAdamW,
       "Loshchilov & Hutter 2019, arXiv 1711.05101", "transformers, and what to try first"},
      {"fused_adam", "adam", "apex FusedAdam: decoupled decay, of 0 by default", kDecoupled},
  };

  enum { exp_avg, exp_avg_sq, max_exp_avg_sq };
  static constexpr Slot kSlots[] = {
      {"exp_avg", {}, false, Shape::element, nullptr, "first moment m"},
      {"exp_avg_sq", {}, true, Shape::element, nullptr, "second moment v"},
      {"max_exp_avg_sq",
       {},
       true,
       Shape::element,
       [](const double* h) { return h[amsgrad] != 0; },
       "largest v so far; with amsgrad only"},
  };

  template <class S>
  struct Scalars {
    LerpWeight<S> m_weight;
    S beta2, v_weight, step_size, root_bias2, eps;
    S shrinks, pulls;      // flags: decoupled decay of p, decay in the gradient
    S keep, weight_decay;  // keep: 1 - lr * weight_decay
    S aligned, masks;      // flags: cautious decay, cautious update
    S lr, bias1, bias2;    // for the fold
  };

  static Scalars<double> scalars(const double* h, int64_t t) {
    const bool decays = h[weight_decay] != 0;
    const bool corrected = h[bias_correction] != 0;
    const double bias1 = corrected ? talus::bias_correction(h[beta1], t) : 1;
    const double bias2 = corrected ? talus::bias_correction(h[beta2], t) : 1;
    return {.m_weight = lerp_weight(1 - h[beta1]),
            .beta2 = h[beta2],
            .v_weight = 1 - h[beta2],
            .step_size = h[lr] / bias1,
            .root_bias2 = std::sqrt(bias2),
            .eps = h[eps],
            .shrinks = decays && h[decoupled_weight_decay] != 0 ? 1.0 : 0.0,
            .pulls = decays && h[decoupled_weight_decay] == 0 ? 1.0 : 0.0,
            .keep = 1 - h[lr] * h[weight_decay],
            .weight_decay = h[weight_decay],
            .aligned = h[cautious_weight_decay],
            .masks = h[cautious],
            .lr = h[lr],
            .bias1 = bias1,
            .bias2 = bias2};
  }

  static const char* conflict(const double* h) {
    if (h[cautious_weight_decay] != 0 && h[decoupled_weight_decay] == 0)
      return "cautious_weight_decay = 1 needs decoupled_weight_decay = 1";
    return nullptr;
  }
  static int variant(const double* h) {
    const bool sums = h[stable] != 0 || h[cautious] != 0;
    const bool second = sums ? h[stable] != 0 : h[cautious_weight_decay] != 0;
    return 4 * (h[amsgrad] != 0) + 2 * sums + second;
  }

  // The gradient as it enters the moments.
  template <class V, class S>
  TALUS_FN static V pulled(const Scalars<S>& s, V g, V p) {
    if (s.pulls != 0) return g + V(s.weight_decay) * p;
    return g;
  }
  template <class V, class S>
  TALUS_FN static void average(const Scalars<S>& s, V g, V& m, V& v) {
    m = lerp(m, g, s.m_weight);
    v = V(s.beta2) * v + (V(s.v_weight) * g) * g;
  }
  // p after its decoupled decay; m is where the update goes.
  template <class V, class S>
  TALUS_FN static V decayed(const Scalars<S>& s, V p, V m, S keep, bool is_cautious) {
    if (s.shrinks == 0) return p;
    const V less = p * V(keep);
    return is_cautious ? by_signs(m, p, less, p, less) : less;
  }
  template <class V, class S>
  TALUS_FN static V moved(const Scalars<S>& s, V p, V m, V largest, S step_size) {
    V root = sqrt(largest);
    if (s.root_bias2 != 1) root = quotient(root, s.root_bias2);  // by 1 changes no bit, and costs
    return p - (V(step_size) * m) / (root + V(s.eps));
  }

  // Cautious decay is no flag here: one more in the loop slowed the plain step, on the scalar target,
  // which takes flags as selects, by 60 %.
  template <bool kAmsgrad, bool kCautiousDecay>
  struct Update : ElementPass {
    static constexpr Use kUses[] = {inout(kValue), in(kGradient), inout(slot(exp_avg)),
                                    inout(slot(exp_avg_sq)), inout(slot(max_exp_avg_sq))};
    static constexpr int kUseCount = kAmsgrad ? 5 : 4;

    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>& s, const S*, V* x, V*) {
      V &p = x[0], g = x[1], &m = x[2], &v = x[3];
      average(s, pulled(s, g, p), m, v);
      p = decayed(s, p, m, s.keep, kCautiousDecay);
      V largest = v;
      if constexpr (kAmsgrad) largest = x[4] = maximum(x[4], v);
      p = moved(s, p, m, largest, s.step_size);
    }
  };

  // The first of two passes: moments, and what the step size depends on.
  template <bool kStable>
  struct Measure : ElementPass {
    static constexpr Use kUses[] = {in(kValue), in(kGradient), inout(slot(exp_avg)),
                                    inout(slot(exp_avg_sq))};
    static constexpr int kUseCount = 4, kSumCount = kStable ? 3 : 2, kValueCount = 2;
    static constexpr Sum kSums[] = {Sum::plain, Sum::plain, Sum::own};  // agreeing, all, g^2 / v

    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>& s, const S*, V* x, V* term) {
      V &m = x[2], &v = x[3];
      const V g = pulled(s, x[1], x[0]);
      average(s, g, m, v);
      term[0] = agreement(m, g);
      term[1] = V(1);
      if constexpr (kStable) term[2] = g, term[3] = v;
    }
    template <class V>
    TALUS_FN static V summand(const Scalars<double>& s, V g, V v) {
      return (g * g) / maximum(v / V(s.bias2), V(s.eps * s.eps));
    }
    TALUS_FN static void fold(const Scalars<double>& s, const double* sums, double*,
                              double* values) {
      double lr = s.lr, scale = 1;
      if constexpr (kStable) {
        const double rms = std::sqrt(sums[2] / sums[1]);
        lr = lr / (rms <= 1 ? 1 : rms);  // NaN stays
      }
      if (s.masks != 0) {
        const double share = sums[0] / sums[1];
        scale = 1 / (share >= 1e-3 ? share : 1e-3);
      }
      values[0] = (lr / s.bias1) * scale;
      values[1] = 1 - lr * s.weight_decay;
    }
  };
  template <bool kAmsgrad>
  struct Move : ElementPass {
    static constexpr Use kUses[] = {inout(kValue), in(kGradient), in(slot(exp_avg)),
                                    in(slot(exp_avg_sq)), inout(slot(max_exp_avg_sq))};
    static constexpr int kUseCount = kAmsgrad ? 5 : 4;

    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>& s, const S* part, V* x, V*) {
      V &p = x[0], m = x[2], largest = x[3];
      const V g = pulled(s, x[1], p);
      p = decayed(s, p, m, part[1], s.aligned != 0);
      if constexpr (kAmsgrad) largest = x[4] = maximum(x[4], largest);
      const V next = moved(s, p, m, largest, part[0]);
      if (s.masks != 0)
        p = select(agreement(m, g) > V(0), next, p);
      else
        p = next;
    }
  };
  using Variants =
      List<List<Update<false, false>>, List<Update<false, true>>, List<Measure<false>, Move<false>>,
           List<Measure<true>, Move<false>>, List<Update<true, false>>, List<Update<true, true>>,
           List<Measure<false>, Move<true>>, List<Measure<true>, Move<true>>>;
};
TALUS_RULE(Adam)
