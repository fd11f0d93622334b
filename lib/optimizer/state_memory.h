// Memory of state tensors: allocated in blocks, or bound by the host.
#pragma once
#include <span>
#include <vector>

#include "lib/optimizer/model.h"
#include "lib/table/backend.h"

namespace talus {

inline constexpr uint64_t kStateAlignment = 64;  // of what we allocate: a cache line

class StateMemory {
 public:
  StateMemory(Model& model, const Backend& backend, void* context)
      : model_(model), backend_(backend), context_(context) {}
  ~StateMemory();
  StateMemory(const StateMemory&) = delete;
  StateMemory& operator=(const StateMemory&) = delete;

  void reserve(size_t parameters);
  void add_parameter() { rows_.push_back({}); }
  void truncate(size_t parameters) { rows_.resize(parameters); }

  // Which parameters a call is about.
  enum class Scope { with_gradient, all };
  // One block for everything that has no memory yet; nothing changes if it cannot be had.
  Status allocate(Scope scope, void* stream, bool* allocated);
  Status allocate(std::span<const int64_t> params, void* stream, bool* allocated);
  void take_back();  // the block of the last allocate
  // Memory of the backend or of the host's allocator, aligned; TALUS_E_MEMORY names `what`.
  Status take_memory(const char* what, uint64_t bytes, void* stream, void** out);
  bool complete(int64_t param) const;

  // Before the first step, when a fixed hyperparameter has changed which slots there are: frees what
  // is our own, and forgets the caller's memory of slots that are no more.
  void drop(int64_t param);
  void forget(int64_t param);  // all of a parameter that goes

  // The caller's memory, checked.
  void bind(int64_t param, const StateSlot& slot, void* data);
  // A master that the library holds was given for a first step: that is over. The caller's stays.
  void forget_given(int64_t param) {
    if ((rows_[size_t(param)].bound >> kHidden & 1) == 0)
      model_.table.hidden_given[size_t(param)] = 0;
  }
  bool is_bound(int64_t param, const StateSlot& slot) const {
    return rows_[size_t(param)].bound >> slot.column & 1;
  }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Block {
    void* data;
    uint64_t bytes;
    int64_t users;  // parameters whose state lies here
  };
  struct Row {
    int32_t block = -1;  // of its own; -1: none
    uint32_t bound = 0;  // bit c: column c is the caller's memory
  };
  Status allocate_block(const std::vector<int64_t>& params, void* stream, bool* allocated);
  void release(int32_t block);
  void drop_all_but(int64_t param, uint32_t bound_kept);
  void seal(int64_t param);

  Model& model_;
  const Backend& backend_;
  void* context_;
  std::vector<Block> blocks_;
  std::vector<Row> rows_;  // by parameter
  uint64_t bytes_ = 0;
};

}  // namespace talus
