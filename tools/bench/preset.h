// A preset: the tensors of a real model, read from a data file that make_presets.py writes.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace bench {

struct PresetTensor {
  std::string name;
  std::vector<int64_t> shape;
  int64_t count;
};

struct Preset {
  std::string name;
  std::vector<PresetTensor> tensors;
  int64_t param_count = 0;
};

// Looks in `folders` first, then where the project keeps its own. Throws std::runtime_error.
Preset load_preset(const std::string& name, std::span<const std::string> folders);

}  // namespace bench
