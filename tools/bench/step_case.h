// A real step over a preset, and the roof over the same buffers, plan and threads.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/optimizer/optimizer.h"
#include "tools/bench/memory.h"
#include "tools/bench/preset.h"
#include "tools/bench/roof_kernels.h"

namespace bench {

// What is measured of a preset; dtypes as the user named them.
struct Subject {
  talus::AlgorithmRef algorithm;
  talus::Dtype param, grad;
  int32_t master;  // TALUS_MASTER_...
  bool norm;       // of the gradients, no step: parameters and state are never touched
  int threads;
  bool check_finite;     // with a scaler
  double max_grad_norm;  // 0: off

  bool has_master() const;
  bool reads_gradients_first() const { return check_finite || max_grad_norm > 0; }
  // Of a rule that takes gradients of rows alone: it gets 1 in kRowShare rows of each tensor, other
  // ones each time, and its roof is a step of `dense()` over tensors of the same shape.
  bool by_rows() const;
  Subject dense() const;
};
inline constexpr int64_t kRowShare = 100;

// What a pass carries for each element.
struct PassBytes {
  double counted = 0;  // read + written
  double fetched = 0;  // by stores to lines that the pass does not read

  void add(int64_t size, bool read, bool write);
};

// Of all operands that StepCase touches, each tensor on a cache line of its own.
uint64_t operand_bytes(const Preset& preset, const Subject& subject);

// Roofs of the CPU target in use. Throws where TALUS_CPU_TARGET is not to be had.
const RoofTable& roof_of_target();

class StepCase {
 public:
  StepCase(const Preset& preset, const Subject& subject);  // takes a first step; may throw

  void work();
  void roof();

  // Read + written by one call; traffic: with the lines that a store must fetch first.
  double bytes_per_param() const { return bytes_per_param_; }
  double traffic_per_param() const { return traffic_per_param_; }
  // Threads that a call keeps busy: a short list is done by the caller alone.
  int busy_threads() const;
  const talus::Optimizer& optimizer() const { return *optimizer_; }

 private:
  void add_params(const Preset& preset);
  void draw_rows(const Preset& preset);
  void bind_rows();
  void set_up_check();
  void step();
  void measure();
  void find_roofs();
  void add_roof(talus::SegmentsFn function, const PassBytes& bytes);

  Subject subject_;
  HugeMemory params_, grads_;
  std::unique_ptr<talus::Optimizer> optimizer_;  // goes before the memory it points to
  std::shared_ptr<talus::Scaler> scaler_;        // where gradients are checked
  std::vector<talus::SegmentsFn> roofs_;         // of each pass, and of the norm first
  // By rows: of each tensor that has some, in several draws, so that no cache has them from the last
  // time; and the dense case.
  struct Table {
    int64_t param, count;
    const char* values;
    std::vector<int64_t> draws;  // one after the other
  };
  std::vector<Table> tables_;
  int64_t draw_ = 0, elements_given_ = 0;
  std::unique_ptr<StepCase> dense_;
  int64_t param_count_;
  double bytes_per_param_ = 0, traffic_per_param_ = 0;
};

}  // namespace bench
