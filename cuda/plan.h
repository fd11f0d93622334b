// The device's copy of a plan: where each table lies in the workspace, and what was last sent, so
// that only what has changed is sent again. No calls of the runtime here.
#pragma once
#include <vector>

#include "descriptors.h"
#include "kernels.h"

namespace talus::cuda {

// The tables of a plan in one block of device memory.
struct Places {
  Piece* pieces;
  uint32_t *chunk_first, *tensor_list;
  uint64_t* tile_first;
  void** columns;
  Format* formats;
  Member *members, *scope_members;  // scope: of a measure of some classes
  Row* order;                       // one place for the order, and rows behind it
  BeginRow* begin_rows;
  double *partials, *totals, *kept_totals, *part_values;
  int64_t* suspects;
  Measured* measured;
  uint64_t bytes;

  Row* rows() const { return order + 1; }
};
Places places(const PlanView& plan, void* workspace);

// One kernel key.
struct LaunchInfo {
  KernelKey key;
  uint32_t first_chunk, chunk_count;
  uint32_t first_tensor, tensor_count;  // in tensor_list
  bool direct;                          // every operand of every tensor is of the compute type

  const RuleEntry& rule() const { return rule_entries()[size_t(key.rule)]; }
  std::span<const PassEntry> passes() const { return rule().variants[size_t(key.variant)]; }
  bool is_f64() const { return key.compute == Dtype::f64; }
};

struct Plan {
  PlanView view{};
  Places at{};
  bool has_parts = false;
  std::vector<LaunchInfo> launches;
  std::vector<uint32_t> tensor_list;

  // As sent.
  std::vector<void*> columns;  // [column][tensor]
  std::vector<Format> formats;
  std::vector<Member> members;
  std::vector<Row> rows;  // empty: an order's
  // Room for what is compared with it.
  std::vector<Format> next_formats;
  std::vector<Member> next_members;
  std::vector<Row> next_rows;  // behind an order

  // Throws std::bad_alloc.
  Plan() = default;
  Plan(const PlanView& view, void* workspace);

  Tables tables() const;  // of a step of the host's
  uint64_t largest_upload() const;
  void find_formats();  // into next_formats, and which launches are direct
  // Into next_members; classes: by scalar class, those that have a rank; NULL: all.
  void find_members(const uint8_t* classes = nullptr);
};

// Whether the kernels can number it: NULL, or what there is too much of.
const char* too_large(const PlanView& plan);

}  // namespace talus::cuda
