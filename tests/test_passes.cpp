// The mechanism behind rules with several passes (lib/rules/rule.h), by the trial rule: against
// plain loops in the compute type with the sums of mixed-precision arithmetic written out here, so
// equality is of bits.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <deque>
#include <vector>

#include "lib/base/rounding.h"
#include "lib/optimizer/optimizer.h"
#include "tests/buffer.h"
#include "tests/cases.h"
#include "tests/compare.h"

using talus::AlgorithmRef;
using talus::StateSlot;
using namespace talus::test;

namespace {

enum class Kind { squares, plain, magnitudes, largest };

// Tiles of 4,096 with 128 double lanes, folded by halving, then adjacent pairs.
double tree_sum(const std::vector<double>& terms, Kind kind) {
  const auto add = [kind](double a, double b) {
    if (kind != Kind::largest) return a + b;
    return std::isnan(a) || a >= b ? a : b;
  };
  std::vector<double> level;
  for (size_t tile = 0; tile < terms.size(); tile += 4096) {
    double lane[128] = {};
    for (size_t i = tile; i < std::min(terms.size(), tile + 4096); ++i) {
      const double x = terms[i];
      const double s = kind == Kind::squares ? x * x : kind == Kind::plain ? x : std::abs(x);
      lane[(i - tile) % 128] = add(lane[(i - tile) % 128], s);
    }
    for (int width = 64; width > 0; width /= 2)
      for (int l = 0; l < width; ++l) lane[l] = add(lane[l], lane[l + width]);
    level.push_back(lane[0]);
  }
  while (level.size() > 1) {
    std::vector<double> next;
    for (size_t i = 0; i + 1 < level.size(); i += 2) next.push_back(add(level[i], level[i + 1]));
    if (level.size() % 2) next.push_back(level.back());
    level.swap(next);
  }
  return level.empty() ? 0 : level[0];
}

struct Trial {
  double lr = 0.1, beta = 0.75, pull = 0.125, start = 2;
  double sign = 1;
};

// The trial rule as its file states it, for one tensor, in compute type T.
template <class T>
struct Loops {
  std::vector<T> p, m, z;
  double norm_sq = 0;
  int t = 0;

  void step(const Trial& h, const std::vector<T>& gradient) {
    const size_t n = p.size();
    if (++t == 1) m.assign(n, T(0)), z = p, norm_sq = h.start;
    std::vector<T> g(n);
    for (size_t i = 0; i < n; ++i) g[i] = gradient[i] * T(h.sign);
    norm_sq = h.beta * norm_sq + tree_sum({g.begin(), g.end()}, Kind::squares);
    const T scale = T(1 / std::sqrt(norm_sq));
    for (size_t i = 0; i < n; ++i) m[i] = T(h.beta) * m[i] + g[i] * scale;
    const double p_norm = std::sqrt(tree_sum({p.begin(), p.end()}, Kind::squares));
    const std::vector<double> terms(m.begin(), m.end());
    const double magnitudes = tree_sum(terms, Kind::magnitudes);
    const T ratio = T(p_norm / (1 + magnitudes)), sum = T(tree_sum(terms, Kind::plain));
    const T all = T(magnitudes), largest = T(tree_sum(terms, Kind::largest));
    for (size_t i = 0; i < n; ++i) {
      p[i] = p[i] - (T(h.lr / t) * ratio) * m[i];
      p[i] = p[i] + T(h.pull) * (z[i] - p[i]);
      const T other = p[i] - sum / (all + largest);
      z[i] = z[i] >= other || std::isnan(z[i]) ? z[i] : other;
    }
  }
};

// One tensor of the library beside its plain loops.
template <class T>
struct Pair {
  Mix mix;
  Buffer param, grad;
  Loops<T> loops;
  int64_t index = -1;

  Pair(const Mix& dtypes, int64_t n, uint64_t seed)
      : mix(dtypes), param(dtypes.param, n, 1), grad(dtypes.grad, n, 1) {
    for (int64_t i = 0; i < n; ++i) {
      param.set(i, param_value(seed, i));
      loops.p.push_back(T(param.get(i)));
    }
  }
  void step_loops(const Trial& h, uint64_t seed, int64_t step) {
    std::vector<T> g;
    for (int64_t i = 0; i < grad.size(); ++i) {
      grad.set(i, grad_value(seed, step, i));
      g.push_back(T(grad.get(i)));
    }
    loops.step(h, g);
    if (!mix.has_master())
      for (T& x : loops.p) x = T(nearest(format_of(mix.param), double(x)));
  }
};

struct Shape {
  int threads;
  int64_t chunk;
};

// One assertion per tensor would hide the element, one per element costs seconds.
template <class T>
void check_bits(size_t element, T got, T expected) {
  if (bits_of(got) == bits_of(expected)) return;
  INFO("element " << element);
  CHECK(bits_of(got) == bits_of(expected));
}

template <class T>
void check_tensor(const talus::Optimizer& opt, Pair<T>& pair) {
  REQUIRE(pair.param.guards_intact());
  REQUIRE(opt.steps(pair.index) == pair.loops.t);
  for (int64_t i = 0; i < opt.state_count(); ++i) {
    int64_t param = 0;
    StateSlot slot{};
    opt.state_at(i, &param, &slot);
    if (param != pair.index || slot.count == 0 || pair.loops.t == 0) continue;
    const T* data = static_cast<const T*>(opt.state_data(param, slot));
    const std::string name = slot.name;
    INFO(name << " of " << name_of(pair.mix));
    if (name == "norm_sq") {
      CHECK(slot.count == 1);
      CHECK(slot.dtype == talus::Dtype::f64);
      CHECK(*static_cast<const double*>(opt.state_data(param, slot)) == pair.loops.norm_sq);
      continue;
    }
    const std::vector<T>& expected = name == "momentum" ? pair.loops.m
                                     : name == "anchor" ? pair.loops.z
                                                        : pair.loops.p;
    for (size_t k = 0; k < expected.size(); ++k) check_bits(k, data[k], expected[k]);
  }
  INFO("parameter of " << name_of(pair.mix));
  for (int64_t k = 0; k < pair.param.size(); ++k) {
    const double visible = nearest(format_of(pair.mix.param), double(pair.loops.p[size_t(k)]));
    check_bits(size_t(k), pair.param.get(k), visible);
  }
}

template <class T>
void run_trial(const std::vector<Mix>& mixes, const Shape& shape, int steps) {
  constexpr int64_t kSizes[] = {5, 4097, 0, 129, 70001, 4096, 1};
  constexpr uint64_t kSeed = 11;
  std::unique_ptr<talus::Optimizer> opt;
  REQUIRE(talus::Optimizer::create(talus::find_algorithm("trial"), &opt).ok());
  opt->set_chunk(shape.chunk);
  REQUIRE(opt->set_setting("threads", shape.threads).ok());
  int32_t ascent = 0;
  REQUIRE(opt->add_group(nullptr, &ascent).ok());
  const Trial values[] = {{}, {.lr = 0.05, .beta = 0.5, .pull = 0.25, .start = 3, .sign = -1}};
  REQUIRE(opt->set(1, "lr", 0.05).ok());
  REQUIRE(opt->set(1, "beta", 0.5).ok());
  REQUIRE(opt->set(1, "pull", 0.25).ok());
  REQUIRE(opt->set(1, "start", 3).ok());
  REQUIRE(opt->set(1, "maximize", 1).ok());
  std::deque<Pair<T>> pairs;
  for (const Mix& mix : mixes)
    for (const int64_t n : kSizes) {
      Pair<T>& pair = pairs.emplace_back(mix, n, kSeed + pairs.size());
      talus_param d{};
      d.struct_size = sizeof d;
      d.dtype = mix.param;
      d.data = pair.param.data();
      d.grad = pair.grad.data();
      d.shape = &n;
      d.ndim = 1;
      d.grad_dtype = mix.grad;
      d.master = mix.master;
      const int32_t group = int32_t((pairs.size() - 1) % 2);
      REQUIRE(opt->add_params(group, {&d, 1}, &pair.index).ok());
    }
  for (int step = 1; step <= steps; ++step) {
    for (size_t k = 0; k < pairs.size(); ++k) {  // every third tensor misses the second step
      const bool absent = step == 2 && k % 3 == 0;
      void* const grad = absent ? nullptr : pairs[k].grad.data();
      REQUIRE(opt->bind_grads(pairs[k].index, {&grad, 1}).ok());
      if (!absent) pairs[k].step_loops(values[k % 2], kSeed + k, step);
    }
    REQUIRE(opt->step(nullptr).ok());
  }
  for (Pair<T>& pair : pairs) check_tensor(*opt, pair);
}

constexpr Shape kShapes[] = {{1, 16384}, {1, 4096}, {3, 4096}, {2, 65536}};

}  // namespace

TEST_CASE("passes: three passes, sums and tensor slots give the bits of plain loops in f64") {
  for (const Shape& shape : kShapes) {
    INFO(shape.threads << " threads, chunks of " << shape.chunk);
    run_trial<double>({{TALUS_F64, TALUS_F64, 0}, {TALUS_F64, TALUS_F32, 0}}, shape, 4);
  }
}

TEST_CASE("passes: three passes, sums and tensor slots give the bits of plain loops in f32") {
  std::vector<Mix> mixes;
  for (const Mix& mix : all_mixes())
    if (mix.param != TALUS_F64) mixes.push_back(mix);
  for (const Shape& shape : kShapes) {
    INFO(shape.threads << " threads, chunks of " << shape.chunk);
    run_trial<float>(mixes, shape, 4);
  }
}

TEST_CASE("passes: a NaN in one tensor reaches no other tensor") {
  std::unique_ptr<talus::Optimizer> opt;
  REQUIRE(talus::Optimizer::create(talus::find_algorithm("trial"), &opt).ok());
  std::vector<float> p(10, 1), g(10, 1), q(5000, 1), h(5000, 1);
  g[3] = NAN;
  const int64_t shapes[] = {10, 5000};
  talus_param d[2] = {};
  for (int k = 0; k < 2; ++k) {
    d[k].struct_size = sizeof d[k];
    d[k].dtype = TALUS_F32;
    d[k].shape = &shapes[k];
    d[k].ndim = 1;
  }
  d[0].data = p.data(), d[0].grad = g.data(), d[1].data = q.data(), d[1].grad = h.data();
  REQUIRE(opt->add_params(0, d, nullptr).ok());
  REQUIRE(opt->step(nullptr).ok());
  for (const float x : p) CHECK(std::isnan(x));  // its norm is in every element
  for (const float x : q) CHECK(std::isfinite(x));
}
