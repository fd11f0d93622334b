// Brings tables to the device: all of a plan, a column that has changed, the scalars of a step.
#include <cstring>
#include <new>

#include "context.h"

namespace talus::cuda {
namespace {

constexpr const char* kColumnNames[] = {"upload of parameter pointers",
                                        "upload of gradient pointers", "upload of master pointers",
                                        "upload of state pointers"};

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// Sends a table that was found anew, if it differs; `sent` takes it then.
template <class T>
int32_t send_table(Context& x, T* to, std::vector<T>& sent, std::vector<T>& found,
                   cudaStream_t stream, const char* what) {
  if (same(sent, found)) return TALUS_OK;
  const int32_t status = upload(x, to, found.data(), found.size() * sizeof(T), stream, what);
  if (status == TALUS_OK) sent.swap(found);
  return status;
}

int32_t send_pointers(Context& x, int32_t column, cudaStream_t stream) {
  Plan& plan = *x.plan;
  const size_t tensors = size_t(plan.view.table.tensor_count), first = tensors * size_t(column);
  const size_t bytes = tensors * sizeof(void*);
  void* const* const now = plan.view.table.column[column].data;
  if (bytes == 0 || std::memcmp(&plan.columns[first], now, bytes) == 0) return TALUS_OK;
  const char* const what = kColumnNames[column < kFirstSlot ? column : int(kFirstSlot)];
  const int32_t status = upload(x, plan.at.columns + first, now, bytes, stream, what);
  if (status == TALUS_OK) std::memcpy(&plan.columns[first], now, bytes);
  return status;
}

template <class T>
cudaError_t copy_in(T* to, const void* from, size_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  return cudaMemcpyAsync(to, from, count * sizeof(T), cudaMemcpyHostToDevice, stream);
}

// Everything of a plan, and waits: the memory that is copied from ends with this call.
int32_t send_plan(Context& x, Plan& plan, cudaStream_t stream) {
  TALUS_ENTER(x);
  const PlanView& view = plan.view;
  const size_t tensors = size_t(view.table.tensor_count), chunks = size_t(view.chunk_count);
  const size_t count = size_t(view.chunk_first[chunks]);
  std::vector<Piece> pieces(count);
  for (size_t i = 0; i < count; ++i) {
    const Segment& s = view.segments[i];
    pieces[i] = {uint64_t(s.begin), uint32_t(s.count), uint32_t(s.tensor)};
  }
  const std::vector<uint32_t> chunk_first(view.chunk_first, view.chunk_first + chunks + 1);
  plan.find_formats();
  plan.find_members();
  plan.formats = plan.next_formats;
  plan.members = plan.next_members;
  for (size_t c = 0; c < kColumnCount && tensors > 0; ++c)
    std::memcpy(&plan.columns[c * tensors], view.table.column[c].data, tensors * sizeof(void*));

  if (const int32_t status = refuse_capture(x, stream, "a new plan"); status != TALUS_OK)
    return status;
  TALUS_CALL(x.ring.reserve(plan.largest_upload()));
  const Places& at = plan.at;
  TALUS_CALL(copy_in(at.pieces, pieces.data(), count, stream));
  TALUS_CALL(copy_in(at.chunk_first, chunk_first.data(), chunks + 1, stream));
  TALUS_CALL(copy_in(at.tensor_list, plan.tensor_list.data(), plan.tensor_list.size(), stream));
  TALUS_CALL(copy_in(at.tile_first, view.tile_first, tensors + 1, stream));
  TALUS_CALL(copy_in(at.columns, plan.columns.data(), plan.columns.size(), stream));
  TALUS_CALL(copy_in(at.formats, plan.formats.data(), tensors, stream));
  TALUS_CALL(copy_in(at.members, plan.members.data(), tensors + 1, stream));
  TALUS_CALL(cudaStreamSynchronize(stream));
  return TALUS_OK;
}

}  // namespace

uint64_t workspace_bytes(const PlanView* plan) { return places(*plan, nullptr).bytes; }

int32_t set_plan(void* context, const PlanView* view, void* workspace, void* stream) {
  Context& x = get(context);
  if (const char* const what = too_large(*view))
    return x.failures.fail(TALUS_E_UNSUPPORTED, "more %s than a launch can number", what);
  try {
    auto plan = std::make_unique<Plan>(*view, workspace);
    const int32_t status = send_plan(x, *plan, as_stream(stream));
    if (status == TALUS_OK) x.plan = std::move(plan);
    return status;
  } catch (const std::bad_alloc&) {
    return x.failures.fail(TALUS_E_MEMORY, "the host has no memory to plan %lld tensors",
                           static_cast<long long>(view->table.tensor_count));
  }
}

int32_t set_column(void* context, int32_t column, void* stream) {
  Context& x = get(context);
  TALUS_ENTER(x);
  Plan& plan = *x.plan;
  if (column == kClassColumn) {
    plan.find_members();
    return send_table(x, plan.at.members, plan.members, plan.next_members, as_stream(stream),
                      "upload of scalar classes");
  }
  if (column < kColumnCount)
    if (const int32_t status = send_pointers(x, column, as_stream(stream)); status != TALUS_OK)
      return status;
  if (column < kHidden) return TALUS_OK;  // data and gradients never change their dtype
  plan.find_formats();
  return send_table(x, plan.at.formats, plan.formats, plan.next_formats, as_stream(stream),
                    "upload of dtypes");
}

int32_t set_rows(void* context, const Row* rows, int32_t count, void* stream) {
  Context& x = get(context);
  TALUS_ENTER(x);
  Plan& plan = *x.plan;
  const size_t bytes = size_t(count) * sizeof(Row);
  if (plan.rows.size() >= size_t(count) &&
      (count == 0 || std::memcmp(plan.rows.data(), rows, bytes) == 0))
    return TALUS_OK;
  const int32_t status =
      upload(x, plan.at.rows(), rows, bytes, as_stream(stream), "upload of scalars");
  if (status == TALUS_OK) plan.rows.assign(rows, rows + count);  // reserved
  return status;
}

}  // namespace talus::cuda
