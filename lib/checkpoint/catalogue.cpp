#include "lib/checkpoint/catalogue.h"

#include <algorithm>
#include <cerrno>
#include <set>

#include "lib/checkpoint/crc32c.h"
#include "lib/checkpoint/files.h"
#include "lib/checkpoint/index.h"
#include "lib/checkpoint/state_tensors.h"

namespace talus {
namespace {

using safetensors::Header;
using safetensors::Tensor;
using Named = std::pair<const std::string, Tensor>;

constexpr const char* kParamsKey = "talus.params";  // a shard has none, nor has another writer's

Status read_head(Source& source, std::vector<uint8_t>* out) {
  uint8_t first[8] = {};
  const uint64_t start = std::min<uint64_t>(sizeof first, source.size());
  TALUS_TRY(source.read(0, first, start));
  uint64_t length = 0;
  TALUS_TRY(
      safetensors::header_length({first, size_t(start)}, source.size(), source.name(), &length));
  out->resize(size_t(8 + length));
  return source.read(0, out->data(), out->size());
}

// All but the digest, in the order of the file: empty tensors ahead of the one that starts there.
std::vector<const Named*> in_file_order(const Header& header) {
  std::vector<const Named*> out;
  for (const Named& t : header.tensors)
    if (t.first != kDigestKey) out.push_back(&t);
  std::sort(out.begin(), out.end(), [](const Named* a, const Named* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  return out;
}

Status damaged(const Source& source, const std::string& what) {
  return failure(TALUS_E_FORMAT, "%s: %s", source.name().c_str(), what.c_str());
}

// Files that are held open, which keeps their bytes though a save may remove their names.
constexpr size_t kMostOpen = 64;

// One of more files than a process may have open.
class ReopenedSource final : public Source {
 public:
  ReopenedSource(std::string path, uint64_t size) : path_(std::move(path)), size_(size) {}
  const std::string& name() const override { return path_; }
  uint64_t size() const override { return size_; }
  Status read(uint64_t offset, void* out, uint64_t bytes) override {
    std::unique_ptr<Source> file;
    TALUS_TRY(open_source(path_, false, &file));
    return file->read(offset, out, bytes);
  }

 private:
  std::string path_;
  uint64_t size_;
};

}  // namespace

const Stored* Catalogue::find(std::string_view key) const {
  const auto found = tensors_.find(key);
  return found == tensors_.end() ? nullptr : &found->second;
}

Status Catalogue::open(Source& source, Catalogue* out) {
  out->name_ = source.name();
  Header header;
  TALUS_TRY(out->add_file(source, nullptr, &header));
  return out->take_manifest(header);
}

Status Catalogue::open(const std::string& path, Catalogue* out) {
  if (is_index(path)) return out->open_index(path);
  Header header;
  TALUS_TRY(out->open_file(path, &header));
  return out->take_manifest(header);
}

Status Catalogue::open_any(const std::string& path, Catalogue* out) {
  if (is_index(path)) return out->open_index(path);
  Header header;
  TALUS_TRY(out->open_file(path, &header));
  if (header.metadata.contains(kParamsKey)) return out->take_manifest(header);
  out->manifest_.version = 0;
  out->manifest_.notes = std::move(header.metadata);
  return {};
}

Status Catalogue::take_manifest(const Header& header) {
  TALUS_TRY(read_manifest(header.metadata, name_, &manifest_));
  return check_listed();
}

Status Catalogue::open_file(const std::string& path, Header* header) {
  std::unique_ptr<Source> source;
  TALUS_TRY(open_source(path, true, &source));
  owned_.push_back(std::move(source));
  name_ = path;
  return add_file(*owned_.back(), nullptr, header);
}

// A save to the same index may take shards away while they are looked for: then it names others.
Status Catalogue::open_index(const std::string& path) {
  constexpr int kTries = 5;
  std::string generation;
  for (int i = 1;; ++i) {
    *this = {};
    name_ = path;
    Index index;
    TALUS_TRY(read_index_file(path, &index));
    const Status status = open_files(path, index);
    const bool vanished = status.code() == TALUS_E_IO && status.detail() == ENOENT;
    if (!vanished || index.generation == generation || i == kTries) return status;
    generation = index.generation;
  }
}

Status Catalogue::open_files(const std::string& path, const Index& index) {
  TALUS_TRY(read_manifest(index.metadata, path, &manifest_));
  for (const auto& [file, record] : index.files) {
    std::unique_ptr<Source> source;
    TALUS_TRY(open_source(folder_of(path) + file, false, &source));
    if (owned_.size() >= kMostOpen)
      source = std::make_unique<ReopenedSource>(folder_of(path) + file, source->size());
    owned_.push_back(std::move(source));
    Header header;
    TALUS_TRY(add_file(*owned_.back(), &record, &header));
    for (const auto& [key, tensor] : header.tensors) {
      const auto listed = index.weight_map.find(key);
      if (key != kDigestKey && (listed == index.weight_map.end() || listed->second != file))
        return damaged(*owned_.back(), "tensor " + quoted(key) + " is not in the index " + path);
    }
  }
  for (const auto& [key, file] : index.weight_map) {
    const auto found = index.files.find(file);
    const bool piece = found != index.files.end() && found->second.pieces.contains(key);
    if (!piece && !tensors_.contains(key))
      return failure(TALUS_E_FORMAT, "%s: tensor %s is not in %s", path.c_str(),
                     quoted(key).c_str(), quoted(file).c_str());
  }
  TALUS_TRY(join_pieces());
  return check_listed();
}

Status Catalogue::add_file(Source& source, const ShardRecord* expected, Header* header) {
  if (expected && source.size() != expected->size)
    return damaged(source, text("%llu bytes, the index says %llu",
                                static_cast<unsigned long long>(source.size()),
                                static_cast<unsigned long long>(expected->size)));
  std::vector<uint8_t> head;
  TALUS_TRY(read_head(source, &head));
  const uint32_t head_digest = crc32c(0, head.data(), head.size());
  if (expected && head_digest != expected->header_crc32c)
    return damaged(source, "the digest of the header is not the one in the index");
  TALUS_TRY(safetensors::parse(head, source.size(), source.name(), header));
  std::vector<uint32_t> digests;
  TALUS_TRY(read_digests(source, *header, &digests));
  if (!digests.empty() && digests[0] != head_digest)
    return damaged(source, text("the header has the digest %08x, \"%s\" says %08x", head_digest,
                                kDigestKey, digests[0]));
  files_.push_back(&source);
  bytes_ += source.size();
  return add_tensors(*header, digests, expected ? expected->pieces : Pieces());
}

// Empty: there are none.
Status Catalogue::read_digests(Source& source, const Header& header,
                               std::vector<uint32_t>* out) const {
  const auto found = header.tensors.find(kDigestKey);
  if (found == header.tensors.end()) return {};
  const Tensor& t = found->second;
  const uint64_t expected = header.tensors.size();  // the header's, and one for each other tensor
  if (t.dtype != kDigestDtype || t.shape != std::vector<uint64_t>{expected})
    return damaged(source, text("\"%s\" is not U32 of %llu elements", kDigestKey,
                                static_cast<unsigned long long>(expected)));
  out->resize(size_t(expected));
  return source.read(header.data_begin + t.begin, out->data(), t.bytes());
}

Status Catalogue::add_tensors(const Header& header, const std::vector<uint32_t>& digests,
                              const Pieces& pieces) {
  const std::vector<const Named*> order = in_file_order(header);
  for (const auto& [key, piece] : pieces)
    if (!header.tensors.contains(key) || key == kDigestKey)
      return damaged(*files_.back(), "the index has a piece " + quoted(key) + " that is not there");
  for (size_t i = 0; i < order.size(); ++i) {
    const auto& [key, tensor] = *order[i];
    const auto piece = pieces.find(key);
    const bool whole = piece == pieces.end();
    uint64_t count = 1;
    for (const uint64_t extent : tensor.shape) count *= extent;
    if (!whole && tensor.shape != std::vector<uint64_t>{piece->second.count})
      return damaged(*files_.back(), "piece " + quoted(key) + " has another count than the index");
    const std::string name = whole ? key : state_key(piece->second.param, piece->second.slot);
    Stored& stored = tensors_[name];
    if (!stored.parts.empty() && (whole || !stored.in_pieces || stored.dtype != tensor.dtype))
      return damaged(*files_.back(), "tensor " + quoted(key) + " is there twice");
    stored.dtype = tensor.dtype;
    stored.in_pieces = !whole;
    if (whole) stored.shape = tensor.shape;
    stored.parts.push_back({files_.size() - 1, header.data_begin + tensor.begin, tensor.bytes(),
                            whole ? 0 : piece->second.first, count, !digests.empty(),
                            digests.empty() ? 0 : digests[i + 1]});
  }
  return {};
}

// Pieces must tile their parameter, whose shape is in the manifest.
Status Catalogue::join_pieces() {
  std::map<std::string, const ParamRecord*> owners;
  for (const ParamRecord& p : manifest_.params)
    for (const std::string& slot : p.slots) owners[state_key(p.name, slot)] = &p;
  for (auto& [key, stored] : tensors_) {
    if (!stored.in_pieces) continue;
    const auto owner = owners.find(key);
    if (owner == owners.end())
      return failure(TALUS_E_FORMAT, "%s: pieces of %s, which \"talus.params\" does not list",
                     name_.c_str(), quoted(key).c_str());
    stored.shape = owner->second->shape;
    uint64_t count = 1, end = 0;
    for (const uint64_t extent : stored.shape)
      if (__builtin_mul_overflow(count, extent, &count))
        return failure(TALUS_E_FORMAT, "%s: the shape of %s overflows", name_.c_str(),
                       quoted(key).c_str());
    std::sort(stored.parts.begin(), stored.parts.end(), [](const Part& a, const Part& b) {
      return std::pair(a.first, a.count) < std::pair(b.first, b.count);
    });
    for (const Part& part : stored.parts) {
      if (part.first != end)
        return failure(TALUS_E_FORMAT,
                       "%s: the pieces of %s leave a gap or overlap at element %llu", name_.c_str(),
                       quoted(key).c_str(), static_cast<unsigned long long>(end));
      end += part.count;
    }
    if (end != count)
      return failure(TALUS_E_FORMAT, "%s: the pieces of %s have %llu elements, expected %llu",
                     name_.c_str(), quoted(key).c_str(), static_cast<unsigned long long>(end),
                     static_cast<unsigned long long>(count));
  }
  return {};
}

// A tensor that the manifest does not account for: a key that has been changed, or a feature that the
// writer should have required.
Status Catalogue::check_listed() const {
  std::set<std::string> known;
  for (const ParamRecord& p : manifest_.params) {
    known.insert({state_key(p.name, kStepSlot), p.name});
    for (const std::string& slot : p.slots) known.insert(state_key(p.name, slot));
  }
  for (const auto& [key, stored] : tensors_)
    if (!known.contains(key))
      return failure(TALUS_E_FORMAT, "%s: tensor %s is not of any parameter in \"talus.params\"",
                     name_.c_str(), quoted(key).c_str());
  return {};
}

}  // namespace talus
