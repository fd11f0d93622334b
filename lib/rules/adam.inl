// Adam (Kingma & Ba 2015, Algorithm 1), with the decoupled decay of AdamW (Loshchilov & Hutter 2019,
// Algorithm 2) and AMSGrad (Reddi et al. 2018, Algorithm 2).
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
            .weight_decay = h[weight_decay]};
  }

  static const char* conflict(const double*) { return nullptr; }
  static int variant(const double* h) { return h[amsgrad] != 0; }

  template <bool kAmsgrad>
  struct Update : ElementPass {
    static constexpr Use kUses[] = {inout(kValue), in(kGradient), inout(slot(exp_avg)),
                                    inout(slot(exp_avg_sq)), inout(slot(max_exp_avg_sq))};
    static constexpr int kUseCount = kAmsgrad ? 5 : 4;

    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>& s, const S*, V* x, V*) {
      V &p = x[0], g = x[1], &m = x[2], &v = x[3];
      if (s.shrinks != 0) p = p * V(s.keep);
      if (s.pulls != 0) g = g + V(s.weight_decay) * p;
      m = lerp(m, g, s.m_weight);
      v = V(s.beta2) * v + (V(s.v_weight) * g) * g;
      V largest = v;
      if constexpr (kAmsgrad) largest = x[4] = maximum(x[4], v);
      V root = sqrt(largest);
      if (s.root_bias2 != 1) root = quotient(root, s.root_bias2);  // by 1 changes no bit, and costs
      p = p - (V(s.step_size) * m) / (root + V(s.eps));
    }
  };
  using Variants = List<List<Update<false>>, List<Update<true>>>;
};
TALUS_RULE(Adam)
