#include "plan.h"

#include <algorithm>

namespace talus::cuda {
namespace {

// Hands out aligned places of a block one after the other.
class Block {
 public:
  explicit Block(void* base) : base_(static_cast<char*>(base)) {}
  template <class T>
  void take(T*& place, int64_t count) {
    place = reinterpret_cast<T*>(base_ + bytes_);
    bytes_ += (uint64_t(count) * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
  }
  uint64_t bytes() const { return bytes_; }

 private:
  static constexpr uint64_t kAlignment = 64;
  char* base_;
  uint64_t bytes_ = 0;
};

template <class F>
void for_each_pass(const PlanView& plan, F f) {
  for (int64_t i = 0; i < plan.launch_count; ++i) {
    const KernelKey& key = plan.launches[i].key;
    for (const PassEntry& pass : rule_entries()[size_t(key.rule)].variants[size_t(key.variant)])
      f(pass);
  }
}

bool has_parts(const PlanView& plan) {
  bool out = false;
  for_each_pass(plan, [&](const PassEntry& pass) { out = out || pass.value_count > 0; });
  return out;
}

int64_t piece_count(const PlanView& plan) { return plan.chunk_first[plan.chunk_count]; }
int64_t tile_count(const PlanView& plan) { return plan.tile_first[plan.table.tensor_count]; }

}  // namespace

Places places(const PlanView& plan, void* workspace) {
  const int64_t tensors = plan.table.tensor_count;
  int sum_rows = 1;  // of the hungriest pass; a measure needs one
  for_each_pass(plan,
                [&](const PassEntry& pass) { sum_rows = std::max(sum_rows, pass.sum_count); });
  Places out{};
  Block block(workspace);
  block.take(out.pieces, piece_count(plan));
  block.take(out.chunk_first, plan.chunk_count + 1);
  block.take(out.tensor_list, tensors);
  block.take(out.tile_first, tensors + 1);
  block.take(out.columns, tensors * kColumnCount);
  block.take(out.formats, tensors);
  block.take(out.members, tensors + 1);
  block.take(out.scope_members, tensors + 1);
  block.take(out.order, 1 + row_room(tensors));  // there are never more classes than parameters
  block.take(out.begin_rows, tensors);
  block.take(out.partials, sum_rows * tile_count(plan));
  block.take(out.totals, tensors);
  block.take(out.kept_totals, tensors);
  block.take(out.suspects, common_kernels().fold_threads);
  block.take(out.part_values, has_parts(plan) ? tensors * kMaxPartValues : 0);
  block.take(out.measured, 1);
  out.bytes = block.bytes();
  return out;
}

const char* too_large(const PlanView& plan) {
  if (plan.table.tensor_count > INT32_MAX) return "tensors";
  if (plan.chunk_count > INT32_MAX) return "chunks";
  if (piece_count(plan) > UINT32_MAX) return "pieces of tensors";
  return nullptr;
}

Plan::Plan(const PlanView& from, void* workspace)
    : view(from), at(places(from, workspace)), has_parts(cuda::has_parts(from)) {
  const size_t tensors = size_t(view.table.tensor_count);
  columns.resize(tensors * kColumnCount);
  formats.resize(tensors);
  members.resize(tensors + 1);
  next_formats.resize(tensors);
  next_members.resize(tensors + 1);
  rows.reserve(tensors);
  next_rows.reserve(size_t(1 + row_room(view.table.tensor_count)));
  for (int64_t i = 0; i < view.launch_count; ++i) {
    const Launch& launch = view.launches[i];
    LaunchInfo info{launch.key,
                    uint32_t(launch.first_chunk),
                    uint32_t(launch.chunk_count),
                    uint32_t(tensor_list.size()),
                    0,
                    false};
    const int64_t last = view.chunk_first[launch.first_chunk + launch.chunk_count];
    for (int64_t s = view.chunk_first[launch.first_chunk]; s < last; ++s)
      if (view.segments[s].begin == 0) tensor_list.push_back(uint32_t(view.segments[s].tensor));
    info.tensor_count = uint32_t(tensor_list.size()) - info.first_tensor;
    launches.push_back(info);
  }
}

Tables Plan::tables() const {
  Tables out{};
  out.pieces = at.pieces;
  out.chunk_first = at.chunk_first;
  out.columns = at.columns;
  out.formats = at.formats;
  out.members = at.members;
  out.tensors = view.table.tensor_count;
  out.tile_first = at.tile_first;
  out.rows = at.rows();
  out.begin_rows = at.begin_rows;
  out.partials = at.partials;
  out.totals = at.totals;
  out.kept_totals = at.kept_totals;
  out.suspects = at.suspects;
  out.part_values = at.part_values;
  out.measured = at.measured;
  out.order = reinterpret_cast<const StepOrder*>(at.order);
  return out;
}

uint64_t Plan::largest_upload() const {
  return uint64_t(1 + row_room(view.table.tensor_count)) * sizeof(Row);
}

void Plan::find_formats() {
  for (size_t t = 0; t < next_formats.size(); ++t) {
    uint32_t bits = view.table.hidden_given[t] ? kHiddenGiven : 0;
    for (int c = 0; c < kColumnCount; ++c)
      bits |= uint32_t(view.table.column[c].dtype[t]) << (2 * c);
    next_formats[t] = {bits};
  }
  for (LaunchInfo& launch : launches) {
    launch.direct = true;
    for (uint32_t i = 0; i < launch.tensor_count; ++i)
      launch.direct =
          launch.direct && view.table.path[tensor_list[launch.first_tensor + i]] == Path::direct;
  }
}

// Ranks number the tensors that have a gradient and elements, as the CPU's norm does.
void Plan::find_members(const uint8_t* classes) {
  int32_t rank = 0;
  const size_t tensors = next_formats.size();
  for (size_t t = 0; t < tensors; ++t) {
    const int32_t scalar_class = view.table.scalar_class[t];
    const bool counts = scalar_class != kIdle && view.table.count[t] > 0 &&
                        (!classes || classes[scalar_class] != 0);
    next_members[t] = {scalar_class, counts ? rank++ : -1};
  }
  next_members[tensors] = {kIdle, rank};
}

}  // namespace talus::cuda
