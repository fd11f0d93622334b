// The cut of all tensors into chunks of equal work, by kernel key. Depends on sizes, dtypes and
// membership only: pointers and gradients change without touching it.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "lib/table/tensor_table.h"

namespace talus {

// Elements per tile: the unit of every reduction (norm.h), so cuts inside a tensor lie on multiples
// of it from the tensor's start. Part of the numerics contract.
inline constexpr int64_t kTile = 4096;
// Elements per chunk. 4Ki to 256Ki measured the same; 16Ki keeps lists of small tensors divisible
// among threads, and 16Ki * 28 bytes stays in L2. Never changes a result.
inline constexpr int64_t kChunk = 16384;

// Elements [begin, begin + count) of one tensor.
struct Segment {
  int64_t begin, count, tensor;
};

// One region of threads on the CPU, one launch on a device, per pass: all tensors of one rule
// variant and compute type.
struct KernelKey {
  int32_t rule, variant;
  Dtype compute;
  bool operator==(const KernelKey&) const = default;
};
struct Launch {
  KernelKey key;
  int64_t first_chunk, chunk_count;
};

struct PlanView {
  TableView table;
  const Segment* segments;
  const int64_t* chunk_first;  // first segment of each chunk, and the end
  const Launch* launches;
  int64_t launch_count, chunk_count;
  const int64_t* tile_first;  // of each tensor: index of its first tile, and the end
};

class ChunkPlan {
 public:
  // keys: of each tensor. Chunks hold `chunk` elements, a multiple of kTile.
  void build(const TensorTable& table, std::span<const KernelKey> keys, int64_t chunk = kChunk);

  std::span<const Launch> launches() const { return launches_; }
  int64_t chunk_count() const { return int64_t(chunk_first_.size()) - 1; }
  int64_t tile_count() const { return tile_first_.back(); }
  std::span<const Segment> chunk(int64_t c) const;
  PlanView view(const TensorTable& table) const;

 private:
  void add_launch(const TensorTable& table, std::span<const KernelKey> keys, const KernelKey& key,
                  int64_t chunk);

  std::vector<Segment> segments_;
  std::vector<int64_t> chunk_first_{0}, tile_first_{0};
  std::vector<Launch> launches_;
};

}  // namespace talus
