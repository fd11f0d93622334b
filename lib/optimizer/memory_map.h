// Address ranges that a step writes: parameters and bound state. Finds overlaps.
#pragma once
#include <cstdint>
#include <map>

namespace talus {

class MemoryMap {
 public:
  // What lies at a range, for messages: state slot `slot` of a parameter, or its data (-1).
  struct Owner {
    int64_t param;
    int slot;
  };
  struct Range {
    uintptr_t end;
    Owner owner;
  };

  // The first range that overlaps [data, data + bytes), or NULL. An empty range overlaps nothing.
  const Range* find(const void* data, uint64_t bytes) const {
    if (bytes == 0) return nullptr;
    const uintptr_t begin = uintptr_t(data), end = begin + bytes;
    auto next = ranges_.lower_bound(end);  // the last one that starts before our end decides
    if (next == ranges_.begin()) return nullptr;
    --next;
    return next->second.end > begin ? &next->second : nullptr;
  }
  void add(const void* data, uint64_t bytes, Owner owner) {
    if (bytes) ranges_[uintptr_t(data)] = {uintptr_t(data) + bytes, owner};
  }
  void remove(const void* data) { ranges_.erase(uintptr_t(data)); }

  // Moving a range without an allocation that could fail half way: take it out, look whether the
  // new place is free, put it there or back. A range that is not there yet is made.
  using Ranges = std::map<uintptr_t, Range>;
  using Node = Ranges::node_type;
  Node take(const void* data, Owner owner = {}) {
    if (data) return ranges_.extract(uintptr_t(data));
    Ranges made;
    made[0] = {0, owner};
    return made.extract(uintptr_t{0});
  }
  void put(Node node, const void* data, uint64_t bytes) {
    if (!data || node.empty()) return;
    node.key() = uintptr_t(data);
    node.mapped().end = uintptr_t(data) + bytes;
    ranges_.insert(std::move(node));  // where the search was off and the place is taken: not kept
  }

 private:
  Ranges ranges_;
};

}  // namespace talus
