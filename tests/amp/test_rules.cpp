// Every rule behind every way in: its step on f16, bf16, f32 and f64 gradients under a loss scale, a
// scaler, cuts and clips is the plain rule on gradients that the definition has prepared, bit for bit.
#include <catch2/catch_test_macros.hpp>

#include <memory>

#include "tests/amp/amp.h"
#include "tests/reference/entry.hpp"
#include "tests/rule_run.h"

using namespace talus;
using namespace talus::test;
using reference::Entry;

namespace {

// How gradients come in.
struct Way {
  const char* name;
  Entry entry;
  double max_norm = 0;  // 0: none
  double norm_type = 2;
  bool has_scaler = false;
};

// Scales and norms that are no powers of two, so that every rounding shows.
constexpr Way kWays[] = {
    {"scaler", {1000, 0}, 0, 2, true},
    {"grad_scale", {3, 0}},
    {"clip", {1, 0}, .3},
    {"scaler and clip", {1000, 0}, .3, 1, true},
    {"cut", {1, .07}},
    {"scaler, cut and clip", {777, .07}, .4, 2, true},
    {"high bounds", {1, 1e30}, 1e30},
};

size_t index_of(const HyperSet& set) { return size_t(&set - hyper_sets().data()); }

// Whether the rule reads the norm of all gradients, which is that of the measure times coef.
bool reads_norm(const HyperSet& set) {
  const reference::Hypers h = reference::hypers(set.algorithm, set.values);
  return h.count("max_grad_norm") && h.at("max_grad_norm") > 0;
}

// The scale moves with the scaler's rounds: every third one is skipped, and every one backs off.
constexpr double kBackoff = .7;
bool is_skipped(const Way& way, int step) { return way.has_scaler && step % 3 == 0; }

struct Run {
  RuleRun run;
  const Way& way;

  std::string name() const { return run.name() + ", " + way.name; }
  double grad(int step, int64_t i, double scale) const { return run.grad(step, i) * scale; }
};

LibraryRun run_library(const Run& r) {
  LibraryRun out{TestTensor(r.run.mix, r.run.n), Optimizer(r.run.set.algorithm, r.run.set.values)};
  TestTensor& x = out.tensor;
  for (int64_t i = 0; i < r.run.n; ++i) x.param.set(i, r.run.param(i));
  out.optimizer.add(x);
  Scaler scaler(
      {{"init_scale", r.way.entry.scale}, {"backoff_factor", kBackoff}, {"min_scale", .01}});
  if (r.way.has_scaler)
    scaler.attach_to(out.optimizer);
  else
    out.optimizer.setting("grad_scale", r.way.entry.scale);
  out.optimizer.setting("max_grad_value", r.way.entry.max_value);
  out.optimizer.setting("max_grad_norm", r.way.max_norm);
  out.optimizer.setting("grad_norm_type", r.way.norm_type);
  for (int step = 1; step <= r.run.steps; ++step) {
    const double scale = stats_of(out.optimizer).loss_scale;
    for (int64_t i = 0; i < r.run.n; ++i) x.grad.set(i, r.grad(step, i, scale));
    if (is_skipped(r.way, step)) x.grad.set(r.run.n / 2, INFINITY);
    const Buffer before = x.grad;
    out.optimizer.step();
    if (r.way.has_scaler) scaler.update();
    out.grads_untouched = out.grads_untouched && x.grad.same_bytes(before);
  }
  return out;
}

template <class Real>
ReferenceRun<Real> run_reference(const Run& r) {
  ReferenceRun<Real> out;
  reference::Tensor<Real>& x = out.tensor;
  x.dtype = r.run.mix.param;
  x.has_master = r.run.mix.has_master();
  const Format &param = format_of(r.run.mix.param), &grad = format_of(r.run.mix.grad);
  for (int64_t i = 0; i < r.run.n; ++i) x.p.push_back(Real(nearest(param, r.run.param(i))));
  const reference::Hypers h = reference::hypers(r.run.set.algorithm, r.run.set.values);
  Entry entry = r.way.entry;
  std::vector<Real> g(size_t(r.run.n));
  for (int step = 1; step <= r.run.steps; ++step) {
    if (is_skipped(r.way, step)) {
      entry.scale = double(float(float(entry.scale) * kBackoff));
      continue;
    }
    if (r.way.has_scaler) entry.scale = double(float(entry.scale));
    std::vector<double> bound, terms;
    for (int64_t i = 0; i < r.run.n; ++i) {
      bound.push_back(nearest(grad, r.grad(step, i, entry.scale)));
      terms.push_back(double(reference::measured<Real>(bound.back(), entry)));
    }
    const double norm = reference::norm_of(r.way.norm_type, {terms});
    const double coef = r.way.max_norm > 0 ? reference::coefficient(r.way.max_norm, norm) : 1;
    for (size_t i = 0; i < g.size(); ++i) g[i] = reference::entered<Real>(bound[i], entry, coef);
    reference::step(r.run.set.algorithm, h, 0, x, g);
  }
  return out;
}

std::string difference(const Run& r, const LibraryRun& got) {
  return r.run.mix.param == TALUS_F64 ? bits_difference(got, run_reference<double>(r))
                                      : bits_difference(got, run_reference<float>(r));
}

}  // namespace

TEST_CASE("each rule steps on prepared gradients, whatever the dtypes and the way in") {
  size_t turn = 0;
  for (const HyperSet& set : hyper_sets())
    for (const Mix& mix : mixes_of(index_of(set)))
      for (const Way& way : kWays) {
        if (reads_norm(set)) continue;  // below
        const Run r{{.set = set, .mix = mix, .steps = 7, .seed = ++turn}, way};
        INFO(r.name());
        const LibraryRun got = run_library(r);
        CHECK(difference(r, got) == "");
        CHECK(got.grads_untouched);
        CHECK(got.guards_intact());
      }
}

TEST_CASE("rules that read the norm: unclipped before them, it is that of prepared gradients") {
  size_t turn = 0;
  for (const HyperSet& set : hyper_sets())
    for (const Mix& mix : mixes_of(index_of(set)))
      for (const Way& way : kWays) {
        if (!reads_norm(set) || (way.max_norm > 0 && way.max_norm < 1e9)) continue;
        const Run r{{.set = set, .mix = mix, .steps = 7, .seed = ++turn}, way};
        INFO(r.name());
        CHECK(difference(r, run_library(r)) == "");
      }
}

// Sizes around vectors, blocks of 512 and tiles: where gradients are staged, and where not.
TEST_CASE("sizes around blocks: every gradient enters, and nothing beyond is touched") {
  size_t turn = 0;
  for (const char* algorithm : {"sgd", "adamw", "lamb", "novograd", "lars", "lion"})
    for (int64_t n : {1, 7, 16, 511, 512, 513, 1025, 4095, 4096, 4097, 16385})
      for (const Way& way : kWays) {
        const Values values =
            algorithm == std::string("lamb") ? Values{{"max_grad_norm", 0}} : Values{};
        const Mix& mix = all_mixes()[turn % all_mixes().size()];
        const Run r{
            {.set = {algorithm, "sizes", values}, .mix = mix, .n = n, .steps = 3, .seed = ++turn},
            way};
        INFO(r.name());
        const LibraryRun got = run_library(r);
        CHECK(difference(r, got) == "");
        CHECK(got.guards_intact());
      }
}

TEST_CASE("zeros, subnormals and huge gradients enter as the definition says") {
  for (const char* algorithm : {"sgd", "adamw", "novograd"})
    for (const Mix& mix : all_mixes())
      for (const Way& way : kWays) {
        if (way.has_scaler || way.max_norm > 0) continue;  // steps that would be skipped
        const Run r{{.set = {algorithm, "hard", {}},
                     .mix = mix,
                     .n = 333,
                     .steps = 3,
                     .seed = 5,
                     .hard = true},
                    way};
        INFO(r.name());
        CHECK(difference(r, run_library(r)) == "");
      }
}

TEST_CASE("threads and chunks change no bit of a clipped step") {
  const Way& way = kWays[5];
  for (const char* algorithm : {"adamw", "novograd"}) {
    const auto trained = [&](double threads, double tiles) {
      std::deque<TestTensor> tensors;
      for (size_t m = 0; m < all_mixes().size(); ++m)
        tensors.emplace_back(all_mixes()[m], m % 4 == 0 ? 70001 : 4097).fill(m);
      auto optimizer = std::make_unique<Optimizer>(algorithm);
      optimizer->add_all(tensors);
      optimizer->setting("threads", threads);
      optimizer->setting("chunk_tiles", tiles);
      optimizer->setting("grad_scale", way.entry.scale);
      optimizer->setting("max_grad_value", way.entry.max_value);
      optimizer->setting("max_grad_norm", way.max_norm);
      for (int step = 1; step <= 3; ++step) {
        for (TestTensor& x : tensors) x.fill_grad(uint64_t(x.index), step);
        optimizer->step();
      }
      return bytes_of(*optimizer, tensors);
    };
    const std::vector<std::string> want = trained(1, 64);
    for (double threads : {1, 3, 7})
      for (double tiles : {1, 2, 64}) {
        INFO(algorithm << ", threads " << threads << ", tiles " << tiles);
        CHECK((trained(threads, tiles) == want));
      }
  }
}
