// Rprop (Riedmiller & Braun 1993) as torch.optim.Rprop defines it: where the gradient's sign changed
// the parameter rests.
// No include guard: compiled once per lane. + - * / sqrt only.
struct Rprop {
  enum { lr, etaminus, etaplus, step_size_min, step_size_max, maximize };
  static constexpr Range kPositive{0, kInfinity, TALUS_HYPER_MIN_OPEN | TALUS_HYPER_MAX_OPEN};
  static constexpr Hyper kHypers[] = {
      {"lr", TALUS_REAL, 1e-2, kNotNegative, 0,
       "first step size; later changes act on new parameters only"},
      {"etaminus",
       TALUS_REAL,
       0.5,
       {0, 1, TALUS_HYPER_MIN_OPEN | TALUS_HYPER_MAX_OPEN},
       0,
       "factor of the step size where the gradient's sign changed"},
      {"etaplus",
       TALUS_REAL,
       1.2,
       {1, kInfinity, TALUS_HYPER_MIN_OPEN | TALUS_HYPER_MAX_OPEN},
       0,
       "factor of the step size where it did not"},
      {"step_size_min", TALUS_REAL, 1e-6, kPositive, 0, "least step size"},
      {"step_size_max", TALUS_REAL, 50, kPositive, 0, "largest step size"},
      {"maximize", TALUS_FLAG, 0, kSwitch, 0, "1: ascend"},
  };

  static constexpr Algorithm kAlgorithms[] = {
      {"rprop",
       nullptr,
       "a step size for each element, moved by the signs of gradients",
       {},
       "Riedmiller & Braun 1993, IEEE ICNN",
       "full batches only; noise turns the signs"},
  };

  enum { prev, step_size };
  static constexpr Slot kSlots[] = {
      {"prev", {}, false, Shape::element, nullptr, "last gradient; 0 where its sign changed"},
      {"step_size", {Initial::hyper, 0, lr}, true, Shape::element, nullptr, "starts with lr"},
  };

  template <class S>
  struct Scalars {
    S etaminus, etaplus, least, most;
  };

  static Scalars<double> scalars(const double* h, int64_t) {
    return {.etaminus = h[etaminus],
            .etaplus = h[etaplus],
            .least = h[step_size_min],
            .most = h[step_size_max]};
  }

  static const char* conflict(const double* h) {
    return h[step_size_min] <= h[step_size_max] ? nullptr
                                                : "step_size_min must not exceed step_size_max";
  }
  static int variant(const double*) { return 0; }

  struct Update : ElementPass {
    static constexpr Use kUses[] = {inout(kValue), in(kGradient), inout(slot(prev)),
                                    inout(slot(step_size))};
    static constexpr int kUseCount = 4;

    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>& s, const S*, V* x, V*) {
      V &p = x[0], g = x[1], &before = x[2], &z = x[3];
      const V factor = by_signs(g, before, V(s.etaplus), V(s.etaminus), V(1));
      z = minimum(maximum(z * factor, V(s.least)), V(s.most));
      g = by_signs(g, before, g, V(0), g);
      p = p - sgn(g) * z;
      before = g;
    }
  };
  using Variants = List<List<Update>>;
};
TALUS_RULE(Rprop)
