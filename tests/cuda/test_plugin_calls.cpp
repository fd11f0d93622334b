// The plugin's own objects on the emulated runtime: which calls a step makes, in which order, and what
// happens when one fails.
#include "tests/cuda/device_run.h"

using namespace talus::test;

namespace {

const HyperSet kAdamW = {"adamw", "", {}};

std::vector<Shape> many(int64_t tensors, int64_t n) {
  return std::vector<Shape>(size_t(tensors), Shape{kF32, n, 0, 0});
}

// All work of the log from `from` on went to that stream.
bool all_on(cudaStream_t stream, size_t from) {
  for (size_t i = from; i < emu_log_size(); ++i) {
    const emu_record r = emu_log_at(i);
    for (const int kind : {EMU_LAUNCH, EMU_COPY, EMU_SET, EMU_EVENT})
      if (r.kind == kind && r.stream != stream) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("cuda calls: 2,000 tensors are one launch; no wait, no allocation, no pageable copy") {
  const Fresh fresh;
  const Stream stream;
  DeviceRun run(kAdamW, many(2000, 3));
  run.step_both(stream);
  for (int step = 0; step < 3; ++step) {
    run.set_both("lr", 0.1 / (step + 1));
    const size_t mark = emu_log_size();
    run.step_both(stream);
    CHECK(emu_count(EMU_LAUNCH, mark) == 1);
    CHECK(emu_count(EMU_COPY, mark) == 1);  // the rows of scalars
    CHECK(forbidden(mark) == "");
    CHECK(all_on(stream, mark));
  }
  REQUIRE(run.difference_from_host() == "");
}

TEST_CASE("cuda calls: a step has one launch for each compute type, whatever the dtypes") {
  const Fresh fresh;
  std::vector<Shape> shapes;
  for (const Mix& mix : all_mixes())
    for (const int64_t n : {3, 0, 17}) shapes.push_back({mix, n, 0, 0});
  DeviceRun run(kAdamW, shapes);
  run.step_device();
  const size_t mark = emu_log_size();
  run.step_device();
  CHECK(emu_count(EMU_LAUNCH, mark) == 2);
  CHECK(forbidden(mark) == "");
}

TEST_CASE("cuda calls: new gradient pointers are one more copy, and the same ones none") {
  const Fresh fresh;
  DeviceRun run(kAdamW, many(50, 3));
  run.step_both();
  std::vector<void*> grads;
  for (const DeviceCopy& g : run.grads) grads.push_back(g.data());
  const auto copies_after_binding = [&] {
    must(talus_bind_grads(run.opt, 0, int64_t(grads.size()), grads.data()));
    const size_t mark = emu_log_size();
    run.step_both();
    CHECK(forbidden(mark) == "");
    return emu_count(EMU_COPY, mark);
  };
  CHECK(copies_after_binding() == 1);
  const DeviceCopy other(run.tensors[7].grad, 2);
  grads[7] = other.data();
  CHECK(copies_after_binding() == 2);
  REQUIRE(run.difference_from_host() == "");
}

TEST_CASE(
    "cuda calls: no upload is overwritten before it was read, however far the host is ahead") {
  const Fresh fresh;
  const Stream stream;
  DeviceRun run(kAdamW, many(4, 10));
  run.step_both(stream);
  emu_defer(1);
  for (int step = 0; step < 1000; ++step) {  // 256 bytes each: several times around the ring
    run.set_both("lr", 0.001 * (step % 7 + 1));
    run.step_both(stream);
  }
  emu_run_all();
  emu_defer(0);
  REQUIRE(run.difference_from_host() == "");
}

TEST_CASE("cuda calls: the step waits for a gradient whose stream it was told to wait for") {
  const Fresh fresh;
  for (const bool waits : {false, true}) {
    const Stream stream, producer;
    cudaEvent_t ready;
    must_cuda(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
    DeviceRun run({"sgd", "", {}}, many(1, 64));
    must(talus_prepare(run.opt, stream));
    emu_defer(1);
    must_cuda(cudaMemsetAsync(run.grads[0].data(), 0, 64 * 4, producer));
    must_cuda(cudaEventRecord(ready, producer));
    if (waits) must_cuda(cudaStreamWaitEvent(stream, ready, 0));
    run.step_device(stream);
    must_cuda(cudaStreamSynchronize(producer));  // the emulation runs other streams first
    emu_run_all();
    emu_defer(0);
    Buffer param(TALUS_F32, 64);
    run.params[0].fetch(param);
    CHECK(param.same_bytes(run.tensors[0].param) == waits);
    must_cuda(cudaEventDestroy(ready));
  }
}

TEST_CASE(
    "cuda calls: a captured step holds launches only, and replays with the bits of eager ones") {
  const Fresh fresh;
  const Stream stream;
  DeviceRun run(kAdamW, {{kF32, 5000, 1, 0}, {kF32, 10, 0, 0}});
  must(talus_prepare(run.opt, stream));
  const size_t mark = emu_log_size();
  const Graph graph(stream, [&] { run.step_device(stream); });
  CHECK(graph.node_count() == emu_count(EMU_LAUNCH, mark));
  CHECK(emu_count(EMU_COPY, mark) == 0);
  for (int step = 0; step < 5; ++step) {
    run.set_both("lr", 0.01 * (step + 1));
    run.set_grads([&](size_t k, int64_t i) { return grad_value(k, step, i); });
    const size_t before = emu_log_size();
    must(talus_advance(run.opt, stream));
    must_cuda(cudaGraphLaunch(graph.exec, stream));
    CHECK(forbidden(before) == "");
    run.host.step();
    REQUIRE(run.difference_from_host() == "");
  }
  run.step_both(stream);  // and eager steps go on from there
  REQUIRE(run.difference_from_host() == "");
}

TEST_CASE(
    "cuda calls: two steps captured at once on two streams replay in turns, both bits right") {
  const Fresh fresh;
  const Stream streams[2];
  DeviceRun first(kAdamW, {{kF32, 3000, 1, 0}, {all_mixes()[3], 40, 0, 1}});
  DeviceRun second({"sgd", "", {{"momentum", .9}}}, {{kF32, 70, 0, 0}, {kF64, 4100, 0, 0}});
  must(talus_prepare(first.opt, streams[0]));
  must(talus_prepare(second.opt, streams[1]));
  Graph graphs[2];
  for (size_t k : {0, 1}) graphs[k].begin(streams[k]);
  first.step_device(streams[0]);
  second.step_device(streams[1]);
  for (size_t k : {0, 1}) graphs[k].end(streams[k]);
  for (Graph& graph : graphs) graph.instantiate();
  const auto replay = [&](DeviceRun& run, const Graph& graph, cudaStream_t stream, int step) {
    run.set_both("lr", 0.01 * (step + 1));
    must(talus_advance(run.opt, stream));
    must_cuda(cudaGraphLaunch(graph.exec, stream));
    run.host.step();
  };
  for (int step = 0; step < 6; ++step) {
    if (step % 2 == 0) {  // between these, two steps of each wait in their streams
      emu_run_all();
      emu_defer(0);
      for (DeviceRun* run : {&first, &second})
        run->set_grads([&](size_t k, int64_t i) { return grad_value(k, step, i); });
      emu_defer(1);
    }
    replay(first, graphs[0], streams[0], step);
    replay(second, graphs[1], streams[1], 7 - step);
  }
  emu_run_all();
  emu_defer(0);
  REQUIRE(first.difference_from_host() == "");
  REQUIRE(second.difference_from_host() == "");
}

TEST_CASE("cuda calls: a capture that nothing was prepared for is refused and not broken") {
  const Fresh fresh;
  const Stream stream;
  DeviceRun run(kAdamW, many(2, 10));
  const Graph graph(stream, [&] { CHECK(talus_step(run.opt, stream) == TALUS_E_NOT_PREPARED); });
  CHECK(graph.node_count() == 0);
  run.step_both(stream);
  REQUIRE(run.difference_from_host() == "");
}

TEST_CASE("cuda calls: on any device the caller's stays current") {
  const Fresh fresh;
  emu_set_devices(2, 13000, cudaSuccess);
  const HyperSet set = {"adamw", "", {}};
  talus_optimizer* opt = nullptr;
  const auto current = [] {
    int device = -1;
    must_cuda(cudaGetDevice(&device));
    return device;
  };
  must_cuda(cudaSetDevice(1));
  {
    DeviceRun run(set, many(3, 20), 1);  // its tensors are of the current device
    run.step_both();
    must_cuda(cudaSetDevice(0));
    run.step_both();
    CHECK(current() == 0);
    must_cuda(cudaSetDevice(1));
    REQUIRE(run.difference_from_host() == "");
    must_cuda(cudaSetDevice(0));
  }
  CHECK(current() == 0);
  CHECK(talus_create("adamw", TALUS_CUDA, 7, &opt) == TALUS_E_ARGUMENT);
  CHECK(opt == nullptr);
}

TEST_CASE("cuda calls: a kernel that leaves its memory costs the handle, and the text says why") {
  const Fresh fresh;
  {
    DeviceRun run(kAdamW, many(1, 64));
    const DeviceCopy small(Buffer(TALUS_F32, 63), 0);
    must(talus_set_setting(run.opt, "check_pointers", 0));
    void* grad = small.data();
    must(talus_bind_grads(run.opt, 0, 1, &grad));
    (void)talus_step(run.opt, nullptr);
    CHECK(std::string(emu_last_fault()).find("out-of-bounds") != std::string::npos);
    CHECK(talus_step(run.opt, nullptr) == TALUS_E_DEVICE_LOST);
    CHECK(std::string(talus_last_error()).find("cudaErrorIllegalAddress") != std::string::npos);
    emu_reset();
    CHECK(talus_step(run.opt, nullptr) == TALUS_E_DEVICE_LOST);  // for good
  }
}

TEST_CASE(
    "cuda calls: any call of the runtime may fail: an error, no leak, and right bits or none") {
  const std::vector<Shape> shapes = {{kF32, 40, 0, 0}, {all_mixes()[3], 20, 1, 0}};
  int failed = 0;
  for (int nth = 1;; ++nth) {
    const Fresh fresh;
    INFO("call " << nth);
    DeviceRun run(kAdamW, shapes);
    must(talus_set_setting(run.opt, "stats", 1));
    const Buffer before = run.tensors[0].param;
    emu_fail(nullptr, nth, cudaErrorInvalidValue);
    talus_status status = TALUS_OK;
    for (int step = 0; step < 3 && status == TALUS_OK; ++step) {
      status = talus_step(run.opt, nullptr);
      if (status == TALUS_OK) run.host.step();
    }
    const bool happened = emu_failures() > 0;
    const std::string text = talus_last_error();
    emu_reset();
    CHECK(cudaGetLastError() == cudaSuccess);  // the caller does not inherit it
    if (!happened) break;
    ++failed;
    if (status == TALUS_OK) {  // in what only cleans up
      CHECK(run.difference_from_host() == "");
    } else {
      INFO(text);
      CHECK(text.find("cudaErrorInvalidValue") != std::string::npos);
      const talus_status next = talus_step(run.opt, nullptr);
      CHECK((next == TALUS_OK || next == TALUS_E_DEVICE_LOST));
      if (next == TALUS_OK) {
        run.host.step();
        CHECK(run.difference_from_host() == "");
      }
    }
  }
  CHECK(failed > 20);
}

TEST_CASE("cuda calls: the norm read after a replay is the replay's, also behind an eager step") {
  const Fresh fresh;
  const Stream stream;
  DeviceRun run(kAdamW, many(1, 64));
  must(talus_set_setting(run.opt, "stats", 1));
  run.host.setting("stats", 1);
  must(talus_prepare(run.opt, stream));
  const Graph graph(stream, [&] { run.step_device(stream); });
  run.step_both(stream);
  run.set_grads([](size_t k, int64_t i) { return grad_value(k, 9, i); });
  emu_defer(1);
  must(talus_advance(run.opt, stream));
  must_cuda(cudaGraphLaunch(graph.exec, stream));
  const double norm = run.grad_norm();
  emu_run_all();
  emu_defer(0);
  run.host.step();
  talus_stats expected{};
  expected.struct_size = sizeof expected;
  must(talus_get_stats(run.host.get(), 1, &expected));
  CHECK(norm == expected.grad_norm);
}

TEST_CASE("cuda calls: a launch that fails ahead of the passes of any step leaves it repeatable") {
  const Fresh fresh;
  DeviceRun run(kAdamW, many(2, 40));
  must(talus_set_setting(run.opt, "stats", 1));
  run.step_both();
  run.step_both();
  for (const int nth : {1, 2, 3, 4}) {  // three of the norm, then the first pass
    emu_fail("cudaLaunchKernel", nth, cudaErrorInvalidValue);
    INFO("launch " << nth);
    CHECK(talus_step(run.opt, nullptr) == TALUS_E_DEVICE);
    run.step_both();
  }
  CHECK(emu_failures() == 4);
  REQUIRE(run.difference_from_host() == "");
}

TEST_CASE("cuda calls: the host's memory is given back when the device is done with it") {
  const Fresh fresh;
  const Stream stream;
  static size_t from;
  static int taken, early;
  taken = early = 0;
  talus_allocator allocator{};
  allocator.struct_size = sizeof allocator;
  allocator.alloc = [](void*, uint64_t bytes, uint64_t, void*) {
    void* data = nullptr;
    ++taken;
    return cudaMalloc(&data, bytes) == cudaSuccess ? data : nullptr;
  };
  allocator.release = [](void*, void* data, uint64_t, void* on) {
    --taken;
    early += !on && emu_count(EMU_SYNC, from) == 0;
    (void)cudaFree(data);
  };
  {
    DeviceRun run(kAdamW, many(2, 40));
    must(talus_set_allocator(run.opt, &allocator));
    run.step_both(stream);
    CHECK(taken == 2);
    from = emu_log_size();
  }
  CHECK(taken == 0);
  CHECK(early == 0);
}

TEST_CASE("cuda calls: no memory on the device is an error that can be repaired") {
  const Fresh fresh;
  DeviceRun run(kAdamW, many(1, 1000));
  emu_set_memory(9000);  // parameter and gradient are 8,000 bytes
  CHECK(talus_step(run.opt, nullptr) == TALUS_E_MEMORY);
  emu_set_memory(1 << 20);
  run.step_both();
  REQUIRE(run.difference_from_host() == "");
}
