// The gradient norm: golden sums to the last bit, the fixed tree against its definition, dtypes,
// NULL and empty tensors, threads, chunks, the caller's floating-point mode.
#include <catch2/catch_test_macros.hpp>

#include <bit>
#include <cfenv>
#include <memory>

#include "lib/cpu/backend.h"
#include "lib/optimizer/optimizer.h"
#include "lib/table/norm.h"
#include "tests/float_control.h"
#include "tests/optimizer.h"

using namespace talus::test;
using talus::Dtype;
using talus::Sum;

namespace {

// ---- the sequences of the golden tables

float x_at(int64_t i) {
  const uint32_t hash = uint32_t(uint64_t(i) * 2654435761u);
  return float(double(hash >> 8) * 0x1p-24 - 0.5);
}
float y_at(int64_t i) { return float(std::ldexp(double(x_at(i)), int(7 * i % 41) - 20)); }
float z_at(int64_t i) { return float(double(x_at(i)) * double(1 + i % 5) / 3); }

using Sequence = float (*)(int64_t);

// ---- gradients and their measure by the backend

struct Gradient {
  Buffer values;
  Dtype compute = Dtype::f32;
  bool bound = true;
};

Gradient gradient(Sequence sequence, int64_t n) {
  Gradient g{Buffer(TALUS_F32, n)};
  for (int64_t i = 0; i < n; ++i) g.values.set(i, double(sequence(i)));
  return g;
}

std::vector<Gradient> gradients(Sequence sequence, std::initializer_list<int64_t> sizes) {
  std::vector<Gradient> list;
  for (int64_t n : sizes) list.push_back(gradient(sequence, n));
  return list;
}

Dtype dtype_of(const Buffer& buffer) {
  for (const talus::DtypeInfo& d : talus::kDtypes)
    if (d.abi == buffer.dtype()) return d.dtype;
  throw std::logic_error("no such dtype");
}

struct How {
  int threads = 1;
  int64_t chunk = talus::kChunk;
  talus_parallel_for loop = nullptr;
};

class Backend {
 public:
  explicit Backend(const How& how) {
    const talus::BackendConfig config{0, how.threads, how.loop, nullptr, {}};
    REQUIRE(talus::cpu_backend().create(&config, &context_) == TALUS_OK);
  }
  ~Backend() { talus::cpu_backend().destroy(context_); }
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  void* context() const { return context_; }

 private:
  void* context_ = nullptr;
};

double sum_of_squares(std::vector<Gradient>& list, const How& how = {}) {
  talus::TensorTable table;
  std::vector<talus::KernelKey> keys;
  for (Gradient& g : list) {
    const int64_t row = table.size();
    table.add_row(g.values.size());
    table.set(talus::kValue, row, nullptr, g.compute);
    table.set(talus::kGradient, row, g.bound ? g.values.data() : nullptr, dtype_of(g.values));
    table.scalar_class[size_t(row)] = g.bound ? 0 : talus::kIdle;
    keys.push_back({0, 0, g.compute});
  }
  talus::ChunkPlan plan;
  plan.build(table, keys, how.chunk);
  const talus::PlanView view = plan.view(table);
  const Backend backend(how);
  const talus::Backend& cpu = talus::cpu_backend();
  // Old contents mean nothing: a partial that nobody writes must not be read.
  std::vector<double> workspace(cpu.workspace_bytes(&view) / sizeof(double), -1e300);
  REQUIRE(cpu.set_plan(backend.context(), &view, workspace.data(), nullptr) == TALUS_OK);
  const talus::Measure what{};
  REQUIRE(cpu.measure(backend.context(), &what, nullptr) == TALUS_OK);
  talus::Report report{};
  REQUIRE(cpu.read_report(backend.context(), what.kind, &report, nullptr) == TALUS_OK);
  return report.total;
}

double sum_of_squares(std::vector<Gradient>&& list, const How& how = {}) {
  return sum_of_squares(list, how);
}

// ---- the tree by definition

// Rounds of adjacent pairs, seen from the top: the left part is the largest power of two below n.
double pairwise(const std::vector<double>& x, size_t first, size_t n) {
  if (n == 0) return 0;
  if (n == 1) return x[first];
  const size_t left = std::bit_floor(n - 1);
  return pairwise(x, first, left) + pairwise(x, first + left, n - left);
}

double tile_by_definition(const Buffer& b, int64_t first) {
  std::vector<double> lane(128, 0.0);
  for (int64_t i = first; i < std::min(first + 4096, b.size()); ++i)
    lane[size_t(i % 128)] += b.get(i) * b.get(i);
  for (size_t h = 64; h > 0; h /= 2)
    for (size_t l = 0; l < h; ++l) lane[l] += lane[l + h];
  return lane[0];
}

double sum_by_definition(const std::vector<Gradient>& list) {
  std::vector<double> totals;
  for (const Gradient& g : list) {
    if (!g.bound || g.values.size() == 0) continue;
    std::vector<double> tiles;
    for (int64_t i = 0; i < g.values.size(); i += 4096)
      tiles.push_back(tile_by_definition(g.values, i));
    totals.push_back(pairwise(tiles, 0, tiles.size()));
  }
  return pairwise(totals, 0, totals.size());
}

std::string mismatch(const std::string& what, double got, double want) {
  if (bits_of(got) == bits_of(want)) return "";
  return describe(what, 0, format_of(TALUS_F64), bits_of(got), bits_of(want),
                  ulps_between(format_of(TALUS_F64), got, want));
}

// ---- lists of tensors

constexpr int32_t kGradDtypes[] = {TALUS_F32, TALUS_BF16, TALUS_F16, TALUS_F64};

// Dtypes, sizes and bindings at random; values over many binades, so that any other order shows.
std::vector<Gradient> random_list(uint64_t seed) {
  std::vector<Gradient> list;
  auto next = [seed, i = int64_t{0}]() mutable { return draw(seed, 1, i++); };
  const uint64_t tensors = next() % 12;
  for (uint64_t t = 0; t < tensors; ++t) {
    const int32_t dtype = kGradDtypes[next() % 4];
    const int64_t n = kEdgeSizes[next() % std::size(kEdgeSizes)];
    Gradient g{Buffer(dtype, n)};
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t r = draw(seed + t, 2, i);
      g.values.set(i, std::ldexp(signed_between(r, 1, 2), int(r >> 1 & 15) - 8));
    }
    g.bound = next() % 5 != 0;
    g.compute = dtype == TALUS_F64 || (dtype == TALUS_F32 && next() % 2) ? Dtype::f64 : Dtype::f32;
    list.push_back(std::move(g));
  }
  return list;
}

void run_reversed(void*, int64_t count, talus_task task, void* context) {
  for (int64_t i = count - 1; i >= 0; --i) task(context, i);
}

// ---- the norm of a whole optimizer

struct Measured {
  std::unique_ptr<talus::Optimizer> optimizer;
  std::deque<TestTensor> tensors;

  explicit Measured(double stats) {
    REQUIRE(talus::Optimizer::create(talus::find_algorithm("sgd"), &optimizer).ok());
    REQUIRE(optimizer->set_setting("stats", stats).ok());
    REQUIRE(optimizer->set(TALUS_ALL, "lr", 0).ok());
  }
  TestTensor& add(const Mix& mix, int64_t n, bool has_grad = true) {
    TestTensor& tensor = tensors.emplace_back(mix, n);
    tensor.has_grad = has_grad;
    tensor.set_all(1, 0);
    const talus_param descriptor = tensor.descriptor();
    REQUIRE(optimizer->add_params(0, {&descriptor, 1}, nullptr).ok());
    return tensor;
  }
  void add(Sequence sequence, int64_t n) {
    TestTensor& tensor = add(kF32, n);
    for (int64_t i = 0; i < n; ++i) tensor.grad.set(i, double(sequence(i)));
  }
  double norm() {
    const talus::Status status = optimizer->step(nullptr);
    INFO(status.text());
    REQUIRE(status.ok());
    talus::StepStats stats;
    REQUIRE(optimizer->read_stats(true, &stats).ok());
    return stats.grad_norm;
  }
};

struct Golden {
  int64_t n;
  double sum, norm;
};
constexpr Golden kGoldenX[] = {
    {1, 0.25, 0.5},
    {31, 2.636089702410505, 1.6236039241177342},
    {32, 2.7523341745827459, 1.659016026017454},
    {33, 2.8291116956082796, 1.6819963423290432},
    {4095, 341.33256520841621, 18.475187826065969},
    {4096, 341.45448895527375, 18.47848719336282},
    {4097, 341.45556415144188, 18.478516286526954},
    {65536, 5461.4583493010614, 73.901680287399842},
    {70001, 5833.4184779712205, 76.376818983060701},
};
struct GoldenSum {
  Sequence sequence;
  std::vector<int64_t> sizes;
  double sum;
};
const GoldenSum kGoldenSums[] = {
    {x_at, {5, 4097, 0, 33}, 344.74443258914243},
    {y_at, {33}, 0x1.9c46f1fab2192p+35},
    {y_at, {129}, 0x1.6c729d0b2e13ap+38},
    {y_at, {4097}, 0x1.647ac080a22dep+43},
    {y_at, {65536}, 0x1.63118f64d2060p+47},
    {y_at, {70001}, 0x1.7b4506c9127bep+47},
    {y_at, {5, 4097, 0, 33, 70001}, 0x1.91a677403cb0ap+47},
    {z_at, {4097}, 0x1.a17af2aaaf47dp+8},
    {z_at, {12289}, 0x1.38d843fed69acp+10},
    {z_at, {20481}, 0x1.04b6712472b48p+11},
    {z_at, {28673}, 0x1.6d05fec2d4fa8p+11},
    {z_at, {65537}, 0x1.a1341c7bacd72p+12},
    {z_at, {70001}, 0x1.bd9653ff2c941p+12},
    {z_at, {5, 4097, 0, 33, 70001, 300, 12289}, 0x1.1400cbf353a33p+13},
    {z_at, {28673, 4097, 0, 129, 0, 70001, 5000}, 0x1.5767225aa142bp+13},
};

std::vector<Gradient> gradients(const GoldenSum& row) {
  std::vector<Gradient> list;
  for (int64_t n : row.sizes) list.push_back(gradient(row.sequence, n));
  return list;
}

}  // namespace

// ---- golden values

TEST_CASE("sums of squares of one tensor have the golden bits") {
  for (const Golden& row : kGoldenX) {
    INFO("n " << row.n);
    CHECK(mismatch("sum", sum_of_squares(gradients(x_at, {row.n})), row.sum) == "");
  }
}

TEST_CASE("sums of squares that notice any other order have the golden bits") {
  for (const GoldenSum& row : kGoldenSums) {
    INFO("first n " << row.sizes[0] << " of " << row.sizes.size());
    CHECK(mismatch("sum", sum_of_squares(gradients(row)), row.sum) == "");
  }
}

TEST_CASE("the setting \"stats\" reports the golden 2-norms") {
  for (const Golden& row : kGoldenX) {
    INFO("n " << row.n);
    Measured measured(1);
    measured.add(x_at, row.n);
    CHECK(mismatch("norm", measured.norm(), row.norm) == "");
  }
  Measured list(1);
  for (int64_t n : {5, 4097, 0, 33}) list.add(x_at, n);
  CHECK(mismatch("norm", list.norm(), 0x1.2913a39c4b486p+4) == "");
}

TEST_CASE("without the setting \"stats\" there is no norm, and it can be switched") {
  Measured measured(0);
  measured.add(x_at, 33);
  CHECK(std::isnan(measured.norm()));
  REQUIRE(measured.optimizer->set_setting("stats", 1).ok());
  CHECK(mismatch("norm", measured.norm(), 1.6819963423290432) == "");
  REQUIRE(measured.optimizer->set_setting("stats", 0).ok());
  CHECK(std::isnan(measured.norm()));
}

// ---- the tree

TEST_CASE("sums equal the tree by definition, whatever dtypes, sizes and NULL gradients") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    std::vector<Gradient> list = random_list(seed);
    const double want = sum_by_definition(list);
    INFO("seed " << seed << ", tensors " << list.size());
    CHECK(mismatch("sum", sum_of_squares(list), want) == "");
  }
}

TEST_CASE("any number of threads and any chunk gives the same norm") {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    std::vector<Gradient> list = random_list(seed);
    for (int64_t n : {300000, 70001}) list.push_back(gradient(z_at, n));
    const double want = sum_of_squares(list);
    for (int threads : {1, 2, 3, 7})
      for (int64_t chunk : {4096, 8192, 16384, 262144})
        for (talus_parallel_for loop : {talus_parallel_for{}, talus_parallel_for{run_reversed}}) {
          INFO("seed " << seed << ", threads " << threads << ", chunk " << chunk);
          CHECK(mismatch("sum", sum_of_squares(list, {threads, chunk, loop}), want) == "");
        }
  }
}

TEST_CASE("partials fold by adjacent pairs, for odd counts too; nothing folds to 0") {
  for (size_t n = 0; n <= 600; ++n) {
    std::vector<double> x;
    for (size_t i = 0; i < n; ++i)
      x.push_back(std::ldexp(signed_between(draw(n, 3, int64_t(i)), 1, 2), int(i * 7 % 41)));
    const double want = pairwise(x, 0, n);
    for (Sum sum : {Sum::plain, Sum::squares, Sum::magnitudes}) {
      std::vector<double> partials = x;
      INFO("n " << n);
      CHECK(mismatch("fold", fold_pairs(sum, partials.data(), int64_t(n)), want) == "");
    }
  }
}

TEST_CASE("the largest of partials is their maximum, and a NaN anywhere wins") {
  for (size_t n = 0; n <= 40; ++n) {
    std::vector<double> x;
    for (size_t i = 0; i < n; ++i) x.push_back(double(draw(n, 4, int64_t(i)) >> 12));
    const double want = n ? *std::max_element(x.begin(), x.end()) : 0;
    std::vector<double> partials = x;
    INFO("n " << n);
    CHECK(fold_pairs(Sum::largest, partials.data(), int64_t(n)) == want);
    for (size_t nan = 0; nan < n; ++nan) {
      partials = x;
      partials[nan] = NAN;
      partials[n - 1 - nan] = n - 1 == 2 * nan ? NAN : INFINITY;
      CHECK(std::isnan(fold_pairs(Sum::largest, partials.data(), int64_t(n))));
    }
  }
}

TEST_CASE("two partials combine: a sum adds, the largest keeps one, NaN and infinity stay") {
  for (Sum sum : {Sum::plain, Sum::squares, Sum::magnitudes}) {
    CHECK(talus::combine(sum, 1, 0x1p-52) == 1 + 0x1p-52);
    CHECK(talus::combine(sum, 1, INFINITY) == INFINITY);
    CHECK(std::isnan(talus::combine(sum, NAN, 1)));
  }
  CHECK(talus::combine(Sum::largest, 2, 3) == 3);
  CHECK(talus::combine(Sum::largest, 3, 2) == 3);
  CHECK(talus::combine(Sum::largest, 3, INFINITY) == INFINITY);
  CHECK(std::isnan(talus::combine(Sum::largest, NAN, INFINITY)));
  CHECK(std::isnan(talus::combine(Sum::largest, INFINITY, NAN)));
}

// ---- what contributes, and as what

TEST_CASE("the norm of nothing is 0") {
  CHECK(sum_of_squares(gradients(x_at, {})) == 0);
  CHECK(sum_of_squares(gradients(x_at, {0, 0})) == 0);
  std::vector<Gradient> idle = gradients(x_at, {33, 5000});
  for (Gradient& g : idle) g.bound = false;
  CHECK(sum_of_squares(idle) == 0);
  Measured empty(1);
  empty.add(kF32, 0);
  CHECK(empty.norm() == 0);
}

TEST_CASE("NULL gradients and empty tensors contribute nothing, not even to the pairing") {
  const GoldenSum& row = kGoldenSums[13];
  const double want = row.sum;
  for (size_t at = 0; at <= row.sizes.size(); ++at) {
    std::vector<Gradient> list = gradients(row);
    Gradient idle = gradient(y_at, 9000);
    idle.bound = false;
    list.insert(list.begin() + std::ptrdiff_t(at), {gradient(x_at, 0), idle, gradient(x_at, 0)});
    INFO("inserted at " << at);
    CHECK(mismatch("sum", sum_of_squares(list), want) == "");
  }
}

TEST_CASE("a gradient that becomes NULL leaves the norm, and returns to it") {
  Measured measured(1);
  measured.add(x_at, 33);
  measured.add(y_at, 129);
  const double both = measured.norm();
  void* none = nullptr;
  REQUIRE(measured.optimizer->bind_grads(1, {&none, 1}).ok());
  CHECK(mismatch("norm", measured.norm(), 1.6819963423290432) == "");
  void* again = measured.tensors[1].grad.data();
  REQUIRE(measured.optimizer->bind_grads(1, {&again, 1}).ok());
  CHECK(mismatch("norm", measured.norm(), both) == "");
}

// Trap 20 [github.com/NVIDIA/Megatron-LM/issues/7338]: a reduction looked at the first tensor's
// dtype and read the others as that.
TEST_CASE("trap 20: a list of f32, bf16, f16 and f64 gradients gives the right norm") {
  const Mix f32 = kF32, f64 = kF64, bf16{TALUS_BF16, TALUS_BF16, 0}, f16{TALUS_F16, TALUS_F16, 0};
  std::vector<Mix> mixes = {f32, bf16, f16, f64, {TALUS_F64, TALUS_F32, 0}};
  for (size_t turn = 0; turn < mixes.size(); ++turn) {
    std::rotate(mixes.begin(), mixes.begin() + 1, mixes.end());
    Measured measured(1);
    int n = 0;  // halves and quarters: exact in each dtype, in any order
    for (const Mix& mix : mixes) {
      TestTensor& tensor = measured.add(mix, 1000 + n++);
      for (int64_t i = 0; i < tensor.extent; ++i) tensor.grad.set(i, i % 2 ? 0.5 : -1.25);
    }
    double want = 0;  // 5 sizes of 1000 .. 1004
    for (int64_t i = 0; i < 5; ++i)
      want += double((1000 + i) / 2) * 0.25 + double((1001 + i) / 2) * 1.5625;
    INFO("first: " << name_of(mixes[0]));
    CHECK(mismatch("norm", measured.norm(), std::sqrt(want)) == "");
  }
}

// Trap 33 [github.com/facebookresearch/fairscale/issues/263]: 5000 squared overflowed in f16.
TEST_CASE("trap 33: the norm of f16 gradients of 5000 is right") {
  for (int64_t n : {1, 4, 65536}) {
    Measured measured(1);
    measured.add({TALUS_F16, TALUS_F16, 0}, n).set_all(1, 5000);
    CHECK(measured.norm() == 5000 * std::sqrt(double(n)));
  }
}

TEST_CASE("trap 33: norms near the limits of f32 are right") {
  for (double g : {0x1.fffffep127, 0x1p-149, 0x1.8p-140}) {
    Measured measured(1);
    measured.add(kF32, 16).set_all(1, g);
    measured.add({TALUS_F16, TALUS_F32, 0}, 9).set_all(1, g);
    CHECK(mismatch("norm", measured.norm(), g * 5) == "");
  }
}

TEST_CASE("one NaN or infinite gradient shows in the norm, in every dtype and place") {
  for (int32_t dtype : kGradDtypes)
    for (int64_t place : {0, 127, 4095, 4096, 8999})
      for (double bad : {NAN, INFINITY, -INFINITY}) {
        std::vector<Gradient> list = gradients(x_at, {50, 5000});
        Gradient g{Buffer(dtype, 9000)};
        if (dtype == TALUS_F64) g.compute = Dtype::f64;
        for (int64_t i = 0; i < 9000; ++i) g.values.set(i, i == place ? bad : 1);
        list.insert(list.begin() + 1, std::move(g));
        const double sum = sum_of_squares(list, {2, 4096, nullptr});
        INFO(format_of(dtype).name << ", place " << place << ", value " << bad << ": " << sum);
        CHECK((std::isnan(bad) ? std::isnan(sum) : sum == INFINITY));
      }
}

TEST_CASE("f64 gradients whose squares overflow have an infinite norm") {
  Measured measured(1);
  measured.add(kF64, 3).set_all(1, 1e200);
  CHECK(measured.norm() == INFINITY);
}

// ---- the caller's floating-point mode

TEST_CASE("the caller's rounding mode changes no norm") {
  for (int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    Measured measured(1);
    for (int64_t n : {5, 4097, 0, 33, 70001}) measured.add(y_at, n);
    std::fesetround(mode);
    const talus::Status status = measured.optimizer->step(nullptr);
    talus::StepStats stats;
    const talus::Status read = measured.optimizer->read_stats(true, &stats);
    std::fesetround(FE_TONEAREST);
    REQUIRE((status.ok() && read.ok()));
    INFO("mode " << mode);
    CHECK(mismatch("norm", stats.grad_norm, std::sqrt(0x1.91a677403cb0ap+47)) == "");
  }
}

TEST_CASE("subnormal gradients and squares count, also where the caller flushes them to zero") {
  std::vector<Gradient> list = gradients(x_at, {});
  for (double value : {0x1p-149, 0x1.8p-130})
    for (int64_t n : {3, 5000}) {
      Gradient g{Buffer(TALUS_F32, n)};
      for (int64_t i = 0; i < n; ++i) g.values.set(i, value);
      list.push_back(std::move(g));
    }
  std::vector<Gradient> tiny;  // its squares and all their sums are subnormal doubles
  Gradient g{Buffer(TALUS_F64, 20000), Dtype::f64};
  for (int64_t i = 0; i < 20000; ++i) g.values.set(i, 0x1p-530);
  tiny.push_back(std::move(g));
  const double want = sum_by_definition(list), want_tiny = sum_by_definition(tiny);
  REQUIRE(want > 0);
  REQUIRE(want_tiny == 20000 * 0x1p-1060);
  for (int threads : {1, 3}) {
    const uint64_t before = float_control();
    set_float_control(before | kFlush);
    const bool flushes = (float_control() & kFlush) == kFlush;
    const double got = sum_of_squares(list, {threads, 4096, nullptr});
    const double got_tiny = sum_of_squares(tiny, {threads, 4096, nullptr});
    const uint64_t after = float_control();
    set_float_control(before);
    if (!flushes) SKIP("flush-to-zero cannot be set here: an emulated processor (valgrind)");
    INFO("threads " << threads);
    CHECK(mismatch("sum", got, want) == "");
    CHECK(mismatch("sum", got_tiny, want_tiny) == "");
    CHECK((after & kFlush) == kFlush);
  }
}
