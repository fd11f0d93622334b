// Executes one parsed kernel, block after block, on the CPU.
//
// Checked on the way: alignment and bounds of every access, races in shared memory and, where asked, in
// global memory, divergent barriers and shuffles, launch bounds, integer division by zero. Registers start as garbage and shared memory
// as NaN bytes. Blocks and warps take turns in an order that the caller may shuffle: a result that
// depends on it is a bug of the kernel.
// Not modelled: memory order, timing, what ptxas does after PTX.
#pragma once
#include <unordered_map>

#include "tests/cuda/emu/ptx/fault.h"
#include "tests/cuda/emu/ptx/memory_map.h"
#include "tests/cuda/emu/ptx/module.h"
#include "tests/cuda/emu/ptx/shared_memory.h"

namespace ptx {

class Machine {
 public:
  Machine(const Kernel& kernel, const MemoryMap& memory);
  void set_argument(size_t index, const void* value, size_t bytes);
  template <class T>
  void set_argument(size_t index, const T& value) {
    set_argument(index, &value, sizeof value);
  }
  void shuffle_order(uint64_t seed) { seed_ = seed; }   // 0: ascending
  void check_global_races() { checks_global_ = true; }  // several times slower
  void launch(unsigned grid, unsigned block);           // throws Fault

 private:
  enum class State : uint8_t { running, at_barrier, at_collective, done };
  struct Thread {
    std::vector<uint64_t> reg;
    size_t pc = 0;
    State state = State::running;
  };

  const Kernel& kernel_;
  const MemoryMap& memory_;
  std::vector<uint8_t> params_;
  SharedMemory shared_;
  std::unordered_map<uint64_t, AccessHistory> global_;  // by address / 2, of one launch
  bool checks_global_ = false;
  std::vector<Thread> threads_;
  std::vector<uint32_t> warp_clocks_;
  uint32_t block_clock_ = 0;
  unsigned block_size_ = 0, block_index_ = 0, grid_size_ = 0, current_ = 0;
  uint64_t seed_ = 0;

  std::vector<unsigned> order(unsigned count);
  void run_block();
  void pass_barrier();
  bool run_warp(unsigned first, unsigned end);
  bool complete_collective(unsigned first, unsigned end, unsigned leader);
  void shuffle(unsigned first, uint32_t mask, const Instruction& ins);
  void run_thread(Thread& t);
  void execute(Thread& t, const Instruction& ins);

  uint64_t read(const Thread& t, const Operand& o) const;
  void write(Thread& t, const Operand& to, uint64_t value, Type type);
  uint8_t* address(const Thread& t, const Instruction& ins, const Operand& o, unsigned bytes);
  void load(Thread& t, const Instruction& ins);
  void store(Thread& t, const Instruction& ins);
  void atomic(Thread& t, const Instruction& ins);
  void move(Thread& t, const Instruction& ins);
  void set_predicate(Thread& t, const Instruction& ins);
  void bit_field(Thread& t, const Instruction& ins);
  void logic(Thread& t, const Instruction& ins);
};

}  // namespace ptx
