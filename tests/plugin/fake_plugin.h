// What the fake plugin exports beside its entry, for dlsym.
#pragma once
#include <cstdint>

struct FakeLog {
  int64_t calls = 0;       // of functions that take a context
  int64_t pointers = 0;    // of check_pointer
  void* stream = nullptr;  // of the last call
};
using FakeLogFn = const FakeLog* (*)(void);  // talus_fake_log

// Launches on this stream are kept, not run; talus_fake_replay runs them all, for the context that
// was created last.
inline void* const kFakeCapture = reinterpret_cast<void*>(0xca0);
using FakeReplayFn = int32_t (*)(void);
