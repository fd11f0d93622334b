#include "lib/checkpoint/transfer.h"

#include <algorithm>

namespace talus {
namespace {

uint64_t piece_at(uint64_t offset, uint64_t bytes) {
  return std::min(Transfer::kPiece, bytes - offset);
}

}  // namespace

Transfer::~Transfer() {
  if (buffer_[0]) (void)optimizer_.backend().set_staging(optimizer_.backend_context(), 0, buffer_);
}

Status Transfer::open() {
  if (buffer_[0]) return {};
  return optimizer_.from_backend(
      optimizer_.backend().set_staging(optimizer_.backend_context(), kPiece, buffer_),
      "take pinned memory");
}

Status Transfer::start(int side, void* to, const void* from, uint64_t bytes) {
  return optimizer_.from_backend(
      optimizer_.backend().start_copy(optimizer_.backend_context(), side, to, from, bytes, stream_),
      "copy state");
}

Status Transfer::wait(int side) {
  return optimizer_.from_backend(optimizer_.backend().wait_copy(optimizer_.backend_context(), side),
                                 "copy state");
}

Status Transfer::download(const void* from, uint64_t bytes, const Use& use) {
  const char* const at = static_cast<const char*>(from);
  if (optimizer_.on_cpu()) {
    for (uint64_t offset = 0; offset < bytes; offset += kPiece)
      TALUS_TRY(use(at + offset, offset, piece_at(offset, bytes)));
    return {};
  }
  if (bytes == 0) return {};
  TALUS_TRY(open());
  TALUS_TRY(start(0, buffer_[0], at, piece_at(0, bytes)));
  int side = 0;
  for (uint64_t offset = 0; offset < bytes; offset += kPiece, side ^= 1) {
    TALUS_TRY(wait(side));
    const uint64_t next = offset + kPiece;
    if (next < bytes)
      TALUS_TRY(start(side ^ 1, buffer_[side ^ 1], at + next, piece_at(next, bytes)));
    if (Status used = use(buffer_[side], offset, piece_at(offset, bytes)); !used.ok()) {
      if (next < bytes) (void)wait(side ^ 1);  // nothing may still be writing when they are freed
      return used;
    }
  }
  return {};
}

Status Transfer::upload(void* to, uint64_t bytes, const Fill& fill) {
  char* const at = static_cast<char*>(to);
  if (optimizer_.on_cpu()) {
    for (uint64_t offset = 0; offset < bytes; offset += kPiece)
      TALUS_TRY(fill(at + offset, offset, piece_at(offset, bytes)));
    return {};
  }
  if (bytes == 0) return {};
  TALUS_TRY(open());
  Status status;
  int side = 0;
  bool busy[2] = {};
  for (uint64_t offset = 0; offset < bytes && status.ok(); offset += kPiece, side ^= 1) {
    if (busy[side]) status = wait(side);
    if (status.ok()) status = fill(buffer_[side], offset, piece_at(offset, bytes));
    if (status.ok()) status = start(side, at + offset, buffer_[side], piece_at(offset, bytes));
    busy[side] = true;
  }
  for (side = 0; side < 2; ++side)
    if (busy[side])
      if (const Status waited = wait(side); status.ok()) status = waited;
  return status;
}

}  // namespace talus
