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
    bool operator==(const Owner&) const = default;
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
    if (bytes) ranges_.insert({uintptr_t(data), {uintptr_t(data) + bytes, owner}});
  }
  void remove(const void* data, Owner owner) { take(data, owner); }

  // Moving a range without an allocation that could fail half way: take it out, look whether the
  // new place is free, put it there or back. A range that is not there yet (data NULL) is made.
  using Ranges = std::multimap<uintptr_t, Range>;
  using Node = Ranges::node_type;
  Node take(const void* data, Owner owner) {
    if (!data) return make(owner);
    const auto [first, last] = ranges_.equal_range(uintptr_t(data));
    for (auto at = first; at != last; ++at)
      if (at->second.owner == owner) return ranges_.extract(at);
    return {};
  }
  void put(Node node, const void* data, uint64_t bytes) {
    if (!data || node.empty()) return;
    node.key() = uintptr_t(data);
    node.mapped().end = uintptr_t(data) + bytes;
    ranges_.insert(std::move(node));
  }

 private:
  static Node make(Owner owner) {
    Ranges made;
    made.insert({0, {0, owner}});
    return made.extract(made.begin());
  }

  Ranges ranges_;  // they may overlap where a host has switched the search off
};

}  // namespace talus
