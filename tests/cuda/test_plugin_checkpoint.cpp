// Checkpoints of an optimizer on a device: the bytes that the CPU saves, either side going on with what
// the other has saved, through the pinned buffers.
#include <catch2/catch_test_macros.hpp>

#include "tests/checkpoint/memory_file.h"
#include "tests/cuda/amp_run.h"
#include "tests/reference/all.hpp"

using namespace talus;
using namespace talus::test;

namespace {

constexpr Mix kBf16Master = {TALUS_BF16, TALUS_BF16, TALUS_MASTER_AUTO};
const std::vector<Shape> kShapes = {
    {kF32, 37, 0, 0}, {kBf16Master, 5000, 1, 0}, {kF64, 9, 0, 0}, {kF32, 0, 0, 0}};

void train(DeviceRun& run, int first, int last) {
  for (int s = first; s <= last; ++s) {
    run.set_grads([&](size_t k, int64_t i) { return grad_value(k, s, i); });
    run.step_both();
  }
}

}  // namespace

TEST_CASE("checkpoint: a device saves the bytes of the CPU and goes on from them") {
  for (const char* algorithm : {"adamw", "lamb", "nadam", "sparse_adam"}) {
    INFO(algorithm);
    const Fresh fresh;
    DeviceRun run({algorithm, "", {}}, kShapes), again({algorithm, "", {}}, kShapes);
    train(run, 1, 2);
    const std::string saved = save_bytes(run.opt, TALUS_SAVE_PARAMS);
    CHECK(saved == save_bytes(run.host.get(), TALUS_SAVE_PARAMS));
    // The device's state to the CPU, and the CPU's to the device.
    REQUIRE(load_bytes(again.host.get(), saved, TALUS_LOAD_PARAMS) == TALUS_OK);
    INFO(talus_last_error());
    REQUIRE(load_bytes(again.opt, save_bytes(run.host.get(), TALUS_SAVE_PARAMS),
                       TALUS_LOAD_PARAMS) == TALUS_OK);
    CHECK(again.difference_from_host() == "");
    train(run, 3, 4);
    train(again, 3, 4);
    CHECK(again.difference_from_host() == "");
    CHECK(save_bytes(again.opt) == save_bytes(run.host.get()));
    // Over live state, with a copy and in place.
    for (const uint64_t flags : {uint64_t{0}, uint64_t{TALUS_LOAD_IN_PLACE}}) {
      REQUIRE(load_bytes(run.opt, saved, TALUS_LOAD_PARAMS | flags) == TALUS_OK);
      CHECK(save_bytes(run.opt, TALUS_SAVE_PARAMS) == saved);
      train(run, 5, 5);
    }
  }
}

TEST_CASE("checkpoint: masters are compared with parameters in device memory") {
  const Fresh fresh;
  DeviceRun run({"adamw", "", {}}, kShapes), other({"adamw", "", {}}, kShapes);
  train(run, 1, 2);
  const std::string saved = save_bytes(run.opt), before = save_bytes(other.opt);
  CHECK(load_bytes(other.opt, saved) == TALUS_E_MISMATCH);
  CHECK(talus_last_error_detail() == TALUS_M_MASTER);
  CHECK(save_bytes(other.opt) == before);
  CHECK(load_bytes(other.opt, saved, TALUS_LOAD_PARAMS | TALUS_LOAD_ALLOW_MISSING) == TALUS_OK);
}

TEST_CASE("checkpoint: a graph that was captured before a load is refused") {
  const Fresh fresh;
  DeviceRun run({"adamw", "", {}}, kShapes);
  must(talus_prepare(run.opt, nullptr));
  train(run, 1, 1);
  const std::string saved = save_bytes(run.opt, TALUS_SAVE_PARAMS);
  Stream stream;
  Graph graph(stream, [&] { must(talus_step(run.opt, stream)); });
  CHECK(talus_save_to(run.opt, nullptr, nullptr, stream) == TALUS_E_ARGUMENT);
  must(talus_advance(run.opt, stream));
  REQUIRE(load_bytes(run.opt, saved, TALUS_LOAD_PARAMS, stream) == TALUS_OK);
  CHECK(talus_advance(run.opt, stream) == TALUS_E_STATE);
}

TEST_CASE("checkpoint: with a scaler in backoff, of steps and updates that are still under way") {
  const Fresh fresh;
  const Stream stream;
  DeviceRun run({"adamw", "", {}}, kShapes), again({"adamw", "", {}}, kShapes);
  ScalerPair scaler, second;
  for (auto* pair : {&scaler, &second}) pair->set("growth_interval", 3), pair->set("hysteresis", 2);
  scaler.attach(run);
  second.attach(again);
  const auto train_scaled = [&](DeviceRun& at, ScalerPair& with, int first, int last, bool waits) {
    for (int step = first; step <= last; ++step) {
      if (waits) set_step_grads(at, step, 100, step % 3 == 1);
      at.step_both(stream);
      with.update(stream);
    }
  };
  train_scaled(run, scaler, 1, 5, true);
  set_step_grads(run, 6, 100, true);
  emu_defer(1);
  train_scaled(run, scaler, 6, 7, false);
  const std::string saved = save_bytes(run.opt, TALUS_SAVE_PARAMS);
  emu_defer(0);
  CHECK(saved == save_bytes(run.host.get(), TALUS_SAVE_PARAMS));
  CHECK(scaler.device.get("consecutive_skips") == 2);
  for (talus_optimizer* opt : {again.opt, again.host.get()})
    REQUIRE(load_bytes(opt, saved, TALUS_LOAD_PARAMS) == TALUS_OK);
  CHECK(second.difference() == "");
  CHECK(second.device.get("scale") == scaler.device.get("scale"));
  train_scaled(run, scaler, 8, 12, true);
  train_scaled(again, second, 8, 12, true);
  CHECK(again.difference_from_host() == "");
  CHECK(second.difference() == "");
  CHECK(save_bytes(again.opt) == save_bytes(run.opt));
}
