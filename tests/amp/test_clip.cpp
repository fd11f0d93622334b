// Clipping by norm and by value, as settings and by call: which gradients a step sees, for how long, of
// whom, and what is refused.
#include <catch2/catch_test_macros.hpp>

#include "tests/abi/fixture.h"
#include "tests/amp/sequences.h"
#include "tests/reference/entry.hpp"

using namespace talus::test;
using talus::abi::refused;
using talus::reference::Entry;

namespace {

constexpr double kInf = INFINITY, kNaN = NAN;

// What a step has taken off parameters that started at 0, with lr 1: the gradients as it saw them.
template <class Real>
std::string seen_difference(const TestTensor& x, const Entry& entry, double coef) {
  return difference_from("gradient", x.param, [&](int64_t i) {
    const Real g = talus::reference::entered<Real>(x.grad.get(i), entry, coef);
    return encode(x.param.format(), double(Real(0) - g));
  });
}
std::string seen_difference(const TestTensor& x, const Entry& entry, double coef) {
  return x.mix.param == TALUS_F64 ? seen_difference<double>(x, entry, coef)
                                  : seen_difference<float>(x, entry, coef);
}

std::vector<double> measured(const TestTensor& x, const Entry& entry) {
  std::vector<double> terms;
  for (int64_t i = 0; i < x.extent; ++i) {
    const double g = x.grad.get(i);
    terms.push_back(x.mix.param == TALUS_F64 ? talus::reference::measured<double>(g, entry)
                                             : double(talus::reference::measured<float>(g, entry)));
  }
  return terms;
}

// Sgd over tensors at 0 with lr 1.
struct Plain {
  std::deque<TestTensor> tensors;
  Optimizer optimizer{"sgd", {{"lr", 1}}};

  void add(const Mix& mix, int64_t n, int32_t group = 0) {
    TestTensor& x = tensors.emplace_back(mix, n);
    x.fill_grad(tensors.size(), 1);
    for (int64_t i = 0; i < n; ++i) x.param.set(i, 0);
    optimizer.add(x, group);
  }
  void start_again() {
    for (TestTensor& x : tensors)
      for (int64_t i = 0; i < x.extent; ++i) x.param.set(i, 0);
  }
  double norm(const Entry& entry, double type = 2) const {
    std::vector<std::vector<double>> terms;
    for (const TestTensor& x : tensors) terms.push_back(measured(x, entry));
    return talus::reference::norm_of(type, terms);
  }
  // Of all tensors, or those from `first` on.
  std::string difference(const Entry& entry, double coef, size_t first = 0,
                         size_t last = SIZE_MAX) const {
    for (size_t i = first; i < std::min(last, tensors.size()); ++i)
      if (const std::string text = seen_difference(tensors[i], entry, coef); !text.empty())
        return name_of(tensors[i].mix) + ": " + text;
    return "";
  }
};

const Mix kMixes[] = {kF32,
                      kF64,
                      {TALUS_F32, TALUS_F16, 0},
                      {TALUS_F32, TALUS_BF16, 0},
                      {TALUS_F64, TALUS_F32, 0},
                      {TALUS_BF16, TALUS_F32, TALUS_MASTER_NONE},
                      {TALUS_F16, TALUS_F16, TALUS_MASTER_NONE}};

void add_mixes(Plain& p) {
  for (const Mix& mix : kMixes)
    for (int64_t n : {5, 513, 4097}) p.add(mix, n);
}

talus_status clip(const std::vector<Optimizer*>& of, double max_norm, double type = 2,
                  int32_t group = TALUS_ALL, double* norm = nullptr) {
  std::vector<talus_optimizer*> handles;
  for (Optimizer* each : of) handles.push_back(each->get());
  return talus_clip_grad_norm(handles.data(), int32_t(handles.size()), group, max_norm, type, norm,
                              nullptr);
}

}  // namespace

// ---- settings

TEST_CASE(
    "a step sees gradients scaled back, cut and clipped in this order, with the defined "
    "roundings") {
  for (double scale : {1., 1024., 3.})
    for (double max_value : {0., .05})
      for (double max_norm : {0., .7, 1e9, kInf})
        for (double type : {1., 2., kInf}) {
          const Entry entry{scale, max_value};
          Plain p;
          add_mixes(p);
          p.optimizer.setting("grad_scale", scale);
          p.optimizer.setting("max_grad_value", max_value);
          p.optimizer.setting("max_grad_norm", max_norm);
          p.optimizer.setting("grad_norm_type", type);
          p.optimizer.step();
          const double norm = p.norm(entry, type);
          const double coef = max_norm > 0 ? talus::reference::coefficient(max_norm, norm) : 1;
          INFO("scale " << scale << ", cut " << max_value << ", max_norm " << max_norm << ", type "
                        << type << ", norm " << norm);
          CHECK(p.difference(entry, coef) == "");
          const talus_stats stats = stats_of(p.optimizer);
          CHECK(mismatch("clip_factor", stats.clip_factor, coef) == "");
          CHECK(mismatch("norm", stats.grad_norm, max_norm > 0 ? norm : kNaN) == "");
          CHECK(stats.loss_scale == scale);
        }
}

TEST_CASE("a norm clip at the norm itself makes gradients a little smaller, as PyTorch's does") {
  Plain p;
  p.add(kF64, 2);
  p.tensors[0].grad.set(0, 3), p.tensors[0].grad.set(1, -4);
  p.optimizer.setting("max_grad_norm", 5);
  p.optimizer.step();
  CHECK(stats_of(p.optimizer).clip_factor == 5 / (5 + 1e-6));
  CHECK(p.tensors[0].param.get(0) > -3);
}

TEST_CASE("the cut leaves what is at it, either sign, and zeros of either sign") {
  Plain p;
  p.add(kF32, 6);
  const double gradients[] = {.5, -.5, .50001, -9, 0., -0.};
  for (int64_t i = 0; i < 6; ++i) p.tensors[0].grad.set(i, gradients[i]);
  p.optimizer.setting("max_grad_value", .5);
  p.optimizer.step();
  const double want[] = {-.5, .5, -.5, .5, 0, 0};
  for (int64_t i = 0; i < 6; ++i) CHECK(p.tensors[0].param.get(i) == want[i]);
}

TEST_CASE("a NaN stays one behind the cut, an infinity does not, where nothing checks") {
  for (const Mix& mix : {kF32, kF64, Mix{TALUS_F32, TALUS_F16, 0}}) {
    Plain p;
    p.add(mix, 3);
    p.tensors[0].grad.set(0, NAN), p.tensors[0].grad.set(1, INFINITY);
    p.tensors[0].grad.set(2, -INFINITY);
    p.optimizer.setting("max_grad_value", 2);
    p.optimizer.step();
    CHECK(std::isnan(p.tensors[0].param.get(0)));
    CHECK(p.tensors[0].param.get(1) == -2);
    CHECK(p.tensors[0].param.get(2) == 2);
  }
}

TEST_CASE("clipping off again is off") {
  Plain p;
  add_mixes(p);
  p.optimizer.setting("max_grad_norm", .1);
  p.optimizer.setting("max_grad_value", .01);
  p.optimizer.step();
  p.optimizer.setting("max_grad_norm", 0);
  p.optimizer.setting("max_grad_value", 0);
  p.start_again();
  p.optimizer.step();
  CHECK(p.difference({}, 1) == "");
  CHECK(stats_of(p.optimizer).clip_factor == 1);
  CHECK(std::isnan(stats_of(p.optimizer).grad_norm));
}

TEST_CASE("an infinite max_grad_norm measures and skips, and clips nothing") {
  Plain p;
  p.add(kF32, 9);
  p.optimizer.setting("max_grad_norm", kInf);
  p.optimizer.step();
  CHECK(p.difference({}, 1) == "");
  CHECK(mismatch("norm", stats_of(p.optimizer).grad_norm, p.norm({})) == "");
  p.tensors[0].grad.set(3, kNaN);
  p.optimizer.step();
  CHECK(stats_of(p.optimizer).found_inf == 1);
}

TEST_CASE("settings of clipping outside of their ranges are refused") {
  Plain p;
  p.add(kF32, 3);
  talus_optimizer* const opt = p.optimizer.get();
  const auto refuse = [&](const char* name, double value) {
    INFO(name << " = " << value);
    refused(opt, TALUS_E_RANGE, {name}, [&] { return talus_set_setting(opt, name, value); });
  };
  for (double value : {-1., -1e-300, -kInf, kNaN}) refuse("max_grad_norm", value);
  for (double value : {-1., kInf, -kInf, kNaN}) refuse("max_grad_value", value);
  for (double value : {0., -1., 1.5, 3., -kInf, kNaN}) refuse("grad_norm_type", value);
  for (double value : {0., -1., kInf, kNaN, 0x1p127, 0x1p-127}) refuse("grad_scale", value);
  for (const char* name : {"check_finite", "error_if_nonfinite"})
    for (double value : {-1., .5, 2., kNaN}) refuse(name, value);
  for (double value : {0., .5, 1e300, kInf}) p.optimizer.setting("max_grad_norm", value);
}

TEST_CASE("f64 gradients whose squares overflow skip a step where the norm clips, and only there") {
  for (const char* why : {"max_grad_norm", "check_finite"}) {
    Plain p;
    p.add(kF64, 3);
    p.tensors[0].grad.set(1, 1e200);
    p.optimizer.setting(why, 1);
    p.optimizer.setting("stats", 1);
    p.optimizer.step();
    const talus_stats stats = stats_of(p.optimizer);
    const bool clips = why == std::string("max_grad_norm");
    INFO(why);
    CHECK(stats.found_inf == clips);
    CHECK(stats.nonfinite_param == (clips ? 0 : -1));
    CHECK(stats.grad_norm == kInf);
    CHECK((p.tensors[0].param.get(1) == -1e200) == !clips);
  }
}

TEST_CASE("lamb's own norm is that of the gradients as clipped before") {
  const Values own = {{"max_grad_norm", .5}, {"weight_decay", 0}};
  for (bool by_call : {false, true})
    for (double max_norm : {.75, .25}) {  // lamb clips once more, or not
      TestTensor x(kF64, 300), y(kF64, 300);
      x.fill(1).fill_grad(2, 1), y.fill(1);
      Optimizer clipped("lamb", own), plain("lamb", {{"max_grad_norm", 0}, {"weight_decay", 0}});
      clipped.add(x), plain.add(y);
      if (by_call)
        REQUIRE(clip({&clipped}, max_norm) == TALUS_OK);
      else
        clipped.setting("max_grad_norm", max_norm);
      const double norm = talus::reference::norm_of(2, {measured(x, {})});
      const double coef = talus::reference::coefficient(max_norm, norm);
      const double again = norm * coef > .5 ? norm * coef / .5 : 1;
      for (int64_t i = 0; i < 300; ++i) y.grad.set(i, x.grad.get(i) * coef / again);
      clipped.step(), plain.step();
      INFO("by call " << by_call << ", max_norm " << max_norm);
      CHECK(difference(clipped, x, plain, y) == "");
    }
}

// ---- by call

TEST_CASE("a clip by call measures, clips the next step, and that alone") {
  for (double type : {1., 2., kInf}) {
    Plain p;
    add_mixes(p);
    double norm = 0;
    REQUIRE(clip({&p.optimizer}, .1, type, TALUS_ALL, &norm) == TALUS_OK);
    CHECK(mismatch("norm", norm, p.norm({}, type)) == "");
    const double coef = talus::reference::coefficient(.1, norm);
    REQUIRE(coef < 1);
    p.optimizer.step();
    INFO("type " << type);
    CHECK(p.difference({}, coef) == "");
    p.start_again();
    p.optimizer.step();
    CHECK(p.difference({}, 1) == "");
  }
}

TEST_CASE("a clip by call under a scale and a cut has the roundings of the setting") {
  for (const Entry& entry : {Entry{1024, 0}, Entry{3, 0}, Entry{3, .02}}) {
    Plain called, set;
    add_mixes(called), add_mixes(set);
    for (Plain* p : {&called, &set}) {
      p->optimizer.setting("grad_scale", entry.scale);
      p->optimizer.setting("max_grad_value", entry.max_value);
    }
    REQUIRE(clip({&called.optimizer}, .01) == TALUS_OK);
    set.optimizer.setting("max_grad_norm", .01);
    called.optimizer.step(), set.optimizer.step();
    for (size_t i = 0; i < called.tensors.size(); ++i)
      CHECK(difference(called.optimizer, called.tensors[i], set.optimizer, set.tensors[i]) == "");
  }
}

TEST_CASE("a clip of one group leaves the others") {
  Plain p;
  p.optimizer.add_group();
  p.optimizer.add_group();
  for (int32_t group = 0; group < 3; ++group) p.add(kF32, 4097, group);
  double norm = 0;
  REQUIRE(clip({&p.optimizer}, .5, 2, 1, &norm) == TALUS_OK);
  CHECK(mismatch("norm", norm, talus::reference::norm_of(2, {measured(p.tensors[1], {})})) == "");
  p.optimizer.step();
  CHECK(p.difference({}, 1, 0, 1) == "");
  CHECK(p.difference({}, talus::reference::coefficient(.5, norm), 1, 2) == "");
  CHECK(p.difference({}, 1, 2, 3) == "");
}

TEST_CASE("groups clipped one by one have a factor each, also a group added since") {
  Plain p;
  p.optimizer.add_group();
  p.add(kF32, 300, 0);
  p.add(kF32, 500, 1);
  double first = 0, second = 0;
  REQUIRE(clip({&p.optimizer}, .5, 2, 0, &first) == TALUS_OK);
  REQUIRE(clip({&p.optimizer}, .25, 2, 1, &second) == TALUS_OK);
  p.optimizer.add_group();
  p.add(kF32, 9, 2);
  p.optimizer.step();
  CHECK(p.difference({}, talus::reference::coefficient(.5, first), 0, 1) == "");
  CHECK(p.difference({}, talus::reference::coefficient(.25, second), 1, 2) == "");
  CHECK(p.difference({}, 1, 2, 3) == "");
}

TEST_CASE("a clip by call behind another measures what that one has left") {
  for (double type : {1., 2., kInf}) {
    Plain p;
    p.optimizer.add_group();
    p.add(kF32, 300, 0);
    p.add(kF32, 500, 1);
    p.tensors[0].grad.set(7, 3), p.tensors[1].grad.set(9, -2);
    INFO("type " << type);
    double norm = 0, left = 0, again = 0;
    REQUIRE(clip({&p.optimizer}, .5, type, TALUS_ALL, &norm) == TALUS_OK);
    REQUIRE(clip({&p.optimizer}, kInf, type, TALUS_ALL, &left) == TALUS_OK);
    CHECK(std::abs(left - .5) < 1e-5);
    CHECK(grad_norm_of({p.optimizer.get()}, type) == norm);  // of what is bound
    REQUIRE(clip({&p.optimizer}, .25, type, 1, &left) == TALUS_OK);
    REQUIRE(clip({&p.optimizer}, kInf, type, 1, &again) == TALUS_OK);
    CHECK(left < .5);
    CHECK(std::abs(again - std::min(left, .25)) < 1e-5);
  }
}

TEST_CASE(
    "one group of several is not clipped beside a rule that reads the norm of all gradients") {
  TestTensor x(kF32, 30), y(kF32, 40);
  x.fill(1).fill_grad(1, 1), y.fill(2).fill_grad(2, 1);
  Optimizer opt("sgd");
  opt.add(x);
  opt.add(y, opt.add_group("lamb"));
  for (int32_t group : {0, 1})
    refused(opt.get(), TALUS_E_UNSUPPORTED, {"talus_clip_grad_norm", "group", "TALUS_ALL"},
            [&] { return clip({&opt}, .5, 2, group); });
  CHECK(clip({&opt}, .5) == TALUS_OK);
}

TEST_CASE("several optimizers are clipped by the norm of all of them") {
  Plain a, b;
  a.add(kF32, 4097), a.add(kF64, 33);
  b.add({TALUS_F32, TALUS_BF16, 0}, 5000);
  double norm = 0;
  REQUIRE(clip({&a.optimizer, &b.optimizer}, .5, 2, TALUS_ALL, &norm) == TALUS_OK);
  CHECK(
      mismatch("norm", norm,
               talus::reference::norm_of(2, {measured(a.tensors[0], {}), measured(a.tensors[1], {}),
                                             measured(b.tensors[0], {})})) == "");
  const double coef = talus::reference::coefficient(.5, norm);
  a.optimizer.step(), b.optimizer.step();
  CHECK(a.difference({}, coef) == "");
  CHECK(b.difference({}, coef) == "");
}

TEST_CASE("a norm that is not finite makes the next step of each a skipped one, and no more") {
  for (double bad : {kInf, kNaN}) {
    Plain a, b;
    a.add(kF32, 40), b.add(kF64, 50);
    b.tensors[0].grad.set(7, bad);
    double norm = 0;
    REQUIRE(clip({&a.optimizer, &b.optimizer}, .5, 2, TALUS_ALL, &norm) == TALUS_OK);
    CHECK(mismatch("norm", norm, bad) == "");
    b.tensors[0].grad.set(7, 1);
    for (Plain* p : {&a, &b}) {
      p->optimizer.step();
      CHECK(stats_of(p->optimizer).found_inf == 1);
      CHECK(stats_of(p->optimizer).steps == 0);
      CHECK(p->tensors[0].param.get(7) == 0);
      p->optimizer.step();
      CHECK(stats_of(p->optimizer).found_inf == 0);
      CHECK(p->difference({}, 1) == "");
    }
  }
}

TEST_CASE("a failed call to clip leaves the next step as it is") {
  Plain p;
  p.add(kF32, 40);
  talus_optimizer* const opt = p.optimizer.get();
  for (double max_norm : {0., -0., -1., -kInf, kNaN})
    refused(opt, TALUS_E_RANGE, {"max_norm"}, [&] { return clip({&p.optimizer}, max_norm); });
  for (double type : {0., 3., kNaN})
    refused(opt, TALUS_E_RANGE, {"norm_type"}, [&] { return clip({&p.optimizer}, 1, type); });
  refused(opt, TALUS_E_ARGUMENT, {"group"}, [&] { return clip({&p.optimizer}, 1, 2, 1); });
  refused(opt, TALUS_E_ARGUMENT, {"opts[0]"}, [&] {
    return clip({&p.optimizer, &p.optimizer}, 1);
  });
  p.optimizer.step();
  CHECK(p.difference({}, 1) == "");
}

TEST_CASE("one optimizer that cannot be measured leaves the others unclipped") {
  Plain a, b;
  a.add(kF32, 40), b.add(kF32, 40);
  must(talus_set(b.optimizer.get(), 0, "nesterov", 1));
  refused(a.optimizer.get(), TALUS_E_RANGE, {"nesterov"}, [&] {
    return clip({&a.optimizer, &b.optimizer}, .001);
  });
  a.optimizer.step();
  CHECK(a.difference({}, 1) == "");
}

TEST_CASE("clipping by call with infinity measures only") {
  Plain p;
  add_mixes(p);
  double norm = 0;
  REQUIRE(clip({&p.optimizer}, kInf, 2, TALUS_ALL, &norm) == TALUS_OK);
  CHECK(mismatch("norm", norm, p.norm({})) == "");
  p.optimizer.step();
  CHECK(p.difference({}, 1) == "");
}
