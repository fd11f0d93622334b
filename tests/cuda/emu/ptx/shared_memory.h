// The shared memory of one block. It starts as NaN bytes, so that a read before a write shows in the
// result, and every access is compared with those before it: two threads that touch a byte, one of
// them writing, with neither a barrier nor (in one warp) a __syncwarp of all lanes between, race.
#pragma once
#include <cstring>
#include <string>
#include <vector>

#include "tests/cuda/emu/ptx/fault.h"

namespace ptx {

class SharedMemory {
 public:
  // Who accesses, and when: both clocks count what orders accesses.
  struct Now {
    uint32_t thread, block_clock, warp_clock;
  };

  void start_block(uint64_t bytes) {
    bytes_.assign(bytes, 0xff);
    written_.assign(bytes, {});
    read_.assign(bytes, {});
  }

  uint8_t* access(uint64_t address, unsigned bytes, bool write, Now now, const std::string& text) {
    if (address > bytes_.size() || bytes > bytes_.size() - address)
      throw Fault(FaultKind::illegal_address, "shared memory range: " + text);
    for (uint64_t i = address; i < address + bytes; ++i) {
      if (races(written_[i], now) || (write && races(read_[i], now)))
        throw Fault(FaultKind::race, "race in shared memory: " + text);
      if (write) {
        written_[i] = {now.thread, now.thread / 32, now.block_clock, now.warp_clock};
      } else {
        note_read(read_[i], now);
      }
    }
    return bytes_.data() + address;
  }

 private:
  static constexpr uint32_t kNobody = 0xffffffff, kMany = 0xfffffffe;
  struct Access {
    uint32_t thread = kNobody, warp = kNobody, block_clock = 0, warp_clock = 0;
  };
  std::vector<uint8_t> bytes_;
  std::vector<Access> written_, read_;

  static bool races(const Access& before, Now now) {
    if (before.thread == kNobody || before.thread == now.thread) return false;
    if (before.block_clock < now.block_clock) return false;
    return before.warp != now.thread / 32 || before.warp_clock >= now.warp_clock;
  }

  // Several readers between two barriers become one: `many` of a warp, or `many` of the block.
  static void note_read(Access& read, Now now) {
    const uint32_t warp = now.thread / 32;
    if (read.thread == kNobody || read.block_clock < now.block_clock) {
      read = {now.thread, warp, now.block_clock, now.warp_clock};
      return;
    }
    if (read.thread != now.thread) read.thread = kMany;
    if (read.warp != warp) read.warp = kMany;
    read.warp_clock = now.warp_clock;
  }
};

}  // namespace ptx
