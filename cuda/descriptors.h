// What the kernels read besides tensors: plain data shared by host and device. No CUDA types.
// Every table stays at its address for as long as its plan: captured graphs hold them.
#pragma once
#include "lib/table/backend.h"

namespace talus::cuda {

// Elements [begin, begin + count) of one tensor. Aligned, so that it is one 16-byte load.
struct alignas(16) Piece {
  uint64_t begin;
  uint32_t count, tensor;
};

// What changes when a gradient comes or goes: the class, or kIdle, and the tensor's place among
// those that the gradient norm adds up (-1: none). One more entry holds how many those are, as rank.
struct alignas(8) Member {
  int32_t scalar_class, rank;
};

// Dtypes of all columns of a tensor, two bits each, and whether its master was given.
struct Format {
  uint32_t bits;
};
inline constexpr uint32_t kHiddenGiven = 1u << 31;
static_assert(2 * kColumnCount < 31);

// What measure leaves.
struct Measured {
  double total;
  int64_t first_nonfinite;  // tensor, or -1
};

// Chunk c is pieces [chunk_first[c], chunk_first[c + 1]); column k of tensor t is column[k * tensors + t].
struct Tables {
  const Piece* pieces;
  const uint32_t* chunk_first;
  void* const* columns;
  const Format* formats;
  const Member* members;
  int64_t tensors;
  const uint64_t* tile_first;  // of each tensor, and the end
  const Row* rows;             // by scalar class; of an ordered step [candidate][class]
  const BeginRow* begin_rows;  // by scalar class
  double* partials;            // [sum][tile]
  double* totals;              // by rank; folded in place
  double* kept_totals;         // by rank: the same before
  int64_t* suspects;           // by thread of a block
  double* part_values;         // [tensor][kMaxPartValues]
  Measured* measured;          // one
  const StepOrder* order;      // one
  StepControl* control;        // NULL: the step is the host's
};

// How gradients enter a step of the host's; the numbers of an ordered one are not in arguments, which a
// graph would keep.
struct EntryArgs {
  GradientEntry entry;
  uint32_t cuts;  // 1: they are cut, or a measure marks what is not finite
};

struct PassArgs {
  Tables tables;
  uint32_t first_chunk;
  uint32_t has_parts;  // 1: part values of the pass before are read
  EntryArgs entry;
};

// A gradient of some rows of one tensor.
struct RowsArgs {
  Tables tables;
  const void* indices;
  const void* values;
  int64_t count, rows, row_length;
  uint32_t tensor;
  uint32_t wide;  // 1: indices are int64, else int32
  EntryArgs entry;
};

struct BeginArgs {
  Tables tables;
  uint32_t first_chunk;
  uint32_t slot_count, tensor_slots;  // bit k: slot k has one element for the tensor
  Order order;
};

// One block a tensor: of a launch, or NULL for all.
struct FoldArgs {
  Tables tables;
  const uint32_t* tensor_list;
  uint32_t slot_count, tensor_slots;
  uint32_t tells = 0;  // 1: the total is what the decision tells
};

struct DecideArgs {
  Tables tables;
};

struct ScalerArgs {
  ScalerMemory* scaler;
};

static_assert(sizeof(Piece) == 16 && sizeof(Member) == 8 && sizeof(Format) == 4);
static_assert(sizeof(StepOrder) <= sizeof(Row), "an order goes with its rows, in the place of one");
static_assert(sizeof(PassArgs) <= 4096, "the kernel parameters that work everywhere");

}  // namespace talus::cuda
