// What the tests of mixed precision share: a scaler of the library, what a step has found, and all
// that a step may change as bytes. No Catch2 here.
#pragma once
#include "tests/optimizer.h"

namespace talus::test {

class Scaler {
 public:
  explicit Scaler(const Values& values = {}) {
    must(talus_scaler_create(TALUS_CPU, 0, &handle_));
    for (const auto& [name, value] : values) set(name, value);
  }
  ~Scaler() { talus_scaler_destroy(handle_); }
  Scaler(const Scaler&) = delete;
  Scaler& operator=(const Scaler&) = delete;

  talus_scaler* get() const { return handle_; }
  void set(const std::string& name, double value) {
    must(talus_scaler_set(handle_, name.c_str(), value));
  }
  double get(const std::string& name) const {
    double value = NAN;
    must(talus_scaler_get(handle_, name.c_str(), &value));
    return value;
  }
  double scale() const {
    double scale = NAN;
    must(talus_scaler_scale(handle_, &scale));
    return scale;
  }
  void update() { must(talus_scaler_update(handle_, nullptr)); }
  void attach_to(const Optimizer& optimizer) const {
    must(talus_attach_scaler(optimizer.get(), handle_));
  }

 private:
  talus_scaler* handle_ = nullptr;
};

inline talus_stats stats_of(const Optimizer& optimizer) {
  talus_stats stats{};
  stats.struct_size = sizeof stats;
  must(talus_get_stats(optimizer.get(), 1, &stats));
  return stats;
}

inline int64_t clock_of(const Optimizer& optimizer, int32_t clock) {
  int64_t t = -1;
  must(talus_get_clock(optimizer.get(), clock, &t));
  return t;
}

inline double grad_norm_of(const std::vector<talus_optimizer*>& of, double type = 2,
                           int32_t group = TALUS_ALL) {
  double norm = NAN;
  must(talus_grad_norm(of.data(), int32_t(of.size()), group, type, &norm, nullptr));
  return norm;
}

// Parameters, started state, step counts and the clock of applied steps, byte for byte, a line for each
// tensor.
template <class Tensors>
std::vector<std::string> bytes_of(const Optimizer& optimizer, const Tensors& tensors) {
  std::vector<std::string> lines;
  std::map<int64_t, size_t> line_of;
  for (const TestTensor& x : tensors) {
    line_of[x.index] = lines.size();
    lines.emplace_back(static_cast<const char*>(x.param.data()), x.param.bytes());
    lines.back() += std::to_string(optimizer.steps(x));
  }
  for (int64_t i = 0; i < talus_state_count(optimizer.get()); ++i) {
    talus_state s{};
    s.struct_size = sizeof s;
    must(talus_state_info(optimizer.get(), i, &s));
    int64_t steps = 0;
    must(talus_steps(optimizer.get(), s.param, &steps));
    const auto line = line_of.find(s.param);
    if (line != line_of.end() && s.data && steps > 0)
      lines[line->second].append(static_cast<const char*>(s.data), s.bytes);
  }
  lines.push_back(std::to_string(clock_of(optimizer, TALUS_CLOCK_APPLIED)));
  lines.push_back(std::to_string(stats_of(optimizer).steps));
  return lines;
}

}  // namespace talus::test
