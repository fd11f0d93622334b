// Memory of a CUDA device for a program that links no CUDA runtime: the library's own plugin has one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace command {

// Failures throw std::runtime_error with what is missing. Copies wait.
class DeviceMemory {
 public:
  explicit DeviceMemory(int32_t device);
  ~DeviceMemory();  // frees all
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* allocate(size_t bytes);                         // aligned to 256 bytes; NULL for none
  void copy(void* to, const void* from, size_t bytes);  // in either direction

 private:
  const void* plugin_;  // what device_memory.cpp makes of it
  void* context_ = nullptr;
  std::vector<std::pair<void*, size_t>> blocks_;
};

}  // namespace command
