// Who touched a piece of memory during one launch: two threads that touch it, one of them writing, with
// neither a barrier nor (in one warp) a __syncwarp of all lanes between, race; so do two blocks always.
#pragma once
#include <cstdint>

namespace ptx {

// A moment: both clocks count what orders accesses of a block, or of a warp.
struct Now {
  uint32_t block, thread, block_clock, warp_clock;
};

class AccessHistory {
 public:
  // False: a race.
  bool note(bool write, Now now) {
    if (races(written_, now) || (write && races(read_, now))) return false;
    if (write) {
      written_ = {now.block, now.thread, now.thread / 32, now.block_clock, now.warp_clock};
    } else {
      note_read(now);
    }
    return true;
  }

 private:
  static constexpr uint32_t kNobody = 0xffffffff, kMany = 0xfffffffe;
  struct Access {
    uint32_t block = kNobody, thread = kNobody, warp = kNobody, block_clock = 0, warp_clock = 0;
  };
  Access written_, read_;

  static bool races(const Access& before, Now now) {
    if (before.block == kNobody) return false;
    if (before.block != now.block) return true;
    if (before.thread == now.thread || before.block_clock < now.block_clock) return false;
    return before.warp != now.thread / 32 || before.warp_clock >= now.warp_clock;
  }

  // Several readers between two barriers become one: many of a warp, of a block, or of the grid.
  void note_read(Now now) {
    const uint32_t warp = now.thread / 32;
    if (read_.block == kNobody ||
        (read_.block == now.block && read_.block_clock < now.block_clock)) {
      read_ = {now.block, now.thread, warp, now.block_clock, now.warp_clock};
      return;
    }
    if (read_.block != now.block) read_.block = kMany;
    if (read_.thread != now.thread) read_.thread = kMany;
    if (read_.warp != warp) read_.warp = kMany;
    read_.warp_clock = now.warp_clock;
  }
};

}  // namespace ptx
