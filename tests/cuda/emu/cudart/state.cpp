// Log, errors and the order in which operations run.
#include "tests/cuda/emu/cudart/state.h"

#include <cstdio>
#include <cstdlib>

namespace emu {

Runtime& runtime() {
  static Runtime* const r = [] {  // never destroyed: plugins unregister after static destructors
    auto* made = new Runtime;
    for (int i = 0; i < kMaxDevices; ++i) made->devices[i].legacy.device = i;
    return made;
  }();
  return *r;
}

namespace {

bool is_sticky(cudaError_t e) {
  return e == cudaErrorIllegalAddress || e == cudaErrorMisalignedAddress ||
         e == cudaErrorLaunchFailure;
}

bool has_run(const Position& p) { return p.stream->completed >= p.count; }

bool run_one(Stream* s) {
  if (s->queue.empty()) return false;
  for (const Position& p : s->queue.front().needs)
    if (!has_run(p)) return false;
  const Operation op = std::move(s->queue.front());
  s->queue.pop_front();
  op.run();
  ++s->completed;
  return true;
}

bool run_others(const Stream* target) {
  Runtime& r = runtime();
  bool progressed = false;
  for (auto& s : r.streams)
    if (s.get() != target) progressed |= run_one(s.get());
  for (Device& d : r.devices)
    if (&d.legacy != target) progressed |= run_one(&d.legacy);
  return progressed;
}

}  // namespace

cudaError_t enter(const char* call, int kind, void* stream, size_t bytes) {
  Runtime& r = runtime();
  r.log.push_back({kind, call, stream, bytes});
  for (Injection& i : r.injections) {
    if ((!i.call.empty() && i.call != call) || i.remaining == 0 || --i.remaining > 0) continue;
    ++r.failures;
    if (is_sticky(i.error)) r.sticky = i.error;
    return leave(i.error);
  }
  return leave(r.sticky);
}

cudaError_t leave(cudaError_t e) {
  if (e != cudaSuccess && e != cudaErrorNotReady) runtime().last = e;
  return e;
}

Stream* stream_of(cudaStream_t s) {
  Runtime& r = runtime();
  if (s == nullptr || s == cudaStreamLegacy) return &r.devices[r.current].legacy;
  for (auto& stream : r.streams)
    if (stream->alive && stream.get() == reinterpret_cast<Stream*>(s)) return stream.get();
  return nullptr;
}

Event* event_of(cudaEvent_t e) {
  for (auto& event : runtime().events)
    if (event->alive && event.get() == reinterpret_cast<Event*>(e)) return event.get();
  return nullptr;
}

cudaError_t unsafe_in_capture() {
  cudaError_t found = cudaSuccess;
  for (auto& s : runtime().streams) {
    Capture* c = s->capture.get();
    if (!c || c->mode == cudaStreamCaptureModeRelaxed) continue;
    if (c->mode == cudaStreamCaptureModeThreadLocal && c->owner != std::this_thread::get_id())
      continue;
    c->invalid = true;
    found = cudaErrorStreamCaptureUnsupported;
  }
  return leave(found);
}

cudaError_t implicit_in_capture(Stream* s) {
  cudaError_t found = cudaSuccess;
  if (s != &runtime().devices[s->device].legacy) return found;
  for (auto& other : runtime().streams) {
    if (!other->capture || !other->blocking || other->device != s->device) continue;
    other->capture->invalid = true;
    found = cudaErrorStreamCaptureImplicit;
  }
  return leave(found);
}

cudaError_t submit(Stream* s, cudaGraphNodeType type, std::function<void()> run) {
  Runtime& r = runtime();
  EMU_TRY(implicit_in_capture(s));
  if (s->capture) {
    s->capture->graph.nodes.push_back({type, std::move(run)});
    return cudaSuccess;
  }
  Operation op{std::move(run), std::move(s->pending_waits)};
  s->pending_waits.clear();
  Stream& legacy = r.devices[s->device].legacy;
  if (s == &legacy) {  // waits for every blocking stream, and they for it
    for (auto& other : r.streams)
      if (other->blocking && other->device == s->device)
        op.needs.push_back({other.get(), other->enqueued});
  } else if (s->blocking) {
    op.needs.push_back({&legacy, legacy.enqueued});
  }
  s->queue.push_back(std::move(op));
  ++s->enqueued;
  if (!r.defer) drain();
  return cudaSuccess;
}

void drain() {
  while (run_others(nullptr)) {}
}

void run_until(Position target) {
  while (!has_run(target))
    if (!run_others(target.stream) && !run_one(target.stream)) {
      std::fprintf(stderr, "emulated cudart: streams wait for each other\n");
      std::abort();
    }
}

}  // namespace emu

using namespace emu;

extern "C" {

void emu_reset(void) {
  EMU_LOCK;
  Runtime& r = runtime();
  drain();
  r.log.clear();
  r.injections.clear();
  r.failures = 0;
  r.last = r.sticky = cudaSuccess;
  r.fault.clear();
  r.defer = false;
  r.shuffle = 0;
  r.checks_races = false;
  r.current = 0;
  r.memory_limit = size_t(8) << 30;
  emu_set_devices(1, 13000, cudaSuccess);
}
size_t emu_log_size(void) {
  EMU_LOCK;
  return runtime().log.size();
}
emu_record emu_log_at(size_t i) {
  EMU_LOCK;
  return runtime().log.at(i);
}
size_t emu_count(int kind, size_t from) {
  EMU_LOCK;
  size_t n = 0;
  for (size_t i = from; i < runtime().log.size(); ++i) n += runtime().log[i].kind == kind;
  return n;
}
void emu_fail(const char* call, int nth, int error) {
  EMU_LOCK;
  runtime().injections.push_back({call ? call : "", nth, cudaError_t(error)});
}
int emu_failures(void) {
  EMU_LOCK;
  return runtime().failures;
}
void emu_defer(int on) {
  EMU_LOCK;
  runtime().defer = on != 0;
}
void emu_run_all(void) {
  EMU_LOCK;
  drain();
}
void emu_shuffle(uint64_t seed) {
  EMU_LOCK;
  runtime().shuffle = seed;
}
void emu_check_races(int on) {
  EMU_LOCK;
  runtime().checks_races = on;
}
void emu_set_devices(int count, int driver_version, int count_error) {
  EMU_LOCK;
  runtime().device_count = count;
  runtime().driver = driver_version;
  runtime().count_error = cudaError_t(count_error);
}
void emu_set_memory(size_t bytes) {
  EMU_LOCK;
  runtime().memory_limit = bytes;
}
size_t emu_live_allocations(void) {
  EMU_LOCK;
  Runtime& r = runtime();
  size_t n = r.allocations.size() + r.pinned.size();
  for (auto& s : r.streams) n += s->alive;
  for (auto& e : r.events) n += e->alive;
  return n;
}
const char* emu_last_fault(void) {
  EMU_LOCK;
  return runtime().fault.c_str();
}

}  // extern "C"
