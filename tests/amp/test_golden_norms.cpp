// Norms, coefficients and narrowed values have the golden bits, by the C ABI.
#include <catch2/catch_test_macros.hpp>

#include "tests/amp/sequences.h"
#include "tests/golden_tables.h"

using namespace talus::test;

namespace {

struct Golden {
  GoldenRow row;
  std::deque<TestTensor> tensors;
  Optimizer optimizer{"sgd"};

  explicit Golden(const GoldenRow& of)
      : row(of), tensors(tensors_of(of.text("sequence"), of.numbers("sizes"))) {
    optimizer.add_all(tensors);
  }
  std::string name() const {
    std::string text = row.text("sequence") + " of";
    for (const TestTensor& x : tensors) text += " " + std::to_string(x.extent);
    return text;
  }
  double norm(double type) const { return grad_norm_of({optimizer.get()}, type); }
};

// What the step makes of it: grad_norm of its statistics.
double norm_of_step(const GoldenRow& row, double type) {
  Golden g(row);
  g.optimizer.setting("stats", 1);
  g.optimizer.setting("grad_norm_type", type);
  g.optimizer.step();
  return stats_of(g.optimizer).grad_norm;
}

}  // namespace

TEST_CASE("norms have the golden bits") {
  for (const GoldenRow& row : golden_table("amp", "norms")) {
    const Golden g(row);
    INFO(g.name());
    CHECK(mismatch("2-norm", g.norm(2), std::sqrt(row.number("squares"))) == "");
    if (row.has("two")) CHECK(mismatch("2-norm", g.norm(2), row.number("two")) == "");
    if (row.has("one")) CHECK(mismatch("1-norm", g.norm(1), row.number("one")) == "");
    if (row.has("inf")) CHECK(mismatch("inf-norm", g.norm(INFINITY), row.number("inf")) == "");
  }
}

TEST_CASE("a step measures the same") {
  for (const GoldenRow& row : golden_table("amp", "norms")) {
    INFO(Golden(row).name());
    CHECK(mismatch("2-norm", norm_of_step(row, 2), std::sqrt(row.number("squares"))) == "");
    if (row.has("one")) CHECK(mismatch("1-norm", norm_of_step(row, 1), row.number("one")) == "");
    if (row.has("inf"))
      CHECK(mismatch("inf-norm", norm_of_step(row, INFINITY), row.number("inf")) == "");
  }
}

TEST_CASE("golden norms whatever the threads and chunks") {
  for (const GoldenRow& row : golden_table("amp", "norms")) {
    Golden g(row);
    for (double threads : {1, 2, 3, 7})
      for (double tiles : {1, 2, 4, 64}) {
        g.optimizer.setting("threads", threads);
        g.optimizer.setting("chunk_tiles", tiles);
        INFO(g.name() << ", threads " << threads << ", chunk_tiles " << tiles);
        CHECK(mismatch("2-norm", g.norm(2), std::sqrt(row.number("squares"))) == "");
        if (row.has("one")) CHECK(mismatch("1-norm", g.norm(1), row.number("one")) == "");
        if (row.has("inf")) CHECK(mismatch("inf-norm", g.norm(INFINITY), row.number("inf")) == "");
      }
  }
}

TEST_CASE("tensors spread over optimizers have the golden norm of all of them in one") {
  for (const GoldenRow& row : golden_table("amp", "norms")) {
    std::deque<TestTensor> tensors = tensors_of(row.text("sequence"), row.numbers("sizes"));
    for (size_t per = 1; per <= 3; ++per) {
      std::deque<Optimizer> optimizers;
      std::vector<talus_optimizer*> handles;
      for (size_t i = 0; i < tensors.size(); ++i) {
        if (i % per == 0) handles.push_back(optimizers.emplace_back("sgd").get());
        optimizers.back().add(tensors[i]);
      }
      INFO(row.text("sequence") << ", " << tensors.size() << " tensors, " << per << " in each");
      CHECK(mismatch("2-norm", grad_norm_of(handles), std::sqrt(row.number("squares"))) == "");
      if (row.has("one"))
        CHECK(mismatch("1-norm", grad_norm_of(handles, 1), row.number("one")) == "");
    }
  }
}

// ---- clipping

namespace {

// An f64 gradient that is the norm, scaled, and beside it f32 ones that are too small to count in it:
// what they are times is to be read off the parameter, which starts at 0 and moves by it.
struct Clipped {
  TestTensor norm{kF64, 1}, seen{kF32, 1};
  Optimizer optimizer{"sgd", {{"lr", 1}}};

  Clipped(double scaled_norm, double scale, double max_norm) {
    norm.set_all(0, scaled_norm);
    seen.set_all(0, 0x1p-40);
    optimizer.setting("grad_scale", scale);
    optimizer.setting("max_grad_norm", max_norm);
    optimizer.add(norm);
    optimizer.add(seen);
    optimizer.step();
  }
  float factor() const { return float(-seen.param.get(0) * 0x1p40); }
};

}  // namespace

TEST_CASE("coefficients and factors of the norm clip have the golden bits") {
  for (const GoldenRow& row : golden_table("amp", "clip")) {
    const double want = row.number("norm"), scale = row.number("scale");
    const Clipped c(want * scale, scale, row.number("max_norm"));
    const talus_stats stats = stats_of(c.optimizer);
    INFO("norm " << want << ", scale " << scale << ", max_norm " << row.number("max_norm"));
    if (want > 0) CHECK(mismatch("norm", stats.grad_norm, want) == "");
    CHECK(mismatch("coef", stats.clip_factor, row.number("coef")) == "");
    CHECK(bits_of(c.factor()) == row.bits("s"));
  }
}

TEST_CASE("values cut, then clipped, have the golden bits") {
  for (const GoldenRow& row : golden_table("amp", "value_clip")) {
    const double scale = row.number("scale"), most = row.number("max_value");
    const std::vector<double> gradients = row.numbers("gradients");
    TestTensor x(kF32, int64_t(gradients.size()));
    double squares = row.number("norm") * row.number("norm");
    for (int64_t i = 0; i < x.extent; ++i) {
      const double g = gradients[size_t(i)];
      x.param.set(i, 0), x.grad.set(i, g);
      const double cut = std::min(double(float(g) * float(1 / scale)), most);
      squares -= std::max(cut, -most) * std::max(cut, -most);
    }
    // What is missing of the norm: elements at the cut, and one below it.
    TestTensor rest(kF64, int64_t(squares / (most * most)) + 1);
    rest.set_all(0, 1e3);
    rest.grad.set(0, scale * std::sqrt(squares - most * most * double(rest.extent - 1)));
    Optimizer optimizer("sgd", {{"lr", 1}});
    optimizer.setting("grad_scale", scale);
    optimizer.setting("max_grad_value", most);
    optimizer.setting("max_grad_norm", row.number("max_norm"));
    optimizer.add(x);
    optimizer.add(rest);
    optimizer.step();
    const talus_stats stats = stats_of(optimizer);
    CHECK(std::abs(stats.grad_norm - row.number("norm")) < 1e-12);
    CHECK(std::abs(stats.clip_factor - row.number("coef")) < 1e-12);
    const GoldenRow& want = row;
    for (int64_t i = 0; i < x.extent; ++i) {
      INFO("gradient " << gradients[size_t(i)]);
      const uint32_t bits = uint32_t(std::stoul(want.texts("results")[size_t(i)], nullptr, 16));
      CHECK(bits_of(float(-x.param.get(i))) == bits);
    }
  }
}

// ---- narrowing

TEST_CASE("masters narrow to the golden bits") {
  const std::vector<GoldenRow> rows = golden_table("amp", "narrowing");
  for (int32_t dtype : {TALUS_BF16, TALUS_F16}) {
    TestTensor x({dtype, TALUS_F32, TALUS_MASTER_F32}, int64_t(rows.size()));
    x.set_all(1, 0);
    Optimizer optimizer("sgd", {{"lr", 0}});
    optimizer.add(x);
    std::vector<float> master(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      const uint32_t bits = rows[i].bits("f32");
      std::memcpy(&master[i], &bits, 4);
    }
    must(talus_import_param(optimizer.get(), "master", 0, master.data(), TALUS_F32, nullptr));
    const Buffer imported = x.param;
    optimizer.step();
    for (size_t i = 0; i < rows.size(); ++i) {
      INFO(format_of(dtype).name << " of " << rows[i].text("f32"));
      const uint32_t want = rows[i].bits(dtype == TALUS_BF16 ? "bf16" : "f16");
      CHECK(imported.bits(int64_t(i)) == want);
      CHECK(same_bits(x.param.format(), x.param.bits(int64_t(i)), want));
    }
  }
}
