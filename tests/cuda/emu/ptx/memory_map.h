// The memory that a kernel may touch: ranges of device addresses, each with the host memory behind it.
#pragma once
#include <cstdint>
#include <map>

namespace ptx {

class MemoryMap {
 public:
  MemoryMap() = default;
  MemoryMap(const MemoryMap&) = delete;
  MemoryMap& operator=(const MemoryMap&) = delete;

  // Host memory under its own address.
  void add(const void* base, uint64_t bytes) { add(uint64_t(base), bytes, base); }
  void add(uint64_t address, uint64_t bytes, const void* host) {
    ranges_[address] = {bytes, const_cast<uint8_t*>(static_cast<const uint8_t*>(host))};
    last_ = ranges_.end();
  }
  void remove(uint64_t address) {
    ranges_.erase(address);
    last_ = ranges_.end();
  }

  // The host memory behind [address, address + bytes); null if that is not inside one range.
  uint8_t* find(uint64_t address, uint64_t bytes) const {
    if (last_ == ranges_.end() || !contains(*last_, address, bytes)) {
      last_ = ranges_.upper_bound(address);
      if (last_ == ranges_.begin()) return nullptr;
      --last_;
      if (!contains(*last_, address, bytes)) return nullptr;
    }
    return last_->second.host + (address - last_->first);
  }

 private:
  struct Range {
    uint64_t bytes;
    uint8_t* host;
  };
  std::map<uint64_t, Range> ranges_;
  mutable std::map<uint64_t, Range>::const_iterator last_ =
      ranges_.end();  // most accesses are near

  static bool contains(const std::pair<const uint64_t, Range>& r, uint64_t address,
                       uint64_t bytes) {
    const uint64_t offset = address - r.first;
    return address >= r.first && offset < r.second.bytes && r.second.bytes - offset >= bytes;
  }
};

}  // namespace ptx
