// The tensors that a checkpoint of an optimizer has, and their keys.
#pragma once
#include <string>
#include <vector>

#include "lib/checkpoint/manifest.h"
#include "lib/checkpoint/safetensors.h"
#include "lib/optimizer/optimizer.h"

namespace talus {

inline constexpr const char* kDigestKey = "talus.digest";
inline constexpr const char* kStepDtype = "I64";
inline constexpr const char* kDigestDtype = "U32";

// "F32", as a file names it; and the reverse, false: none of a tensor of ours.
const char* file_dtype(Dtype dtype);
bool parse_dtype(std::string_view name, Dtype* out);

// Whether it may be one of ours: no parameter of such a name has its values in a file.
bool is_own_key(std::string_view key);
// Of what the slot holds for this parameter.
std::vector<uint64_t> slot_shape(const Parameter& p, const StateSlot& slot);
std::vector<uint64_t> param_shape(const Parameter& p);

// One tensor to be written. `data` is memory of the optimizer, but for a step count.
struct StateTensor {
  safetensors::Entry entry;
  const void* data = nullptr;
  int64_t steps = 0;
  bool is_steps = false;
};

// Step counts, the state of parameters that have begun, and with `params` the parameters.
Status state_tensors(const Optimizer& from, bool params, std::vector<StateTensor>* out);

}  // namespace talus
