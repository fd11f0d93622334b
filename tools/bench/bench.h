// `talus bench`: what can be asked and what comes out. Knows neither command line nor output. Names
// nothing of the library, whose C++ wrapper and core share a namespace (see tools/meson.build).
#pragma once
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace bench {

inline constexpr int kLeastPairs = 5;  // fewer establish nothing
inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct Options {
  std::vector<std::string> presets{"gpt2"}, preset_dirs;
  std::string rule = "adamw", param = "f32", grad, master = "auto";  // grad empty: as param
  int threads = 1, pairs = 7;
  double seconds = 30;        // for the samples of one row
  bool norm = false;          // the norm of the gradients instead of a step
  bool check_finite = false;  // gradients scaled back and checked, as with a loss scaler
  double max_grad_norm = 0;   // and clipped; 0: off
  std::function<void(const std::string&)> progress;
};

// Medians over the kept samples; kNone where there is none.
struct Row {
  std::string preset, rule, param, grad, master, state;  // master, state: "none" if there is none
  std::string check;  // of the gradients: "none", "finite", "norm" or both as "finite, norm"
  int threads = 1;
  double ns_per_param = kNone, gb_per_s = kNone, roof_gb_per_s = kNone;
  double stream_gb_per_s = kNone;  // kNone: the case may lie in the cache, see stream.h
  double ratio = kNone;            // kNone: not established; by rows: to a dense step
  double ns_per_tensor = kNone;
  double ns_per_tensor_least = kNone;  // over all samples: what the limit for tiny tensors is about
  int pairs_kept = 0, pairs_tried = 0;
  std::string fault;  // of the roof; empty: none

  bool established() const { return pairs_kept >= kLeastPairs; }
};

// Throws std::runtime_error with a text for the user; memory is looked at before any row starts.
std::vector<Row> run(const Options& options);

}  // namespace bench
