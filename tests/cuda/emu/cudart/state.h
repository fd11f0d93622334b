// State that the entry points share: log, errors, devices, streams, events, memory. One lock, which every
// entry point holds.
#pragma once
#include <cuda_runtime_api.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda/emu/cudart/emu.h"
#include "tests/cuda/emu/ptx/memory_map.h"

namespace emu {

inline constexpr int kMaxDevices = 4;

struct Stream;
struct Position {  // holds once `stream` has run that many operations
  Stream* stream;
  uint64_t count;
};

struct Operation {
  std::function<void()> run;
  std::vector<Position> needs;
};

struct Node {
  cudaGraphNodeType type;
  std::function<void()> run;
};
struct Graph {
  std::vector<Node> nodes;
};
struct Capture {
  Graph graph;
  cudaStreamCaptureMode mode;
  std::thread::id owner;
  bool invalid = false;
};

struct Stream {
  int device = 0;
  bool alive = true;
  bool blocking = true;  // ordered against the legacy stream of its device
  uint64_t enqueued = 0, completed = 0;
  std::deque<Operation> queue;
  std::vector<Position> pending_waits;  // of cudaStreamWaitEvent, for the next operation
  std::unique_ptr<Capture> capture;
};

struct Event {
  int device = 0;
  bool alive = true;
  bool captured = false;  // last recorded inside of a capture
  Position at = {nullptr, 0};
};

struct Device {
  Stream legacy;
  ptx::MemoryMap memory;  // what its kernels may touch
  size_t used = 0;
};

struct Allocation {
  int device;
  size_t bytes;
};

struct Injection {
  std::string call;  // empty: any
  int remaining;
  cudaError_t error;
};

struct HostKernel {
  size_t argument_bytes;
  emu_host_kernel run;
};

struct Runtime {
  std::recursive_mutex mutex;
  std::vector<emu_record> log;
  std::vector<Injection> injections;
  int failures = 0;
  cudaError_t last = cudaSuccess, sticky = cudaSuccess;
  std::string fault;

  int device_count = 1, driver = 13000, current = 0;
  cudaError_t count_error = cudaSuccess;
  size_t memory_limit = size_t(8) << 30;
  Device devices[kMaxDevices];

  std::map<uint64_t, Allocation> allocations;  // of device memory
  std::map<const void*, size_t> pinned;
  // Destroyed ones stay, not alive, for events and operations that point at them.
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<Event>> events;
  std::map<const void*, HostKernel> host_kernels;
  bool defer = false;
  uint64_t shuffle = 0;
  bool checks_races = false;
};

Runtime& runtime();

// Begins an entry point: records it; an injected or sticky error, or success.
cudaError_t enter(const char* call, int kind, void* stream = nullptr, size_t bytes = 0);
cudaError_t leave(cudaError_t e);  // remembers an error for cudaGetLastError

// What the name in a call means; null: nothing that lives.
Stream* stream_of(cudaStream_t s);
Event* event_of(cudaEvent_t e);

// Each of these finds what the running captures forbid, and breaks them.
cudaError_t unsafe_in_capture();           // a call that might wait
cudaError_t implicit_in_capture(Stream*);  // work on the legacy stream beside a blocking one

cudaError_t submit(Stream* s, cudaGraphNodeType type, std::function<void()> run);  // or captures
void drain();                     // runs everything
void run_until(Position target);  // runs as little of its stream as possible, other streams first

bool is_device_range(const void* p, size_t bytes);  // inside one allocation of any device
bool is_device_address(const void* p);              // of the arena, allocated or not
bool is_pinned(const void* p, size_t bytes);
uint8_t* host_view(const void* device_pointer);  // where the host reaches that memory
void open_device_memory(bool open);              // to the host
cudaError_t release_memory(void* p);

}  // namespace emu

#define EMU_LOCK const std::lock_guard<std::recursive_mutex> lock_(emu::runtime().mutex)
#define EMU_ENTER(kind, ...)                                                        \
  EMU_LOCK;                                                                         \
  if (const cudaError_t e_ = emu::enter(__func__, kind __VA_OPT__(, ) __VA_ARGS__); \
      e_ != cudaSuccess)                                                            \
  return e_
#define EMU_TRY(expression) \
  if (const cudaError_t e_ = (expression); e_ != cudaSuccess) return e_
