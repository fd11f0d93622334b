// The C++ layer over mixed precision: the scaler as a value, the levels of amp, norms and masters, and
// a training under each level.
#include <catch2/catch_test_macros.hpp>

#include <talus.hpp>

#include <cmath>
#include <cstring>
#include <vector>

#include "tests/hpp.h"

using talus::Optimizer;
using talus::test::code_of;

namespace {

float widened(uint16_t bf16) {
  const uint32_t bits = uint32_t{bf16} << 16;
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}

// A parameter of 4 elements as a level has it, and a loss of sum (w - 3)^2 / 2, times a scale.
struct Quadratic {
  talus::Amp level;
  std::vector<float> w32 = {0, 1, -2, 5}, g32 = std::vector<float>(4);
  std::vector<uint16_t> w16 = {0, 0x3f80, 0xc000, 0x40a0};  // the same as bf16
  int64_t extent = 4;

  void add_to(Optimizer& opt) {
    talus_param p{};
    p.struct_size = sizeof p;
    p.dtype = level.param_dtype;
    p.data = is_half() ? static_cast<void*>(w16.data()) : w32.data();
    p.grad = g32.data();
    p.grad_dtype = TALUS_F32;
    p.shape = &extent;
    p.ndim = 1;
    p.master = level.master;
    talus::check(talus_add_params(opt.handle(), 0, 1, &p, nullptr));
  }
  bool is_half() const { return level.param_dtype != TALUS_F32; }
  float w(size_t i) const { return is_half() ? widened(w16[i]) : w32[i]; }
  void backward(double scale) {
    for (size_t i = 0; i < 4; ++i) g32[i] = float(scale) * (w(i) - 3);
  }
};

}  // namespace

TEST_CASE("hpp: levels of amp are what apex's are, for bf16 and f16") {
  const talus::Amp o0 = talus::amp(0), o1 = talus::amp(1), o2 = talus::amp(2);
  CHECK((o0.compute_dtype == TALUS_F32 && o0.param_dtype == TALUS_F32));
  CHECK((o1.compute_dtype == TALUS_BF16 && o1.param_dtype == TALUS_F32));
  CHECK((o2.compute_dtype == TALUS_BF16 && o2.param_dtype == TALUS_BF16));
  CHECK((o0.grad_dtype == TALUS_F32 && o1.grad_dtype == TALUS_F32 && o2.grad_dtype == TALUS_BF16));
  CHECK(o2.master == TALUS_MASTER_F32);
  CHECK_FALSE((o0.needs_scaler || o1.needs_scaler || o2.needs_scaler));
  CHECK_FALSE(talus::amp(0, TALUS_F16).needs_scaler);
  CHECK((talus::amp(1, TALUS_F16).needs_scaler && talus::amp(2, TALUS_F16).needs_scaler));
  CHECK(talus::amp(2, TALUS_F16).param_dtype == TALUS_F16);
  for (int level : {-1, 3, 99})
    CHECK(code_of([&] { (void)talus::amp(level); }) == TALUS_E_ARGUMENT);
  for (int32_t half : {0, TALUS_F32, TALUS_F64})
    CHECK(code_of([&] { (void)talus::amp(2, half); }) == TALUS_E_ARGUMENT);
}

TEST_CASE("hpp: every level trains, with a scaler or without") {
  for (int level : {0, 1, 2})
    for (bool scales : {false, true}) {
      Quadratic q{talus::amp(level)};
      Optimizer opt("sgd", {{"lr", .25}});
      q.add_to(opt);
      talus::Scaler scaler({{"growth_interval", 4}});
      if (scales) opt.attach(scaler);
      for (int step = 0; step < 40; ++step) {
        q.backward(scales ? scaler.scale() : 1);
        if (scales && step == 7) q.g32[2] = INFINITY;
        opt.step();
        if (scales) scaler.update();
      }
      INFO("level " << level << ", scales " << scales);
      for (size_t i = 0; i < 4; ++i) CHECK(std::abs(q.w(i) - 3) < .02);
      if (scales) CHECK(scaler.get("total_skips") == 1);
    }
}

TEST_CASE("hpp: copies of a scaler are the same one, and one that is gone serves on") {
  Quadratic q{talus::amp(0)};
  Optimizer opt("sgd");
  q.add_to(opt);
  {
    talus::Scaler scaler({{"init_scale", 16}, {"growth_interval", 1}});
    const talus::Scaler copy = scaler;
    opt.attach(scaler);
    q.backward(copy.scale());
    opt.step();
    scaler.update();
    CHECK(copy.scale() == 32);
    CHECK(copy.get("growth_interval") == 1);
  }
  opt.step();
  opt.detach_scaler();
  opt.step();
}

TEST_CASE("hpp: what the library refuses is thrown with its code") {
  Quadratic q{talus::amp(0)};
  Optimizer opt("sgd");
  q.add_to(opt);
  talus::Scaler scaler;
  CHECK(code_of([] { talus::Scaler bad({{"init_scale", 0}}); }) == TALUS_E_RANGE);
  CHECK(code_of([] { talus::Scaler bad({{"no such", 1}}); }) == TALUS_E_NAME);
  CHECK(code_of([] { talus::Scaler bad({}, 77); }) == TALUS_E_ARGUMENT);
  CHECK(code_of([&] { scaler.set("scale", -1); }) == TALUS_E_RANGE);
  CHECK(code_of([&] { (void)scaler.get("no such"); }) == TALUS_E_NAME);
  CHECK(code_of([&] { scaler.update(); }) == TALUS_E_STATE);
  CHECK(code_of([&] { (void)opt.grad_norm(3); }) == TALUS_E_RANGE);
  CHECK(code_of([&] { (void)opt.clip_grad_norm(0); }) == TALUS_E_RANGE);
  CHECK(code_of([&] { (void)opt.grad_norm(2, 5); }) == TALUS_E_ARGUMENT);
  CHECK(code_of([&] { opt.reload_master(0); }) == TALUS_E_UNSUPPORTED);
}

TEST_CASE("hpp: norms are measured, and the next step is clipped") {
  Quadratic q{talus::amp(0)};
  q.w32 = {0, 0, 0, 0};
  Optimizer opt("sgd", {{"lr", 1}});
  q.add_to(opt);
  q.g32 = {3, 0, -4, 0};
  CHECK(opt.grad_norm() == 5);
  CHECK(opt.grad_norm(1) == 7);
  CHECK(opt.grad_norm(INFINITY, 0) == 4);
  CHECK(opt.clip_grad_norm(.5) == 5);
  opt.step();
  CHECK(std::abs(q.w32[0] + .3f) < 1e-6);
  CHECK(std::abs(q.w32[2] - .4f) < 1e-6);
  opt.step();
  CHECK(std::abs(q.w32[0] + 3.3f) < 1e-6);
}

TEST_CASE("hpp: masters go out and in through spans of the parameter's size") {
  Quadratic q{talus::amp(2)};
  Optimizer opt("sgd", {{"lr", 0}});
  q.add_to(opt);
  const std::vector<float> fine = {.1f, .2f, .3f, .4f};
  std::vector<float> read(4), wrong(3);
  CHECK(code_of([&] { opt.export_master(0, read); }) == TALUS_E_STATE);
  opt.import_master(0, fine);
  opt.export_master(0, read);
  CHECK(read == fine);
  opt.step();
  CHECK(q.w16[0] == 0x3dcd);
  q.w16[0] = 0x4040;
  opt.reload_master(0);
  opt.export_master(0, read);
  CHECK(read[0] == 3);
  CHECK(code_of([&] { opt.export_master(0, wrong); }) == TALUS_E_ARGUMENT);
  CHECK(code_of([&] { opt.import_master(0, wrong); }) == TALUS_E_ARGUMENT);
  CHECK(code_of([&] { opt.import_master(7, fine); }) == TALUS_E_ARGUMENT);
}
