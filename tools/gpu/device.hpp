// What the programs of tools/gpu-check need of the CUDA runtime: memory, streams, graphs, errors.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

namespace gpu {

inline constexpr int kNoDevice = 77;  // exit status

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorName(error));
}
#define GPU_CALL(call) ::gpu::check(call, #call)

// Memory of the current device; a copy is there when it returns, also for other streams.
class Memory {
 public:
  explicit Memory(size_t bytes) : bytes_(bytes) {
    if (bytes > 0) GPU_CALL(cudaMalloc(&data_, bytes));
  }
  Memory(Memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  Memory& operator=(Memory&&) = delete;
  ~Memory() { (void)cudaFree(data_); }

  char* data() const { return static_cast<char*>(data_); }
  size_t bytes() const { return bytes_; }
  void put(const void* from, size_t bytes, size_t at = 0) const {
    if (bytes == 0) return;
    GPU_CALL(cudaMemcpy(data() + at, from, bytes, cudaMemcpyHostToDevice));
    GPU_CALL(cudaStreamSynchronize(nullptr));  // it may return with the end still on its way
  }
  void get(void* to, size_t bytes, size_t at = 0) const {
    if (bytes > 0) GPU_CALL(cudaMemcpy(to, data() + at, bytes, cudaMemcpyDeviceToHost));
  }

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

class Stream {
 public:
  Stream() { GPU_CALL(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  Stream(const Stream&) = delete;
  ~Stream() { (void)cudaStreamDestroy(stream_); }
  operator cudaStream_t() const { return stream_; }
  void wait() const { GPU_CALL(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

// What f queues on a stream, captured once.
class Graph {
 public:
  template <class F>
  Graph(const Stream& stream, F f) {
    begin(stream);
    f();
    end(stream);
    instantiate();
  }
  Graph() = default;  // for captures that overlap
  void begin(const Stream& stream) {
    GPU_CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  }
  void end(const Stream& stream) { GPU_CALL(cudaStreamEndCapture(stream, &graph_)); }
  void instantiate() { GPU_CALL(cudaGraphInstantiate(&exec_, graph_, 0)); }
  Graph(const Graph&) = delete;
  ~Graph() {
    if (exec_) (void)cudaGraphExecDestroy(exec_);
    if (graph_) (void)cudaGraphDestroy(graph_);
  }
  void launch(const Stream& stream) const { GPU_CALL(cudaGraphLaunch(exec_, stream)); }
  int kernels() const {
    size_t count = 0;
    GPU_CALL(cudaGraphGetNodes(graph_, nullptr, &count));
    auto* const nodes = new cudaGraphNode_t[count + 1];
    GPU_CALL(cudaGraphGetNodes(graph_, nodes, &count));
    int kernels = 0;
    for (size_t i = 0; i < count; ++i) {
      cudaGraphNodeType type{};
      GPU_CALL(cudaGraphNodeGetType(nodes[i], &type));
      kernels += type == cudaGraphNodeTypeKernel;
    }
    delete[] nodes;
    return kernels;
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

// The number behind --name, or what it is by default; anything not understood ends the program.
class Options {
 public:
  Options(int argc, char** argv) : argc_(argc), argv_(argv) {}
  long long number(const std::string& name, long long value) const {
    for (int i = 1; i + 1 < argc_; i += 2)
      if (argv_[i] == "--" + name) value = std::atoll(argv_[i + 1]);
    return value;
  }

 private:
  int argc_;
  char** argv_;
};

}  // namespace gpu
