// Small models for tests of checkpoints: parameters by name and shape, on the CPU.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "tests/checkpoint/memory_file.h"

namespace talus::test {

struct ParamSpec {
  std::string name;
  std::vector<int64_t> shape = {3, 2};
  int32_t dtype = TALUS_F32, master = TALUS_MASTER_AUTO, group = 0;
};

// Groups of algorithms, parameters with gradients; trained by steps of gradients that depend on names.
class Model {
 public:
  using Groups = std::vector<std::pair<std::string, Values>>;

  explicit Model(const std::vector<ParamSpec>& params, const Groups& groups = {{"adamw", {}}},
                 int64_t steps = 0) {
    must(talus_create(groups.front().first.c_str(), TALUS_CPU, 0, &opt_));
    for (size_t g = 0; g < groups.size(); ++g) {
      int32_t group = 0;
      if (g > 0) must(talus_add_group(opt_, groups[g].first.c_str(), &group));
      for (const auto& [name, value] : groups[g].second)
        must(talus_set(opt_, group, name.c_str(), value));
    }
    for (const ParamSpec& p : params) add(p);
    for (int64_t s = 1; s <= steps; ++s) step(s);
  }
  ~Model() { talus_destroy(opt_); }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  talus_optimizer* get() const { return opt_; }
  std::string bytes(uint64_t flags = TALUS_SAVE_PARAMS) const { return save_bytes(opt_, flags); }
  const Buffer& data(size_t i) const { return data_[i]; }
  Buffer& data(size_t i) { return data_[i]; }
  void rebind_grads() {
    for (size_t i = 0; i < grads_.size(); ++i) {
      void* const grad = grads_[i].data();
      must(talus_bind_grads(opt_, int64_t(i), 1, &grad));
    }
  }
  void step(int64_t number) {
    for (size_t i = 0; i < grads_.size(); ++i)
      for (int64_t k = 0; k < grads_[i].size(); ++k)
        grads_[i].set(k, grad_value(seeds_[i], number, k));
    must(talus_step(opt_, nullptr));
  }

 private:
  void add(const ParamSpec& p) {
    int64_t count = 1;
    for (const int64_t extent : p.shape) count *= extent;
    uint64_t seed = 1;
    for (const char c : p.name) seed = seed * 31 + uint64_t(static_cast<unsigned char>(c));
    seeds_.push_back(seed);
    data_.emplace_back(p.dtype, count);
    grads_.emplace_back(p.dtype, count);
    for (int64_t k = 0; k < count; ++k) data_.back().set(k, param_value(seed, k));
    talus_param d{};
    d.struct_size = sizeof d;
    d.dtype = p.dtype;
    d.master = p.master;
    d.data = data_.back().data();
    d.grad = grads_.back().data();
    d.name = p.name.c_str();
    d.shape = p.shape.data();
    d.ndim = int32_t(p.shape.size());
    must(talus_add_params(opt_, p.group, 1, &d, nullptr));
  }

  talus_optimizer* opt_ = nullptr;
  std::deque<Buffer> data_, grads_;
  std::vector<uint64_t> seeds_;
};

}  // namespace talus::test
