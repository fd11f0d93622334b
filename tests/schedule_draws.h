// Schedules with random parameters, and times around all that happens in them. No Catch2, no library
// here.
#pragma once
#include <algorithm>
#include <limits>

#include "tests/cases.h"
#include "tests/schedule_spec.h"

namespace talus::test {

// Numbers one after the other, the same everywhere.
class Draws {
 public:
  explicit Draws(uint64_t seed) : seed_(seed) {}
  uint64_t bits() { return draw(seed_, 0, next_++); }
  int64_t below(int64_t n) { return int64_t(bits() % uint64_t(n)); }
  double unit() { return double(bits() >> 11) * 0x1p-53; }
  bool one_in(int64_t n) { return below(n) == 0; }
  // As often of each size up to 2^size_bits: lengths of some steps, and of whole lives.
  double count(double least, int size_bits = 53) {
    return std::max(least, std::floor(unit() * double(uint64_t(1) << below(size_bits + 1))));
  }
  double pick(const std::vector<double>& of) { return of[size_t(below(int64_t(of.size())))]; }

 private:
  uint64_t seed_;
  int64_t next_ = 0;
};

inline const std::vector<double> kLevels = {0, 1e-8, 3e-4, 0.1, 1, 2.5, -0.25};
inline const std::vector<double> kFactors = {0, 1e-3, 0.1, 1.0 / 3, 0.5, 0.95, 0.9999, 1, 1.001, 2};

// One that stands alone, of a kind that is no composite and no plateau.
inline ScheduleSpec draw_simple(Draws& d, const std::string& kind) {
  ScheduleSpec s{kind};
  const auto often = [&](const char* name, double value) {
    if (!d.one_in(4)) s.params[name] = value;
  };
  if (kind == "step") s.params["step_size"] = d.count(1), often("gamma", d.pick(kFactors));
  if (kind == "multistep") {
    often("gamma", d.pick(kFactors));
    for (int64_t n = d.below(7); n > 0; --n) s.milestones.push_back(int64_t(d.count(0)));
    if (!s.milestones.empty() && d.one_in(2)) s.milestones.push_back(s.milestones[0]);
  }
  if (kind == "exponential") s.params["gamma"] = d.one_in(2) ? d.pick(kFactors) : d.unit();
  if (kind == "constant") often("factor", d.pick(kFactors)), often("total_iters", d.count(0));
  if (kind == "linear") {
    often("start_factor", d.pick(kFactors));
    often("end_factor", d.pick(kFactors));
    often("total_iters", d.count(0));
  }
  if (kind == "polynomial") {
    often("total_iters", d.count(0));
    often("power", d.pick({0.1, 0.5, 0.9, 1, 2, 5.5}));
    often("eta_min", d.pick(kLevels));
  }
  if (kind == "cosine") {
    s.params["T_max"] = d.count(1);
    often("eta_min", d.pick(kLevels));
    often("periodic", double(d.below(2)));
  }
  if (kind == "cosine_restarts") {
    s.params["T_0"] = d.count(1);
    often("T_mult", d.one_in(2) ? double(1 + d.below(4)) : d.count(1));
    often("eta_min", d.pick(kLevels));
  }
  if (kind == "cyclic") {
    s.params["max_value"] = d.pick(kLevels);
    often("step_size_up", d.count(1));
    often("step_size_down", d.count(0));
    often("mode", double(d.below(3)));
    often("gamma", d.pick({0, 0.5, 0.99, 0.99999, 1}));
  }
  if (kind == "one_cycle") {
    s.params["total_steps"] = d.count(2);
    const bool three = d.one_in(2);
    if (three) s.params["three_phase"] = 1;
    often("pct_start", d.one_in(3) ? d.pick({0, 0.01, 0.25, 0.5}) : d.unit() * (three ? 0.5 : 1));
    often("anneal", double(d.below(2)));
    often("div_factor", d.pick({0.5, 1, 25, 1e4}));
    often("final_div_factor", d.pick({0.5, 1, 1e4}));
    if (d.one_in(2)) s.params["max_value"] = d.pick(kLevels);
    if (d.one_in(4)) s.params["initial_value"] = d.pick(kLevels);
    if (d.one_in(4)) s.params["final_value"] = d.pick(kLevels);
  }
  if (kind == "inverse_sqrt") {
    const double offset = d.one_in(2) ? d.count(0) : 1;
    s.params["offset"] = offset;
    s.params["warmup_steps"] = d.count(offset == 0);
  }
  if (kind == "wsd") {
    often("warmup_steps", d.count(0));
    often("stable_steps", d.one_in(4) ? -1 : d.count(0));
    often("decay_steps", d.count(0));
    often("start_factor", d.pick(kFactors));
    s.params["end_factor"] = d.pick(kFactors);
    often("decay", double(d.below(s.params["end_factor"] > 0 ? 4 : 3)));
  }
  if (kind == "lambda" || kind == "multiplicative")
    s.function = d.one_in(2) ? "1 / (t + 1)" : "0.95 at odd t, else 0.9";
  return s;
}

inline const std::vector<std::string>& closed_kinds() {
  static const std::vector<std::string> kinds = {
      "step",       "multistep",       "exponential", "lambda",    "constant",     "linear",
      "polynomial", "cosine_restarts", "cosine",      "one_cycle", "inverse_sqrt", "cyclic",
      "wsd"};
  return kinds;
}

// sequential or chained, up to three levels deep.
inline ScheduleSpec draw_composite(Draws& d, int levels = 3) {
  ScheduleSpec s{d.one_in(2) ? "sequential" : "chained"};
  const bool chained = s.kind == "chained";
  const int64_t count = chained ? d.below(4) : 1 + d.below(4);
  for (int64_t i = 0; i < count; ++i) {
    ScheduleSpec piece = levels > 1 && d.one_in(4)
                             ? draw_composite(d, levels - 1)
                             : draw_simple(d, closed_kinds()[size_t(d.below(13))]);
    s.pieces.push_back(piece);
    if (!chained && i > 0) s.milestones.push_back(int64_t(d.count(0)));
  }
  std::sort(s.milestones.begin(), s.milestones.end());
  return s;
}

// Whether a piece of a chain would throw away what the ones before it give.
inline bool ignores_base(const ScheduleSpec& s) {
  if (s.kind == "chained") return !s.pieces.empty() && ignores_base(s.pieces[0]);
  if (s.kind == "sequential") return std::any_of(s.pieces.begin(), s.pieces.end(), ignores_base);
  return s.kind == "one_cycle" &&
         (s.params.contains("max_value") || s.params.contains("initial_value"));
}
inline bool is_in_order(const ScheduleSpec& s) {
  for (size_t i = 0; i < s.pieces.size(); ++i)
    if (!is_in_order(s.pieces[i]) || (s.kind == "chained" && i > 0 && ignores_base(s.pieces[i])))
      return false;
  return true;
}

// Sums of a schedule's lengths: where something happens.
inline void list_turns(const ScheduleSpec& s, int64_t start, std::vector<int64_t>* turns) {
  int64_t sum = start;
  for (const auto& [name, value] : s.params)
    if (value >= 1 && value == std::floor(value) && value <= 0x1p53) {
      turns->push_back(start + int64_t(value));
      turns->push_back(start + 2 * int64_t(value));
      turns->push_back(sum += int64_t(value));
    }
  for (const int64_t m : s.milestones) turns->push_back(start + m);
  for (size_t i = 0; i < s.pieces.size(); ++i)
    list_turns(s.pieces[i], s.kind == "sequential" && i > 0 ? start + s.milestones[i - 1] : start,
               turns);
}

// Times to look at: the beginning, around every turn, between them, and far beyond.
inline std::vector<int64_t> times_of(const ScheduleSpec& s, Draws& d) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> turns = {0}, times = {0,
                                             1,
                                             2,
                                             int64_t(1) << 31,
                                             (int64_t(1) << 53) - 1,
                                             int64_t(1) << 53,
                                             (int64_t(1) << 53) + 1,
                                             int64_t(1) << 62,
                                             kMost - 1,
                                             kMost};
  list_turns(s, 0, &turns);
  for (const int64_t turn : turns) {
    for (int64_t off = -2; off <= 2; ++off) times.push_back(std::max<int64_t>(0, turn + off));
    times.push_back(int64_t(d.unit() * double(turn)));
    times.push_back(turn + int64_t(d.unit() * double(turn)));
  }
  return times;
}

}  // namespace talus::test
