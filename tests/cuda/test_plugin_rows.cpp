// Gradients of rows on an emulated device: the CPU's bits, and what a device refuses.
#include <numeric>

#include "tests/cuda/device_run.h"
#include "tests/reference/all.hpp"

using namespace talus::test;

namespace {

// The same table on the host and on a device, with the same rows given to both.
class Table {
 public:
  Table(const HyperSet& set, const Mix& mix, int64_t rows, int64_t length, bool wide)
      : host(set.algorithm, set.values),
        tensor_(mix, rows * length),
        device_param_(tensor_.fill(3).param, 1),
        shape_{rows, length},
        wide_(wide) {
    must(talus_create(set.algorithm.c_str(), TALUS_CUDA, 0, &opt));
    for (const auto& [name, value] : set.values)
      must(talus_set(opt, TALUS_ALL, name.c_str(), value));
    talus_param d = tensor_.descriptor();
    d.grad = nullptr;
    d.shape = shape_;
    d.ndim = 2;
    must(talus_add_params(host.get(), 0, 1, &d, &tensor_.index));
    d.data = device_param_.data();
    must(talus_add_params(opt, 0, 1, &d, nullptr));
  }
  ~Table() { talus_destroy(opt); }
  Table(const Table&) = delete;

  void bind(const std::vector<int64_t>& rows, int64_t step) {
    const int64_t n = int64_t(rows.size());
    Buffer& values = values_.emplace_back(tensor_.mix.grad, n * shape_[1], 1);
    for (int64_t i = 0; i < values.size(); ++i) values.set(i, grad_value(7, step, i));
    Buffer& indices = indices_.emplace_back(wide_ ? TALUS_F64 : TALUS_F32, n);
    for (int64_t j = 0; j < n; ++j)
      if (wide_)
        static_cast<int64_t*>(indices.data())[j] = rows[size_t(j)];
      else
        static_cast<int32_t*>(indices.data())[j] = int32_t(rows[size_t(j)]);
    talus_rows bound{};
    bound.struct_size = sizeof bound;
    bound.index_dtype = wide_ ? TALUS_I64 : TALUS_I32;
    bound.count = n;
    bound.indices = indices.data();
    bound.values = values.data();
    host_status = talus_bind_rows(host.get(), 0, &bound);
    bound.indices = device_.emplace_back(indices, 1).data();
    bound.values = device_.emplace_back(values, 1).data();
    must(talus_bind_rows(opt, 0, &bound));
  }
  void step_both() {
    must(talus_step(opt, nullptr));
    must(talus_step(host.get(), nullptr));
  }
  Buffer device_param() const {
    must_cuda(cudaDeviceSynchronize());
    Buffer copy(tensor_.mix.param, tensor_.extent);
    device_param_.fetch(copy);
    return copy;
  }
  std::string difference_from_host() const {
    std::string text = difference("parameter", device_param(), tensor_.param);
    for (int64_t i = 0; text.empty() && i < talus_state_count(opt); ++i) {
      talus_state s{};
      s.struct_size = sizeof s;
      must(talus_state_info(opt, i, &s));
      Buffer copy(s.dtype, s.count);
      must_cuda(cudaMemcpy(copy.data(), s.data, copy.bytes(), cudaMemcpyDeviceToHost));
      text = difference(s.slot, copy, host.state(tensor_, s.slot));
    }
    return text;
  }
  double norm(talus_optimizer* of) const {
    talus_stats stats{};
    stats.struct_size = sizeof stats;
    must(talus_get_stats(of, 1, &stats));
    return stats.grad_norm;
  }

  Optimizer host;
  talus_optimizer* opt = nullptr;
  talus_status host_status = TALUS_OK;

 private:
  TestTensor tensor_;
  DeviceCopy device_param_;
  int64_t shape_[2];
  bool wide_;
  std::deque<Buffer> values_, indices_;
  std::deque<DeviceCopy> device_;
};

// `count` different rows of `rows`, in no order.
std::vector<int64_t> some_rows(int64_t rows, size_t count, uint64_t seed) {
  std::vector<int64_t> all(static_cast<size_t>(rows));
  std::iota(all.begin(), all.end(), 0);
  for (size_t j = 0; j < count; ++j)
    std::swap(all[j], all[j + draw(seed, 1, int64_t(j)) % (all.size() - j)]);
  all.resize(count);
  return all;
}

}  // namespace

TEST_CASE(
    "cuda rows: every rule that takes them, every mix of dtypes, odd rows, has the CPU's bits") {
  const Fresh fresh;
  for (int32_t i = 0; i < talus_name_count("row_gradients"); ++i)
    for (const Mix& mix : all_mixes())
      for (const int64_t length : {1, 16, 67}) {
        const HyperSet set = {talus_name_at("row_gradients", i), "", {}};
        INFO(set.algorithm << ", " << name_of(mix) << ", rows of " << length);
        Table table(set, mix, 60, length, length != 16);
        for (int step = 1; step <= 3; ++step) {
          table.bind(step == 2 ? std::vector<int64_t>{} : some_rows(60, 21, uint64_t(step)), step);
          table.step_both();
        }
        REQUIRE(table.difference_from_host() == "");
      }
}

TEST_CASE("cuda rows: long rows, and the norm of what is given") {
  const Fresh fresh;
  for (const Mix& mix : {kF32, kF64, Mix{TALUS_BF16, TALUS_F16, TALUS_MASTER_AUTO}}) {
    Table table({"sparse_adam", "", {}}, mix, 5, 4099, true);
    must(talus_set_setting(table.opt, "stats", 1));
    table.host.setting("stats", 1);
    table.bind({3, 0}, 1);
    table.step_both();
    INFO(name_of(mix));
    CHECK(table.norm(table.host.get()) > 0);
    CHECK(table.norm(table.opt) == table.norm(table.host.get()));
    REQUIRE(table.difference_from_host() == "");
  }
}

TEST_CASE(
    "cuda rows: with check_rows a step refuses rows that repeat or are not there, unchanged") {
  const Fresh fresh;
  Table table({"sparse_adam", "", {}}, kF32, 10, 4, true);
  must(talus_set_setting(table.opt, "check_rows", 1));
  const Buffer before = table.device_param();
  for (const std::vector<int64_t>& rows : {std::vector<int64_t>{1, 4, 1}, {2, 10}, {-1}}) {
    table.bind(rows, 1);
    CHECK(talus_step(table.opt, nullptr) == TALUS_E_ARGUMENT);
    CHECK(
        std::string(talus_last_error()).find(rows.size() == 3 ? "more than once" : "expected 0") !=
        std::string::npos);
    CHECK(difference("parameter", table.device_param(), before) == "");
    int64_t steps = -1;
    must(talus_steps(table.opt, 0, &steps));
    CHECK(steps == 0);
  }
}

TEST_CASE("cuda rows: unchecked, a row that is not there is left out and the others are updated") {
  const Fresh fresh;
  Table table({"sparse_adam", "", {}}, kF32, 10, 4, false);
  table.bind({2, 7, 8}, 1);  // the host keeps these; values go with positions
  table.bind({2, 10, 8, -3}, 1);
  CHECK(table.host_status == TALUS_E_ARGUMENT);
  const Buffer before = table.device_param();
  must(talus_step(table.opt, nullptr));
  const Buffer after = table.device_param();
  for (int64_t i = 0; i < 40; ++i) {
    const bool given = i / 4 == 2 || i / 4 == 8;
    INFO("element " << i);
    CHECK((after.get(i) != before.get(i)) == given);
  }
}

TEST_CASE("cuda rows: a graph cannot take them") {
  const Fresh fresh;
  Table table({"sparse_adam", "", {}}, kF32, 10, 4, true);
  must(talus_prepare(table.opt, nullptr));
  Stream stream;
  table.bind({1}, 1);
  must_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  CHECK(talus_step(table.opt, stream) == TALUS_E_UNSUPPORTED);
  cudaGraph_t graph = nullptr;
  must_cuda(cudaStreamEndCapture(stream, &graph));
  must_cuda(cudaGraphDestroy(graph));
  CHECK(talus_advance(table.opt, stream) == TALUS_E_UNSUPPORTED);
}
