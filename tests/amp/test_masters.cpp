// Masters of 16-bit parameters by call: written from outside and taken up again, copied out, set and
// read as f32; in the library's memory and in the caller's; and what is refused.
#include <catch2/catch_test_macros.hpp>

#include "tests/abi/fixture.h"
#include "tests/amp/amp.h"

using namespace talus::test;
using talus::abi::refused;

namespace {

constexpr Mix kHalves[] = {{TALUS_BF16, TALUS_F32, TALUS_MASTER_AUTO},
                           {TALUS_F16, TALUS_F32, TALUS_MASTER_F32},
                           {TALUS_BF16, TALUS_BF16, TALUS_MASTER_F32},
                           {TALUS_F16, TALUS_F16, TALUS_MASTER_AUTO}};
// The last one in more than a piece; one mix is enough there.
constexpr int64_t kCounts[] = {1, 67, 4097, 300001};
bool is_left_out(const Mix& mix, int64_t n) { return n > 4097 && &mix != kHalves; }

talus_status import(const Optimizer& opt, const TestTensor& x, const void* data,
                    int32_t dtype = TALUS_F32) {
  return talus_import_param(opt.get(), "master", x.index, data, dtype, nullptr);
}
talus_status export_to(const Optimizer& opt, const TestTensor& x, void* data,
                       int32_t dtype = TALUS_F32) {
  return talus_export_param(opt.get(), "master", x.index, data, dtype, nullptr);
}

// f32 values that no 16-bit float holds.
std::vector<float> fine_values(int64_t n, uint64_t seed = 3) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(float(param_value(seed, i)));
  return values;
}

std::string wrong_master(const Optimizer& opt, const TestTensor& x,
                         const std::vector<float>& want) {
  return difference_from("master", opt.state(x, "master_param"),
                         [&](int64_t i) { return uint64_t{bits_of(want[size_t(i)])}; });
}
// The parameter is the rounded copy of `master`.
std::string wrong_copy(const TestTensor& x, const std::vector<float>& master) {
  return difference_from("parameter", x.param, [&](int64_t i) {
    return encode(x.param.format(), double(master[size_t(i)]));
  });
}

std::vector<float> masters_of(const Optimizer& opt, const TestTensor& x) {
  std::vector<float> master(size_t(x.extent));
  must(export_to(opt, x, master.data()));
  return master;
}

}  // namespace

TEST_CASE("an imported master is where the first step starts from, to the last bit") {
  for (const Mix& mix : kHalves)
    for (int64_t n : kCounts) {
      if (is_left_out(mix, n)) continue;
      const std::vector<float> values = fine_values(n);
      TestTensor x(mix, n), y(kF32, n);
      x.fill(9);
      for (int64_t i = 0; i < n; ++i) y.param.set(i, double(values[size_t(i)]));
      Optimizer with("adamw"), plain("adamw");
      with.add(x), plain.add(y);
      REQUIRE(import(with, x, values.data()) == TALUS_OK);
      INFO(name_of(mix) << ", n " << n);
      CHECK(wrong_copy(x, values) == "");
      CHECK(with.steps(x) == 0);
      CHECK(masters_of(with, x) == values);
      for (int step = 1; step <= 2; ++step) {
        x.fill_grad(9, step);
        for (int64_t i = 0; i < n; ++i) y.grad.set(i, x.grad.get(i));
        with.step(), plain.step();
        CHECK(difference("value", with.state(x, "master_param"), y.param) == "");
      }
      CHECK(wrong_copy(x, masters_of(with, x)) == "");
      CHECK(x.param.guards_intact());
    }
}

TEST_CASE("a master set between steps is what the next one starts from; other state stays") {
  for (const Mix& mix : kHalves) {
    TestTensor x(mix, 300);
    x.fill(1).fill_grad(1, 1);
    Optimizer opt("adamw");
    opt.add(x);
    opt.step();
    const std::vector<float> values = fine_values(300);
    std::vector<double> moment;
    for (int64_t i = 0; i < 300; ++i) moment.push_back(opt.state(x, "exp_avg").get(i));
    REQUIRE(import(opt, x, values.data()) == TALUS_OK);
    INFO(name_of(mix));
    CHECK(wrong_master(opt, x, values) == "");
    CHECK(wrong_copy(x, values) == "");
    CHECK(opt.steps(x) == 1);
    for (int64_t i = 0; i < 300; ++i) CHECK(opt.state(x, "exp_avg").get(i) == moment[size_t(i)]);
  }
}

TEST_CASE("a parameter written from outside is undone by the next step unless it is imported") {
  for (const Mix& mix : kHalves)
    for (bool imports : {false, true}) {
      TestTensor x(mix, 300);
      x.fill(1).fill_grad(1, 1);
      Optimizer opt("sgd", {{"lr", 0}});
      opt.add(x);
      opt.step();
      const Buffer before = x.param;
      for (int64_t i = 0; i < 300; ++i) x.param.set(i, 8 + double(i % 8));
      const Buffer written = x.param;
      if (imports) REQUIRE(import(opt, x, nullptr) == TALUS_OK);
      CHECK(x.param.same_bytes(written));
      opt.step();
      INFO(name_of(mix) << ", imports " << imports);
      CHECK(x.param.same_bytes(imports ? written : before));
      for (int64_t i = 0; i < 300; ++i)
        CHECK(opt.state(x, "master_param").get(i) == (imports ? written : before).get(i));
    }
}

TEST_CASE("before the first step an import of the parameter changes nothing and needs nothing") {
  TestTensor x(kHalves[0], 9);
  x.fill(1);
  Optimizer opt("adamw");
  opt.add(x);
  const auto before = talus::abi::see(opt.get());
  CHECK(import(opt, x, nullptr) == TALUS_OK);
  CHECK(talus::abi::first_difference(before, talus::abi::see(opt.get())) == "");
  x.fill(2);  // after the call, which the first step sees all the same
  opt.step();
  CHECK(std::abs(opt.state(x, "master_param").get(0) -
                 nearest(x.param.format(), param_value(2, 0))) < .01);
}

TEST_CASE("the last of several imports before the first step counts, also one of the parameter") {
  const std::vector<float> first = fine_values(67, 1), second = fine_values(67, 2);
  TestTensor x(kHalves[0], 67);
  Optimizer opt("sgd", {{"lr", 0}});
  opt.add(x);
  REQUIRE(import(opt, x, first.data()) == TALUS_OK);
  REQUIRE(import(opt, x, second.data()) == TALUS_OK);
  CHECK(masters_of(opt, x) == second);
  for (int64_t i = 0; i < 67; ++i) x.param.set(i, 3), x.grad.set(i, 1);
  REQUIRE(import(opt, x, nullptr) == TALUS_OK);
  CHECK(masters_of(opt, x) == std::vector<float>(67, 3));
  opt.step();
  CHECK(masters_of(opt, x) == std::vector<float>(67, 3));
}

TEST_CASE("copying out writes the parameter from its master, or the master to the caller") {
  for (const Mix& mix : kHalves)
    for (int64_t n : kCounts) {
      if (is_left_out(mix, n)) continue;
      TestTensor x(mix, n);
      x.fill(1).fill_grad(1, 1);
      Optimizer opt("adamw");
      opt.add(x);
      opt.step();
      const Buffer right = x.param;
      const std::vector<float> master = masters_of(opt, x);
      INFO(name_of(mix) << ", n " << n);
      CHECK(wrong_master(opt, x, master) == "");
      for (int64_t i = 0; i < n; ++i) x.param.set(i, 5);
      REQUIRE(export_to(opt, x, nullptr) == TALUS_OK);
      CHECK(x.param.same_bytes(right));
      CHECK(x.param.guards_intact());
      CHECK(masters_of(opt, x) == master);
    }
}

TEST_CASE("a master in the caller's memory is the one that calls read and write") {
  for (bool stepped : {false, true}) {
    const std::vector<float> values = fine_values(67);
    TestTensor x(kHalves[1], 67);
    x.fill(4).fill_grad(4, 1);
    std::vector<float> mine(67, 2);
    Optimizer opt("sgd", {{"lr", 0}});
    opt.add(x);
    must(talus_bind_state(opt.get(), x.index, "master_param", mine.data(), 4 * 67));
    CHECK(masters_of(opt, x) == std::vector<float>(67, 2));  // taken as it is
    if (stepped) opt.step();
    REQUIRE(import(opt, x, values.data()) == TALUS_OK);
    CHECK(mine == values);
    CHECK(wrong_copy(x, values) == "");
    for (int64_t i = 0; i < 67; ++i) x.param.set(i, 7);
    REQUIRE(import(opt, x, nullptr) == TALUS_OK);
    CHECK(mine == std::vector<float>(67, 7));
    opt.step();
    CHECK(mine == std::vector<float>(67, 7));
  }
}

TEST_CASE(
    "a master set before a fixed value changes starts from the parameter again, never from noise") {
  const std::vector<float> values = fine_values(300);
  for (bool moves : {false, true}) {
    TestTensor x(kHalves[0], 300);
    x.fill(1);
    for (int64_t i = 0; i < 300; ++i) x.grad.set(i, 0);
    Optimizer opt("adamw", {{"weight_decay", 0}});
    opt.add(x);
    REQUIRE(import(opt, x, values.data()) == TALUS_OK);
    if (moves) {
      const int32_t group = opt.add_group();
      opt.set("amsgrad", 1, group);
      must(talus_move_params(opt.get(), group, 1, &x.index));
    } else {
      opt.set("amsgrad", 1);
    }
    const Buffer rounded = x.param;
    opt.step();
    INFO("moves " << moves);
    CHECK(x.param.same_bytes(rounded));
    for (int64_t i = 0; i < 300; ++i) CHECK(opt.state(x, "master_param").get(i) == rounded.get(i));
  }
}

TEST_CASE("infinite and NaN masters keep what they are; f16 that overflows comes back") {
  TestTensor x(kHalves[1], 4);
  x.set_all(1, 0);
  Optimizer opt("sgd", {{"lr", 1}});
  opt.add(x);
  const float values[] = {INFINITY, NAN, 70000, -70000};
  REQUIRE(import(opt, x, values) == TALUS_OK);
  CHECK(x.param.get(0) == INFINITY);
  CHECK(std::isnan(x.param.get(1)));
  CHECK(x.param.get(2) == INFINITY);
  CHECK(x.param.get(3) == -INFINITY);
  for (int64_t i = 0; i < 4; ++i) x.grad.set(i, i == 2 ? 10000 : -10000);
  opt.step();
  CHECK(x.param.get(0) == INFINITY);
  CHECK(std::isnan(x.param.get(1)));
  CHECK(x.param.get(2) == 60000);
  CHECK(x.param.get(3) == -60000);
}

TEST_CASE("empty parameters have empty masters") {
  TestTensor x(kHalves[0], 0);
  Optimizer opt("sgd");
  opt.add(x);
  const float none = 0;
  CHECK(import(opt, x, nullptr) == TALUS_OK);
  CHECK(import(opt, x, &none) == TALUS_OK);
  CHECK(export_to(opt, x, nullptr) == TALUS_OK);
}

// ---- refusals

TEST_CASE("parameters without a master, other dtypes, views and moments are refused") {
  const Mix without[] = {kF32, kF64, {TALUS_BF16, TALUS_F32, TALUS_MASTER_NONE}};
  for (const Mix& mix : without) {
    TestTensor x(mix, 3);
    x.set_all(1, 1);
    Optimizer opt("sgd");
    opt.add(x);
    float data[3] = {7, 7, 7};
    INFO(name_of(mix));
    for (void* to : {static_cast<void*>(data), static_cast<void*>(nullptr)}) {
      refused(opt.get(), TALUS_E_UNSUPPORTED, {"talus_import_param", "param.0", "master"},
              [&] { return import(opt, x, to); });
      refused(opt.get(), TALUS_E_UNSUPPORTED, {"talus_export_param", "param.0", "master"},
              [&] { return export_to(opt, x, to); });
    }
    CHECK(data[0] == 7);
  }

  TestTensor x(kHalves[0], 3);
  x.set_all(1, 1);
  Optimizer opt("sgd");
  opt.add(x);
  talus_optimizer* const handle = opt.get();
  float data[3] = {7, 7, 7};
  for (int32_t dtype : {0, TALUS_F16, TALUS_BF16, TALUS_F64, TALUS_I32, -1, 99}) {
    refused(handle, TALUS_E_UNSUPPORTED, {"dtype", "TALUS_F32"},
            [&] { return import(opt, x, data, dtype); });
    refused(handle, TALUS_E_UNSUPPORTED, {"dtype", "TALUS_F32"},
            [&] { return export_to(opt, x, data, dtype); });
  }
  for (const char* view : {"", "ema", "MASTER", "master_param"}) {
    refused(handle, TALUS_E_NAME, {"view", "master"},
            [&] { return talus_import_param(handle, view, 0, data, TALUS_F32, nullptr); });
    refused(handle, TALUS_E_NAME, {"view", "master"},
            [&] { return talus_export_param(handle, view, 0, data, TALUS_F32, nullptr); });
  }
  refused(handle, TALUS_E_ARGUMENT, {"view"},
          [&] { return talus_import_param(handle, nullptr, 0, data, TALUS_F32, nullptr); });
  refused(handle, TALUS_E_ARGUMENT, {"stream"},
          [&] { return talus_import_param(handle, "master", 0, data, TALUS_F32, data); });
  refused(handle, TALUS_E_ARGUMENT, {"stream"},
          [&] { return talus_export_param(handle, "master", 0, data, TALUS_F32, data); });
  for (int64_t param : {int64_t{-1}, int64_t{1}, INT64_MAX}) {
    refused(handle, TALUS_E_ARGUMENT, {"parameter"},
            [&] { return talus_import_param(handle, "master", param, data, TALUS_F32, nullptr); });
    refused(handle, TALUS_E_ARGUMENT, {"parameter"},
            [&] { return talus_export_param(handle, "master", param, data, TALUS_F32, nullptr); });
  }
  refused(handle, TALUS_E_STATE, {"param.0", "first step"},
          [&] { return export_to(opt, x, data); });
  refused(handle, TALUS_E_STATE, {"param.0", "first step"},
          [&] { return export_to(opt, x, nullptr); });
  opt.prepare();  // memory alone is no master
  refused(handle, TALUS_E_STATE, {"param.0", "first step"},
          [&] { return export_to(opt, x, data); });
  CHECK(data[0] == 7);
  must(talus_remove_params(handle, 1, &x.index));
  refused(handle, TALUS_E_ARGUMENT, {"removed"}, [&] { return import(opt, x, data); });
}

TEST_CASE("a master for f32 or f64 is refused when the parameter is added") {
  for (int32_t dtype : {TALUS_F32, TALUS_F64}) {
    TestTensor x({dtype, dtype, TALUS_MASTER_F32}, 3);
    x.set_all(1, 1);
    Optimizer opt("sgd");
    const talus_param d = x.descriptor();
    refused(opt.get(), TALUS_E_UNSUPPORTED, {"master"},
            [&] { return talus_add_params(opt.get(), 0, 1, &d, nullptr); });
  }
}

TEST_CASE(
    "check_masters: a parameter written from outside is refused by the step until it is told") {
  for (const Mix& mix : kHalves)
    for (int64_t n : kCounts) {
      if (is_left_out(mix, n)) continue;
      INFO(name_of(mix) << ", n " << n);
      TestTensor first(kF32, 5), x(mix, n);
      first.fill(3), x.fill(4);
      Optimizer opt("adamw");
      opt.add(first), opt.add(x);
      opt.setting("check_masters", 1);
      for (int step = 1; step <= 3; ++step) {  // before the first it has no master
        first.fill_grad(3, step), x.fill_grad(4, step);
        opt.step();
      }
      const int64_t last = n - 1;
      const uint64_t bits = x.param.bits(last);
      x.param.set_bits(last, bits ^ 1);
      const std::vector<float> master = masters_of(opt, x);
      refused(opt.get(), TALUS_E_STATE, {"param.1", "outside", "talus_import_param"},
              [&] { return talus_step(opt.get(), nullptr); });
      CHECK(talus_last_error_detail() == x.index);
      CHECK(x.param.bits(last) == (bits ^ 1));
      CHECK(masters_of(opt, x) == master);
      opt.bind_grad(x, nullptr);  // it does not take part
      opt.step();
      opt.bind_grad(x, x.grad.data());
      refused(opt.get(), TALUS_E_STATE, {"param.1"},
              [&] { return talus_step(opt.get(), nullptr); });
      REQUIRE(import(opt, x, nullptr) == TALUS_OK);
      opt.step();
      x.param.set_bits(last, x.param.bits(last) ^ 1);
      opt.setting("check_masters", 0);
      opt.step();  // undone unseen
      CHECK(wrong_copy(x, masters_of(opt, x)) == "");
    }
}

TEST_CASE("steps set to 0 start from the parameter, not from a master that was given long ago") {
  TestTensor x({TALUS_BF16, TALUS_F32, TALUS_MASTER_AUTO}, 67);
  x.fill(1).fill_grad(1, 1);
  Optimizer opt("sgd", {{"lr", 0}});
  opt.add(x);
  REQUIRE(import(opt, x, fine_values(67).data()) == TALUS_OK);
  opt.step();
  must(talus_set_steps(opt.get(), x.index, 0));
  for (int64_t i = 0; i < 67; ++i) x.param.set(i, 4);
  opt.step();
  CHECK(masters_of(opt, x) == std::vector<float>(67, 4));
}

// ---- bytes for each element

TEST_CASE("bytes of AdamW: what is stored, read and written for each element") {
  struct Row {
    Mix mix;
    double param, grad, master, state, read, written;
  };
  const Row rows[] = {
      {kF32, 4, 4, 0, 8, 16, 12},
      {{TALUS_BF16, TALUS_BF16, TALUS_MASTER_AUTO}, 2, 2, 4, 8, 14, 14},
      {{TALUS_F16, TALUS_F16, TALUS_MASTER_F32}, 2, 2, 4, 8, 14, 14},
      {{TALUS_BF16, TALUS_F32, TALUS_MASTER_AUTO}, 2, 4, 4, 8, 16, 14},
      {{TALUS_BF16, TALUS_BF16, TALUS_MASTER_NONE}, 2, 2, 0, 8, 12, 10},
      {kF64, 8, 8, 0, 16, 32, 24},
      {{TALUS_F64, TALUS_F32, 0}, 8, 4, 0, 16, 28, 24},
  };
  Optimizer opt("adamw");
  for (const Row& row : rows) {
    talus_param param{};
    param.struct_size = sizeof param;
    param.dtype = row.mix.param, param.grad_dtype = row.mix.grad, param.master = row.mix.master;
    talus_bytes bytes{};
    bytes.struct_size = sizeof bytes;
    must(talus_bytes_per_param(opt.get(), 0, &param, &bytes));
    INFO(name_of(row.mix));
    CHECK(bytes.param == row.param);
    CHECK(bytes.grad == row.grad);
    CHECK(bytes.master == row.master);
    CHECK(bytes.state == row.state);
    CHECK(bytes.read == row.read);
    CHECK(bytes.written == row.written);
  }
  CHECK(talus_param_count(opt.get()) == 0);
}

TEST_CASE("bytes follow the group's values, and what cannot be added has none") {
  Optimizer opt("sgd");
  talus_param param{};
  param.struct_size = sizeof param;
  param.dtype = TALUS_F32;
  talus_bytes bytes{};
  bytes.struct_size = sizeof bytes;
  must(talus_bytes_per_param(opt.get(), 0, &param, &bytes));
  CHECK((bytes.state == 0 && bytes.read == 8 && bytes.written == 4));
  opt.set("momentum", .9);
  must(talus_bytes_per_param(opt.get(), 0, &param, &bytes));
  CHECK((bytes.state == 4 && bytes.read == 12 && bytes.written == 8));

  const talus_bytes before = bytes;
  param.master = TALUS_MASTER_F32;
  refused(opt.get(), TALUS_E_UNSUPPORTED, {"master"},
          [&] { return talus_bytes_per_param(opt.get(), 0, &param, &bytes); });
  param.master = 0, param.dtype = 77;
  refused(opt.get(), TALUS_E_UNSUPPORTED, {"dtype"},
          [&] { return talus_bytes_per_param(opt.get(), 0, &param, &bytes); });
  param.dtype = TALUS_F32;
  for (int32_t group : {-2, -1, 1})
    refused(opt.get(), TALUS_E_ARGUMENT, {"group"},
            [&] { return talus_bytes_per_param(opt.get(), group, &param, &bytes); });
  refused(opt.get(), TALUS_E_ARGUMENT, {"param"},
          [&] { return talus_bytes_per_param(opt.get(), 0, nullptr, &bytes); });
  refused(opt.get(), TALUS_E_ARGUMENT, {"out"},
          [&] { return talus_bytes_per_param(opt.get(), 0, &param, nullptr); });
  CHECK(std::memcmp(&before, &bytes, sizeof bytes) == 0);
}
