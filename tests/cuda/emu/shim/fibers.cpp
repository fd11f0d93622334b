// The fibers behind host_shim.h: a thread runs until it waits, a warp until all of its threads do.
#include "tests/cuda/emu/shim/host_shim.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <string>
#include <utility>
#include <sys/mman.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define ASAN_ONLY(x) x
#else
#define ASAN_ONLY(x)
#endif

namespace host_shim {

constinit thread_local Index thread_index, block_index, block_dim, grid_dim;
thread_local Scheduler scheduler;

namespace {

constexpr size_t kStackBytes = 64 << 10;
constexpr size_t kSharedBytes = 48 << 10;  // what a kernel may have without asking

struct Arena {
  alignas(16) unsigned char bytes[kSharedBytes];
  size_t used = 0;
  uint64_t epoch = 0;
};
thread_local Arena arena;

// The stack that the fibers are run from, and theirs.
struct Main {
  char* stacks = nullptr;
  size_t stacks_bytes = 0;
  void* stack_pointer = nullptr;
  const void* bottom = nullptr;
  size_t size = 0;
  const std::function<void()>* body = nullptr;
  std::exception_ptr thrown;  // by a fiber
};
thread_local Main outside;

[[noreturn]] void fail(const std::string& what) { throw Fault("host shim: " + what); }

}  // namespace

// Saves the registers that a call keeps and the stack pointer, and goes on upon another stack.
extern "C" void host_shim_switch(void** save, void* to);
__asm__(R"(
.text
.globl host_shim_switch
.hidden host_shim_switch
.type host_shim_switch,@function
host_shim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size host_shim_switch,.-host_shim_switch
.section .note.GNU-stack,"",@progbits
.text
)");

void* shared_bytes(size_t bytes, uint64_t& epoch, size_t& offset) {
  if (epoch != arena.epoch) {  // the first thread of this block to reach the declaration
    epoch = arena.epoch;
    offset = (arena.used + 15) & ~size_t(15);
    if (offset + bytes > kSharedBytes) fail("out of shared memory");
    arena.used = offset + bytes;
  }
  return arena.bytes + offset;
}

void wait_for(Wait what, uint32_t mask) {
  Fiber& me = scheduler.fibers[scheduler.current];
  if (what == Wait::warp && !((mask >> (scheduler.current & 31)) & 1))
    fail("a lane that its own mask leaves out");
  me.wait = what;
  me.mask = mask;
  ASAN_ONLY(__sanitizer_start_switch_fiber(&me.sanitizer_stack, outside.bottom, outside.size));
  host_shim_switch(&me.stack_pointer, outside.stack_pointer);
  ASAN_ONLY(__sanitizer_finish_switch_fiber(me.sanitizer_stack, &outside.bottom, &outside.size));
}

std::vector<unsigned> draw_order(unsigned count) {
  std::vector<unsigned> out(count);
  for (unsigned i = 0; i < count; ++i) out[i] = i;
  uint64_t& seed = scheduler.seed;
  for (unsigned i = count; seed && i > 1; --i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    std::swap(out[i - 1], out[(seed >> 33) % i]);
  }
  return out;
}

namespace {

void fiber_main() {
  ASAN_ONLY(__sanitizer_finish_switch_fiber(nullptr, &outside.bottom, &outside.size));
  try {
    (*outside.body)();
  } catch (...) {
    outside.thrown = std::current_exception();
  }
  scheduler.fibers[scheduler.current].wait = Wait::done;
  ASAN_ONLY(__sanitizer_start_switch_fiber(nullptr, outside.bottom, outside.size));
  void* unused;
  host_shim_switch(&unused, outside.stack_pointer);
  std::abort();  // nobody comes back
}

void resume(unsigned t) {
  Fiber& f = scheduler.fibers[t];
  scheduler.current = t;
  thread_index = {t, 0, 0};
  ASAN_ONLY(void* fake = nullptr; __sanitizer_start_switch_fiber(&fake, f.stack, kStackBytes));
  host_shim_switch(&outside.stack_pointer, f.stack_pointer);
  ASAN_ONLY(__sanitizer_finish_switch_fiber(fake, nullptr, nullptr));
  if (outside.thrown) std::rethrow_exception(std::exchange(outside.thrown, nullptr));
}

void prepare_fibers(unsigned n) {
  if (outside.stacks_bytes < kStackBytes * n) {
    if (outside.stacks) munmap(outside.stacks, outside.stacks_bytes);
    outside.stacks_bytes = kStackBytes * n;
    outside.stacks = static_cast<char*>(mmap(nullptr, outside.stacks_bytes, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (outside.stacks == MAP_FAILED) std::abort();
  }
  ASAN_ONLY(__asan_unpoison_memory_region(outside.stacks, outside.stacks_bytes));
  scheduler.fibers.assign(n, {});
  for (unsigned t = 0; t < n; ++t) {
    char* const stack = outside.stacks + kStackBytes * t;
    auto* top = reinterpret_cast<void**>(stack + kStackBytes);
    *--top = nullptr;  // leaves the stack aligned as after a call
    *--top = reinterpret_cast<void*>(fiber_main);
    for (int i = 0; i < 6; ++i) *--top = nullptr;  // the registers that the switch restores
    scheduler.fibers[t].stack_pointer = top;
    scheduler.fibers[t].stack = stack;
  }
}

// Lets the lanes of t's mask go on, if all of them wait with that mask.
bool release_warp(unsigned t, unsigned n) {
  const unsigned warp = t & ~31u;
  const uint32_t mask = scheduler.fibers[t].mask;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!((mask >> lane) & 1)) continue;
    if (warp + lane >= n) fail("a mask names a lane that the block does not have");
    const Fiber& f = scheduler.fibers[warp + lane];
    if (f.wait != Wait::warp || f.mask != mask) return false;
  }
  for (unsigned lane = 0; lane < 32; ++lane)
    if ((mask >> lane) & 1) scheduler.fibers[warp + lane].wait = Wait::running;
  return true;
}

bool run_warp(unsigned warp, unsigned n) {
  bool progressed = false;
  const unsigned first = warp * 32, end = std::min(first + 32, n);
  for (bool again = true; again;) {
    again = false;
    for (unsigned t = first; t < end; ++t) {
      if (scheduler.fibers[t].wait != Wait::running) continue;
      resume(t);
      progressed = true;
      if (scheduler.fibers[t].wait == Wait::warp) again |= release_warp(t, n);
    }
  }
  return progressed;
}

}  // namespace

void run_block(unsigned n, const std::function<void()>& body) {
  outside.body = &body;
  std::memset(arena.bytes, 0xff, sizeof arena.bytes);
  arena.used = 0;
  ++arena.epoch;
  prepare_fibers(n);
  for (;;) {
    bool progressed = false;
    for (const unsigned w : draw_order((n + 31) / 32)) progressed |= run_warp(w, n);
    unsigned done = 0, waiting = 0;
    for (const Fiber& f : scheduler.fibers) {
      done += f.wait == Wait::done;
      waiting += f.wait == Wait::block;
    }
    if (done == n) return;
    if (waiting == n) {
      for (Fiber& f : scheduler.fibers) f.wait = Wait::running;
    } else if (!progressed) {
      fail("divergent barrier or shuffle: " + std::to_string(waiting) +
           " threads at the barrier, " + std::to_string(done) + " finished of " +
           std::to_string(n));
    }
  }
}

}  // namespace host_shim
