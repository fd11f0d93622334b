// Parameters and gradients: what talus_add_params, talus_bind_data and talus_bind_grads refuse and
// take, and what they say.
#include "tests/abi/fixture.h"

#include <functional>

using namespace talus::abi;

namespace {

// An optimizer with two parameters and a third one to be added, wrong in one way.
struct Rejected {
  Handle opt{"adamw"};
  Model model;
  alignas(64) float data[16] = {}, grad[16] = {};
  int64_t extents[3] = {2, 3, 1};
  talus_param param = describe(TALUS_F32, data, grad, extents);

  Rejected() {
    model.add_to(opt);
    param.name = "third";
    param.ndim = 2;
  }

  // Alone, and as the second of a batch whose first would be right.
  void check(talus_status expected, std::initializer_list<const char*> causes) {
    int64_t first = -7;
    refused(opt, expected, causes, [&] { return talus_add_params(opt, 0, 1, &param, &first); });
    float elsewhere[2] = {1, 2};
    const int64_t two = 2;
    talus_param batch[] = {describe<float>(TALUS_F32, elsewhere, nullptr, &two), param};
    batch[0].name = "first of the batch";
    refused(opt, expected, causes, [&] { return talus_add_params(opt, 0, 2, batch, &first); });
    CHECK(first == -7);
    CHECK(talus_find_param(opt, "third") == -1);
    CHECK(talus_find_param(opt, "first of the batch") == -1);
  }
};

}  // namespace

TEST_CASE("abi: add_params refuses NULL, negative counts and groups that are not there") {
  Rejected r;
  int64_t first = -7;
  refused(r.opt, TALUS_E_ARGUMENT, {},
          [&] { return talus_add_params(r.opt, 0, 1, nullptr, &first); });
  for (const int64_t count : {int64_t(-1), INT64_MIN})
    refused(r.opt, TALUS_E_ARGUMENT, {std::to_string(count).c_str()},
            [&] { return talus_add_params(r.opt, 0, count, &r.param, &first); });
  for (const int32_t group : {1, -1, INT32_MAX})
    refused(r.opt, TALUS_E_ARGUMENT, {std::to_string(group).c_str()},
            [&] { return talus_add_params(r.opt, group, 1, &r.param, &first); });
  CHECK(first == -7);
  CHECK(talus_add_params(r.opt, 0, 0, nullptr, nullptr) == TALUS_OK);
  CHECK(talus_add_params(r.opt, 0, 1, &r.param, nullptr) == TALUS_OK);
  CHECK(talus_find_param(r.opt, "third") == 2);
}

TEST_CASE("abi: add_params refuses dtypes and mixes that there are not") {
  Rejected r;
  SECTION("no dtype") {
    r.param.dtype = 0;
    r.check(TALUS_E_ARGUMENT, {"third", "dtype"});
  }
  SECTION("an integer dtype") {
    r.param.dtype = 0x2000;
    r.check(TALUS_E_UNSUPPORTED, {"third", "dtype", "2000"});
  }
  SECTION("a number that is no dtype") {
    r.param.dtype = -5;
    r.check(TALUS_E_UNSUPPORTED, {"third", "dtype"});
  }
  SECTION("f64 gradient for an f32 parameter") {
    r.param.grad_dtype = TALUS_F64;
    r.check(TALUS_E_UNSUPPORTED, {"third", "f32", "gradient", "f64"});
  }
  SECTION("16-bit gradient for an f64 parameter") {
    r.param.dtype = TALUS_F64;
    for (const int32_t dtype : {TALUS_F16, TALUS_BF16}) {
      r.param.grad_dtype = dtype;
      r.check(TALUS_E_UNSUPPORTED, {"third", "f64", "gradient", "f16"});
    }
  }
  SECTION("an unknown gradient dtype") {
    r.param.grad_dtype = 0x0801;
    r.check(TALUS_E_UNSUPPORTED, {"third", "grad_dtype"});
  }
  SECTION("a state dtype that this build does not have") {
    for (const int32_t dtype : {TALUS_F16, TALUS_BF16, TALUS_F64, 0x0801}) {
      r.param.state_dtype = dtype;
      r.check(TALUS_E_UNSUPPORTED, {"third", "state"});
    }
    r.param.dtype = TALUS_F64;
    r.param.grad_dtype = TALUS_F32;
    r.param.state_dtype = TALUS_F32;
    r.check(TALUS_E_UNSUPPORTED, {"third", "state"});
  }
  SECTION("a master that is one of something wider") {
    r.param.master = TALUS_MASTER_F32;
    r.check(TALUS_E_UNSUPPORTED, {"third", "master"});
    r.param.dtype = TALUS_F64;
    r.check(TALUS_E_UNSUPPORTED, {"third", "master"});
  }
  SECTION("a master that there is not") {
    for (const int32_t master : {-1, 3, 4, 1000}) {
      r.param.dtype = TALUS_BF16;
      r.param.master = master;
      r.check(TALUS_E_UNSUPPORTED, {"third", "master", std::to_string(master).c_str()});
    }
  }
  SECTION("a flag") {
    r.param.flags = uint64_t(1) << 63;
    r.check(TALUS_E_UNSUPPORTED, {"third", "flags"});
  }
}

TEST_CASE("abi: add_params refuses shapes that are none") {
  Rejected r;
  SECTION("negative extent") {
    r.extents[1] = -3;
    r.check(TALUS_E_ARGUMENT, {"third", "shape", "-3"});
  }
  SECTION("a product beyond 2^63") {
    r.extents[0] = r.extents[1] = int64_t(1) << 32;
    r.check(TALUS_E_ARGUMENT, {"third", "shape"});
  }
  SECTION("elements within 2^63 whose bytes are not") {
    r.extents[0] = int64_t(1) << 31;
    r.extents[1] = int64_t(1) << 31;
    r.check(TALUS_E_ARGUMENT, {"third", "shape"});
  }
  SECTION("a product that wraps round to a small number") {
    r.param.ndim = 3;
    r.extents[0] = int64_t(1) << 62;
    r.extents[1] = 4;
    r.extents[2] = 6;
    r.check(TALUS_E_ARGUMENT, {"third", "shape"});
  }
  SECTION("a negative extent beside a zero") {
    r.extents[0] = 0;
    r.extents[1] = -1;
    r.check(TALUS_E_ARGUMENT, {"third", "shape"});
  }
  SECTION("ndim out of bounds") {
    for (const int32_t ndim : {-1, 65, INT32_MAX, INT32_MIN}) {
      r.param.ndim = ndim;
      r.check(TALUS_E_ARGUMENT, {"third", "ndim", std::to_string(ndim).c_str()});
    }
  }
  SECTION("shape NULL with extents to come") {
    r.param.shape = nullptr;
    r.check(TALUS_E_ARGUMENT, {"third", "shape"});
  }
}

TEST_CASE("abi: shapes of 0 and of 64 extents, and extents beyond 2^63 with a zero, are taken") {
  Handle opt("sgd");
  float data[3] = {1, 2, 3}, grad[3] = {1, 1, 1};
  std::vector<int64_t> ones(64, 1);
  talus_param scalar = describe(TALUS_F32, data, grad, nullptr);
  scalar.ndim = 0;
  talus_param many = describe(TALUS_F32, data + 1, grad + 1, ones.data());
  many.ndim = 64;
  const int64_t huge[] = {INT64_MAX, INT64_MAX, 0};
  talus_param none = describe<float>(TALUS_F32, nullptr, nullptr, huge);
  none.ndim = 3;
  const int64_t first = add(opt, scalar);
  add(opt, many);
  add(opt, none);
  REQUIRE(talus_set(opt, 0, "lr", 1) == TALUS_OK);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  CHECK((data[0] == 0 && data[1] == 1 && data[2] == 3));
  talus_param info{};
  info.struct_size = sizeof info;
  REQUIRE(talus_param_info(opt, first, &info) == TALUS_OK);
  CHECK(info.ndim == 0);
  REQUIRE(talus_param_info(opt, first + 1, &info) == TALUS_OK);
  CHECK((info.ndim == 64 && info.shape[63] == 1));
}

TEST_CASE("abi: add_params refuses pointers that are missing, unaligned or overlap") {
  Rejected r;
  float* const w = r.model.w.data();
  SECTION("data NULL with elements") {
    r.param.data = nullptr;
    r.check(TALUS_E_ARGUMENT, {"third", "data"});
  }
  SECTION("data not aligned to its element") {
    for (const int offset : {1, 2, 3}) {
      r.param.data = reinterpret_cast<char*>(r.data) + offset;
      r.check(TALUS_E_ARGUMENT, {"third", "data"});
    }
    r.param.dtype = TALUS_F64;
    r.param.grad_dtype = TALUS_F32;
    r.param.data = r.data + 1;
    r.check(TALUS_E_ARGUMENT, {"third", "data"});
  }
  SECTION("grad not aligned to its element") {
    r.param.grad = reinterpret_cast<char*>(r.grad) + 2;
    r.check(TALUS_E_ARGUMENT, {"third", "grad"});
  }
  SECTION("data that passes the end of memory") {
    r.param.data = reinterpret_cast<void*>(~uintptr_t(0) - 7);
    r.check(TALUS_E_ARGUMENT, {"third", "data"});
  }
  SECTION("data over another parameter, from either side and inside") {
    r.extents[0] = 1;
    r.extents[1] = 2;
    for (const int offset : {-1, 0, 3, 4}) {
      r.param.data = w + offset;
      r.check(TALUS_E_ARGUMENT, {"third", "data", "\"w\""});
    }
  }
  SECTION("data over the parameter's own gradient") {
    r.param.grad = r.data + 5;
    r.check(TALUS_E_ARGUMENT, {"third"});
  }
  SECTION("data over another parameter's gradient") {
    r.param.data = r.model.gw.data();
    r.extents[1] = 1;
    r.check(TALUS_E_ARGUMENT, {});
  }
  SECTION("gradient over another parameter") {
    r.param.grad = w;
    r.extents[1] = 1;
    r.check(TALUS_E_ARGUMENT, {"third", "grad", "\"w\""});
  }
  SECTION("data over bound state") {
    REQUIRE(talus_bind_state(r.opt, 0, "exp_avg", r.data + 4, 20) == TALUS_OK);
    r.check(TALUS_E_ARGUMENT, {"third", "data", "\"w\""});
    r.param.data = r.data + 9;
    CHECK(talus_add_params(r.opt, 0, 1, &r.param, nullptr) == TALUS_OK);
  }
}

TEST_CASE("abi: neighbours in memory do not overlap, and gradients may be shared") {
  Handle opt("sgd");
  std::vector<float> arena(12, 1), grad(4, 1);
  const int64_t four = 4;
  for (int i = 0; i < 3; ++i)
    add(opt, describe(TALUS_F32, arena.data() + 4 * i, grad.data(), &four));
  REQUIRE(talus_set(opt, 0, "lr", 0.5) == TALUS_OK);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  CHECK(arena == std::vector<float>(12, 0.5f));
}

TEST_CASE("abi: add_params refuses a name that is there, in the batch or before") {
  Rejected r;
  SECTION("before") {
    r.param.name = "b";
    int64_t first = -7;
    refused(r.opt, TALUS_E_ARGUMENT, {"\"b\"", "name"},
            [&] { return talus_add_params(r.opt, 0, 1, &r.param, &first); });
    CHECK(first == -7);
    CHECK(talus_find_param(r.opt, "b") == 1);
  }
  SECTION("in the batch") {
    talus_param batch[] = {r.param, r.param};
    batch[1].data = r.data + 8;
    batch[1].grad = r.grad + 8;
    refused(r.opt, TALUS_E_ARGUMENT, {"third", "name"},
            [&] { return talus_add_params(r.opt, 0, 2, batch, nullptr); });
    CHECK(talus_find_param(r.opt, "third") == -1);
  }
  SECTION("the default name of a later one") {
    r.param.name = "param.3";
    REQUIRE(talus_add_params(r.opt, 0, 1, &r.param, nullptr) == TALUS_OK);
    r.param.name = nullptr;
    r.param.data = r.data + 8;
    r.param.grad = r.grad + 8;
    refused(r.opt, TALUS_E_ARGUMENT, {"param.3", "name"},
            [&] { return talus_add_params(r.opt, 0, 1, &r.param, nullptr); });
  }
  SECTION("after the refusal the same memory and name can be added rightly") {
    talus_param batch[] = {r.param, r.param};
    CHECK(talus_add_params(r.opt, 0, 2, batch, nullptr) == TALUS_E_ARGUMENT);
    CHECK(talus_add_params(r.opt, 0, 1, batch, nullptr) == TALUS_OK);
  }
}

TEST_CASE("abi: param_info gives defaults filled in, and texts that outlive what was passed") {
  Handle opt("adamw");
  std::vector<uint16_t> data(6);
  {
    std::string name = "layer.weight";
    std::vector<int64_t> shape = {2, 3};
    talus_param param = describe<uint16_t>(TALUS_BF16, data.data(), nullptr, shape.data());
    param.ndim = 2;
    param.name = name.c_str();
    add(opt, param);
    name.assign("overwritten");
    shape.assign({9, 9});
  }
  talus_param info{};
  info.struct_size = sizeof info;
  REQUIRE(talus_param_info(opt, 0, &info) == TALUS_OK);
  const char* const name = info.name;
  const int64_t* const shape = info.shape;
  for (int i = 0; i < 100; ++i) {  // growth must not move what was handed out
    talus_param scalar{};
    scalar.struct_size = sizeof scalar;
    scalar.dtype = TALUS_F32;
    scalar.ndim = 1;
    const int64_t zero = 0;
    scalar.shape = &zero;
    add(opt, scalar);
  }
  CHECK(std::string(name) == "layer.weight");
  CHECK((info.ndim == 2 && shape[0] == 2 && shape[1] == 3));
  CHECK((info.dtype == TALUS_BF16 && info.grad_dtype == TALUS_BF16));
  CHECK(info.state_dtype == TALUS_F32);
  CHECK(info.master == TALUS_MASTER_F32);
  CHECK(info.flags == 0);
  REQUIRE(talus_param_info(opt, 7, &info) == TALUS_OK);
  CHECK(std::string(info.name) == "param.7");
}

TEST_CASE("abi: bind_data takes moved memory and refuses wrong memory") {
  Handle opt("adamw");
  Model model;
  model.add_to(opt);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  std::vector<float> moved = model.w;
  float* const m = moved.data();
  refused(opt, TALUS_E_ARGUMENT, {"\"w\"", "data"},
          [&] { return talus_bind_data(opt, 0, nullptr); });
  refused(opt, TALUS_E_ARGUMENT, {"\"w\"", "data"},
          [&] { return talus_bind_data(opt, 0, reinterpret_cast<char*>(m) + 1); });
  refused(opt, TALUS_E_ARGUMENT, {"\"w\"", "\"b\""},
          [&] { return talus_bind_data(opt, 0, model.b.data()); });
  refused(opt, TALUS_E_ARGUMENT, {"\"w\""},
          [&] { return talus_bind_data(opt, 0, model.gb.data()); });
  refused(opt, TALUS_E_ARGUMENT, {"\"w\""},
          [&] { return talus_bind_data(opt, 0, model.gw.data()); });

  REQUIRE(talus_bind_data(opt, 0, m) == TALUS_OK);
  REQUIRE(talus_bind_data(opt, 0, m) == TALUS_OK);  // to where it is
  const std::vector<float> left_behind = model.w;
  Handle same("adamw");
  Model twin;
  twin.add_to(same);
  for (int i = 0; i < 2; ++i) REQUIRE(talus_step(same, nullptr) == TALUS_OK);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  CHECK(moved == twin.w);
  CHECK(model.w == left_behind);
  // The old place is free again, the new one is not.
  const int64_t two = 2;
  talus_param param = describe<float>(TALUS_F32, model.w.data(), nullptr, &two);
  CHECK(talus_add_params(opt, 0, 1, &param, nullptr) == TALUS_OK);
  param.data = m + 3;
  CHECK(talus_add_params(opt, 0, 1, &param, nullptr) == TALUS_E_ARGUMENT);
}

TEST_CASE("abi: bind_grads binds all or none, and refuses ranges and memory that do not fit") {
  Handle opt("adamw");
  Model model;
  model.add_to(opt);
  std::vector<float> other(5, 0.5f);
  void* column[] = {other.data(), model.gb.data()};
  const auto no = [&](int64_t first, int64_t count, void* const* grads) {
    refused(opt, TALUS_E_ARGUMENT, {}, [&] { return talus_bind_grads(opt, first, count, grads); });
  };
  no(0, 2, nullptr);
  no(0, 3, column);
  no(1, 2, column);
  no(-1, 1, column);
  no(0, -1, column);
  no(2, 1, column);
  no(INT64_MAX, 1, column);
  no(1, INT64_MAX, column);
  no(INT64_MIN, INT64_MIN, column);
  void* unaligned[] = {other.data(), reinterpret_cast<char*>(model.gb.data()) + 1};
  refused(opt, TALUS_E_ARGUMENT, {"\"b\"", "grad"},
          [&] { return talus_bind_grads(opt, 0, 2, unaligned); });
  void* over[] = {other.data(), model.w.data() + 4};
  refused(opt, TALUS_E_ARGUMENT, {"\"b\"", "\"w\""},
          [&] { return talus_bind_grads(opt, 0, 2, over); });
  void* own[] = {model.w.data() - 4};
  refused(opt, TALUS_E_ARGUMENT, {"\"w\""}, [&] { return talus_bind_grads(opt, 0, 1, own); });
  CHECK(talus_bind_grads(opt, 0, 0, nullptr) == TALUS_OK);
  CHECK(talus_bind_grads(opt, 2, 0, nullptr) == TALUS_OK);
  CHECK(talus_bind_grads(opt, 0, 2, column) == TALUS_OK);
}

TEST_CASE("abi: check_pointers 0 leaves out the search for overlaps, not the other checks") {
  Handle opt("sgd");
  Model model;
  model.add_to(opt);
  REQUIRE(talus_set_setting(opt, "check_pointers", 0) == TALUS_OK);
  void* over[] = {model.b.data() - 3};
  void* unaligned[] = {reinterpret_cast<char*>(model.gw.data()) + 1};
  CHECK(talus_bind_grads(opt, 0, 1, unaligned) == TALUS_E_ARGUMENT);
  CHECK(talus_bind_grads(opt, 0, 1, over) == TALUS_OK);
  CHECK(talus_bind_data(opt, 0, nullptr) == TALUS_E_ARGUMENT);
  // A host that swaps two tensors of one size passes through an overlap.
  std::vector<float> a = {1, 2}, b = {3, 4}, ga = {1, 1}, gb = {2, 2};
  const int64_t two = 2;
  const int64_t first = add(opt, describe(TALUS_F32, a.data(), ga.data(), &two));
  add(opt, describe(TALUS_F32, b.data(), gb.data(), &two));
  REQUIRE(talus_bind_grads(opt, 0, 2, std::vector<void*>{nullptr, nullptr}.data()) == TALUS_OK);
  REQUIRE(talus_set(opt, 0, "lr", 1) == TALUS_OK);
  REQUIRE(talus_bind_data(opt, first, b.data()) == TALUS_OK);
  REQUIRE(talus_bind_data(opt, first + 1, a.data()) == TALUS_OK);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  CHECK(a == std::vector<float>{-1, 0});
  CHECK(b == std::vector<float>{2, 3});
}

TEST_CASE("abi: zero_grad fills or forgets, and refuses another mode") {
  Handle opt("sgd");
  Model model;
  model.add_to(opt);
  for (const int32_t mode : {-1, 2, INT32_MAX})
    refused(opt, TALUS_E_ARGUMENT, {"mode"}, [&] { return talus_zero_grad(opt, mode, nullptr); });
  const std::vector<float> before = model.w, kept = model.gw;
  REQUIRE(talus_zero_grad(opt, TALUS_ZERO_FILL, nullptr) == TALUS_OK);
  CHECK(model.gw == std::vector<float>(5, 0));
  CHECK(model.gb == std::vector<float>(2, 0));
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  CHECK(model.w == before);
  CHECK(steps(opt, 0) == 1);
  model.gw = kept;
  REQUIRE(talus_zero_grad(opt, TALUS_ZERO_UNBIND, nullptr) == TALUS_OK);
  CHECK(model.gw == kept);
  refused(opt, TALUS_E_STATE, {"gradient"}, [&] { return talus_step(opt, nullptr); });
  REQUIRE(talus_zero_grad(opt, TALUS_ZERO_FILL, nullptr) ==
          TALUS_OK);  // nothing bound: nothing to do
  CHECK(model.gw == kept);
}
