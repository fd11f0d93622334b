// Adagrad (Duchi et al. 2011, Figure 1, the diagonal form), as torch.optim.Adagrad and apex
// FusedAdagrad define it.
// No include guard: compiled once per lane. + - * / sqrt only.
struct Adagrad {
  enum { lr, lr_decay, weight_decay, initial_accumulator_value, eps, adagrad_w_mode, maximize };
  static constexpr Hyper kHypers[] = {
      {"lr", TALUS_REAL, 1e-2, kNotNegative, 0, "step size"},
      {"lr_decay", TALUS_REAL, 0, kNotNegative, 0,
       "the step size is lr / (1 + steps so far * lr_decay)"},
      {"weight_decay", TALUS_REAL, 0, kNotNegative, 0, "see adagrad_w_mode"},
      {"initial_accumulator_value", TALUS_REAL, 0, kNotNegative, 0, "first value of sum"},
      {"eps", TALUS_REAL, 1e-10, kNotNegative, 0, "added to the root of the sum"},
      {"adagrad_w_mode", TALUS_FLAG, 0, kSwitch, 0,
       "1: shrink p by the step size * weight_decay first; 0: add weight_decay * p to the "
       "gradient"},
      {"maximize", TALUS_FLAG, 0, kSwitch, 0, "1: ascend; the decay still shrinks"},
  };

  static constexpr Algorithm kAlgorithms[] = {
      {"adagrad",
       nullptr,
       "steps shrink with the sum of all squared gradients",
       {},
       "Duchi, Hazan & Singer 2011, JMLR 12",
       "sparse features and embeddings; convex problems"},
      {"fused_adagrad", "adagrad", "apex FusedAdagrad", {}},
  };

  enum { sum };
  static constexpr Slot kSlots[] = {
      {"sum",
       {Initial::hyper, 0, initial_accumulator_value},
       true,
       Shape::element,
       nullptr,
       "squares of all gradients so far"},
  };

  template <class S>
  struct Scalars {
    S step_size, eps;
    S shrinks, pulls;      // flags: decoupled decay of p, decay in the gradient
    S keep, weight_decay;  // keep: 1 - step_size * weight_decay
  };

  static Scalars<double> scalars(const double* h, int64_t t) {
    const bool decays = h[weight_decay] != 0, decoupled = h[adagrad_w_mode] != 0;
    const double step_size = h[lr] / (1 + double(t - 1) * h[lr_decay]);
    return {.step_size = step_size,
            .eps = h[eps],
            .shrinks = decays && decoupled ? 1.0 : 0.0,
            .pulls = decays && !decoupled ? 1.0 : 0.0,
            .keep = 1 - step_size * h[weight_decay],
            .weight_decay = h[weight_decay]};
  }

  static constexpr const char* kRows = "with weight_decay 0";
  static constexpr bool kRowsOnly = false;
  static const char* rows_conflict(const double* h) {
    return h[weight_decay] != 0 ? "weight_decay would move rows that are not given, expected 0"
                                : nullptr;
  }
  static const char* conflict(const double*) { return nullptr; }
  static int variant(const double*) { return 0; }

  struct Update : ElementPass {
    static constexpr Use kUses[] = {inout(kValue), in(kGradient), inout(slot(sum))};
    static constexpr int kUseCount = 3;

    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>& s, const S*, V* x, V*) {
      V &p = x[0], g = x[1], &squares = x[2];
      if (s.shrinks != 0) p = p * V(s.keep);
      if (s.pulls != 0) g = g + V(s.weight_decay) * p;
      squares = squares + g * g;
      p = p - (V(s.step_size) * g) / (sqrt(squares) + V(s.eps));
    }
  };
  using Variants = List<List<Update>>;
};
TALUS_RULE(Adagrad)
