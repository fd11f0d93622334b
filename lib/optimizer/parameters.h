// The parameters of an optimizer as the host described them: names, shapes, checks. Their rows lie
// in the tensor table.
#pragma once
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/base/status.h"
#include "lib/optimizer/memory_map.h"
#include "lib/table/tensor_table.h"

namespace talus {

struct Parameter {
  std::string name;
  std::vector<int64_t> shape;
  int64_t count = 0;
  int32_t group = 0;
  Dtype dtype = Dtype::f32, grad_dtype = Dtype::f32, state_dtype = Dtype::f32;
  bool has_master = false;
  bool removed = false;  // its index is not used again
};

// "parameter 12 "h.3.attn.w"", for messages.
std::string where(int64_t param, const std::string& name);

// Checked against what the caller gave; param is the index that the parameter is going to have.
Status describe(const talus_param& from, int64_t param, Parameter* out);

// Whether `count` elements can lie there.
inline bool is_memory(const void* data, int64_t count, Dtype dtype) {
  const uintptr_t begin = uintptr_t(data), bytes = uintptr_t(count * size_of(dtype));
  return (data || count == 0) && begin % uintptr_t(size_of(dtype)) == 0 && begin + bytes >= begin;
}

// Refuses memory of `what` (say "data") that is NULL though it has elements, or not aligned.
Status check_pointer(const void* data, const Parameter& p, Dtype dtype, int64_t param,
                     const char* what);

class Parameters {
 public:
  int64_t size() const { return int64_t(list_.size()); }
  const Parameter& operator[](int64_t i) const { return list_[size_t(i)]; }
  int64_t find(std::string_view name) const;  // -1: none

  Status add(Parameter p, const void* data);  // name and memory must be unique
  void truncate(int64_t n, const TensorTable& table);
  void set_group(int64_t param, int32_t group) { list_[size_t(param)].group = group; }
  void remove(int64_t param, const void* data);  // its name and memory are free again

  // Overlaps of memory that a step would write or read.
  Status check_overlap(const void* data, uint64_t bytes, int64_t param, const char* what) const;
  std::string owner_text(const MemoryMap::Owner& owner) const;
  MemoryMap& memory() { return memory_; }
  const MemoryMap& memory() const { return memory_; }

 private:
  std::deque<Parameter> list_;  // a deque: names and shapes handed out stay where they are
  std::unordered_map<std::string_view, int64_t> by_name_;
  MemoryMap memory_;
};

inline constexpr int kDataRange = -1;

}  // namespace talus
