// talus_bind_rows as a call: what it refuses and when, how long a binding lasts, what replaces it.
#include <cstddef>

#include "tests/abi/fixture.h"

using namespace talus::abi;

namespace {

constexpr int64_t kRows = 4, kLength = 3;

// A table of sparse_adam or another rule, and a gradient of two of its rows.
struct Sparse {
  Handle opt;
  std::vector<float> w = std::vector<float>(kRows * kLength, 1), values, dense;
  std::vector<int64_t> indices = {2, 0};
  int64_t shape[2] = {kRows, kLength};
  talus_rows rows{};

  explicit Sparse(const char* algorithm = "sparse_adam", int64_t row_length = kLength)
      : opt(algorithm), values(size_t(2 * row_length), 0.5f), dense(w.size(), 0.25f) {
    shape[1] = row_length;
    w.resize(size_t(kRows * row_length), 1);
    talus_param param = describe<float>(TALUS_F32, w.data(), nullptr, shape);
    param.ndim = 2;
    param.name = "table";
    add(opt, param);
    rows.struct_size = sizeof rows;
    rows.index_dtype = TALUS_I64;
    rows.count = 2;
    rows.indices = indices.data();
    rows.values = values.data();
  }
  talus_status bind() { return talus_bind_rows(opt, 0, &rows); }
  talus_status step() { return talus_step(opt, nullptr); }
  void bind_dense() {
    void* grad = dense.data();
    REQUIRE(talus_bind_grads(opt, 0, 1, &grad) == TALUS_OK);
  }
};

const void* grad_of(const talus_optimizer* opt, int64_t param) {
  talus_param info{};
  info.struct_size = sizeof info;
  REQUIRE(talus_param_info(opt, param, &info) == TALUS_OK);
  return info.grad;
}

}  // namespace

TEST_CASE("abi: a gradient of rows lasts one step, and the dense one is there again") {
  Sparse t("sgd");
  t.bind_dense();
  REQUIRE(t.bind() == TALUS_OK);
  CHECK(grad_of(t.opt, 0) == t.dense.data());
  REQUIRE(t.step() == TALUS_OK);
  CHECK(t.w[0] == 1 - 0.5f * 1e-3f);
  CHECK(t.w[kLength] == 1);
  REQUIRE(t.step() == TALUS_OK);
  CHECK(t.w[kLength] == 1 - 0.25f * 1e-3f);
  CHECK(steps(t.opt, 0) == 2);

  Sparse none("sgd");
  REQUIRE(none.bind() == TALUS_OK);
  REQUIRE(none.step() == TALUS_OK);
  const auto after = none.w;
  refused(none.opt, TALUS_E_STATE, {"gradient"}, [&] { return none.step(); });
  CHECK(none.w == after);
}

TEST_CASE("abi: NULL, talus_bind_grads and zero_grad with UNBIND take a gradient of rows back") {
  for (int how = 0; how < 4; ++how) {
    CAPTURE(how);
    Sparse t("sgd");
    if (how == 1) t.bind_dense();
    REQUIRE(t.bind() == TALUS_OK);
    void* grad = how == 1 ? t.dense.data() : nullptr;
    if (how == 0) REQUIRE(talus_bind_rows(t.opt, 0, nullptr) == TALUS_OK);
    if (how == 1 || how == 2) REQUIRE(talus_bind_grads(t.opt, 0, 1, &grad) == TALUS_OK);
    if (how == 3) REQUIRE(talus_zero_grad(t.opt, TALUS_ZERO_UNBIND, nullptr) == TALUS_OK);
    if (how != 1) {
      refused(t.opt, TALUS_E_STATE, {"gradient"}, [&] { return t.step(); });
      CHECK(steps(t.opt, 0) == 0);
    } else {
      REQUIRE(t.step() == TALUS_OK);
      CHECK(t.w[kLength] == 1 - 0.25f * 1e-3f);
    }
  }
  Sparse t("sgd");
  CHECK(talus_bind_rows(t.opt, 0, nullptr) == TALUS_OK);  // nothing to take back
}

TEST_CASE("abi: zero_grad fills the dense gradient beside rows, and leaves their values alone") {
  Sparse t("sgd");
  t.bind_dense();
  REQUIRE(t.bind() == TALUS_OK);
  REQUIRE(talus_zero_grad(t.opt, TALUS_ZERO_FILL, nullptr) == TALUS_OK);
  CHECK(t.dense == std::vector<float>(t.dense.size(), 0));
  CHECK(t.values == std::vector<float>(t.values.size(), 0.5f));
  REQUIRE(t.step() == TALUS_OK);
  CHECK(t.w[0] != 1);
}

TEST_CASE("abi: rows that are bound again replace those before") {
  Sparse t("sgd");
  REQUIRE(t.bind() == TALUS_OK);
  t.rows.count = 1;
  t.indices[0] = 3;
  REQUIRE(t.bind() == TALUS_OK);
  REQUIRE(t.step() == TALUS_OK);
  CHECK(t.w[0] == 1);
  CHECK(t.w[3 * kLength] != 1);
  CHECK(steps(t.opt, 0) == 1);
}

TEST_CASE("abi: a row that is not there is refused where it is bound") {
  for (const int64_t bad : {kRows, int64_t(-1), INT64_MIN, INT64_MAX}) {
    Sparse t;
    t.indices[1] = bad;
    refused(t.opt, TALUS_E_ARGUMENT, {"table", std::to_string(bad).c_str(), "position 1", "0 .. 3"},
            [&] { return t.bind(); });
    refused(t.opt, TALUS_E_STATE, {}, [&] { return t.step(); });  // nothing is bound
  }
  for (const int32_t bad : {int32_t(kRows), -1, INT32_MIN}) {
    Sparse t;
    const int32_t narrow[] = {bad, 0};
    t.rows.indices = narrow;
    t.rows.index_dtype = TALUS_I32;
    refused(t.opt, TALUS_E_ARGUMENT, {"table", std::to_string(bad).c_str(), "position 0"},
            [&] { return t.bind(); });
  }
  Sparse t("sgd");  // what was bound before stays
  REQUIRE(t.bind() == TALUS_OK);
  talus_rows other = t.rows;
  const int64_t bad[] = {1, 9};
  other.indices = bad;
  refused(t.opt, TALUS_E_ARGUMENT, {"9"}, [&] { return talus_bind_rows(t.opt, 0, &other); });
  REQUIRE(t.step() == TALUS_OK);
  CHECK(t.w[0] != 1);
}

TEST_CASE("abi: a row that is changed to one that is not there is refused by the step") {
  for (const int64_t bad : {kRows, int64_t(-1), INT64_MIN, INT64_MAX})
    for (const bool started : {false, true}) {
      CAPTURE(bad, started);
      Sparse t;
      std::vector<float> other(6, 1), other_values(6, 0.5f);
      const int64_t shape[] = {3, 2}, of_other[] = {0, 2, 1};
      talus_param param = describe<float>(TALUS_F32, other.data(), nullptr, shape);
      param.ndim = 2;
      const int64_t second = add(t.opt, param);
      talus_rows good = t.rows;
      good.count = 3, good.indices = of_other, good.values = other_values.data();
      if (started) {
        REQUIRE(t.bind() == TALUS_OK);
        REQUIRE(talus_bind_rows(t.opt, second, &good) == TALUS_OK);
        REQUIRE(t.step() == TALUS_OK);
      }
      // The good one is bound first.
      REQUIRE(talus_bind_rows(t.opt, second, &good) == TALUS_OK);
      REQUIRE(t.bind() == TALUS_OK);
      t.indices[1] = bad;
      const auto before = see(t.opt, Reserved::overlooked);
      CHECK(t.step() == TALUS_E_ARGUMENT);
      const std::string text = talus_last_error();
      CAPTURE(text);
      for (const std::string& part :
           {std::string("table"), std::to_string(bad), std::string("position 1")})
        CHECK(text.find(part) != std::string::npos);
      CHECK(first_difference(before, see(t.opt, Reserved::overlooked)) == "");
      t.indices[1] = 0;  // both are bound still
      REQUIRE(t.step() == TALUS_OK);
      CHECK(steps(t.opt, 0) == 1 + started);
      CHECK(steps(t.opt, second) == 1 + started);
    }
}

TEST_CASE("abi: rows of a rule that takes none are refused, and the text names those that do") {
  for (const char* algorithm : {"adam", "adamw", "fused_adam"}) {
    Sparse t(algorithm);
    refused(t.opt, TALUS_E_UNSUPPORTED, {"table", "sparse_adam", "sgd", "talus_bind_grads"},
            [&] { return t.bind(); });
  }
}

TEST_CASE("abi: sgd with momentum or weight decay refuses rows at the step") {
  for (const char* name : {"momentum", "weight_decay"}) {
    Sparse t("sgd");
    REQUIRE(talus_set(t.opt, 0, name, 0.5) == TALUS_OK);
    REQUIRE(t.bind() == TALUS_OK);
    refused(t.opt, TALUS_E_UNSUPPORTED, {"table", "sgd", name}, [&] { return t.step(); });
    CHECK(t.w == std::vector<float>(t.w.size(), 1));
    REQUIRE(talus_set(t.opt, 0, name, 0) == TALUS_OK);
    REQUIRE(t.step() == TALUS_OK);  // bound still
    CHECK(t.w[0] != 1);
  }
}

TEST_CASE("abi: sparse_adam refuses a dense gradient, and nothing is left of the parameter") {
  Sparse t;
  void* grad = t.dense.data();
  refused(t.opt, TALUS_E_UNSUPPORTED, {"table", "talus_bind_rows"},
          [&] { return talus_bind_grads(t.opt, 0, 1, &grad); });
  REQUIRE(t.bind() == TALUS_OK);
  refused(t.opt, TALUS_E_UNSUPPORTED, {"table"},
          [&] { return talus_bind_grads(t.opt, 0, 1, &grad); });
  REQUIRE(t.step() == TALUS_OK);  // the rows were bound still
  std::vector<float> more(6, 1);
  const int64_t six = 6;
  talus_param param = describe<float>(TALUS_F32, more.data(), t.dense.data(), &six);
  param.name = "more";
  int64_t first = -7;
  refused(t.opt, TALUS_E_UNSUPPORTED, {"more", "talus_bind_rows"},
          [&] { return talus_add_params(t.opt, 0, 1, &param, &first); });
  CHECK(first == -7);
  param.grad = nullptr;  // neither its name nor its memory is taken
  CHECK(talus_add_params(t.opt, 0, 1, &param, nullptr) == TALUS_OK);
}

TEST_CASE("abi: an empty parameter takes no row, and one that is not there is no row of it") {
  const int64_t shapes[][2] = {{0, 3}, {3, 0}, {0, 0}};
  for (const auto& shape : shapes) {
    CAPTURE(shape[0], shape[1]);
    Handle opt("sparse_adam");
    talus_param param = describe<float>(TALUS_F32, nullptr, nullptr, shape);
    param.ndim = 2;
    add(opt, param);
    talus_rows rows{};
    rows.struct_size = sizeof rows;
    rows.index_dtype = TALUS_I64;
    REQUIRE(talus_bind_rows(opt, 0, &rows) == TALUS_OK);
    REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
    CHECK(steps(opt, 0) == 1);
    const int64_t two[] = {2, 2};
    rows.count = 2;
    rows.indices = two;
    if (shape[0] == 0) {
      refused(opt, TALUS_E_ARGUMENT, {"2"}, [&] { return talus_bind_rows(opt, 0, &rows); });
      continue;
    }
    REQUIRE(talus_bind_rows(opt, 0, &rows) == TALUS_OK);  // rows of no elements
    REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
    CHECK(steps(opt, 0) == 2);
  }
}

TEST_CASE("abi: more rows than can be told apart are refused before they are read") {
  Handle opt("sgd");
  const int64_t shape[] = {int64_t(1) << 40, 0}, nothing = 0;
  talus_param param = describe<float>(TALUS_F32, nullptr, nullptr, shape);
  param.ndim = 2;
  add(opt, param);
  talus_rows rows = {sizeof rows, TALUS_I64, int64_t(1) << 30, &nothing, nullptr, 0};
  refused(opt, TALUS_E_UNSUPPORTED, {"1073741824", "1099511627776"},
          [&] { return talus_bind_rows(opt, 0, &rows); });
  rows.count = 1;
  CHECK(talus_bind_rows(opt, 0, &rows) == TALUS_OK);
}

TEST_CASE("abi: a scalar has no rows") {
  Handle opt("sparse_adam");
  float x = 1, g = 1;
  talus_param param = describe<float>(TALUS_F32, &x, nullptr, nullptr);
  param.ndim = 0;
  add(opt, param);
  const int64_t zero = 0;
  talus_rows rows{sizeof rows, TALUS_I64, 1, &zero, &g, 0};
  refused(opt, TALUS_E_UNSUPPORTED, {"scalar"}, [&] { return talus_bind_rows(opt, 0, &rows); });
}

TEST_CASE("abi: fields of talus_rows that make no sense are refused by name") {
  Sparse t;
  const talus_rows good = t.rows;
  const auto no = [&](talus_status status, std::initializer_list<const char*> causes) {
    refused(t.opt, status, causes, [&] { return t.bind(); });
    t.rows = good;
  };
  for (const int32_t bad : {0, TALUS_F32, TALUS_F64, 0x2001, 0x1000, -1}) {
    t.rows.index_dtype = bad;
    no(TALUS_E_UNSUPPORTED, {"table", "index_dtype"});
  }
  t.rows.flags = 4;
  no(TALUS_E_UNSUPPORTED, {"flags", "0x4"});
  for (const int64_t bad : {int64_t(-1), INT64_MIN}) {
    t.rows.count = bad;
    no(TALUS_E_ARGUMENT, {"count", std::to_string(bad).c_str()});
  }
  for (const int64_t bad : {INT64_MAX, INT64_MAX / 3, INT64_MAX / 12, int64_t(1) << 60}) {
    t.rows.count = bad;
    no(bad > INT64_MAX / 24 ? TALUS_E_ARGUMENT : TALUS_E_UNSUPPORTED, {"table"});
  }
  Sparse four("sparse_adam", 4);  // as many elements as wrap around to 0
  four.rows.count = int64_t(1) << 62;
  refused(four.opt, TALUS_E_ARGUMENT, {"table", "count"}, [&] { return four.bind(); });
  t.rows.values = nullptr;
  no(TALUS_E_ARGUMENT, {"values"});
  t.rows.indices = nullptr;
  no(TALUS_E_ARGUMENT, {"indices"});
  t.rows.values = reinterpret_cast<const char*>(t.values.data()) + 2;
  no(TALUS_E_ARGUMENT, {"values", "multiple of 4"});
  t.rows.indices = reinterpret_cast<const char*>(t.indices.data()) + 4;
  no(TALUS_E_ARGUMENT, {"indices", "multiple of 8"});
  t.rows.values = t.w.data() + 3;
  no(TALUS_E_ARGUMENT, {"values", "overlaps"});
  for (const int64_t index : {int64_t(1), int64_t(-1), INT64_MAX, INT64_MIN})
    refused(t.opt, TALUS_E_ARGUMENT, {std::to_string(index).c_str()},
            [&] { return talus_bind_rows(t.opt, index, &t.rows); });
  refused(nullptr, TALUS_E_ARGUMENT, {}, [&] { return talus_bind_rows(nullptr, 0, &t.rows); });
  REQUIRE(talus_set_setting(t.opt, "check_pointers", 0) == TALUS_OK);
  t.rows.values = t.w.data() + 3;
  CHECK(t.bind() == TALUS_OK);
}

TEST_CASE("abi: memory that a step writes is refused while rows read it or hide a gradient") {
  Sparse t("sgd");
  std::vector<float> elsewhere(t.w.size(), 1);
  t.bind_dense();
  REQUIRE(t.bind() == TALUS_OK);
  refused(t.opt, TALUS_E_ARGUMENT, {"overlaps the gradient"},
          [&] { return talus_bind_data(t.opt, 0, t.dense.data()); });
  t.values.resize(t.w.size() + 2);
  t.rows.values = t.values.data();
  REQUIRE(t.bind() == TALUS_OK);
  refused(t.opt, TALUS_E_ARGUMENT, {"overlaps the gradient"},
          [&] { return talus_bind_data(t.opt, 0, t.values.data() + 1); });
  const int64_t two = 2;
  for (float* const taken : {t.values.data() + 5, t.dense.data() + 5}) {
    const talus_param param = describe<float>(TALUS_F32, taken, nullptr, &two);
    refused(t.opt, TALUS_E_ARGUMENT, {"overlaps"},
            [&] { return talus_add_params(t.opt, 0, 1, &param, nullptr); });
  }
  CHECK(talus_bind_data(t.opt, 0, elsewhere.data()) == TALUS_OK);
  REQUIRE(t.step() == TALUS_OK);
  CHECK(elsewhere[0] != 1);
}

TEST_CASE("abi: an older and a newer caller's talus_rows") {
  struct Newer {
    talus_rows known;
    unsigned char tail[24];
  };
  Sparse t("sgd");
  Newer newer{t.rows, {}};
  newer.known.struct_size = sizeof newer;
  for (unsigned char& byte : newer.tail) {
    byte = 1;
    refused(t.opt, TALUS_E_UNSUPPORTED, {"talus_rows"},
            [&] { return talus_bind_rows(t.opt, 0, &newer.known); });
    byte = 0;
  }
  CHECK(talus_bind_rows(t.opt, 0, &newer.known) == TALUS_OK);
  for (uint32_t size = 0; size < offsetof(talus_rows, flags); size += 4) {
    CAPTURE(size);
    t.rows.struct_size = size;
    refused(t.opt, TALUS_E_ARGUMENT, {"struct_size"}, [&] { return t.bind(); });
  }
  t.rows.struct_size = offsetof(talus_rows, flags);
  t.rows.flags = ~uint64_t{0};  // not read
  CHECK(t.bind() == TALUS_OK);
  t.rows.struct_size = 0xfffffff0;
  refused(t.opt, TALUS_E_ARGUMENT, {"struct_size"}, [&] { return t.bind(); });
}

TEST_CASE("abi: the list of row gradients says when, and none but its members take them") {
  CHECK(talus_name_count("row_gradients") >= 2);
  CHECK(std::string(talus_name_doc("row_gradients", "sparse_adam")) == "takes no others");
  for (int32_t i = 0; i < talus_name_count("algorithms"); ++i) {
    const char* const algorithm = talus_name_at("algorithms", i);
    CAPTURE(algorithm);
    Sparse t(algorithm);
    const bool listed = talus_name_doc("row_gradients", algorithm) != nullptr;
    CHECK(t.bind() == (listed ? TALUS_OK : TALUS_E_UNSUPPORTED));
  }
}
