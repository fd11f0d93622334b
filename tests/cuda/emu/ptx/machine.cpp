// Threads, warps and blocks: a thread runs until it waits, a warp until all of its threads do.
#include "tests/cuda/emu/ptx/machine.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "tests/cuda/emu/ptx/arithmetic.h"

namespace ptx {

namespace {
[[noreturn]] void bad(const std::string& message) { throw Fault(FaultKind::bad_program, message); }
constexpr uint64_t kGarbage = 0xdeadbeefdeadbeef;
}  // namespace

Machine::Machine(const Kernel& kernel, const MemoryMap& memory)
    : kernel_(kernel), memory_(memory), params_(kernel.param_bytes) {}

void Machine::set_argument(size_t index, const void* value, size_t bytes) {
  if (index >= kernel_.param_order.size()) bad("argument index");
  const Slot slot = kernel_.param_order[index];
  if (slot.size != bytes) bad("argument size");
  std::memcpy(params_.data() + slot.offset, value, bytes);
}

void Machine::launch(unsigned grid, unsigned block) {
  if (block == 0 || block > kernel_.max_threads) bad("block size against the launch bounds");
  block_size_ = block;
  grid_size_ = grid;
  global_.clear();
  threads_.assign(block, {});
  for (Thread& t : threads_) t.reg.resize(kernel_.registers.size());
  for (const unsigned index : order(grid)) {
    block_index_ = index;
    try {
      run_block();
    } catch (const Fault& f) {
      throw Fault(f.kind, std::string(f.what()).substr(5) + " [" + kernel_.name + ", block " +
                              std::to_string(index) + ", thread " + std::to_string(current_) + "]");
    }
  }
}

std::vector<unsigned> Machine::order(unsigned count) {
  std::vector<unsigned> out(count);
  for (unsigned i = 0; i < count; ++i) out[i] = i;
  for (unsigned i = count; seed_ && i > 1; --i) {
    seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
    std::swap(out[i - 1], out[(seed_ >> 33) % i]);
  }
  return out;
}

void Machine::run_block() {
  shared_.start_block(kernel_.shared_bytes);
  warp_clocks_.assign((block_size_ + 31) / 32, 0);
  block_clock_ = 0;
  for (Thread& t : threads_) {
    std::fill(t.reg.begin(), t.reg.end(), kGarbage);
    t.pc = 0;
    t.state = State::running;
  }
  for (;;) {
    bool progressed = false;
    for (const unsigned warp : order((block_size_ + 31) / 32))
      progressed |= run_warp(32 * warp, std::min(32 * warp + 32, block_size_));
    unsigned done = 0, waiting = 0;
    for (const Thread& t : threads_) {
      done += t.state == State::done;
      waiting += t.state == State::at_barrier;
    }
    if (done == block_size_) return;
    if (waiting == block_size_) {
      pass_barrier();
    } else if (!progressed) {
      bad("divergent barrier or shuffle: " + std::to_string(waiting) + " threads at the barrier, " +
          std::to_string(done) + " finished of " + std::to_string(block_size_));
    }
  }
}

// Warps may come to different copies of a barrier, the threads of one warp may not.
void Machine::pass_barrier() {
  for (unsigned i = 0; i < block_size_; ++i)
    if (threads_[i].pc != threads_[i & ~31u].pc) bad("divergent barrier within a warp");
  for (Thread& t : threads_) {
    t.state = State::running;
    ++t.pc;
  }
  ++block_clock_;
}

bool Machine::run_warp(unsigned first, unsigned end) {
  bool progressed = false;
  for (;;) {
    bool ran = false;
    for (current_ = first; current_ < end; ++current_) {
      if (threads_[current_].state != State::running) continue;
      run_thread(threads_[current_]);
      ran = true;
    }
    for (unsigned lane = first; lane < end && !ran; ++lane)
      if (threads_[lane].state == State::at_collective) ran = complete_collective(first, end, lane);
    if (!ran) return progressed;
    progressed = true;
  }
}

// Completes the shuffle or warp barrier that `leader` waits at, if every lane that its mask names has
// come to the same instruction with the same mask.
bool Machine::complete_collective(unsigned first, unsigned end, unsigned leader) {
  const size_t pc = threads_[leader].pc;
  const Instruction& ins = kernel_.code[pc];
  const Operand& mask_operand = ins.operands[ins.op == Op::shfl ? 4 : 0];
  current_ = leader;
  const uint32_t mask = uint32_t(read(threads_[leader], mask_operand));
  if (!((mask >> (leader - first)) & 1)) bad("a lane that its own mask leaves out: " + ins.text);
  for (unsigned x = 0; x < 32; ++x) {
    if (!((mask >> x) & 1)) continue;
    if (first + x >= end) bad("mask names a lane that the block does not have: " + ins.text);
    const Thread& t = threads_[first + x];
    if (t.state != State::at_collective || t.pc != pc) return false;
    if (uint32_t(read(t, mask_operand)) != mask) bad("masks differ: " + ins.text);
  }
  if (ins.op == Op::shfl) shuffle(first, mask, ins);
  if (ins.op == Op::bar_warp && mask == (end - first == 32 ? ~0u : (1u << (end - first)) - 1))
    ++warp_clocks_[first / 32];
  for (unsigned x = 0; x < 32; ++x) {
    if (!((mask >> x) & 1)) continue;
    ++threads_[first + x].pc;
    threads_[first + x].state = State::running;
  }
  return true;
}

void Machine::shuffle(unsigned first, uint32_t mask, const Instruction& ins) {
  std::array<uint64_t, 32> published{};
  for (unsigned x = 0; x < 32; ++x)
    if ((mask >> x) & 1) published[x] = read(threads_[first + x], ins.operands[1]);
  for (unsigned x = 0; x < 32; ++x) {
    if (!((mask >> x) & 1)) continue;
    Thread& t = threads_[first + x];
    current_ = first + x;
    const int lane = int(x), b = int(read(t, ins.operands[2]) & 31);
    const int c = int(read(t, ins.operands[3])), segment = (c >> 8) & 31, clamp = c & 31;
    const int lower = lane & segment, upper = lower | (clamp & ~segment);
    int source = 0;
    bool valid = false;
    switch (ins.mode) {
      case Mode::down:
        source = lane + b;
        valid = source <= upper;
        break;
      case Mode::up:
        source = lane - b;
        valid = source >= upper;
        break;
      case Mode::bfly:
        source = lane ^ b;
        valid = source <= upper;
        break;
      case Mode::idx:
        source = lower | (b & ~segment);
        valid = source <= upper;
        break;
      default: bad("shuffle mode: " + ins.text);
    }
    if (!valid) source = lane;
    if (!((mask >> source) & 1)) bad("shuffle from a lane outside the mask: " + ins.text);
    if (ins.second_destination >= 0) t.reg[size_t(ins.second_destination)] = valid;
    write(t, ins.operands[0], published[size_t(source)], Type::b32);
  }
}

void Machine::run_thread(Thread& t) {
  for (;;) {
    const Instruction& ins = kernel_.code.at(t.pc);
    if (ins.guard >= 0 && bool(t.reg[size_t(ins.guard)] & 1) == ins.guard_negated) {
      ++t.pc;
      continue;
    }
    switch (ins.op) {
      case Op::bra: t.pc = size_t(ins.targets[0]); continue;
      case Op::brx: {
        const uint64_t index = truncate(read(t, ins.operands[0]), Type::u32);
        if (index >= ins.targets.size()) bad("index beyond the branch table: " + ins.text);
        t.pc = size_t(ins.targets[index]);
        continue;
      }
      case Op::ret: t.state = State::done; return;
      case Op::bar: t.state = State::at_barrier; return;
      case Op::shfl:
      case Op::bar_warp: t.state = State::at_collective; return;
      case Op::trap: bad("trap");
      case Op::fence: break;
      default: execute(t, ins);
    }
    ++t.pc;
  }
}

}  // namespace ptx
