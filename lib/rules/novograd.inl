// NovoGrad (Ginsburg et al. 2019, Algorithm 1): one second moment a tensor, as apex FusedNovoGrad
// has it. No include guard: compiled once per lane. + - * / sqrt only.
struct Novograd {
  enum {
    lr,
    bias_correction,
    beta1,
    beta2,
    eps,
    weight_decay,
    amsgrad,
    reg_inside_moment,
    grad_averaging,
    norm_type,
    init_zero,
    maximize
  };
  static constexpr Hyper kHypers[] = {
      {"lr", TALUS_REAL, 1e-3, kNotNegative, 0, "step size"},
      {"bias_correction", TALUS_FLAG, 1, kSwitch, 0, "0: moments are used as they are"},
      {"beta1", TALUS_REAL, 0.9, kBelowOne, 0, "decay of the first moment"},
      {"beta2", TALUS_REAL, 0.999, kBelowOne, 0, "decay of the norm"},
      {"eps", TALUS_REAL, 1e-8, kNotNegative, 0, "added to the corrected norm"},
      {"weight_decay", TALUS_REAL, 0, kNotNegative, 0, "adds weight_decay * p to the direction"},
      {"amsgrad", TALUS_FLAG, 0, kOnlyZero, 0, "accepted for apex, which has none here either"},
      {"reg_inside_moment", TALUS_FLAG, 0, kSwitch, 0,
       "1: normalise and decay before the first moment, as the paper; 0: behind it"},
      {"grad_averaging", TALUS_FLAG, 1, kSwitch, 0,
       "1: the gradient enters the first moment times 1 - beta1; 0: as it is"},
      {"norm_type", TALUS_INTEGER, 2, {0, 2, 0}, 0, "2: Euclidean; 0: the largest magnitude"},
      {"init_zero", TALUS_FLAG, 0, kSwitch, 0,
       "1: the norm decays from 0; 0: from that of the first gradient"},
      {"maximize", TALUS_FLAG, 0, kSwitch, 0, "1: ascend; the decay still shrinks"},
  };

  static constexpr Algorithm kAlgorithms[] = {
      {"novograd",
       nullptr,
       "gradients divided by a running norm of each tensor",
       {},
       "Ginsburg et al. 2019, arXiv 1905.11286",
       "speech and large batches, with half the state of Adam"},
      {"fused_novograd", "novograd", "apex FusedNovoGrad", {}},
  };

  enum { exp_avg, exp_avg_sq };
  static constexpr Slot kSlots[] = {
      {"exp_avg", {}, false, Shape::element, nullptr, "first moment m"},
      {"exp_avg_sq",
       {},
       true,
       Shape::tensor,
       nullptr,
       "decayed norm of the gradient, not its square; one f64"},
  };

  template <class S>
  struct Scalars {
    S lr, beta1, m_weight, beta2, v_weight, bias1, root_bias2, eps, weight_decay;
    S decays, inside, starts;  // flags; starts: the first norm is taken as it is
  };

  static Scalars<double> scalars(const double* h, int64_t t) {
    const bool corrected = h[bias_correction] != 0;
    const double bias2 = corrected ? talus::bias_correction(h[beta2], t) : 1;
    return {.lr = h[lr],
            .beta1 = h[beta1],
            .m_weight = h[grad_averaging] != 0 ? 1 - h[beta1] : 1,
            .beta2 = h[beta2],
            .v_weight = 1 - h[beta2],
            .bias1 = corrected ? talus::bias_correction(h[beta1], t) : 1,
            .root_bias2 = std::sqrt(bias2),
            .eps = h[eps],
            .weight_decay = h[weight_decay],
            .decays = h[weight_decay] != 0 ? 1.0 : 0.0,
            .inside = h[reg_inside_moment],
            .starts = t == 1 && h[init_zero] == 0 ? 1.0 : 0.0};
  }

  static const char* conflict(const double* h) {
    return h[norm_type] == 1 ? "norm_type = 1 is no norm here, expected 2 or 0" : nullptr;
  }
  static int variant(const double* h) { return h[norm_type] == 0; }

  template <Sum kSum>
  struct Norm : ElementPass {
    static constexpr Use kUses[] = {in(kGradient)};
    static constexpr int kUseCount = 1, kSumCount = 1, kValueCount = 1;
    static constexpr Sum kSums[] = {kSum};

    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>&, const S*, V* x, V* term) {
      term[0] = x[0];
    }

    // The Euclidean norm decays through its square, the largest magnitude as it is. The slot holds
    // 0 before the first step.
    TALUS_FN static void fold(const Scalars<double>& s, const double* sums, double* slots,
                              double* values) {
      double& v = slots[exp_avg_sq];
      const double norm = kSum == Sum::squares ? std::sqrt(sums[0]) : sums[0];
      if (s.starts != 0)
        v = norm;
      else if (kSum == Sum::squares)
        v = std::sqrt(s.beta2 * v * v + s.v_weight * norm * norm);
      else
        v = s.beta2 * v + s.v_weight * norm;
      values[0] = v / s.root_bias2 + s.eps;
    }
  };

  // quotient: bias1 is in (0, 1].
  struct Update : ElementPass {
    static constexpr Use kUses[] = {inout(kValue), in(kGradient), inout(slot(exp_avg))};
    static constexpr int kUseCount = 3;

    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>& s, const S* norm, V* x, V*) {
      V &p = x[0], g = x[1], &m = x[2];
      if (s.inside != 0) {
        g = g / V(norm[0]);
        if (s.decays != 0) g = g + V(s.weight_decay) * p;
      }
      m = V(s.beta1) * m + V(s.m_weight) * g;
      V u = m;
      if (s.bias1 != 1) u = quotient(u, s.bias1);
      if (s.inside == 0) {
        u = u / V(norm[0]);
        if (s.decays != 0) u = u + V(s.weight_decay) * p;
      }
      p = p - V(s.lr) * u;
    }
  };
  using Variants = List<List<Norm<Sum::squares>, Update>, List<Norm<Sum::largest>, Update>>;
};
TALUS_RULE(Novograd)
