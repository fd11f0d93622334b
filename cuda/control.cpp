// Steps that the device decides on: orders go there, what became of them comes back without a wait.
#include <cstring>

#include "launch.h"

namespace talus::cuda {

void free_reports(Reports& reports) {
  for (const cudaEvent_t event : reports.arrived)
    if (event) (void)cudaEventDestroy(event);
  if (reports.slots) (void)cudaFreeHost(reports.slots);
  reports = {};
}

int32_t prepare_orders(void* context, StepControl* control, void* stream) {
  Context& x = get(context);
  TALUS_ENTER(x);
  Reports& reports = x.reports;
  for (cudaEvent_t& event : reports.arrived)
    if (!event) TALUS_CALL(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  if (!reports.slots)
    TALUS_CALL(cudaHostAlloc(reinterpret_cast<void**>(&reports.slots),
                             Reports::kSlots * sizeof(StepControl), cudaHostAllocDefault));
  const StepControl first;
  const int32_t status = copy(context, control, &first, sizeof first, stream);
  if (status == TALUS_OK) x.control = control;
  return status;
}

int32_t send_order(void* context, const StepOrder* order, const Row* rows, void* stream) {
  Context& x = get(context);
  TALUS_ENTER(x);
  Plan& plan = *x.plan;
  const size_t count = size_t(order->candidates * order->classes);
  plan.next_rows.resize(1 + count);  // reserved
  std::memcpy(plan.next_rows.data(), order, sizeof *order);
  std::memcpy(plan.next_rows.data() + 1, rows, count * sizeof(Row));
  plan.rows.clear();  // a step of the host's sends its own again
  return upload(x, plan.at.order, plan.next_rows.data(), (1 + count) * sizeof(Row),
                as_stream(stream), "upload of an order");
}

int32_t decide(void* context, void* stream) {
  Context& x = get(context);
  TALUS_ENTER(x);
  TALUS_LAUNCH(x, common_kernels().decide, 1, 1, DecideArgs{tables_of(x, true)}, as_stream(stream),
               "launch of the decision");
  return TALUS_OK;
}

// A slot is written again only once its report has arrived: the core lets no more steps be under way.
int32_t queue_report(void* context, void* stream) {
  Context& x = get(context);
  TALUS_ENTER(x);
  Reports& reports = x.reports;
  const int slot = int(reports.queued % Reports::kSlots);
  if (reports.queued - reports.taken >= Reports::kSlots)
    return x.failures.fail(TALUS_E_INTERNAL, "more than %d steps are under way", Reports::kSlots);
  TALUS_CALL(cudaMemcpyAsync(reports.slots + slot, x.control, sizeof(StepControl),
                             cudaMemcpyDeviceToHost, as_stream(stream)));
  TALUS_CALL(cudaEventRecord(reports.arrived[slot], as_stream(stream)));
  ++reports.queued;
  return TALUS_OK;
}

// Waiting asks the block itself: what is replayed leaves no report, and nobody says on which stream.
int32_t take_report(void* context, Await await, StepControl* out) {
  Context& x = get(context);
  TALUS_ENTER(x);
  Reports& reports = x.reports;
  if (await == Await::all) {
    TALUS_CALL(cudaDeviceSynchronize());
    TALUS_CALL(cudaMemcpy(out, x.control, sizeof *out, cudaMemcpyDeviceToHost));
    reports.taken = reports.queued;
    return TALUS_OK;
  }
  *out = StepControl();
  while (reports.taken < reports.queued) {
    const int slot = int(reports.taken % Reports::kSlots);
    const cudaError_t error = await == Await::next ? cudaEventSynchronize(reports.arrived[slot])
                                                   : cudaEventQuery(reports.arrived[slot]);
    await = Await::none;
    if (error == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return TALUS_OK;
    }
    TALUS_CALL(error);
    *out = reports.slots[slot];
    ++reports.taken;
  }
  return TALUS_OK;
}

int32_t update_scaler(void* context, ScalerMemory* scaler, void* stream) {
  Context& x = get(context);
  TALUS_ENTER(x);
  TALUS_LAUNCH(x, common_kernels().scaler, 1, 1, ScalerArgs{scaler}, as_stream(stream),
               "launch of the scaler's update");
  return TALUS_OK;
}

}  // namespace talus::cuda
