// Mixed precision through the C ABI with what a faulty host may pass, structs of other versions, the
// caller's floating-point setting, and threads.
#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <cfenv>
#include <mutex>
#include <thread>

#include "tests/abi/fixture.h"
#include "tests/amp/rounds.h"
#include "tests/float_control.h"

using namespace talus::test;
using talus::abi::refused;

namespace {

constexpr double kInf = INFINITY, kNaN = NAN;

// A scaler whose products are no f32, driven under a rounding mode.
std::vector<double> scales_under(int mode, uint64_t control) {
  Scaler scaler({{"growth_factor", 1.1}, {"backoff_factor", .7}, {"growth_interval", 1}});
  Finder finder(scaler);
  std::vector<double> scales;
  const uint64_t usual = float_control();
  for (int round = 0; round < 40; ++round) {
    finder.bind(round % 3 == 0);
    set_float_control(usual | control);
    std::fesetround(mode);
    const talus_status stepped = talus_step(finder.optimizer.get(), nullptr);
    const talus_status updated = talus_scaler_update(scaler.get(), nullptr);
    if (round == 20) talus_scaler_set(scaler.get(), "scale", 1234.56789);
    const int after = std::fegetround();
    std::fesetround(FE_TONEAREST);
    set_float_control(usual);
    if (stepped != TALUS_OK || updated != TALUS_OK || after != mode) return {};
    scales.push_back(scaler.scale());
  }
  return scales;
}

}  // namespace

// ---- what a faulty host passes

TEST_CASE("abi: NULL handles, names and outs of a scaler are refused by name") {
  Scaler scaler;
  talus_scaler* const s = scaler.get();
  double value = 7;
  talus_scaler* out = s;
  const auto refuse = [&](const char* function, const char* cause, auto call) {
    INFO(function);
    refused(nullptr, TALUS_E_ARGUMENT, {function, cause}, call);
  };
  refuse("talus_scaler_create", "out", [&] { return talus_scaler_create(TALUS_CPU, 0, nullptr); });
  for (int32_t type : {0, -1, 3, 77})
    refuse("talus_scaler_create", "device_type",
           [&] { return talus_scaler_create(type, 0, &out); });
  for (int32_t id : {-1, 1, 99})
    refuse("talus_scaler_create", "device_id",
           [&] { return talus_scaler_create(TALUS_CPU, id, &out); });
  CHECK(out == s);
  refuse("talus_scaler_set", "scaler", [&] { return talus_scaler_set(nullptr, "scale", 1); });
  refuse("talus_scaler_set", "name", [&] { return talus_scaler_set(s, nullptr, 1); });
  refuse("talus_scaler_get", "scaler", [&] { return talus_scaler_get(nullptr, "scale", &value); });
  refuse("talus_scaler_get", "name", [&] { return talus_scaler_get(s, nullptr, &value); });
  refuse("talus_scaler_get", "value", [&] { return talus_scaler_get(s, "scale", nullptr); });
  refuse("talus_scaler_scale", "scaler", [&] { return talus_scaler_scale(nullptr, &value); });
  refuse("talus_scaler_scale", "scale", [&] { return talus_scaler_scale(s, nullptr); });
  refuse("talus_scaler_update", "scaler", [&] { return talus_scaler_update(nullptr, nullptr); });
  refuse("talus_scaler_update", "stream", [&] { return talus_scaler_update(s, &value); });
  refuse("talus_attach_scaler", "opt", [&] { return talus_attach_scaler(nullptr, s); });
  refuse("talus_bind_scale", "opt", [&] { return talus_bind_scale(nullptr, nullptr, nullptr); });
  refuse("talus_export_param", "opt",
         [&] { return talus_export_param(nullptr, "master", 0, &value, TALUS_F32, nullptr); });
  refuse("talus_import_param", "opt",
         [&] { return talus_import_param(nullptr, "master", 0, &value, TALUS_F32, nullptr); });
  refuse("talus_bytes_per_param", "opt",
         [&] { return talus_bytes_per_param(nullptr, 0, nullptr, nullptr); });
  CHECK(value == 7);
  talus_scaler_destroy(nullptr);
}

TEST_CASE(
    "abi: names that are long, empty or no text at all are refused, and quoted whole or cut") {
  Scaler scaler;
  std::string longest(20000, 'x'), odd = "scale\x01\xff";
  for (const std::string& name :
       {std::string(), longest, odd, std::string("Scale"), std::string("scale ")})
    refused(nullptr, TALUS_E_NAME, {"growth_interval"},
            [&] { return talus_scaler_set(scaler.get(), name.c_str(), 1); });
  CHECK(std::strlen(talus_last_error()) <= 8191);
}

TEST_CASE("abi: the description of a scaler is asked for like any other") {
  talus_hyper hyper{};
  hyper.struct_size = sizeof hyper;
  for (int32_t i : {-1, talus_hyper_count("scaler"), INT32_MAX, INT32_MIN})
    refused(nullptr, TALUS_E_ARGUMENT, {"talus_hyper_info"},
            [&] { return talus_hyper_info("scaler", i, &hyper); });
  CHECK(talus_hyper_count("scalers") == -1);
}

TEST_CASE("abi: talus_bytes and talus_stats of older and newer callers") {
  TestTensor x(kF32, 1);
  x.set_all(1, NAN);
  Optimizer opt("adamw");
  opt.add(x);
  opt.setting("check_finite", 1);
  opt.step();
  talus_param param{};
  param.struct_size = sizeof param;
  param.dtype = TALUS_F32;

  struct {
    talus_bytes bytes;
    uint64_t more[2];
  } grown{};
  std::memset(&grown, 0xab, sizeof grown);
  grown.bytes.struct_size = offsetof(talus_bytes, state);  // knows param, grad and master
  must(talus_bytes_per_param(opt.get(), 0, &param, &grown.bytes));
  CHECK(grown.bytes.grad == 4);
  uint64_t untouched;
  std::memcpy(&untouched, &grown.bytes.state, 8);
  CHECK(untouched == 0xababababababababu);
  grown.bytes.struct_size = sizeof grown;
  must(talus_bytes_per_param(opt.get(), 0, &param, &grown.bytes));
  CHECK(grown.bytes.written == 12);
  grown.bytes.struct_size = 0;
  refused(opt.get(), TALUS_E_ARGUMENT, {"talus_bytes", "struct_size"},
          [&] { return talus_bytes_per_param(opt.get(), 0, &param, &grown.bytes); });

  talus_stats stats{};
  std::memset(&stats, 0xab, sizeof stats);
  stats.struct_size = offsetof(talus_stats, nonfinite_param);  // of before there was one
  must(talus_get_stats(opt.get(), 1, &stats));
  CHECK(stats.found_inf == 1);
  std::memcpy(&untouched, &stats.nonfinite_param, 8);
  CHECK(untouched == 0xababababababababu);
  stats.struct_size = sizeof stats;
  must(talus_get_stats(opt.get(), 1, &stats));
  CHECK(stats.nonfinite_param == 0);
}

TEST_CASE("abi: a host's own loop, in any order, measures and clips the same") {
  const auto norm_under = [](talus_parallel_for loop) {
    TestTensor x(kF32, 70001);
    x.fill(1).fill_grad(1, 1);
    Optimizer opt("adamw");
    opt.setting("chunk_tiles", 1);
    opt.setting("threads", 5);
    opt.setting("max_grad_norm", .1);
    must(talus_set_parallel_for(opt.get(), loop, nullptr));
    opt.add(x);
    opt.step();
    return std::make_pair(grad_norm_of({opt.get()}), bytes_of(opt, std::deque<TestTensor>{x}));
  };
  const auto plain = norm_under(nullptr);
  const auto reversed = norm_under([](void*, int64_t count, talus_task task, void* context) {
    for (int64_t i = count - 1; i >= 0; --i) task(context, i);
  });
  CHECK((plain == reversed));
}

// ---- the caller's floating-point setting

TEST_CASE("abi: the caller's rounding mode and flush-to-zero change no scale, and stay") {
  const std::vector<double> usual = scales_under(FE_TONEAREST, 0);
  REQUIRE(usual.size() == 40);
  for (int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    INFO("mode " << mode);
    CHECK((scales_under(mode, 0) == usual));
  }
  for (uint64_t bits : kFlushWays) CHECK((scales_under(FE_TONEAREST, bits) == usual));
}

TEST_CASE("abi: the caller's rounding mode changes no clipped step and no master") {
  const auto trained = [](int mode) {
    std::deque<TestTensor> tensors;
    for (const Mix& mix : all_mixes()) tensors.emplace_back(mix, 700).fill(tensors.size());
    Optimizer opt("adamw");
    opt.add_all(tensors);
    opt.setting("grad_scale", 3);
    opt.setting("max_grad_norm", .3);
    opt.setting("max_grad_value", .05);
    std::vector<float> master(700, 1.00390625f);  // ties of both formats
    std::vector<talus_status> all;
    for (int step = 1; step <= 3; ++step) {
      for (TestTensor& x : tensors) x.fill_grad(uint64_t(x.index), step);
      talus_optimizer* const handle = opt.get();
      std::fesetround(mode);
      all.push_back(talus_clip_grad_norm(&handle, 1, TALUS_ALL, .2, 1, nullptr, nullptr));
      all.push_back(talus_step(handle, nullptr));
      for (const TestTensor& x : tensors)
        if (x.mix.has_master() && step == 2)
          all.push_back(
              talus_import_param(handle, "master", x.index, master.data(), TALUS_F32, nullptr));
      std::fesetround(FE_TONEAREST);
    }
    for (talus_status status : all) must(status);
    return bytes_of(opt, tensors);
  };
  const std::vector<std::string> usual = trained(FE_TONEAREST);
  for (int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) CHECK((trained(mode) == usual));
}

// ---- threads

TEST_CASE("abi: threads that take turns share a scaler; each optimizer skips alone") {
  constexpr int kThreads = 4, kRounds = 30;
  Scaler scaler({{"growth_interval", 1000}});
  std::mutex turn;  // as talus.h asks
  std::deque<Finder> finders;
  for (int k = 0; k < kThreads; ++k) finders.emplace_back(scaler);
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int k = 0; k < kThreads; ++k)
      threads.emplace_back([&, k] {
        Finder& f = finders[size_t(k)];
        f.bind(round % kThreads == k);
        const std::lock_guard<std::mutex> lock(turn);
        if (talus_step(f.optimizer.get(), nullptr) != TALUS_OK) ++wrong;
      });
    for (std::thread& t : threads) t.join();
    REQUIRE(wrong == 0);
    scaler.update();
  }
  CHECK(scaler.get("total_skips") == kRounds);
  CHECK(scaler.scale() == std::ldexp(65536, -16));
  for (int k = 0; k < kThreads; ++k) {
    const talus_stats stats = stats_of(finders[size_t(k)].optimizer);
    CHECK(stats.skipped == (kRounds + kThreads - 1 - k) / kThreads);
    CHECK(stats.steps == kRounds - stats.skipped);
  }
}

TEST_CASE("abi: threads with scalers of their own need no turns") {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k)
    threads.emplace_back([&wrong] {
      Scaler scaler({{"growth_interval", 1}, {"init_scale", 1024}});
      TestTensor x(kF32, 70001);
      x.set_all(0, 1);
      Optimizer opt("adamw");
      opt.add(x);
      scaler.attach_to(opt);
      opt.setting("max_grad_norm", 1);
      for (int round = 0; round < 20; ++round) {
        x.grad.set(70000, round % 2 ? kInf : 1);
        opt.step();
        if (talus_scaler_set(scaler.get(), "scale", kNaN) != TALUS_E_RANGE) ++wrong;
        if (std::string(talus_last_error()).find("scaler") == std::string::npos) ++wrong;
        scaler.update();
        if (scaler.scale() != (round % 2 ? 1024 : 2048)) ++wrong;
      }
      if (stats_of(opt).skipped != 10) ++wrong;
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("abi: a scaler is let go by threads at once") {
  for (int round = 0; round < 50; ++round) {
    auto scaler = std::make_unique<Scaler>();
    std::deque<Finder> finders;
    for (int k = 0; k < 4; ++k) finders.emplace_back(*scaler);
    std::vector<std::thread> threads;
    for (Finder& f : finders)
      threads.emplace_back([&f] { talus_attach_scaler(f.optimizer.get(), nullptr); });
    threads.emplace_back([&scaler] { scaler.reset(); });
    for (std::thread& t : threads) t.join();
    for (Finder& f : finders) REQUIRE(stats_of(f.optimizer).loss_scale == 1);
  }
}
