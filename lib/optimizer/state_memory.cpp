#include "lib/optimizer/state_memory.h"

#include <algorithm>

#include "lib/base/log.h"

namespace talus {
namespace {

constexpr uint64_t kTooMuch = uint64_t{1} << 62;  // more than any allocator has

uint64_t aligned(uint64_t bytes) {
  return (bytes + kStateAlignment - 1) / kStateAlignment * kStateAlignment;
}

}  // namespace

StateMemory::~StateMemory() {
  for (const Block& b : blocks_)
    if (b.data) backend_.release(context_, b.data, b.bytes, nullptr);
}

void StateMemory::reserve(size_t parameters) {
  if (parameters > rows_.capacity()) rows_.reserve(std::max(parameters, 2 * rows_.capacity()));
}

bool StateMemory::complete(int64_t param) const {
  bool out = true;
  for_each_slot(model_, param, [&](const StateSlot& s) {
    out = out && (s.count == 0 || model_.table.data(s.column, param));
  });
  return out;
}

Status StateMemory::take_memory(const char* what, uint64_t bytes, void* stream, void** out) {
  void* const data = backend_.allocate(context_, bytes, kStateAlignment, stream);
  if (!data) {
    int64_t detail = 0;
    const std::string why = backend_.last_error(context_, &detail);
    int32_t capturing = 0;  // only asked whether the device still answers
    const bool lost = backend_.is_capturing(context_, stream, &capturing) == TALUS_E_DEVICE_LOST;
    return Status(
        lost ? TALUS_E_DEVICE_LOST : TALUS_E_MEMORY,
        text("%s: the allocator has no %llu bytes%s%s", what,
             static_cast<unsigned long long>(bytes), why.empty() ? "" : ": ", why.c_str()),
        detail);
  }
  if (uintptr_t(data) % kStateAlignment != 0) {
    backend_.release(context_, data, bytes, stream);
    return failure(TALUS_E_MEMORY, "%s: the allocator gave %p, expected a multiple of %d bytes",
                   what, data, int(kStateAlignment));
  }
  *out = data;
  return {};
}

Status StateMemory::allocate(Scope scope, void* stream, bool* allocated) {
  std::vector<int64_t> wanting;
  for (int64_t p = 0; p < model_.params.size(); ++p) {
    const bool concerned = scope == Scope::all || model_.table.scalar_class[size_t(p)] != kIdle;
    if (concerned && !complete(p)) wanting.push_back(p);
  }
  return allocate_block(wanting, stream, allocated);
}

Status StateMemory::allocate(std::span<const int64_t> params, void* stream, bool* allocated) {
  std::vector<int64_t> wanting;
  for (const int64_t p : params)
    if (!complete(p)) wanting.push_back(p);
  return allocate_block(wanting, stream, allocated);
}

// All that these lack, in one block.
Status StateMemory::allocate_block(const std::vector<int64_t>& wanting, void* stream,
                                   bool* allocated) {
  uint64_t bytes = 0;
  for (const int64_t p : wanting)
    for_each_slot(model_, p, [&](const StateSlot& s) {
      if (model_.table.data(s.column, p)) return;
      if (__builtin_add_overflow(bytes, aligned(s.bytes()), &bytes)) bytes = kTooMuch;
    });
  if (wanting.empty()) return {};
  blocks_.reserve(blocks_.size() + 1);
  void* data = nullptr;
  TALUS_TRY(take_memory("state", std::min(bytes, kTooMuch), stream, &data));
  char* at = static_cast<char*>(data);
  blocks_.push_back({at, bytes, int64_t(wanting.size())});
  bytes_ += bytes;
  for (const int64_t p : wanting) {
    rows_[size_t(p)].block = int32_t(blocks_.size() - 1);
    for_each_slot(model_, p, [&](const StateSlot& s) {
      if (model_.table.data(s.column, p)) return;
      model_.table.set(s.column, p, at, s.dtype);
      at += aligned(s.bytes());
    });
    seal(p);
  }
  log_line(TALUS_LOG_DEBUG, "allocated %llu bytes of state for %zu parameters",
           static_cast<unsigned long long>(bytes), wanting.size());
  *allocated = true;
  return {};
}

void StateMemory::take_back() {
  const int32_t last = int32_t(blocks_.size() - 1);
  for (size_t p = 0; p < rows_.size(); ++p)
    if (rows_[p].block == last) drop(int64_t(p));
  blocks_.pop_back();
}

void StateMemory::drop(int64_t param) {
  uint32_t exists = 0;
  for_each_slot(model_, param, [&](const StateSlot& s) { exists |= 1u << s.column; });
  drop_all_but(param, exists);
}

void StateMemory::forget(int64_t param) { drop_all_but(param, 0); }

void StateMemory::drop_all_but(int64_t param, uint32_t bound_kept) {
  Row& row = rows_[size_t(param)];
  for (int c = kHidden; c < kColumnCount; ++c) {
    if (row.bound & bound_kept & 1u << c) continue;
    if (row.bound & 1u << c) model_.params.memory().remove(model_.table.data(c, param), {param, c});
    row.bound &= ~(1u << c);
    model_.table.set_data(c, param, nullptr);
    if (c == kHidden) model_.table.hidden_given[size_t(param)] = 0;  // it is gone
  }
  if (row.block >= 0 && --blocks_[size_t(row.block)].users == 0) release(row.block);
  row.block = -1;
  seal(param);
}

void StateMemory::seal(int64_t param) {
  const std::span<const Slot> slots = model_.group_of(param).rule().slots;
  uint32_t scalars = 0;
  for (size_t k = 0; k < slots.size(); ++k)
    if (slots[k].shape == Shape::tensor) scalars |= 1u << (kFirstSlot + k);
  model_.table.seal(param, scalars);
}

void StateMemory::release(int32_t block) {
  Block& b = blocks_[size_t(block)];
  backend_.release(context_, b.data, b.bytes, nullptr);
  bytes_ -= b.bytes;
  b = {nullptr, 0, 0};
}

void StateMemory::bind(int64_t param, const StateSlot& slot, void* data) {
  rows_[size_t(param)].bound |= 1u << slot.column;
  model_.table.set(slot.column, param, data, slot.dtype);
  seal(param);
}

}  // namespace talus
