// The shared memory of one block. It starts as NaN bytes, so that a read before a write shows in the
// result, and is checked for races.
#pragma once
#include <string>
#include <vector>

#include "tests/cuda/emu/ptx/fault.h"
#include "tests/cuda/emu/ptx/race.h"

namespace ptx {

class SharedMemory {
 public:
  void start_block(uint64_t bytes) {
    bytes_.assign(bytes, 0xff);
    history_.assign(bytes, {});
  }

  uint8_t* access(uint64_t address, unsigned bytes, bool write, Now now, const std::string& text) {
    if (address > bytes_.size() || bytes > bytes_.size() - address)
      throw Fault(FaultKind::illegal_address, "shared memory range: " + text);
    for (uint64_t i = address; i < address + bytes; ++i)
      if (!history_[i].note(write, now))
        throw Fault(FaultKind::race, "race in shared memory: " + text);
    return bytes_.data() + address;
  }

 private:
  std::vector<uint8_t> bytes_;
  std::vector<AccessHistory> history_;
};

}  // namespace ptx
