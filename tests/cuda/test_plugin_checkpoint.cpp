// Checkpoints of an optimizer on a device: the bytes that the CPU saves, either side going on with what
// the other has saved, through the pinned buffers.
#include <catch2/catch_test_macros.hpp>

#include "tests/checkpoint/memory_file.h"
#include "tests/cuda/device_run.h"
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
