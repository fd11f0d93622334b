// What talus.hpp adds for bindings: versions, streams of a checkpoint, several optimizers, rows and
// dtypes that no span names, and members that return the status.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <talus.hpp>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/hpp.h"

using Catch::Matchers::ContainsSubstring;
using talus::Optimizer;
using talus::test::code_of;

namespace {

// An optimizer of one parameter, which has taken a step.
struct Model {
  std::vector<float> w = {1, 2, 3, 4}, g = {1, -1, 2, 0.5f};
  Optimizer opt{"adam", {{"lr", 0.1}}};

  Model() {
    opt.add(w, g, {.name = "w", .shape = {2, 2}});
    opt.step();
  }
};

}  // namespace

TEST_CASE("ffi hpp: the loaded library has the version and the ABI that the header is for") {
  CHECK(talus::version() == TALUS_VERSION);
  CHECK(talus::abi_version() >> 16 == talus::kAbi);
  CHECK_NOTHROW(talus::require_abi());
  CHECK_THAT(talus::build_info(), ContainsSubstring("0.1"));
}

TEST_CASE("ffi hpp: a checkpoint goes through the caller's functions") {
  Model from, to;
  from.opt.step();
  std::vector<char> kept;
  from.opt.save_to([&](const void* bytes, uint64_t count) {
    const char* first = static_cast<const char*>(bytes);
    kept.insert(kept.end(), first, first + count);
  });
  CHECK(std::string(kept.begin(), kept.end()) == from.opt.save_bytes());
  const auto read = [&](uint64_t offset, void* bytes, uint64_t count) {
    std::copy_n(kept.begin() + int64_t(offset), count, static_cast<char*>(bytes));
  };
  CHECK(to.opt.steps(0) == 1);
  to.opt.load_from(read, kept.size());
  CHECK(to.opt.steps(0) == 2);
  CHECK(to.opt.save_bytes() == from.opt.save_bytes());
}

TEST_CASE("ffi hpp: what a stream's function throws comes out, and nothing has changed") {
  Model model;
  const std::string before = model.opt.save_bytes();
  CHECK_THROWS_AS(model.opt.save_to([](const void*, uint64_t) { throw std::domain_error("full"); }),
                  std::domain_error);
  const auto read = [](uint64_t, void*, uint64_t) { throw std::domain_error("gone"); };
  CHECK_THROWS_AS(model.opt.load_from(read, before.size()), std::domain_error);
  CHECK_THROWS_AS(model.opt.load_bytes(before.substr(0, 100)), talus::Error);
  CHECK(model.opt.save_bytes() == before);
}

TEST_CASE("ffi hpp: a norm and a clip of several optimizers are as of one") {
  std::vector<float> a = {0}, b = {0}, ga = {3}, gb = {4};
  Optimizer first("sgd", {{"lr", 1}}), second("sgd", {{"lr", 1}});
  first.add(a, ga);
  second.add(b, gb);
  Optimizer* const both[] = {&first, &second};
  CHECK(talus::grad_norm(both) == 5);
  CHECK(talus::grad_norm(both, 1) == 7);
  CHECK(talus::clip_grad_norm(both, 0.5) == 5);
  first.step();
  second.step();
  CHECK(std::pair(a[0] > -0.31f && a[0]<-0.29f, b[0]> - 0.41f && b[0] < -0.39f) ==
        std::pair(true, true));
  CHECK(code_of([&] { talus::clip_grad_norm(both, -1); }) == TALUS_E_RANGE);
}

TEST_CASE("ffi hpp: bytes for each element of a parameter") {
  const Optimizer opt("adamw");
  const talus_bytes bytes = opt.bytes_per_param(TALUS_BF16, {.grad_dtype = TALUS_F32});
  CHECK(bytes.param == 2);
  CHECK(bytes.grad == 4);
  CHECK(bytes.master == 4);
  CHECK(bytes.state == 8);
  CHECK(code_of([&] { (void)opt.bytes_per_param(7); }) == TALUS_E_UNSUPPORTED);
}

TEST_CASE("ffi hpp: a gradient of another dtype can be announced and bound later") {
  std::vector<talus::Float16> w(3, {0x3c00});
  std::vector<float> g(3, 0.5f);
  Optimizer opt("sgd", {{"lr", 1}});
  const int64_t late = opt.add(w, {.name = "late", .grad_dtype = TALUS_F32});
  opt.bind_grad(late, g);
  opt.step();
  CHECK(w[0].bits == 0x3800);
  CHECK(code_of([&] { opt.bind_grad(late, w); }) == TALUS_E_ARGUMENT);
  std::vector<talus::Float16> other(3);
  CHECK(code_of([&] { opt.add(other, g, {.grad_dtype = TALUS_F16}); }) == TALUS_E_ARGUMENT);
}

TEST_CASE("ffi hpp: gradients bound as const are read and never filled") {
  std::vector<float> w(3), v(3);
  const std::vector<float> g(3, 0.5f);
  Optimizer opt("sgd", {{"lr", 1}});
  const int64_t first = opt.add(w, g);
  opt.step();
  CHECK(w[0] == -0.5f);
  CHECK(code_of([&] { opt.zero_grad(); }) == TALUS_E_STATE);
  CHECK(g[0] == 0.5f);
  Optimizer moved("sgd");
  moved = std::move(opt);
  CHECK(code_of([&] { moved.zero_grad(); }) == TALUS_E_STATE);
  moved.zero_grad(TALUS_ZERO_UNBIND);
  moved.bind_grad(first, v);
  moved.zero_grad();
  moved.bind_grad(first, g);
  CHECK(code_of([&] { moved.zero_grad(); }) == TALUS_E_STATE);
  CHECK(g[0] == 0.5f);
}

TEST_CASE("ffi hpp: state of another dtype is refused") {
  Model model;
  std::vector<double> half(2);
  std::vector<float> right(4);
  CHECK(code_of([&] { model.opt.bind_state(0, "exp_avg", half); }) == TALUS_E_ARGUMENT);
  CHECK(code_of([&] { model.opt.bind_state(0, "nothing", right); }) == TALUS_E_NAME);
  model.opt.bind_state(0, "exp_avg", right);
  model.opt.step();
  CHECK(right[0] != 0);
}

TEST_CASE("ffi hpp: rows by description, and taken back") {
  std::vector<float> table(6), values = {1, 1};
  const int32_t row = 2;
  Optimizer opt("sgd", {{"lr", 1}});
  opt.add(table, {.shape = {3, 2}});
  talus_rows rows = talus::sized<talus_rows>();
  rows.index_dtype = TALUS_I32;
  rows.count = 1;
  rows.indices = &row;
  rows.values = values.data();
  opt.bind_rows(0, rows);
  opt.step();
  CHECK(table == std::vector<float>{0, 0, 0, 0, -1, -1});
  opt.bind_rows(0, rows);
  opt.unbind_rows(0);
  CHECK(code_of([&] { opt.step(); }) == TALUS_E_STATE);
}

TEST_CASE("ffi hpp: the clock of a schedule is told with it") {
  Model model;
  CHECK(!model.opt.schedule_clock("lr"));
  model.opt.attach("lr", talus::Schedule("constant"), TALUS_ALL, TALUS_CLOCK_MANUAL);
  CHECK(model.opt.schedule_clock("lr") == TALUS_CLOCK_MANUAL);
}

TEST_CASE("ffi hpp: members for hosts without exceptions return the status") {
  Optimizer opt(nullptr);
  CHECK(Optimizer::try_create("no_such", &opt) == TALUS_E_NAME);
  CHECK(opt.handle() == nullptr);
  REQUIRE(Optimizer::try_create("sgd", &opt) == TALUS_OK);
  CHECK(opt.try_set("lr", -1) == TALUS_E_RANGE);
  CHECK(opt.try_set("lr", 0.5) == TALUS_OK);
  float w = 1, g = 1;
  talus_param param = talus::sized<talus_param>();
  param.dtype = TALUS_F32;
  param.data = &w;
  int64_t first = -1;
  CHECK(opt.try_add({&param, 1}, 7) == TALUS_E_ARGUMENT);
  CHECK(opt.try_add({&param, 1}, 0, &first) == TALUS_OK);
  CHECK(first == 0);
  CHECK(opt.try_step() == TALUS_E_STATE);
  void* const grads[] = {&g};
  CHECK(opt.try_bind_grads(grads) == TALUS_OK);
  CHECK(opt.try_step() == TALUS_OK);
  CHECK(w == 0.5f);
  CHECK(opt.try_save("/nowhere/x.safetensors") == TALUS_E_IO);
  CHECK(opt.try_load("/nowhere/x.safetensors") == TALUS_E_IO);
}
