// The emulated libcudart itself: calls, order, errors, captures, devices.
#include <catch2/catch_test_macros.hpp>
#include <cuda_runtime_api.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/cuda/fresh.h"

extern "C" cudaError_t probe_add(float* x, float amount, unsigned n, cudaStream_t stream);
extern "C" cudaError_t probe_reverse(float* x, unsigned threads, cudaStream_t stream);

namespace {

struct Stream {
  cudaStream_t handle = nullptr;
  explicit Stream(unsigned flags = cudaStreamNonBlocking) {
    REQUIRE(cudaStreamCreateWithFlags(&handle, flags) == cudaSuccess);
  }
  ~Stream() { cudaStreamDestroy(handle); }
  operator cudaStream_t() const { return handle; }
};

struct Event {
  cudaEvent_t handle = nullptr;
  Event() { REQUIRE(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming) == cudaSuccess); }
  ~Event() { cudaEventDestroy(handle); }
  operator cudaEvent_t() const { return handle; }
};

struct Floats {
  float* data = nullptr;
  unsigned n;
  explicit Floats(unsigned count) : n(count) {
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&data), n * sizeof(float)) == cudaSuccess);
  }
  ~Floats() { cudaFree(data); }
  void set(float x) {
    const std::vector<float> host(n, x);
    REQUIRE(cudaMemcpy(data, host.data(), n * sizeof(float), cudaMemcpyHostToDevice) ==
            cudaSuccess);
  }
  float get(unsigned i = 0) const {
    float x = 0;
    REQUIRE(cudaMemcpy(&x, data + i, sizeof x, cudaMemcpyDeviceToHost) == cudaSuccess);
    return x;
  }
};

}  // namespace

TEST_CASE("emulated cudart: memory starts as NaN, is copied, filled and freed") {
  const Fresh fresh;
  Floats x(100);
  CHECK(std::isnan(x.get(99)));
  x.set(2);
  CHECK(x.get(99) == 2);
  CHECK(cudaMemset(x.data, 0, 4) == cudaSuccess);
  CHECK(x.get(0) == 0);
  CHECK(x.get(1) == 2);
  float host = 0;
  CHECK(cudaMemcpy(&host, x.data + 100, 4, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemset(x.data, 0, 404) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(&host, &host, 4, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaFree(x.data + 1) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("emulated cudart: memory that has been freed is nobody's, and its address stays unused") {
  const Fresh fresh;
  void *a = nullptr, *b = nullptr;
  REQUIRE(cudaMalloc(&a, 1 << 20) == cudaSuccess);
  REQUIRE(cudaFree(a) == cudaSuccess);
  REQUIRE(cudaMalloc(&b, 1 << 20) == cudaSuccess);
  CHECK(a != b);
  CHECK(cudaMemset(a, 0, 4) == cudaErrorInvalidValue);
  CHECK(cudaFree(a) == cudaErrorInvalidValue);
  CHECK(cudaFree(b) == cudaSuccess);
  emu_set_memory(1000);
  CHECK(cudaMalloc(&a, 1001) == cudaErrorMemoryAllocation);
  CHECK(a == nullptr);
  size_t free_bytes = 0, total = 0;
  CHECK(cudaMemGetInfo(&free_bytes, &total) == cudaSuccess);
  CHECK(free_bytes == 1000);
}

TEST_CASE("emulated cudart: kernels run from their PTX and are counted with their streams") {
  const Fresh fresh;
  const Stream s;
  Floats x(100);
  x.set(1);
  const size_t mark = emu_log_size();
  CHECK(probe_add(x.data, 0.5f, 100, s) == cudaSuccess);
  CHECK(emu_count(EMU_LAUNCH, mark) == 1);
  CHECK(emu_log_at(mark).bytes == 2);
  CHECK(emu_log_at(mark).stream == s.handle);
  CHECK(std::string(emu_log_at(mark).call) == "cudaLaunchKernel");
  CHECK(x.get(99) == 1.5f);
  for (unsigned i = 0; i < 64; ++i) probe_add(x.data + i, float(i), 1, s);
  CHECK(probe_reverse(x.data, 64, s) == cudaSuccess);
  CHECK(x.get(0) == 64.5f);
  CHECK(x.get(63) == 1.5f);
  CHECK(probe_reverse(x.data, 128, s) == cudaErrorInvalidConfiguration);  // its launch bounds
  CHECK(probe_add(x.data, 1, 0, s) == cudaErrorInvalidConfiguration);     // an empty grid
}

TEST_CASE("emulated cudart: a kernel that leaves its memory loses the context for good") {
  const Fresh fresh;
  const Stream s;
  Floats x(10);
  float host[10] = {};
  CHECK(probe_add(x.data, 1, 11, s) == cudaErrorIllegalAddress);
  CHECK(std::string(emu_last_fault()).find("out-of-bounds") != std::string::npos);
  CHECK(std::string(emu_last_fault()).find("thread 10") != std::string::npos);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  CHECK(cudaMemset(x.data, 0, 4) == cudaErrorIllegalAddress);
  emu_reset();
  CHECK(probe_add(host, 1, 10, s) == cudaErrorIllegalAddress);  // host memory
  emu_reset();
  CHECK(probe_add(reinterpret_cast<float*>(reinterpret_cast<char*>(x.data) + 2), 1, 1, s) ==
        cudaErrorMisalignedAddress);
}

TEST_CASE(
    "emulated cudart: deferred operations keep the order of events and streams, and no more") {
  const Fresh fresh;
  for (const bool with_event : {false, true}) {
    INFO("with event: " << with_event);
    const Stream producer, consumer;
    const Event ready;
    Floats x(64);
    x.set(1);
    emu_defer(1);
    REQUIRE(cudaMemsetAsync(x.data, 0, 256, producer) == cudaSuccess);
    REQUIRE(cudaEventRecord(ready, producer) == cudaSuccess);
    if (with_event) REQUIRE(cudaStreamWaitEvent(consumer, ready, 0) == cudaSuccess);
    REQUIRE(probe_add(x.data, 2, 64, consumer) == cudaSuccess);
    CHECK(cudaEventQuery(ready) == cudaErrorNotReady);
    CHECK(cudaStreamQuery(producer) == cudaErrorNotReady);
    REQUIRE(cudaStreamSynchronize(producer) == cudaSuccess);  // others first where they may
    emu_run_all();
    CHECK(cudaEventQuery(ready) == cudaSuccess);
    emu_defer(0);
    CHECK(x.get() == (with_event ? 2.0f : 0.0f));
  }
}

TEST_CASE("emulated cudart: the legacy stream waits for blocking streams only") {
  const Fresh fresh;
  for (const unsigned flags : {cudaStreamDefault, cudaStreamNonBlocking}) {
    const Stream s(flags);
    Floats x(1);
    x.set(1);
    emu_defer(1);
    REQUIRE(probe_add(x.data, 1, 1, s) == cudaSuccess);
    REQUIRE(cudaMemsetAsync(x.data, 0, 4, nullptr) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
    emu_run_all();
    emu_defer(0);
    CHECK(x.get() == (flags == cudaStreamDefault ? 0.0f : 1.0f));
  }
}

TEST_CASE(
    "emulated cudart: pinned memory is read when the copy runs, pageable memory at the call") {
  const Fresh fresh;
  const Stream s;
  Floats x(2);
  float pageable = 1, *pinned = nullptr;
  REQUIRE(cudaHostAlloc(reinterpret_cast<void**>(&pinned), 4, cudaHostAllocDefault) == cudaSuccess);
  *pinned = 1;
  emu_defer(1);
  const size_t mark = emu_log_size();
  REQUIRE(cudaMemcpyAsync(x.data, pinned, 4, cudaMemcpyHostToDevice, s) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(x.data + 1, &pageable, 4, cudaMemcpyHostToDevice, s) == cudaSuccess);
  CHECK(emu_count(EMU_COPY, mark) == 1);
  CHECK(emu_count(EMU_COPY_PAGEABLE, mark) == 1);
  *pinned = pageable = 5;
  emu_run_all();
  emu_defer(0);
  CHECK(x.get(0) == 5);
  CHECK(x.get(1) == 1);
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
}

TEST_CASE("emulated cudart: the nth call fails, of one function or of any") {
  const Fresh fresh;
  Floats x(1);
  x.set(1);
  emu_fail("cudaMemset", 2, cudaErrorInvalidValue);
  CHECK(cudaMemset(x.data, 0, 4) == cudaSuccess);
  CHECK(emu_failures() == 0);
  CHECK(cudaMemset(x.data, 0, 4) == cudaErrorInvalidValue);
  CHECK(emu_failures() == 1);
  CHECK(cudaMemset(x.data, 0, 4) == cudaSuccess);
  emu_fail(nullptr, 3, cudaErrorMemoryAllocation);
  int device = 0;
  CHECK(cudaGetDevice(&device) == cudaSuccess);
  CHECK(cudaMemset(x.data, 0, 4) == cudaSuccess);
  CHECK(probe_add(x.data, 1, 1, nullptr) == cudaErrorMemoryAllocation);
  CHECK(x.get() == 0);
  const size_t live = emu_live_allocations();
  void* p = nullptr;
  REQUIRE(cudaMalloc(&p, 4) == cudaSuccess);
  emu_fail("cudaFree", 1, cudaErrorLaunchFailure);
  CHECK(cudaFree(p) == cudaErrorLaunchFailure);  // sticky, and freed
  CHECK(emu_live_allocations() == live);
  CHECK(cudaGetDevice(&device) == cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
}

TEST_CASE(
    "emulated cudart: a capture runs nothing, and its graph replays with what is there then") {
  const Fresh fresh;
  const Stream s;
  Floats x(64);
  x.set(1);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  cudaStreamCaptureStatus status;
  CHECK(cudaStreamIsCapturing(s, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusActive);
  REQUIRE(probe_add(x.data, 1, 64, s) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(x.data, 0, 4, s) == cudaSuccess);
  REQUIRE(cudaStreamEndCapture(s, &graph) == cudaSuccess);
  CHECK(x.get(1) == 1);
  size_t count = 0;
  REQUIRE(cudaGraphGetNodes(graph, nullptr, &count) == cudaSuccess);
  REQUIRE(count == 2);
  cudaGraphNode_t nodes[2];
  cudaGraphNodeType type;
  REQUIRE(cudaGraphGetNodes(graph, nodes, &count) == cudaSuccess);
  REQUIRE(cudaGraphNodeGetType(nodes[0], &type) == cudaSuccess);
  CHECK(type == cudaGraphNodeTypeKernel);
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  for (int i = 0; i < 3; ++i) REQUIRE(cudaGraphLaunch(exec, s) == cudaSuccess);
  CHECK(x.get(0) == 0);
  CHECK(x.get(1) == 4);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}

TEST_CASE("emulated cudart: what a capture forbids breaks it") {
  const Fresh fresh;
  Floats x(4);
  const Event event;
  const auto broken_by = [&](auto call, unsigned flags = cudaStreamNonBlocking) {
    const Stream s(flags);
    REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    const cudaError_t e = call(s.handle);
    cudaGraph_t graph = nullptr;
    const cudaError_t end = cudaStreamEndCapture(s, &graph);
    if (graph) cudaGraphDestroy(graph);
    CHECK((e == cudaSuccess) == (end == cudaSuccess));
    return e;
  };
  void* p = nullptr;
  CHECK(broken_by([](cudaStream_t) { return cudaSuccess; }) == cudaSuccess);
  CHECK(broken_by([&](cudaStream_t s) { return cudaMallocAsync(&p, 4, s); }) ==
        cudaErrorStreamCaptureUnsupported);
  CHECK(broken_by([&](cudaStream_t) { return cudaMalloc(&p, 4); }) ==
        cudaErrorStreamCaptureUnsupported);
  CHECK(broken_by([](cudaStream_t s) { return cudaStreamSynchronize(s); }) ==
        cudaErrorStreamCaptureUnsupported);
  CHECK(broken_by([&](cudaStream_t) { return cudaEventQuery(event); }) ==
        cudaErrorStreamCaptureUnsupported);
  const auto on_legacy = [&](cudaStream_t) { return cudaMemsetAsync(x.data, 0, 4, nullptr); };
  CHECK(broken_by(on_legacy) == cudaSuccess);
  CHECK(broken_by(on_legacy, cudaStreamDefault) == cudaErrorStreamCaptureImplicit);
}

TEST_CASE("emulated cudart: devices have their own memory and streams") {
  const Fresh fresh;
  emu_set_devices(2, 13000, cudaSuccess);
  Floats here(1);
  here.set(1);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  const Stream there_stream;
  Floats there(1);
  there.set(1);
  cudaPointerAttributes attributes;
  REQUIRE(cudaPointerGetAttributes(&attributes, here.data) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeDevice);
  CHECK(attributes.device == 0);
  REQUIRE(cudaPointerGetAttributes(&attributes, there.data) == cudaSuccess);
  CHECK(attributes.device == 1);
  float host;
  REQUIRE(cudaPointerGetAttributes(&attributes, &host) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  CHECK(probe_add(there.data, 1, 1, there_stream) == cudaSuccess);
  CHECK(there.get() == 2);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  CHECK(probe_add(there.data, 1, 1, there_stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
  CHECK(probe_add(there.data, 1, 1, nullptr) == cudaErrorIllegalAddress);  // of the other device
}

TEST_CASE("emulated cudart: it says which driver and devices there are, as it is told") {
  const Fresh fresh;
  emu_set_devices(0, 0, cudaErrorInsufficientDriver);
  int n = -1, driver = -1;
  CHECK(cudaGetDeviceCount(&n) == cudaErrorInsufficientDriver);
  CHECK(n == 0);
  CHECK(cudaDriverGetVersion(&driver) == cudaSuccess);
  CHECK(driver == 0);
}

TEST_CASE("emulated cudart: the host has no access to device memory") {
  const Fresh fresh;
  const Floats x(4);
  FILE* const maps = std::fopen("/proc/self/maps", "r");
  REQUIRE(maps);
  bool found = false;
  char line[512], access[5];
  for (unsigned long long first, end; std::fgets(line, sizeof line, maps);) {
    if (std::sscanf(line, "%llx-%llx %4s", &first, &end, access) != 3) continue;
    if (uint64_t(x.data) < first || uint64_t(x.data) >= end) continue;
    found = true;
    CHECK(std::string(access).substr(0, 3) == "---");
  }
  std::fclose(maps);
  CHECK(found);
}
