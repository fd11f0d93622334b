// Tensor memory of a test: element-aligned and no better, with guard bytes on both sides.
#pragma once
#include <vector>

#include "tests/numbers.h"

namespace talus::test {

class Buffer {
 public:
  // The first element lies `skew` elements behind a multiple of 64 bytes. With the default no
  // vector load of 16 bytes or more is aligned; 0 gives the alignment that hosts usually have.
  Buffer(int32_t dtype, int64_t count, size_t skew = 1)
      : format_(&format_of(dtype)),
        count_(count),
        offset_(kGuard + skew * format_->bytes),
        blocks_((offset_ + bytes() + 2 * kGuard - 1) / kGuard, filled()) {}

  void* data() { return first() + offset_; }
  const void* data() const { return first() + offset_; }
  int32_t dtype() const { return format_->dtype; }
  const Format& format() const { return *format_; }
  int64_t size() const { return count_; }
  size_t bytes() const { return size_t(count_) * format_->bytes; }

  uint64_t bits(int64_t i) const { return load_bits(*format_, at(i)); }
  double get(int64_t i) const { return decode(*format_, bits(i)); }
  void set(int64_t i, double x) { set_bits(i, encode(*format_, x)); }
  void set_bits(int64_t i, uint64_t bits) {
    store_bits(*format_, bits, const_cast<unsigned char*>(at(i)));
  }

  bool same_bytes(const Buffer& other) const {
    return bytes() == other.bytes() && std::memcmp(data(), other.data(), bytes()) == 0;
  }

  bool guards_intact() const {
    const size_t end = offset_ + bytes(), total = blocks_.size() * kGuard;
    for (size_t i = 0; i < offset_; ++i)
      if (first()[i] != kFill) return false;
    for (size_t i = end; i < total; ++i)
      if (first()[i] != kFill) return false;
    return true;
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr unsigned char kFill = 0x5a;
  struct alignas(kGuard) Block {
    unsigned char byte[kGuard];
  };
  static Block filled() {
    Block block;
    std::memset(block.byte, kFill, kGuard);
    return block;
  }

  unsigned char* first() { return blocks_.data()->byte; }
  const unsigned char* first() const { return blocks_.data()->byte; }
  const unsigned char* at(int64_t i) const {
    return first() + offset_ + size_t(i) * format_->bytes;
  }

  const Format* format_;
  int64_t count_;
  size_t offset_;
  std::vector<Block> blocks_;
};

}  // namespace talus::test
