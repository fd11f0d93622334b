// Holds a checkpoint against a live optimizer: every difference there is, and what is to be read where
// if there is none that matters. Changes nothing.
#pragma once
#include <string>
#include <vector>

#include "lib/checkpoint/catalogue.h"
#include "lib/optimizer/optimizer.h"

namespace talus {

class Differences {
 public:
  void add(int kind, const std::string& text);  // TALUS_M_...
  bool none() const { return count_ == 0; }
  Status status(const std::string& file) const;  // TALUS_E_MISMATCH, detail: the first kind

 private:
  static constexpr int kMost = 32;

  int first_kind_ = 0;
  int64_t count_ = 0;
  std::string text_;
};

// What becomes of one stored tensor.
struct Reading {
  enum Use : uint8_t {
    state,           // into the slot
    parameter,       // into the caller's parameter
    rounded_master,  // into the slot; and its rounded copy into the parameter
    checked_master   // into the slot; the parameter must be its rounded copy
  } use = state;
  int64_t param = 0;
  StateSlot slot{};  // not of Use::parameter
  const Stored* from = nullptr;
  Dtype stored = Dtype::f32;

  Dtype wanted(const Parameter& p) const { return use == parameter ? p.dtype : slot.dtype; }
};

struct LoadPlan {
  std::vector<Reading> readings;
  std::vector<int64_t> widened;  // parameters whose master is to be made of them
  Restored restored;
};

// flags: TALUS_LOAD_... Reads step counts from the file. TALUS_E_IO, _FORMAT, _MISMATCH.
Status compare(const Optimizer& live, const Catalogue& file, uint64_t flags, LoadPlan* out);

}  // namespace talus
