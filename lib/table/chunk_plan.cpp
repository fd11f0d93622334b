#include "lib/table/chunk_plan.h"

#include <algorithm>

namespace talus {

void ChunkPlan::build(const TensorTable& table, std::span<const KernelKey> keys, int64_t chunk) {
  *this = ChunkPlan();
  tile_first_.reserve(size_t(table.size()) + 1);
  for (const int64_t n : table.count)
    tile_first_.push_back(tile_first_.back() + (n + kTile - 1) / kTile);
  std::vector<KernelKey> different;
  for (size_t t = 0; t < keys.size(); ++t)
    if (table.count[t] > 0 &&
        std::find(different.begin(), different.end(), keys[t]) == different.end())
      different.push_back(keys[t]);
  for (const KernelKey& key : different) add_launch(table, keys, key, chunk);
}

// Fills chunks in tensor order; a tensor is cut only at tiles, small tensors share a chunk.
void ChunkPlan::add_launch(const TensorTable& table, std::span<const KernelKey> keys,
                           const KernelKey& key, int64_t chunk) {
  const int64_t first_chunk = chunk_count();
  int64_t room = chunk;
  const auto close = [&] {
    if (chunk_first_.back() != int64_t(segments_.size()))
      chunk_first_.push_back(int64_t(segments_.size()));
    room = chunk;
  };
  for (int64_t t = 0; t < table.size(); ++t) {
    if (keys[size_t(t)] != key) continue;
    for (int64_t i = 0, left = table.count[size_t(t)]; left > 0;) {
      if (left > room && room < kTile) close();
      const int64_t n = left <= room ? left : room / kTile * kTile;
      segments_.push_back({i, n, t});
      i += n, left -= n, room -= n;
      if (room <= 0) close();
    }
  }
  close();
  launches_.push_back({key, first_chunk, chunk_count() - first_chunk});
}

std::span<const Segment> ChunkPlan::chunk(int64_t c) const {
  const size_t first = size_t(chunk_first_[size_t(c)]), last = size_t(chunk_first_[size_t(c) + 1]);
  return std::span(segments_).subspan(first, last - first);
}

PlanView ChunkPlan::view(const TensorTable& table) const {
  return {table.view(),      segments_.data(),          chunk_first_.data(),
          launches_.data(),  int64_t(launches_.size()), chunk_count(),
          tile_first_.data()};
}

}  // namespace talus
