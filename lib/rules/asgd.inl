// Averaged SGD (Polyak & Juditsky 1992) with the schedule of torch.optim.ASGD (after Bottou's sgd);
// the step size is that of this very step.
// No include guard: compiled once per lane. + - * / sqrt only.
struct Asgd {
  enum { lr, lambd, alpha, t0, weight_decay, maximize };
  static constexpr Hyper kHypers[] = {
      {"lr", TALUS_REAL, 1e-2, kNotNegative, 0, "first step size"},
      {"lambd", TALUS_REAL, 1e-4, kNotNegative, 0, "shrinks p, and the step size over time"},
      {"alpha", TALUS_REAL, 0.75, kNotNegative, 0,
       "the step size is lr / (1 + lambd * lr * steps so far)^alpha"},
      {"t0", TALUS_REAL, 1e6, kNotNegative, 0, "steps before the averaging begins"},
      {"weight_decay", TALUS_REAL, 0, kNotNegative, 0, "adds weight_decay * p to the gradient"},
      {"maximize", TALUS_FLAG, 0, kSwitch, 0, "1: ascend; lambd and the decay still shrink"},
  };

  static constexpr Algorithm kAlgorithms[] = {
      {"asgd",
       nullptr,
       "plain gradient descent that also averages the weights",
       {},
       "Polyak & Juditsky 1992, SIAM J. Control Optim. 30(4)",
       "convex problems and noisy gradients; read the slot ax"},
  };

  enum { ax };
  static constexpr Slot kSlots[] = {
      {"ax", {}, false, Shape::element, nullptr, "average of p since t0, p itself before"},
  };

  template <class S>
  struct Scalars {
    S step_size, keep;      // keep: 1 - lambd * step_size
    S copies, mean_weight;  // copies: flag, ax is p; else how far ax goes towards p
    S pulls, weight_decay;  // pulls: flag, decay in the gradient
  };

  static Scalars<double> scalars(const double* h, int64_t t) {
    const double steps = double(t - 1), averaged = steps - h[t0];
    const double mean_weight = averaged > 1 ? 1 / averaged : 1;
    const double step_size = h[lr] / talus::host_pow(1 + h[lambd] * h[lr] * steps, h[alpha]);
    return {.step_size = step_size,
            .keep = 1 - h[lambd] * step_size,
            .copies = mean_weight == 1 ? 1.0 : 0.0,
            .mean_weight = mean_weight,
            .pulls = h[weight_decay] != 0 ? 1.0 : 0.0,
            .weight_decay = h[weight_decay]};
  }

  static const char* conflict(const double*) { return nullptr; }
  static int variant(const double*) { return 0; }

  struct Update : ElementPass {
    static constexpr Use kUses[] = {inout(kValue), in(kGradient), inout(slot(ax))};
    static constexpr int kUseCount = 3;

    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>& s, const S*, V* x, V*) {
      V &p = x[0], g = x[1], &mean = x[2];
      if (s.pulls != 0) g = g + V(s.weight_decay) * p;
      p = p * V(s.keep);
      p = p - V(s.step_size) * g;
      if (s.copies != 0)
        mean = p;
      else
        mean = mean + (p - mean) * V(s.mean_weight);
    }
  };
  using Variants = List<List<Update>>;
};
TALUS_RULE(Asgd)
