// `talus selftest --device`: the CPU's bits on a device, for every setup, mix of dtypes and chunking.
#include "command.hpp"
#include "device_memory.hpp"
#include "selftest.hpp"

#include <fmt/format.h>

namespace command {
namespace {

// Returns parameters and state after the last step. *written: the first gradient that a step wrote.
Buffers train(const Setup& setup, int32_t device, int chunk_tiles, std::string* written) {
  DeviceMemory memory(device);
  talus::Optimizer opt(setup.algorithm, {}, TALUS_CUDA, device);
  for (const auto& [name, value] : setup.values) opt.set(name.c_str(), value);
  opt.set_setting("chunk_tiles", chunk_tiles);
  const auto put = [&](const std::vector<std::byte>& bytes) {
    void* const data = memory.allocate(bytes.size());
    memory.copy(data, bytes.data(), bytes.size());
    return static_cast<std::byte*>(data);
  };
  std::vector<Tensor> tensors = problem().tensors;
  std::vector<Place> places;
  for (const Tensor& tensor : tensors) places.push_back({put(tensor.data), put(tensor.grad)});
  add(opt, tensors, places);
  const std::vector<int64_t> numbers = row_numbers();
  auto* const rows = static_cast<int64_t*>(memory.allocate(numbers.size() * sizeof(int64_t)));
  memory.copy(rows, numbers.data(), numbers.size() * sizeof(int64_t));
  for (int k = 0; k < kStepCount; ++k) {
    const auto& grads = problem().grads[k];
    for (size_t i = 0; i < grads.size(); ++i)
      memory.copy(places[i].grad, grads[i].data(), grads[i].size());
    step(opt, tensors, rows, places);
    for (size_t i = 0; i < grads.size(); ++i)
      memory.copy(tensors[i].grad.data(), places[i].grad, grads[i].size());
    if (written->empty()) *written = gradient_change(tensors, k);
  }
  for (size_t i = 0; i < tensors.size(); ++i)
    memory.copy(tensors[i].data.data(), places[i].data, tensors[i].data.size());
  return collect(opt, tensors,
                 [&](void* to, const void* from, size_t bytes) { memory.copy(to, from, bytes); });
}

}  // namespace

Outcome check_device(int32_t device) {
  Outcome outcome;
  for (const Setup& setup : all_setups()) {
    const std::string name = fmt::format("cuda:{}: {} ({}): ", device, setup.algorithm, setup.what);
    const Buffers expected = run_everywhere(setup, nullptr);
    for (const int tiles : kChunkTiles) {
      std::string written;
      const Buffers got = train(setup, device, tiles, &written);
      outcome.add(written.empty() ? "" : name + "a step wrote to a gradient: " + written);
      for (const std::string& each : differences(got, expected))
        outcome.add(each.empty()
                        ? ""
                        : fmt::format("{}chunk_tiles {} against the CPU: {}", name, tiles, each));
    }
  }
  return outcome;
}

}  // namespace command
