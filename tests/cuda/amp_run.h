// Mixed precision on a device and on the CPU at once: settings, scalers, gradients with infinities.
#pragma once
#include "tests/cuda/device_run.h"

namespace talus::test {

class Scaler {
 public:
  explicit Scaler(int32_t device_type) { must(talus_scaler_create(device_type, 0, &handle_)); }
  ~Scaler() { talus_scaler_destroy(handle_); }
  Scaler(const Scaler&) = delete;
  operator talus_scaler*() const { return handle_; }
  double get(const char* name) const {
    double value = 0;
    must(talus_scaler_get(handle_, name, &value));
    return value;
  }

 private:
  talus_scaler* handle_ = nullptr;
};

struct ScalerPair {
  Scaler device{TALUS_CUDA}, host{TALUS_CPU};

  void attach(DeviceRun& run) {
    must(talus_attach_scaler(run.opt, device));
    must(talus_attach_scaler(run.host.get(), host));
  }
  void set(const char* name, double value) {
    must(talus_scaler_set(device, name, value));
    must(talus_scaler_set(host, name, value));
  }
  void update(cudaStream_t stream = nullptr) {
    must(talus_scaler_update(device, stream));
    must(talus_scaler_update(host, nullptr));
  }
  // "" or the first member that differs.
  std::string difference() {
    for (const char* name :
         {"scale", "growth_tracker", "hysteresis_tracker", "consecutive_skips", "total_skips"})
      if (device.get(name) != host.get(name))
        return std::string(name) + " is " + std::to_string(device.get(name)) + ", expected " +
               std::to_string(host.get(name));
    return "";
  }
};

inline void setting_both(DeviceRun& run, const char* name, double value) {
  must(talus_set_setting(run.opt, name, value));
  run.host.setting(name, value);
}

inline talus_stats stats_of(talus_optimizer* opt, int32_t wait = 1) {
  talus_stats stats{};
  stats.struct_size = sizeof stats;
  must(talus_get_stats(opt, wait, &stats));
  return stats;
}

inline bool same_number(double a, double b) { return a == b || (a != a && b != b); }

// The first member of the statistics that differs from the CPU's.
inline std::string stats_difference(DeviceRun& run) {
  const talus_stats a = stats_of(run.opt), b = stats_of(run.host.get());
  const auto say = [](const char* name, double got, double expected) {
    return std::string(name) + " is " + std::to_string(got) + ", expected " +
           std::to_string(expected);
  };
  if (a.found_inf != b.found_inf) return say("found_inf", a.found_inf, b.found_inf);
  if (a.steps != b.steps) return say("steps", double(a.steps), double(b.steps));
  if (a.skipped != b.skipped) return say("skipped", double(a.skipped), double(b.skipped));
  if (!same_number(a.grad_norm, b.grad_norm)) return say("grad_norm", a.grad_norm, b.grad_norm);
  if (a.clip_factor != b.clip_factor) return say("clip_factor", a.clip_factor, b.clip_factor);
  if (a.loss_scale != b.loss_scale) return say("loss_scale", a.loss_scale, b.loss_scale);
  if (a.nonfinite_param != b.nonfinite_param)
    return say("nonfinite_param", double(a.nonfinite_param), double(b.nonfinite_param));
  return "";
}

// Gradients of a step; about one step in four has an infinity or a NaN somewhere.
inline bool is_bad_step(uint64_t seed, int step) { return draw(seed, 4242, step) % 4 == 0; }
inline void set_step_grads(DeviceRun& run, int step, double scale, bool bad) {
  run.set_grads([&](size_t k, int64_t i) {
    if (bad && k == size_t(step) % run.tensors.size() && i == step % 3)
      return step % 2 ? double(INFINITY) : double(NAN);
    return grad_value(k, step, i) * scale;
  });
}

}  // namespace talus::test
