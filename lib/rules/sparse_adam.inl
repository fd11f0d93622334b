// Adam for gradients of some rows (torch.optim.SparseAdam): moments of rows that are not given wait,
// and do not decay meanwhile.
// No include guard: compiled once per lane. + - * / sqrt only.
struct SparseAdam {
  enum { lr, beta1, beta2, eps, maximize };
  static constexpr Hyper kHypers[] = {
      {"lr", TALUS_REAL, 1e-3, kNotNegative, 0, "step size"},
      {"beta1", TALUS_REAL, 0.9, kBelowOne, 0, "decay of the first moment"},
      {"beta2", TALUS_REAL, 0.999, kBelowOne, 0, "decay of the second moment"},
      {"eps",
       TALUS_REAL,
       1e-8,
       {0, kInfinity, TALUS_HYPER_MIN_OPEN | TALUS_HYPER_MAX_OPEN},
       0,
       "added to the root of the second moment before its correction"},
      {"maximize", TALUS_FLAG, 0, kSwitch, 0, "1: ascend"},
  };

  static constexpr Algorithm kAlgorithms[] = {
      {"sparse_adam",
       nullptr,
       "Adam on the rows that have a gradient",
       {},
       "Kingma & Ba 2015, arXiv 1412.6980",
       "embeddings of which a step touches few rows"},
  };

  enum { exp_avg, exp_avg_sq };
  static constexpr Slot kSlots[] = {
      {"exp_avg", {}, false, Shape::element, nullptr, "first moment m"},
      {"exp_avg_sq", {}, true, Shape::element, nullptr, "second moment v"},
  };

  template <class S>
  struct Scalars {
    S m_weight, v_weight, step_size, eps;
  };

  static Scalars<double> scalars(const double* h, int64_t t) {
    const double bias1 = talus::bias_correction(h[beta1], t);
    const double bias2 = talus::bias_correction(h[beta2], t);
    return {.m_weight = 1 - h[beta1],
            .v_weight = 1 - h[beta2],
            .step_size = h[lr] * std::sqrt(bias2) / bias1,
            .eps = h[eps]};
  }

  static const char* conflict(const double*) { return nullptr; }
  static constexpr const char* kRows = "takes no others";
  static constexpr bool kRowsOnly = true;
  static const char* rows_conflict(const double*) { return nullptr; }
  static int variant(const double*) { return 0; }

  struct Update : ElementPass {
    static constexpr Use kUses[] = {inout(kValue), in(kGradient), inout(slot(exp_avg)),
                                    inout(slot(exp_avg_sq))};
    static constexpr int kUseCount = 4;

    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>& s, const S*, V* x, V*) {
      V &p = x[0], g = x[1], &m = x[2], &v = x[3];
      m = m + V(s.m_weight) * (g - m);
      v = v + V(s.v_weight) * (g * g - v);
      p = p - (V(s.step_size) * m) / (sqrt(v) + V(s.eps));
    }
  };
  using Variants = List<List<Update>>;
};
TALUS_RULE(SparseAdam)
