#include "tools/checkpoint/contents.h"

#include <algorithm>
#include <map>
#include <talus.hpp>

#include "lib/checkpoint/crc32c.h"

namespace checkpoint {
namespace {

void check(const talus::Status& status) {
  if (!status.ok()) throw talus::Error(status.code(), status.text(), status.detail());
}

std::map<std::string, std::string> slots_by_key(const talus::Manifest& manifest) {
  std::map<std::string, std::string> out;
  for (const talus::ParamRecord& p : manifest.params) {
    out[talus::state_key(p.name, talus::kStepSlot)] = talus::kStepSlot;
    for (const std::string& slot : p.slots) out[talus::state_key(p.name, slot)] = slot;
  }
  return out;
}

}  // namespace

talus::Catalogue open(const std::string& path) {
  talus::Catalogue file;
  check(talus::Catalogue::open_any(path, &file));
  return file;
}

uint64_t Entry::bytes() const {
  uint64_t bytes = 0;
  for (const talus::Part& part : stored->parts) bytes += part.bytes;
  return bytes;
}

uint64_t Entry::count() const {
  uint64_t count = 1;
  for (const uint64_t extent : stored->shape) count *= extent;
  return count;
}

std::vector<Entry> entries_of(const talus::Catalogue& file) {
  const std::map<std::string, std::string> slots = slots_by_key(file.manifest());
  std::vector<Entry> out;
  for (const auto& [key, stored] : file.tensors()) {
    const auto slot = slots.find(key);
    out.push_back({key, slot == slots.end() ? "" : slot->second, &stored});
  }
  return out;
}

std::vector<const Entry*> in_file_order(const std::vector<Entry>& entries) {
  std::vector<const Entry*> out;
  for (const Entry& entry : entries) out.push_back(&entry);
  const auto place = [](const Entry* e) {
    const talus::Part& first = e->stored->parts.front();
    return std::pair(first.file, first.offset);
  };
  std::stable_sort(out.begin(), out.end(),
                   [&](const Entry* a, const Entry* b) { return place(a) < place(b); });
  return out;
}

Digests digests_of(const talus::Stored& stored) {
  const auto count = std::count_if(stored.parts.begin(), stored.parts.end(),
                                   [](const talus::Part& part) { return part.has_digest; });
  if (count == 0) return Digests::none;
  return size_t(count) == stored.parts.size() ? Digests::all : Digests::some;
}

TensorStream::TensorStream(const talus::Catalogue& file, const Entry& entry)
    : file_(file), stored_(*entry.stored), left_(entry.bytes()) {
  if (left_ == 0)
    while (part_ < stored_.parts.size()) end_part();
}

const std::vector<char>& TensorStream::next() {
  piece_.resize(size_t(std::min(kPiece, left_)));
  for (uint64_t done = 0; done < piece_.size();) {
    const uint64_t bytes = std::min(piece_.size() - done, stored_.parts[part_].bytes - at_);
    read(piece_.data() + done, bytes);
    done += bytes;
  }
  left_ -= piece_.size();
  if (left_ == 0)
    while (part_ < stored_.parts.size()) end_part();
  return piece_;
}

void TensorStream::read(char* out, uint64_t bytes) {
  const talus::Part& part = stored_.parts[part_];
  check(file_.file(part.file).read(part.offset + at_, out, bytes));
  digest_ = talus::crc32c(digest_, out, bytes);
  at_ += bytes;
  if (at_ == part.bytes) end_part();
}

void TensorStream::end_part() {
  const talus::Part& part = stored_.parts[part_++];
  sound_ &= !part.has_digest || digest_ == part.digest;
  digest_ = 0;
  at_ = 0;
}

}  // namespace checkpoint
