// Streams, events, captures and graphs.
#include "tests/cuda/emu/cudart/state.h"

using namespace emu;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  EMU_ENTER(EMU_ALLOCATE);
  auto s = std::make_unique<Stream>();
  s->device = runtime().current;
  s->blocking = !(flags & cudaStreamNonBlocking);
  *out = reinterpret_cast<cudaStream_t>(s.get());
  runtime().streams.push_back(std::move(s));
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* out) {
  return cudaStreamCreateWithFlags(out, cudaStreamDefault);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  EMU_LOCK;
  const cudaError_t entered = enter(__func__, EMU_RELEASE);
  Stream* s = stream ? stream_of(stream) : nullptr;
  if (!s) return leave(cudaErrorInvalidResourceHandle);
  s->alive = false;  // what is queued still runs
  return entered;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  EMU_ENTER(EMU_SYNC, stream);
  Stream* s = stream_of(stream);
  if (!s) return leave(cudaErrorInvalidResourceHandle);
  EMU_TRY(unsafe_in_capture());
  run_until({s, s->enqueued});
  return leave(runtime().sticky);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  EMU_ENTER(EMU_QUERY, stream);
  Stream* s = stream_of(stream);
  if (!s) return leave(cudaErrorInvalidResourceHandle);
  EMU_TRY(unsafe_in_capture());
  return s->completed == s->enqueued ? leave(runtime().sticky) : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  EMU_ENTER(EMU_EVENT, stream);
  Stream* s = stream_of(stream);
  Event* e = event_of(event);
  if (!s || !e) return leave(cudaErrorInvalidResourceHandle);
  if (e->captured) return leave(cudaErrorNotSupported);  // a capture over two streams
  if (s->capture) return leave(cudaErrorStreamCaptureIsolation);
  if (e->at.stream) s->pending_waits.push_back(e->at);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned) {
  EMU_ENTER(EMU_ALLOCATE);
  auto e = std::make_unique<Event>();
  e->device = runtime().current;
  *out = reinterpret_cast<cudaEvent_t>(e.get());
  runtime().events.push_back(std::move(e));
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* out) { return cudaEventCreateWithFlags(out, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  EMU_LOCK;
  const cudaError_t entered = enter(__func__, EMU_RELEASE);
  Event* e = event_of(event);
  if (!e) return leave(cudaErrorInvalidResourceHandle);
  e->alive = false;
  return entered;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  EMU_ENTER(EMU_EVENT, stream);
  Stream* s = stream_of(stream);
  Event* e = event_of(event);
  if (!s || !e || s->device != e->device) return leave(cudaErrorInvalidResourceHandle);
  e->captured = s->capture != nullptr;
  if (e->captured) return cudaSuccess;  // an edge; the nodes of one stream are in order already
  EMU_TRY(submit(s, cudaGraphNodeTypeEventRecord, [] {}));
  e->at = {s, s->enqueued};
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  EMU_ENTER(EMU_QUERY);
  Event* e = event_of(event);
  if (!e) return leave(cudaErrorInvalidResourceHandle);
  EMU_TRY(unsafe_in_capture());
  if (e->captured) return leave(cudaErrorCapturedEvent);
  const bool passed = !e->at.stream || e->at.stream->completed >= e->at.count;
  return passed ? leave(runtime().sticky) : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  EMU_ENTER(EMU_SYNC);
  Event* e = event_of(event);
  if (!e) return leave(cudaErrorInvalidResourceHandle);
  EMU_TRY(unsafe_in_capture());
  if (e->captured) return leave(cudaErrorCapturedEvent);
  if (e->at.stream) run_until(e->at);
  return leave(runtime().sticky);
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) {
  EMU_ENTER(EMU_OTHER);
  *ms = 0;  // no clock: times of an emulation would only mislead
  return cudaSuccess;
}

// A capture is the operations of one stream, replayed in order.
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  EMU_ENTER(EMU_QUERY, stream);
  Stream* s = stream_of(stream);
  if (!s) return leave(cudaErrorInvalidResourceHandle);
  EMU_TRY(implicit_in_capture(s));
  *status = !s->capture           ? cudaStreamCaptureStatusNone
            : s->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                  : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  EMU_ENTER(EMU_GRAPH, stream);
  Stream* s = stream_of(stream);
  if (!s || s->capture) return leave(cudaErrorIllegalState);
  if (s == stream_of(nullptr)) return leave(cudaErrorStreamCaptureUnsupported);
  s->capture = std::make_unique<Capture>();
  s->capture->mode = mode;
  s->capture->owner = std::this_thread::get_id();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* out) {
  EMU_ENTER(EMU_GRAPH, stream);
  Stream* s = stream_of(stream);
  if (!s || !s->capture) return leave(cudaErrorIllegalState);
  const std::unique_ptr<Capture> capture = std::move(s->capture);
  *out = nullptr;
  if (capture->invalid) return leave(cudaErrorStreamCaptureInvalidated);
  *out = reinterpret_cast<cudaGraph_t>(new Graph(std::move(capture->graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  EMU_ENTER(EMU_OTHER);
  auto& all = reinterpret_cast<Graph*>(graph)->nodes;
  for (size_t i = 0; nodes && i < std::min(*count, all.size()); ++i)
    nodes[i] = reinterpret_cast<cudaGraphNode_t>(&all[i]);
  *count = all.size();
  return cudaSuccess;
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  EMU_ENTER(EMU_OTHER);
  *type = reinterpret_cast<Node*>(node)->type;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  EMU_ENTER(EMU_GRAPH);
  *out = reinterpret_cast<cudaGraphExec_t>(new Graph(*reinterpret_cast<Graph*>(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  EMU_ENTER(EMU_GRAPH, stream);
  Stream* s = stream_of(stream);
  if (!s) return leave(cudaErrorInvalidResourceHandle);
  for (const Node& node : reinterpret_cast<Graph*>(graph)->nodes)
    EMU_TRY(submit(s, node.type, node.run));
  return leave(runtime().sticky);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  EMU_ENTER(EMU_OTHER);
  delete reinterpret_cast<Graph*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  EMU_ENTER(EMU_OTHER);
  delete reinterpret_cast<Graph*>(graph);
  return cudaSuccess;
}

}  // extern "C"
