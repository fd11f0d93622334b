// Schedules by their definitions, with what a calculation in doubles may be off. Those of PyTorch's
// lr_scheduler as documented, in closed form; cosine and cosine_restarts after Loshchilov & Hutter 2017
// (eq. 5), cyclic after Smith 2015, one_cycle after Smith & Topin 2017, inverse_sqrt after Vaswani et
// al. 2017 (eq. 3), wsd after Hu et al. 2024 and Haegele et al. 2024. No library here.
#pragma once
#include "tests/reference/rounded.hpp"
#include "tests/schedule_spec.h"

namespace talus::reference {

using test::ScheduleSpec;

// Parameters as they were given, else their defaults.
class Given {
 public:
  explicit Given(const ScheduleSpec& spec) : spec_(spec) {}
  double operator()(const char* name, double otherwise) const {
    const auto found = spec_.params.find(name);
    return found == spec_.params.end() ? otherwise : found->second;
  }
  double operator()(const char* name) const { return spec_.params.at(name); }
  int64_t count(const char* name, double otherwise) const {
    return int64_t((*this)(name, otherwise));
  }
  bool has(const char* name) const { return spec_.params.contains(name); }

 private:
  const ScheduleSpec& spec_;
};

inline const Rounded kPi = 3.141592653589793;  // the double: definitions say so

inline Rounded cosine_part(double least, Rounded most, Rounded p_times_pi) {
  return Rounded(least) + (most - least) * (Rounded(1) + cosine(p_times_pi)) / 2;
}

inline Rounded step(const Given& p, Rounded b, int64_t t) {
  return b * power(p("gamma", 0.1), double(t / p.count("step_size", 0)));
}

inline Rounded multistep(const Given& p, const std::vector<int64_t>& milestones, Rounded b,
                         int64_t t) {
  int passed = 0;
  for (const int64_t m : milestones) passed += m <= t;
  return b * power(p("gamma", 0.1), passed);
}

inline Rounded exponential(const Given& p, Rounded b, int64_t t) {
  return b * power(p("gamma"), double(t));
}

inline Rounded constant(const Given& p, Rounded b, int64_t t) {
  return t < p.count("total_iters", 5) ? b * p("factor", 1.0 / 3) : b;
}

inline Rounded linear(const Given& p, Rounded b, int64_t t) {
  const double s = p("start_factor", 1.0 / 3), e = p("end_factor", 1);
  const int64_t total = p.count("total_iters", 5);
  if (t >= total) return b * e;
  return b * (Rounded(s) + (Rounded(e) - s) * double(t) / double(total));
}

inline Rounded polynomial(const Given& p, Rounded b, int64_t t) {
  const int64_t total = p.count("total_iters", 5);
  const double m = p("eta_min", 0);
  if (t >= total) return m;
  if (t == 0) return b;
  const Rounded left = Rounded(1) - Rounded(double(t)) / double(total);
  return Rounded(m) + (b - m) * power(left, p("power", 1));
}

inline Rounded cosine_annealing(const Given& p, Rounded b, int64_t t) {
  const int64_t half = p.count("T_max", 0);
  const double m = p("eta_min", 0);
  if (p("periodic", 0) != 0)
    t %= 2 * half;  // a whole period
  else if (t > half)
    t = half;
  if (t == 0) return b;
  if (t == half) return m;
  return cosine_part(m, b, kPi * double(t) / double(half));
}

// Cycles one after the other; the length in 128 bits cannot overflow before it is beyond any t. In
// doubles it may be rounded twice.
inline Rounded cosine_restarts(const Given& p, Rounded b, int64_t t) {
  __extension__ typedef __int128 Wide;
  Wide length = p.count("T_0", 0), start = 0;
  const Wide mult = p.count("T_mult", 1);
  if (mult == 1) start = Wide(t) / length * length;
  while (start + length <= t) {
    start += length;
    length *= mult;
  }
  if (start == t) return b;
  const auto size = static_cast<long double>(length);
  const Rounded whole(size, length > Wide(1) << 53 ? size * 0x1p-52L : 0);
  return cosine_part(p("eta_min", 0), b, kPi * double(int64_t(t - start)) / whole);
}

inline Rounded cyclic(const Given& p, Rounded b, int64_t t) {
  const int64_t up = p.count("step_size_up", 2000), given = p.count("step_size_down", 0);
  const int64_t down = given == 0 ? up : given, cycle = t / (up + down), at = t % (up + down);
  const Rounded height =
      at <= up ? Rounded(double(at)) / double(up) : Rounded(double(up + down - at)) / double(down);
  Rounded scale = 1;
  if (p("mode", 0) == 1) scale = {std::ldexp(1.0L, -int(std::min<int64_t>(cycle, 10000))), 0};
  if (p("mode", 0) == 2) scale = power(p("gamma", 1), double(t));
  return b + (Rounded(p("max_value")) - b) * height * scale;
}

inline Rounded one_cycle(const Given& p, Rounded b, int64_t t) {
  const double total = p("total_steps"), pct = p("pct_start", 0.3);
  const Rounded top = p.has("max_value") ? p("max_value") : b;
  const Rounded first = p.has("initial_value") ? p("initial_value") : top / p("div_factor", 25);
  const Rounded last = p.has("final_value") ? p("final_value") : first / p("final_div_factor", 1e4);
  if (double(t) >= total - 1) return last;
  struct Phase {
    double end;  // a double, rounded as it is written
    Rounded from, to;
  };
  const bool three = p("three_phase", 0) != 0;
  std::vector<Phase> phases = {{pct * total - 1, first, top}};
  if (three) phases.push_back({2 * pct * total - 2, top, first});
  phases.push_back({total - 1, three ? first : top, last});
  double start = 0;
  for (const Phase& phase : phases) {
    if (phase.end <= start) continue;
    if (double(t) > phase.end) {
      start = phase.end;
      continue;
    }
    const Rounded share = (Rounded(double(t)) - start) / (Rounded(phase.end) - start);
    if (p("anneal", 0) != 0) return phase.from + (phase.to - phase.from) * share;
    return phase.to + (phase.from - phase.to) / 2 * (cosine(kPi * share) + 1);
  }
  return last;
}

inline Rounded inverse_sqrt(const Given& p, Rounded b, int64_t t) {
  const int64_t warmup = p.count("warmup_steps", 4000);
  const uint64_t k = uint64_t(t) + uint64_t(p.count("offset", 1));
  if (k < uint64_t(warmup)) return b * double(k) / double(warmup);
  if (warmup == 0) return b / root(double(k));
  return b * root(Rounded(double(warmup)) / double(k));
}

inline Rounded wsd(const Given& p, Rounded b, int64_t t) {
  const int64_t warmup = p.count("warmup_steps", 0), stable = p.count("stable_steps", -1),
                decay = p.count("decay_steps", 0);
  const double s = p("start_factor", 0), e = p("end_factor", 0);
  if (t < warmup) return b * (Rounded(s) + (Rounded(1) - s) * double(t) / double(warmup));
  if (stable == -1 || decay == 0 || t < warmup + stable) return b;
  if (t >= warmup + stable + decay) return b * e;
  const Rounded share = Rounded(double(t - warmup - stable)) / double(decay);
  if (p("decay", 0) == 3) return b * power(e, share);
  const Rounded left = p("decay", 0) == 0   ? Rounded(1) - share
                       : p("decay", 0) == 1 ? (Rounded(1) + cosine(kPi * share)) / 2
                                            : Rounded(1) - root(share);
  return b * (Rounded(e) + (Rounded(1) - e) * left);
}

inline Rounded value(const ScheduleSpec& spec, Rounded b, int64_t t);

inline Rounded multiplicative(const ScheduleSpec& spec, Rounded b, int64_t t) {
  Rounded product = 1;
  for (int64_t i = 1; i <= t; ++i)
    product = product * test::schedule_functions().at(spec.function)(nullptr, i);
  return b * product;
}

inline Rounded sequential(const ScheduleSpec& spec, Rounded b, int64_t t) {
  size_t piece = 0;
  while (piece < spec.milestones.size() && spec.milestones[piece] <= t) ++piece;
  return value(spec.pieces[piece], b, piece == 0 ? t : t - spec.milestones[piece - 1]);
}

inline Rounded chained(const ScheduleSpec& spec, Rounded b, int64_t t) {
  for (const ScheduleSpec& piece : spec.pieces) b = value(piece, b, t);
  return b;
}

inline Rounded value(const ScheduleSpec& spec, Rounded b, int64_t t) {
  using Closed = Rounded (*)(const Given&, Rounded, int64_t);
  static const std::map<std::string, Closed> closed = {{"step", step},
                                                       {"exponential", exponential},
                                                       {"constant", constant},
                                                       {"linear", linear},
                                                       {"polynomial", polynomial},
                                                       {"cosine", cosine_annealing},
                                                       {"cosine_restarts", cosine_restarts},
                                                       {"cyclic", cyclic},
                                                       {"one_cycle", one_cycle},
                                                       {"inverse_sqrt", inverse_sqrt},
                                                       {"wsd", wsd}};
  if (const auto found = closed.find(spec.kind); found != closed.end())
    return found->second(Given(spec), b, t);
  if (spec.kind == "multistep") return multistep(Given(spec), spec.milestones, b, t);
  if (spec.kind == "lambda") return b * test::schedule_functions().at(spec.function)(nullptr, t);
  if (spec.kind == "multiplicative") return multiplicative(spec, b, t);
  if (spec.kind == "sequential") return sequential(spec, b, t);
  if (spec.kind == "chained") return chained(spec, b, t);
  throw std::logic_error("no reference of " + spec.kind);
}

}  // namespace talus::reference
