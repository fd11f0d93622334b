// Times of what is queued on a stream, by the device's clock and by the host's.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "device.hpp"

namespace gpu {

inline constexpr double kNone = -1;  // printed as null

struct Sizes {
  int64_t elements, tensors;
  int steps, warm_ups, host_steps;
};

struct Times {
  double median = kNone, least = kNone, p99 = kNone;
};

inline Times summary(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  return {samples[samples.size() / 2], samples[0], samples[(samples.size() * 99) / 100]};
}

// Milliseconds of the device, event to event; all is queued before anything is waited for.
template <class F>
Times time_on_device(const Stream& stream, const Sizes& sizes, F f) {
  for (int i = 0; i < sizes.warm_ups; ++i) f();
  std::vector<cudaEvent_t> events(size_t(sizes.steps) + 1);
  for (cudaEvent_t& event : events) GPU_CALL(cudaEventCreate(&event));
  GPU_CALL(cudaEventRecord(events[0], stream));
  for (size_t i = 1; i < events.size(); ++i) {
    f();
    GPU_CALL(cudaEventRecord(events[i], stream));
  }
  stream.wait();
  std::vector<double> samples;
  for (size_t i = 1; i < events.size(); ++i) {
    float ms = 0;
    GPU_CALL(cudaEventElapsedTime(&ms, events[i - 1], events[i]));
    samples.push_back(ms);
  }
  for (const cudaEvent_t event : events) GPU_CALL(cudaEventDestroy(event));
  return summary(samples);
}

// Microseconds of the host per call, the device idle before each.
template <class F>
Times time_on_host(const Stream& stream, int count, F f) {
  std::vector<double> samples;
  for (int i = 0; i < count; ++i) {
    stream.wait();
    const auto start = std::chrono::steady_clock::now();
    f();
    samples.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
            .count());
  }
  stream.wait();
  return summary(samples);
}

}  // namespace gpu
