// Adadelta (Zeiler 2012, Algorithm 1), with a step size as torch.optim.Adadelta has it.
// No include guard: compiled once per lane. + - * / sqrt only.
struct Adadelta {
  enum { lr, rho, eps, weight_decay, maximize };
  static constexpr Hyper kHypers[] = {
      {"lr", TALUS_REAL, 1, kNotNegative, 0, "step size; 1 is the paper's"},
      {"rho", TALUS_REAL, 0.9, {0, 1, 0}, 0, "decay of both averages"},
      {"eps", TALUS_REAL, 1e-6, kNotNegative, 0, "added under both roots"},
      {"weight_decay", TALUS_REAL, 0, kNotNegative, 0, "adds weight_decay * p to the gradient"},
      {"maximize", TALUS_FLAG, 0, kSwitch, 0, "1: ascend; the decay still shrinks"},
  };

  static constexpr Algorithm kAlgorithms[] = {
      {"adadelta",
       nullptr,
       "steps in the parameter's own unit, from two running mean squares",
       {},
       "Zeiler 2012, arXiv 1212.5701",
       "training without tuning of lr"},
  };

  enum { square_avg, acc_delta };
  static constexpr Slot kSlots[] = {
      {"square_avg", {}, true, Shape::element, nullptr, "average of squared gradients v"},
      {"acc_delta", {}, true, Shape::element, nullptr, "average of squared updates u, before lr"},
  };

  template <class S>
  struct Scalars {
    S lr, rho, weight, eps;  // weight: 1 - rho
    S pulls, weight_decay;   // pulls: flag, decay in the gradient
  };

  static Scalars<double> scalars(const double* h, int64_t) {
    return {.lr = h[lr],
            .rho = h[rho],
            .weight = 1 - h[rho],
            .eps = h[eps],
            .pulls = h[weight_decay] != 0 ? 1.0 : 0.0,
            .weight_decay = h[weight_decay]};
  }

  static const char* conflict(const double*) { return nullptr; }
  static int variant(const double*) { return 0; }

  struct Update : ElementPass {
    static constexpr Use kUses[] = {inout(kValue), in(kGradient), inout(slot(square_avg)),
                                    inout(slot(acc_delta))};
    static constexpr int kUseCount = 4;

    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>& s, const S*, V* x, V*) {
      V &p = x[0], g = x[1], &v = x[2], &u = x[3];
      if (s.pulls != 0) g = g + V(s.weight_decay) * p;
      v = V(s.rho) * v + (V(s.weight) * g) * g;
      const V d = (sqrt(u + V(s.eps)) / sqrt(v + V(s.eps))) * g;
      u = V(s.rho) * u + (V(s.weight) * d) * d;
      p = p - V(s.lr) * d;
    }
  };
  using Variants = List<List<Update>>;
};
TALUS_RULE(Adadelta)
