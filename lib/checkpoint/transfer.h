// Bytes between the memory of an optimizer and the host, piece by piece: on the CPU the memory itself,
// from a device through two pinned buffers, one being copied while the other is worked on.
#pragma once
#include <cstdint>
#include <functional>

#include "lib/optimizer/optimizer.h"

namespace talus {

class Transfer {
 public:
  static constexpr uint64_t kPiece = uint64_t{8} << 20;  // most bytes at once
  using Use = std::function<Status(const void* bytes, uint64_t offset, uint64_t count)>;
  using Fill = std::function<Status(void* room, uint64_t offset, uint64_t count)>;

  Transfer(Optimizer& optimizer, void* stream) : optimizer_(optimizer), stream_(stream) {}
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Gives use the bytes at `from`, in order, in pieces of at most kPiece.
  Status download(const void* from, uint64_t bytes, const Use& use);
  // Has fill write the bytes for `to`, likewise. Those before a failure have arrived, or may have.
  Status upload(void* to, uint64_t bytes, const Fill& fill);

 private:
  Status open();
  Status start(int side, void* to, const void* from, uint64_t bytes);
  Status wait(int side);

  Optimizer& optimizer_;
  void* stream_;
  void* buffer_[2] = {};
};

}  // namespace talus
