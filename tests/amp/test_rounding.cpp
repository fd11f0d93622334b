// All f32 patterns narrowed to bf16 and f16, by the host's code and by the kernels of a step, against
// thresholds of the values; all 16-bit patterns as gradients. One in 4,096 f32 patterns and both sides
// of every threshold; with TALUS_LONG=1 all 2^32.
#include <catch2/catch_test_macros.hpp>

#include <cstdlib>
#include <functional>
#include <memory>

#include "lib/base/rounding.h"
#include "tests/amp/amp.h"
#include "tests/amp/thresholds.h"
#include "tests/float_control.h"

using namespace talus::test;

namespace {

constexpr size_t kBatch = size_t{1} << 20;

bool is_long() {
  const char* const text = std::getenv("TALUS_LONG");
  return text != nullptr && *text == '1';
}

// Calls f with batches of patterns, in ascending order but for the short run's thresholds.
void for_each_batch(const Thresholds& t, const std::function<void(std::vector<uint32_t>&)>& f) {
  std::vector<uint32_t> batch;
  const auto add = [&](uint32_t u) {
    batch.push_back(u);
    if (batch.size() == kBatch) f(batch), batch.clear();
  };
  if (is_long()) {
    for (uint64_t u = 0; u < uint64_t{1} << 32; ++u) add(uint32_t(u));
    return;
  }
  for (uint64_t block = 0; block < uint64_t{1} << 20; ++block)
    add(uint32_t(block << 12 | (mix_bits(block) & 4095)));
  for (uint32_t sign : {0u, 0x80000000u})
    for (uint32_t h = 0; h <= t.infinity(); ++h)
      for (uint32_t off : {0u, 1u, 2u}) add(sign | (t[h] - off));
  f(batch);
}

std::string mismatch(const Format& f, uint32_t from, uint32_t got, uint32_t want) {
  char text[96];
  std::snprintf(text, sizeof text, "%s of %08x: got %04x, want %04x", f.name, from, got, want);
  return text;
}

// 16-bit parameters behind masters that a step of no length only rounds.
struct Narrowing {
  std::vector<float> master = std::vector<float>(kBatch);
  TestTensor x;
  std::vector<float> zeros = std::vector<float>(kBatch);
  Optimizer optimizer{"sgd", {{"lr", 0}}};

  explicit Narrowing(int32_t dtype) : x({dtype, TALUS_F32, TALUS_MASTER_F32}, int64_t(kBatch)) {
    x.has_grad = false;
    optimizer.add(x);
    optimizer.bind_grad(x, zeros.data());
    must(talus_bind_state(optimizer.get(), x.index, "master_param", master.data(), 4 * kBatch));
  }
  void round(const std::vector<uint32_t>& patterns) {
    std::memcpy(master.data(), patterns.data(), 4 * patterns.size());
    optimizer.step();
  }
};

}  // namespace

TEST_CASE("thresholds round the values between neighbours to the nearest, ties to even") {
  for (int32_t dtype : {TALUS_BF16, TALUS_F16}) {
    const Thresholds t(dtype);
    uint32_t hint = 0;
    for (int i = 0; i < 100000; ++i) {
      const auto u = uint32_t(draw(dtype, 9, i));
      float value;
      std::memcpy(&value, &u, 4);
      if (std::isnan(value)) continue;
      if (const auto want = encode(t.format(), double(value)); t.rounded(u, &hint) != want)
        FAIL(mismatch(t.format(), u, t.rounded(u, &hint), uint32_t(want)));
    }
  }
}

TEST_CASE("f32 narrows by the host's code as the thresholds say") {
  for (int32_t dtype : {TALUS_BF16, TALUS_F16}) {
    const Thresholds t(dtype);
    uint32_t hint = 0;
    uint64_t checked = 0;
    std::string wrong;
    for_each_batch(t, [&](std::vector<uint32_t>& batch) {
      for (const uint32_t u : batch) {
        const float x = talus::float_of(u);
        const uint16_t got = dtype == TALUS_BF16 ? talus::to_bf16(x).bits : talus::to_f16(x).bits;
        const uint16_t want = t.rounded(u, &hint);
        if (got != want && wrong.empty()) wrong = mismatch(t.format(), u, got, want);
      }
      checked += batch.size();
    });
    CHECK(wrong == "");
    CHECK(checked >= (is_long() ? uint64_t{1} << 32 : uint64_t{1} << 20));
  }
}

// Any NaN is as good as another here: the master has been through arithmetic.
TEST_CASE("f32 narrows by the kernels of a step as the thresholds say, and the master stays") {
  for (int32_t dtype : {TALUS_BF16, TALUS_F16}) {
    const Thresholds t(dtype);
    Narrowing narrowing(dtype);
    uint32_t hint = 0;
    std::string wrong;
    for_each_batch(t, [&](std::vector<uint32_t>& batch) {
      narrowing.round(batch);
      for (size_t i = 0; i < batch.size(); ++i) {
        const uint64_t got = narrowing.x.param.bits(int64_t(i));
        const uint16_t want = t.rounded(batch[i], &hint);
        const bool is_nan = (batch[i] & 0x7fffffff) > 0x7f800000;
        const bool good = is_nan ? (got & 0x7fff) > t.infinity() : got == want;
        const bool kept = is_nan || bits_of(narrowing.master[i]) == batch[i];
        if (!(good && kept) && wrong.empty())
          wrong = mismatch(t.format(), batch[i], uint32_t(got), want);
      }
    });
    CHECK(wrong == "");
    CHECK(narrowing.x.param.guards_intact());
  }
}

// Trap: an instruction for bf16 that takes every subnormal for 0, whatever the thread has set.
TEST_CASE("subnormal masters narrow right where the caller flushes them to zero") {
  const uint64_t usual = float_control();
  for (int32_t dtype : {TALUS_BF16, TALUS_F16}) {
    const Thresholds t(dtype);
    Narrowing narrowing(dtype);
    std::vector<uint32_t> subnormals;
    for (uint32_t i = 0; i < kBatch; ++i)
      subnormals.push_back((i & 1) << 31 | uint32_t(mix_bits(i) & 0x7fffff));
    set_float_control(usual | kFlush);
    narrowing.round(subnormals);
    const uint64_t after = float_control();
    set_float_control(usual);
    CHECK((after & kFlush) == kFlush);
    uint32_t hint = 0;
    CHECK(difference_from("parameter", narrowing.x.param, [&](int64_t i) {
            return uint64_t{t.rounded(subnormals[size_t(i)], &hint)};
          }) == "");
  }
}

TEST_CASE("all 16-bit gradients enter a step, and a measure, as the values that they stand for") {
  for (int32_t dtype : {TALUS_BF16, TALUS_F16})
    for (double scale : {1., 4.}) {
      const Thresholds t(dtype);
      TestTensor x({TALUS_F32, dtype, 0}, 65536);
      for (int64_t i = 0; i < 65536; ++i) {
        const bool finite = (i & 0x7fff) < t.infinity();
        x.param.set(i, 0), x.grad.set_bits(i, uint64_t(i));
        if (finite) continue;
        x.grad.set_bits(i, 0);  // NaN and infinities below
      }
      Optimizer optimizer("sgd", {{"lr", 1}});
      optimizer.add(x);
      optimizer.setting("grad_scale", scale);
      optimizer.setting("stats", 1);
      optimizer.setting("grad_norm_type", INFINITY);
      optimizer.step();
      std::string wrong;
      for (int64_t i = 0; i < 65536 && wrong.empty(); ++i) {
        const double want = 0 - decode(t.format(), x.grad.bits(i)) / scale;
        if (x.param.get(i) != want) wrong = std::to_string(i);
      }
      CHECK(wrong == "");
      CHECK(stats_of(optimizer).grad_norm == t.format().largest / scale);

      for (int64_t i = 0; i < 65536; ++i) x.param.set(i, 0), x.grad.set_bits(i, uint64_t(i));
      optimizer.step();
      for (int64_t i = 0; i < 65536 && wrong.empty(); ++i) {
        const double g = decode(t.format(), uint64_t(i)), p = x.param.get(i);
        if (std::isnan(g) ? !std::isnan(p) : p != 0 - g / scale) wrong = std::to_string(i);
      }
      CHECK(wrong == "");
      CHECK(std::isnan(stats_of(optimizer).grad_norm));
    }
}
