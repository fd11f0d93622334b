// A rule for tests, in place of the library's: it uses every part of the mechanism of
// lib/rules/rule.h, such as three passes, sums of each kind, folds, tensor slots, part values, and
// slots that start from a hyperparameter or from the parameter. tests/test_passes.cpp states it in
// plain loops, tests/cuda/test_trial_bits.cpp runs it on a device.
struct Trial {
  enum { lr, beta, pull, start, maximize };
  static constexpr Hyper kHypers[] = {
      {"lr", TALUS_REAL, 0.1, kNotNegative, 0, "step size"},
      {"beta", TALUS_REAL, 0.75, kBelowOne, 0, "decay of momentum and norm"},
      {"pull", TALUS_REAL, 0.125, kNotNegative, 0, "how far p goes towards the anchor"},
      {"start", TALUS_REAL, 2, kNotNegative, 0, "first value of norm_sq"},
      {"maximize", TALUS_FLAG, 0, kSwitch, 0, "1: ascend"},
  };
  static constexpr Algorithm kAlgorithms[] = {{"trial", nullptr, "for the tests", {}}};

  enum { momentum, anchor, norm_sq };
  static constexpr Slot kSlots[] = {
      {"momentum", {}, false, Shape::element, nullptr, "decayed sum"},
      {"anchor", {Initial::param, 0, 0}, false, Shape::element, nullptr, "follows p"},
      {"norm_sq", {Initial::hyper, 0, start}, true, Shape::tensor, nullptr, "of gradients"},
  };

  template <class S>
  struct Scalars {
    S lr, beta, pull;
  };
  static Scalars<double> scalars(const double* h, int64_t t) {
    return {.lr = h[lr] / double(t), .beta = h[beta], .pull = h[pull]};
  }
  static const char* conflict(const double*) { return nullptr; }
  static int variant(const double*) { return 0; }

  // Reads gradients alone; their norm decays in a slot of the tensor.
  struct Measure : ElementPass {
    static constexpr Use kUses[] = {in(kGradient)};
    static constexpr int kUseCount = 1, kSumCount = 1, kValueCount = 1;
    static constexpr Sum kSums[] = {Sum::squares};
    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>&, const S*, V* x, V* term) {
      term[0] = x[0];
    }
    TALUS_FN static void fold(const Scalars<double>& s, const double* sums, double* slots,
                              double* values) {
      slots[norm_sq] = s.beta * slots[norm_sq] + sums[0];
      values[0] = 1 / std::sqrt(slots[norm_sq]);
    }
  };

  // One sum of each kind.
  struct Average : ElementPass {
    static constexpr Use kUses[] = {in(kValue), in(kGradient), inout(slot(momentum))};
    static constexpr int kUseCount = 3, kSumCount = 4, kValueCount = 4;
    static constexpr Sum kSums[] = {Sum::squares, Sum::plain, Sum::magnitudes, Sum::largest};
    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>& s, const S* part, V* x, V* term) {
      V& m = x[2];
      m = V(s.beta) * m + x[1] * V(part[0]);
      term[0] = x[0];
      term[1] = m;
      term[2] = m;
      term[3] = m;
    }
    TALUS_FN static void fold(const Scalars<double>&, const double* sums, double*, double* values) {
      values[0] = std::sqrt(sums[0]) / (1 + sums[2]);
      values[1] = sums[1];
      values[2] = sums[2];
      values[3] = sums[3];
    }
  };

  struct Apply : ElementPass {
    static constexpr Use kUses[] = {inout(kValue), in(slot(momentum)), inout(slot(anchor))};
    static constexpr int kUseCount = 3;
    template <class V, class S>
    TALUS_FN static void update(const Scalars<S>& s, const S* part, V* x, V*) {
      V &p = x[0], m = x[1], &z = x[2];
      p = p - (V(s.lr) * V(part[0])) * m;
      p = p + V(s.pull) * (z - p);
      z = maximum(z, p - V(part[1]) / (V(part[2]) + V(part[3])));
    }
  };
  using Variants = List<List<Measure, Average, Apply>>;
};
TALUS_RULE(Trial)
