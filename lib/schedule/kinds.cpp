// Every schedule in closed form, one after the other, and their table. End points are exact, counts
// are int64; expressions are evaluated as they are written.
#include "lib/schedule/kinds.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "lib/base/cosine.h"
#include "lib/base/float_contract.h"
#include "lib/base/power.h"
#include "lib/schedule/schedule.h"

namespace talus {
namespace {

constexpr double kPi = 0x1.921fb54442d18p+1;
constexpr double kUnset = std::numeric_limits<double>::quiet_NaN();
constexpr double kMost = 9007199254740992;  // 2^53
constexpr Range kCount{0, kMost, 0};
constexpr Range kPositiveCount{1, kMost, 0};
constexpr Range kPositive{0, kInfinity, TALUS_HYPER_MIN_OPEN | TALUS_HYPER_MAX_OPEN};
constexpr Range kUnitInterval{0, 1, 0};

constexpr Hyper real(const char* name, double def, const Range& range, const char* doc) {
  return {name, TALUS_REAL, def, range, 0, doc};
}
constexpr Hyper integer(const char* name, double def, const Range& range, const char* doc) {
  return {name, TALUS_INTEGER, def, range, 0, doc};
}
constexpr Hyper flag(const char* name, const char* doc) {
  return {name, TALUS_FLAG, 0, kSwitch, 0, doc};
}
constexpr Hyper required(Hyper hyper) {
  hyper.def = kUnset;
  hyper.flags = TALUS_HYPER_REQUIRED;
  return hyper;
}

// From `high` at p = 0 down or up to `low` at p = 1.
double cosine_between(double low, double high, double cosine_of_p) {
  return low + (high - low) * (1 + cosine_of_p) / 2;
}

// ---- step, multistep, exponential (StepLR, MultiStepLR, ExponentialLR)

namespace step {
enum { step_size, gamma };
constexpr Hyper kParams[] = {
    required(integer("step_size", 0, kPositiveCount, "time between two falls")),
    real("gamma", 0.1, kNotNegative, "factor of each")};
double value(const Schedule& s, double b, const Moment& m) {
  return b * host_pow(s[gamma], double(m.t / int64_t(s[step_size])));
}
}  // namespace step

namespace multistep {
enum { gamma };
constexpr Hyper kParams[] = {real("gamma", 0.1, kNotNegative, "factor at each milestone")};
double value(const Schedule& s, double b, const Moment& m) {
  const auto list = s.milestones();
  const auto passed = std::upper_bound(list.begin(), list.end(), m.t) - list.begin();
  return b * host_pow(s[gamma], double(passed));
}
}  // namespace multistep

namespace exponential {
enum { gamma };
constexpr Hyper kParams[] = {required(real("gamma", 0, kNotNegative, "factor of each t"))};
double value(const Schedule& s, double b, const Moment& m) {
  return b * host_pow(s[gamma], double(m.t));
}
}  // namespace exponential

// ---- lambda, multiplicative (LambdaLR, MultiplicativeLR)

namespace lambda {
double value(const Schedule& s, double b, const Moment& m) { return b * s.factor(m.t); }
}  // namespace lambda

namespace multiplicative {
double value(const Schedule& s, double b, const Moment& m) { return b * s.product(m.t); }
}  // namespace multiplicative

// ---- constant, linear, polynomial (ConstantLR, LinearLR, PolynomialLR)

namespace constant {
enum { factor, total_iters };
constexpr Hyper kParams[] = {real("factor", 1.0 / 3, kNotNegative, "of the base until then"),
                             integer("total_iters", 5, kCount, "when the base itself begins")};
double value(const Schedule& s, double b, const Moment& m) {
  return double(m.t) < s[total_iters] ? b * s[factor] : b;
}
}  // namespace constant

namespace linear {
enum { start_factor, end_factor, total_iters };
constexpr Hyper kParams[] = {real("start_factor", 1.0 / 3, kNotNegative, "of the base at 0"),
                             real("end_factor", 1, kNotNegative, "of the base from total_iters on"),
                             integer("total_iters", 5, kCount, "length of the way between them")};
double value(const Schedule& s, double b, const Moment& m) {
  const double start = s[start_factor], end = s[end_factor];
  if (m.t >= int64_t(s[total_iters])) return b * end;
  return b * (start + (end - start) * double(m.t) / s[total_iters]);
}
}  // namespace linear

namespace polynomial {
enum { total_iters, power, eta_min };
constexpr Hyper kParams[] = {integer("total_iters", 5, kCount, "when eta_min is reached"),
                             real("power", 1, kPositive, "of the time that is left"),
                             real("eta_min", 0, kAny, "the value at the end")};
double value(const Schedule& s, double b, const Moment& m) {
  if (m.t >= int64_t(s[total_iters])) return s[eta_min];
  if (m.t == 0) return b;
  const double left = 1 - double(m.t) / s[total_iters];
  return s[eta_min] + (b - s[eta_min]) * host_pow(left, s[power]);
}
}  // namespace polynomial

// ---- cosine, cosine_restarts (CosineAnnealingLR, CosineAnnealingWarmRestarts; SGDR)

namespace cosine {
enum { T_max, eta_min, periodic };
constexpr Hyper kParams[] = {
    required(integer("T_max", 0, kPositiveCount, "when eta_min is reached")),
    real("eta_min", 0, kAny, "the value at the end"),
    flag("periodic", "1: back up again behind T_max, and so on, as PyTorch does")};
double value(const Schedule& s, double b, const Moment& m) {
  const auto end = int64_t(s[T_max]);
  const int64_t t = s[periodic] != 0 ? m.t % (2 * end) : m.t;
  if (t == 0) return b;
  if (s[periodic] != 0 ? t == end : t >= end) return s[eta_min];
  return cosine_between(s[eta_min], b, host_cos(kPi * double(t) / double(end)));
}
}  // namespace cosine

namespace cosine_restarts {
enum { T_0, T_mult, eta_min };
constexpr Hyper kParams[] = {
    required(integer("T_0", 0, kPositiveCount, "length of the first cycle")),
    integer("T_mult", 1, kPositiveCount, "length of a cycle in those of the one before"),
    real("eta_min", 0, kAny, "the value that each cycle goes towards")};

// Where t lies in its cycle. By integers: a logarithm is wrong at exact restarts.
struct Place {
  int64_t since_restart;
  double length;
};
Place find_cycle(int64_t t, int64_t length, int64_t mult) {
  if (mult == 1) return {t % length, double(length)};
  while (t >= length) {
    t -= length;
    int64_t next = 0;
    if (__builtin_mul_overflow(length, mult, &next)) return {t, double(length) * double(mult)};
    length = next;
  }
  return {t, double(length)};
}

double value(const Schedule& s, double b, const Moment& m) {
  const Place place = find_cycle(m.t, int64_t(s[T_0]), int64_t(s[T_mult]));
  if (place.since_restart == 0) return b;
  return cosine_between(s[eta_min], b, host_cos(kPi * double(place.since_restart) / place.length));
}
}  // namespace cosine_restarts

// ---- cyclic, one_cycle (CyclicLR, Smith 2015; OneCycleLR, Smith & Topin 2017)

namespace cyclic {
enum { max_value, step_size_up, step_size_down, mode, gamma };
constexpr Hyper kParams[] = {
    required(real("max_value", 0, kAny, "the value at the top of a cycle; the base is its bottom")),
    integer("step_size_up", 2000, kPositiveCount, "time from the bottom to the top"),
    integer("step_size_down", 0, kCount, "time back down; 0: as long as up"),
    integer("mode", 0, {0, 2, 0},
            "0: triangular; 1: triangular2, each half as high; 2: exp_range, gamma^t as high"),
    real("gamma", 1, kNotNegative, "of exp_range")};

double scale(const Schedule& s, int64_t t, int64_t cycle) {
  if (s[mode] == 0) return 1;
  if (s[mode] == 2) return host_pow(s[gamma], double(t));
  return cycle > 1074 ? 0 : std::ldexp(1, -int(cycle));
}

double value(const Schedule& s, double b, const Moment& m) {
  const auto up = int64_t(s[step_size_up]);
  const int64_t down = s[step_size_down] == 0 ? up : int64_t(s[step_size_down]);
  const int64_t cycle = m.t / (up + down), rest = m.t % (up + down);
  const double height =
      rest <= up ? double(rest) / double(up) : double(up + down - rest) / double(down);
  return b + (s[max_value] - b) * height * scale(s, m.t, cycle);
}
}  // namespace cyclic

namespace one_cycle {
enum {
  total_steps,
  max_value,
  pct_start,
  anneal,
  div_factor,
  final_div_factor,
  three_phase,
  initial_value,
  final_value
};
constexpr Hyper kParams[] = {
    required(integer("total_steps", 0, {2, kMost, 0}, "when the end is reached")),
    real("max_value", kUnset, kAny, "the value at the top; not set: the base"),
    real("pct_start", 0.3, kUnitInterval, "share of the way up; at most 0.5 with three phases"),
    integer("anneal", 0, {0, 1, 0}, "0: along a cosine; 1: linear"),
    real("div_factor", 25, kPositive, "top over start"),
    real("final_div_factor", 1e4, kPositive, "start over end"),
    flag("three_phase", "1: up, down to the start, then to the end"),
    real("initial_value", kUnset, kAny, "the start; not set: max_value / div_factor"),
    real("final_value", kUnset, kAny, "the end; not set: the start / final_div_factor")};

const char* conflict(const Schedule& s) {
  return s[three_phase] != 0 && s[pct_start] > 0.5
             ? "pct_start must not exceed 0.5 with three_phase = 1"
             : nullptr;
}

bool ignores_base(const Schedule& s) { return s.is_set(max_value) || s.is_set(initial_value); }

struct Phase {
  double end, to;
};

double between(const Schedule& s, double from, double to, double p) {
  if (s[anneal] != 0) return from + (to - from) * p;
  return to + (from - to) / 2 * (host_cos(kPi * p) + 1);
}

double value(const Schedule& s, double b, const Moment& m) {
  const double count = s[total_steps], t = double(m.t);
  const double top = s.is_set(max_value) ? s[max_value] : b;
  const double first = s.is_set(initial_value) ? s[initial_value] : top / s[div_factor];
  const double last = s.is_set(final_value) ? s[final_value] : first / s[final_div_factor];
  if (t >= count - 1) return last;
  const double up = s[pct_start] * count - 1;
  const Phase two[] = {{up, top}, {count - 1, last}};
  const Phase three[] = {{up, top}, {2 * s[pct_start] * count - 2, first}, {count - 1, last}};
  double start = 0, from = first;
  for (const Phase& phase : s[three_phase] != 0 ? std::span<const Phase>(three) : two) {
    if (phase.end > start) {  // else it is empty
      if (t <= phase.end) return between(s, from, phase.to, (t - start) / (phase.end - start));
      start = phase.end;
    }
    from = phase.to;
  }
  return last;
}
}  // namespace one_cycle

// ---- inverse_sqrt (Vaswani et al. 2017), wsd (Hu et al. 2024; Haegele et al. 2024)

namespace inverse_sqrt {
enum { warmup_steps, offset };
constexpr Hyper kParams[] = {
    integer("warmup_steps", 4000, kCount, "when the base is reached; 0: it is where it begins"),
    integer("offset", 1, kCount, "added to t")};

const char* conflict(const Schedule& s) {
  return s[offset] == 0 && s[warmup_steps] == 0 ? "offset = 0 needs warmup_steps of at least 1"
                                                : nullptr;
}

double value(const Schedule& s, double b, const Moment& m) {
  const uint64_t k = uint64_t(m.t) + uint64_t(s[offset]);
  const double warmup = s[warmup_steps];
  if (k < uint64_t(warmup)) return b * double(k) / warmup;
  return warmup == 0 ? b / std::sqrt(double(k)) : b * std::sqrt(warmup / double(k));
}
}  // namespace inverse_sqrt

namespace wsd {
enum { warmup_steps, stable_steps, decay_steps, start_factor, end_factor, decay };
enum Shape { linear, cosine, one_minus_sqrt, exponential };
constexpr Hyper kParams[] = {
    integer("warmup_steps", 0, kCount, "length of the way up from start_factor"),
    integer("stable_steps", -1, {-1, kMost, 0}, "length of the base's time; -1: no end yet"),
    integer("decay_steps", 0, kCount, "length of the way down to end_factor; 0: never"),
    real("start_factor", 0, kNotNegative, "of the base at 0"),
    real("end_factor", 0, kNotNegative, "of the base at the end"),
    integer("decay", 0, {0, 3, 0}, "0: linear; 1: cosine; 2: one minus sqrt; 3: exponential")};

const char* conflict(const Schedule& s) {
  return int(s[decay]) == exponential && s[end_factor] == 0
             ? "decay = 3 (exponential) needs end_factor above 0"
             : nullptr;
}

double value(const Schedule& s, double b, const Moment& m) {
  const auto warmup = int64_t(s[warmup_steps]), stable = int64_t(s[stable_steps]);
  const auto length = int64_t(s[decay_steps]);
  const double start = s[start_factor], end = s[end_factor];
  if (m.t < warmup) return b * (start + (1 - start) * double(m.t) / double(warmup));
  if (stable < 0 || length == 0 || m.t - warmup < stable) return b;
  const int64_t since = m.t - warmup - stable;
  if (since >= length) return b * end;
  const double p = double(since) / double(length);
  switch (int(s[decay])) {
    case linear: return b * (end + (1 - end) * (1 - p));
    case cosine: return b * (end + (1 - end) * ((1 + host_cos(kPi * p)) / 2));
    case one_minus_sqrt: return b * (end + (1 - end) * (1 - std::sqrt(p)));
    default: return b * host_pow(end, p);
  }
}
}  // namespace wsd

// ---- plateau (ReduceLROnPlateau): the attachment's own value, or its share behind other pieces

namespace plateau {
constexpr Hyper kParams[] = {
    integer("mode", 0, {0, 1, 0}, "0: less is better; 1: more is"),
    real("factor", 0.1, kBelowOne, "of the value at each fall"),
    integer("patience", 10, kCount, "bad reports that are borne"),
    real("threshold", 1e-4, kNotNegative, "how much better is better"),
    integer("threshold_mode", 0, {0, 1, 0}, "0: as a share of the best, below 1; 1: absolute"),
    integer("cooldown", 0, kCount, "reports after a fall that are not counted as bad"),
    real("min_value", 0, kNotNegative, "no value falls below"),
    real("eps", 1e-8, kNotNegative, "a fall of no more than this is not made")};
static_assert(std::size(kParams) == kPlateauEps + 1);

const char* conflict(const Schedule& s) {
  return s[kPlateauThresholdMode] == 0 && s[kPlateauThreshold] >= 1
             ? "threshold must be below 1 with threshold_mode = 0"
             : nullptr;
}

double value(const Schedule&, double x, const Moment& m) {
  if (x == m.base) return m.reduced;
  return m.base == 0 || m.reduced == m.base ? x : x * (m.reduced / m.base);
}
}  // namespace plateau

// ---- sequential, chained (SequentialLR, ChainedScheduler)

namespace sequential {
bool ignores_base(const Schedule& s) {
  return std::any_of(s.pieces().begin(), s.pieces().end(),
                     [](const SchedulePtr& piece) { return piece->ignores_base(); });
}

double value(const Schedule& s, double b, const Moment& m) {
  const auto list = s.milestones();
  const auto i = std::upper_bound(list.begin(), list.end(), m.t) - list.begin();
  const int64_t start = i == 0 ? 0 : list[size_t(i) - 1];
  return s.pieces()[size_t(i)]->value(b, {m.t - start, m.base, m.reduced});
}
}  // namespace sequential

namespace chained {
bool ignores_base(const Schedule& s) {
  return !s.pieces().empty() && s.pieces().front()->ignores_base();
}

double value(const Schedule& s, double b, const Moment& m) {
  for (const SchedulePtr& piece : s.pieces()) b = piece->value(b, m);
  return b;
}
}  // namespace chained

constexpr ScheduleKind kKinds[] = {
    {"step", "falls by gamma each step_size", step::kParams, step::value},
    {"multistep", "falls by gamma at each milestone", multistep::kParams, multistep::value, nullptr,
     Needs::sorted_milestones},
    {"exponential", "falls by gamma each t", exponential::kParams, exponential::value},
    {"lambda",
     "the base times a function of the caller",
     {},
     lambda::value,
     nullptr,
     Needs::function},
    {"multiplicative",
     "the base times all factors of the caller so far",
     {},
     multiplicative::value,
     nullptr,
     Needs::function},
    {"plateau", "falls when a reported metric no longer gets better", plateau::kParams,
     plateau::value, plateau::conflict},
    {"constant", "a factor of the base for a while", constant::kParams, constant::value},
    {"linear", "from a factor of the base to another; warm-up", linear::kParams, linear::value},
    {"polynomial", "to eta_min with a power of the time left", polynomial::kParams,
     polynomial::value},
    {"cosine", "to eta_min along half a cosine", cosine::kParams, cosine::value},
    {"cosine_restarts", "towards eta_min along a cosine, again and again (SGDR)",
     cosine_restarts::kParams, cosine_restarts::value},
    {"cyclic", "up to max_value and down, again and again", cyclic::kParams, cyclic::value},
    {"one_cycle", "up to max_value once, then down to nearly nothing", one_cycle::kParams,
     one_cycle::value, one_cycle::conflict, Needs::nothing, one_cycle::ignores_base},
    {"inverse_sqrt", "warm-up, then 1 / sqrt(t) (Noam)", inverse_sqrt::kParams, inverse_sqrt::value,
     inverse_sqrt::conflict},
    {"wsd", "warm-up, stable, and a decay that may be decided late", wsd::kParams, wsd::value,
     wsd::conflict},
    {"sequential",
     "one schedule after the other",
     {},
     sequential::value,
     nullptr,
     Needs::ordered_milestones,
     sequential::ignores_base,
     true},
    {"chained",
     "each schedule on the value of the one before",
     {},
     chained::value,
     nullptr,
     Needs::nothing,
     chained::ignores_base,
     true},
};

}  // namespace

std::span<const ScheduleKind> schedule_kinds() { return kKinds; }

const ScheduleKind* find_schedule_kind(std::string_view name) {
  for (const ScheduleKind& kind : kKinds)
    if (name == kind.name) return &kind;
  return nullptr;
}

}  // namespace talus
