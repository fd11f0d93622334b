// An optimizer on a CUDA device and the same one on the CPU, with the same tensors. By the C ABI of
// libtalus and of the CUDA runtime only, so that these tests can run on a device too.
#pragma once
#include <catch2/catch_test_macros.hpp>
#include <cuda_runtime_api.h>

#include <deque>

#include "tests/cuda/fresh.h"
#include "tests/optimizer.h"

namespace talus::test {

inline void must_cuda(cudaError_t e) {
  if (e != cudaSuccess) throw std::runtime_error(cudaGetErrorName(e));
}

// Device memory with the contents of a buffer, whose first element lies `skew` elements behind a
// multiple of 256 bytes. What precedes it is watched here, what follows it by the emulator.
class DeviceCopy {
 public:
  DeviceCopy(const Buffer& from, size_t skew)
      : lead_(skew * from.format().bytes), bytes_(from.bytes()) {
    must_cuda(cudaMalloc(reinterpret_cast<void**>(&base_), lead_ + bytes_ + (lead_ + bytes_ == 0)));
    if (lead_ > 0) must_cuda(cudaMemset(base_, kGuard, lead_));
    send(from);
  }
  ~DeviceCopy() { (void)cudaFree(base_); }
  DeviceCopy(const DeviceCopy&) = delete;

  void* data() const { return base_ + lead_; }
  void send(const Buffer& from) const {
    must_cuda(cudaMemcpy(data(), from.data(), bytes_, cudaMemcpyHostToDevice));
  }
  void fetch(Buffer& to) const {
    must_cuda(cudaMemcpy(to.data(), data(), bytes_, cudaMemcpyDeviceToHost));
  }
  bool guard_intact() const {
    std::vector<unsigned char> lead(lead_);
    if (lead_ > 0) must_cuda(cudaMemcpy(lead.data(), base_, lead_, cudaMemcpyDeviceToHost));
    for (const unsigned char byte : lead)
      if (byte != kGuard) return false;
    return true;
  }

 private:
  static constexpr unsigned char kGuard = 0x5a;
  char* base_ = nullptr;
  size_t lead_, bytes_;
};

struct Shape {
  Mix mix;
  int64_t count;
  size_t param_skew, grad_skew;  // elements
};

class DeviceRun {
 public:
  DeviceRun(const HyperSet& set, const std::vector<Shape>& shapes, int32_t device = 0)
      : host(set.algorithm, set.values), rows_only_(Optimizer::takes_rows_only(set.algorithm)) {
    must(talus_create(set.algorithm.c_str(), TALUS_CUDA, device, &opt));
    for (const auto& [name, value] : set.values)
      must(talus_set(opt, TALUS_ALL, name.c_str(), value));
    for (const Shape& shape : shapes) add(shape);
  }
  ~DeviceRun() { talus_destroy(opt); }
  DeviceRun(const DeviceRun&) = delete;

  void add(const Shape& shape) {
    const uint64_t seed = tensors.size() + 1;
    TestTensor& t = tensors.emplace_back(shape.mix, shape.count);
    t.fill(seed).fill_grad(seed, 1);
    params.emplace_back(t.param, shape.param_skew);
    grads.emplace_back(t.grad, shape.grad_skew);
    talus_param d = t.descriptor();
    d.data = params.back().data();
    d.grad = rows_only_ ? nullptr : grads.back().data();
    must(talus_add_params(opt, 0, 1, &d, nullptr));
    host.add(t);
  }
  // New gradients on both sides; value(seed, i) gives them.
  template <class F>
  void set_grads(F value) {
    for (size_t k = 0; k < tensors.size(); ++k) {
      for (int64_t i = 0; i < tensors[k].extent; ++i) tensors[k].grad.set(i, value(k, i));
      grads[k].send(tensors[k].grad);
    }
  }
  // The gradient of a tensor on both sides, or NULL in its place.
  void bind_grad(size_t k, bool there) {
    TestTensor& t = tensors[k];
    host.bind_grad(t, there ? t.grad.data() : nullptr);
    void* grad = there ? grads[k].data() : nullptr;
    must(talus_bind_grads(opt, int64_t(k), 1, &grad));
  }
  void set_both(const std::string& name, double value) {
    host.set(name, value);
    must(talus_set(opt, TALUS_ALL, name.c_str(), value));
  }
  void step_device(cudaStream_t stream = nullptr) {
    if (rows_only_)
      for (size_t k = 0; k < tensors.size(); ++k) bind_all_rows(k);
    must(talus_step(opt, stream));
  }
  void step_both(cudaStream_t stream = nullptr) {
    step_device(stream);
    host.step();
  }

  // The first difference between the device and the CPU, "" for none.
  std::string difference_from_host() {
    must_cuda(cudaDeviceSynchronize());
    for (size_t k = 0; k < tensors.size(); ++k) {
      TestTensor& t = tensors[k];
      const std::string name = "tensor " + std::to_string(k) + ", " + name_of(t.mix) + ", " +
                               std::to_string(t.extent) + " elements: ";
      Buffer copy(t.mix.param, t.extent);
      params[k].fetch(copy);
      std::string text = difference("parameter", copy, t.param);
      Buffer grad(t.mix.grad, t.extent);
      grads[k].fetch(grad);
      if (text.empty() && !grad.same_bytes(t.grad)) text = "the gradient was written";
      if (text.empty() && !(params[k].guard_intact() && grads[k].guard_intact()))
        text = "memory before a tensor was written";
      if (text.empty()) text = state_difference(k);
      if (!text.empty()) return name + text;
    }
    return "";
  }
  double grad_norm() const {
    talus_stats stats{};
    stats.struct_size = sizeof stats;
    must(talus_get_stats(opt, 1, &stats));
    return stats.grad_norm;
  }

  Optimizer host;
  talus_optimizer* opt = nullptr;
  std::deque<TestTensor> tensors;
  std::deque<DeviceCopy> params, grads;

 private:
  // Of a rule that takes rows alone: all of them, each of one element.
  void bind_all_rows(size_t k) {
    const int64_t n = tensors[k].extent;
    if (all_rows_.size() <= k) {
      Buffer numbers(TALUS_F64, n);  // any 8 bytes an element
      for (int64_t i = 0; i < n; ++i) static_cast<int64_t*>(numbers.data())[i] = i;
      all_rows_.emplace_back(numbers, 0);
    }
    talus_rows rows{};
    rows.struct_size = sizeof rows;
    rows.index_dtype = TALUS_I64;
    rows.count = n;
    rows.indices = all_rows_[k].data();
    rows.values = grads[k].data();
    must(talus_bind_rows(opt, int64_t(k), &rows));
  }

  bool rows_only_;
  std::deque<DeviceCopy> all_rows_;

  std::string state_difference(size_t k) {
    const TestTensor& t = tensors[k];
    int64_t steps = -1;
    must(talus_steps(opt, int64_t(k), &steps));
    if (steps != host.steps(t)) return "step counts differ";
    if (steps == 0) return "";
    for (int64_t i = 0; i < talus_state_count(opt); ++i) {
      talus_state s{};
      s.struct_size = sizeof s;
      must(talus_state_info(opt, i, &s));
      if (s.param != int64_t(k)) continue;
      Buffer copy(s.dtype, s.count);
      must_cuda(cudaMemcpy(copy.data(), s.data, copy.bytes(), cudaMemcpyDeviceToHost));
      const std::string text = difference(s.slot, copy, host.state(t, s.slot));
      if (!text.empty()) return text;
    }
    return "";
  }
};

struct Stream {
  cudaStream_t handle = nullptr;
  Stream() { must_cuda(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking)); }
  ~Stream() { (void)cudaStreamDestroy(handle); }
  Stream(const Stream&) = delete;
  operator cudaStream_t() const { return handle; }
};

// What `call` puts on a stream, as a graph.
struct Graph {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;

  template <class Call>
  Graph(cudaStream_t stream, Call call) {
    begin(stream);
    call();
    end(stream);
    instantiate();
  }
  Graph() = default;  // for captures that overlap
  void begin(cudaStream_t stream) {
    must_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  }
  void end(cudaStream_t stream) { must_cuda(cudaStreamEndCapture(stream, &graph)); }
  void instantiate() { must_cuda(cudaGraphInstantiate(&exec, graph, 0)); }
  ~Graph() {
    (void)cudaGraphExecDestroy(exec);
    (void)cudaGraphDestroy(graph);
  }
  Graph(const Graph&) = delete;
  size_t node_count() const {
    size_t count = 0;
    must_cuda(cudaGraphGetNodes(graph, nullptr, &count));
    return count;
  }
};

}  // namespace talus::test
