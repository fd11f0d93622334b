// Tensors for the self-test: every mix of dtypes, sizes at edges, ordinary and special values.
#pragma once
#include <talus.hpp>

#include <cstddef>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace command {

struct Mix {
  int32_t dtype, grad_dtype, master;
};
inline constexpr int kMixCount = 17;
inline constexpr int kStepCount = 3;

struct Tensor {
  int mix;
  int64_t count;
  int lead;  // elements of the memory before the tensor: 1 starts it off any alignment
  std::vector<std::byte> data, grad;
};

// The tensors before the first step, and the gradients of each step; made once.
struct Problem {
  std::vector<Tensor> tensors;
  std::vector<std::vector<std::byte>> grads[kStepCount];
};
const Problem& problem();

// Where a tensor's `data` and `grad` lie for the optimizer, if not in the tensor itself.
struct Place {
  std::byte *data, *grad;
};
void add(talus::Optimizer& opt, std::vector<Tensor>& tensors,
         const std::vector<Place>& places = {});

// 0 and on, as many as there are elements in a tensor.
std::vector<int64_t> row_numbers();
// Takes a step. A rule that takes gradients of rows alone gets all rows, each of one element, by
// `rows`: row_numbers() in memory of the optimizer's device.
void step(talus::Optimizer& opt, std::vector<Tensor>& tensors, const int64_t* rows,
          const std::vector<Place>& places = {});

// A parameter or state tensor.
struct Buffer {
  std::string what;
  int32_t tensor, dtype;
  std::vector<std::byte> bytes;
};
using Buffers = std::vector<Buffer>;
// What the tensors hold, and the state, which `copy` reads where it is not the host's.
using Copy = std::function<void(void* to, const void* from, size_t bytes)>;
Buffers collect(const talus::Optimizer& opt, const std::vector<Tensor>& tensors,
                const Copy& copy = std::memcpy);

// Of each mix: "" or what differs first between the two, and both values in hex.
std::vector<std::string> differences(const Buffers& got, const Buffers& expected);
// "bf16 parameter with master, f32 gradient, 4097 elements"
std::string describe(const Tensor& tensor);
// "" or the first gradient that is not what the problem gave for this step.
std::string gradient_change(const std::vector<Tensor>& tensors, int step);
// Of the tensors. Larger ones than `most` are left out if this is said before all else here: an
// emulated device takes seconds for what a real one does in none.
int64_t largest_count();
void leave_out_above(int64_t most);

}  // namespace command
