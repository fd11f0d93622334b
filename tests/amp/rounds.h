// Rounds of a loss scaler, played by optimizers of one element whose gradient is finite or not.
#pragma once
#include <memory>

#include "tests/amp/amp.h"

namespace talus::test {

// An optimizer that does nothing but find.
struct Finder {
  TestTensor x{kF32, 1};
  Optimizer optimizer{"sgd"};

  explicit Finder(const Scaler& scaler) {
    x.set_all(0, 1);
    optimizer.add(x);
    scaler.attach_to(optimizer);
  }
  void bind(bool found) { x.grad.set(0, found ? INFINITY : 1); }
  void step(bool found) {
    bind(found);
    optimizer.step();
  }
};

inline double play_round(Scaler& scaler, Finder& finder, bool found) {
  finder.step(found);
  scaler.update();
  return scaler.scale();
}

// The state of a scaler by definition; talus.h says what its parameters mean.
struct ScalerReference {
  std::map<std::string, double> p{{"init_scale", 65536},    {"growth_factor", 2},
                                  {"backoff_factor", .5},   {"growth_interval", 2000},
                                  {"hysteresis", 1},        {"min_scale", 1},
                                  {"max_scale", 16777216.}, {"dynamic", 1}};
  float scale = 65536;
  int64_t clean_in_row = 0, tolerance = 1, skips_in_row = 0, skips = 0;

  explicit ScalerReference(const Values& values) {
    for (const auto& [name, value] : values) p.at(name) = value;
    scale = float(p.at("init_scale"));
    tolerance = int64_t(p.at("hysteresis"));
  }
  void update(bool found) {
    const bool moves = p.at("dynamic") != 0;
    if (!found) {
      skips_in_row = 0;
      tolerance = int64_t(p.at("hysteresis"));
      if (double(++clean_in_row) < p.at("growth_interval")) return;
      clean_in_row = 0;
      const auto grown = float(double(scale) * p.at("growth_factor"));
      if (moves) scale = grown < float(p.at("max_scale")) ? grown : float(p.at("max_scale"));
      return;
    }
    clean_in_row = 0;
    ++skips_in_row, ++skips;
    if (tolerance > 0) --tolerance;
    if (tolerance > 0 || !moves) return;
    const auto backed = float(double(scale) * p.at("backoff_factor"));
    scale = backed > float(p.at("min_scale")) ? backed : float(p.at("min_scale"));
  }
  // "" where a scaler is in this state.
  std::string difference(const Scaler& s) const {
    const std::pair<const char*, double> all[] = {{"scale", double(scale)},
                                                  {"growth_tracker", double(clean_in_row)},
                                                  {"hysteresis_tracker", double(tolerance)},
                                                  {"consecutive_skips", double(skips_in_row)},
                                                  {"total_skips", double(skips)}};
    for (const auto& [name, want] : all)
      if (const double got = s.get(name); got != want)
        return std::string(name) + " is " + std::to_string(got) + ", want " + std::to_string(want);
    return s.scale() == double(scale) ? "" : "talus_scaler_scale is not the scale";
  }
};

}  // namespace talus::test
