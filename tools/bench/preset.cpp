#include "tools/bench/preset.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>

namespace bench {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr int64_t kMostElements = int64_t{1} << 56;  // bytes of all operands still fit in 64 bits
constexpr int64_t kMostTensors = 10'000'000;

// Those of an installed program lie in its prefix, those of a built one beside it.
std::vector<std::string> all_folders(std::span<const std::string> first) {
  std::vector<std::string> folders(first.begin(), first.end());
  std::error_code none;
  const fs::path own = fs::read_symlink("/proc/self/exe", none).parent_path();
  for (const char* each : {TALUS_BENCH_PRESETS, "bench"})
    if (!own.empty()) folders.push_back((own / each).lexically_normal().string());
  return folders;
}

std::string known_presets(std::span<const std::string> folders) {
  std::set<std::string> names;
  for (const std::string& folder : folders) {
    std::error_code none;
    for (const fs::directory_entry& file : fs::directory_iterator(folder, none))
      if (file.path().extension() == ".json") names.insert(file.path().stem().string());
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

void add_tensor(const Json& item, int64_t index, Preset* out) {
  PresetTensor tensor{item.at(0), item.at(1), 1};
  if (const size_t at = tensor.name.find("{}"); at != std::string::npos)
    tensor.name.replace(at, 2, std::to_string(index));
  for (const int64_t extent : tensor.shape)
    if (extent < 0 || __builtin_mul_overflow(tensor.count, extent, &tensor.count))
      throw std::runtime_error("tensor " + tensor.name + " has an extent that is no size");
  if (tensor.count > kMostElements - out->param_count)
    throw std::runtime_error("tensor " + tensor.name + " has more elements than can be addressed");
  if (int64_t(out->tensors.size()) >= kMostTensors)
    throw std::runtime_error(fmt::format("more than {} tensors", kMostTensors));
  out->param_count += tensor.count;
  out->tensors.push_back(std::move(tensor));
}

void add_tensors(const Json& items, Preset* out) {
  for (const Json& item : items) {
    if (item.is_array()) {
      add_tensor(item, 0, out);
      continue;
    }
    const int64_t repeat = item.at("repeat");
    for (int64_t i = 0; i < repeat; ++i)
      for (const Json& inner : item.at("tensors")) add_tensor(inner, i, out);
  }
}

}  // namespace

Preset load_preset(const std::string& name, std::span<const std::string> first) {
  const std::vector<std::string> folders = all_folders(first);
  const bool plain = name.find('/') == std::string::npos && name.find('\\') == std::string::npos;
  for (const std::string& folder : folders) {
    const fs::path path = fs::path(folder) / (name + ".json");
    std::ifstream file(path);
    if (!plain || !file) continue;
    try {
      Preset preset{name, {}, 0};
      add_tensors(Json::parse(file).at("tensors"), &preset);
      if (preset.param_count == 0) throw std::runtime_error("has no elements");
      return preset;
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format("preset {}: {}", path.string(), error.what()));
    }
  }
  throw std::runtime_error(
      fmt::format("unknown preset \"{}\", there are: {}", name, known_presets(folders)));
}

}  // namespace bench
