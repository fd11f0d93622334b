// What a checkpoint holds, of one file or of many: its manifest, and for every key where the bytes of
// its tensor lie. Headers are read and checked; data is not.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/checkpoint/bytes.h"
#include "lib/checkpoint/manifest.h"
#include "lib/checkpoint/safetensors.h"

namespace talus {

// A run of elements of one tensor that is a whole tensor of one file.
struct Part {
  size_t file;
  uint64_t offset, bytes;  // in the file
  uint64_t first, count;   // elements of the flattened tensor
  bool has_digest;
  uint32_t digest;
};

struct Stored {
  std::string dtype;
  std::vector<uint64_t> shape;
  bool in_pieces = false;
  std::vector<Part> parts;  // in order of `first`; they tile the tensor
};

class Catalogue {
 public:
  // One file, or an index with the files that it names. TALUS_E_IO, _FORMAT, _VERSION, _UNSUPPORTED.
  static Status open(const std::string& path, Catalogue* out);
  static Status open(Source& source, Catalogue* out);  // lives as long as the catalogue
  // Also a file of other writers, without a manifest: version 0, and its metadata are notes.
  static Status open_any(const std::string& path, Catalogue* out);

  const std::string& name() const { return name_; }
  const Manifest& manifest() const { return manifest_; }
  bool foreign() const { return manifest_.version == 0; }
  const Stored* find(std::string_view key) const;  // NULL: none
  const std::map<std::string, Stored, std::less<>>& tensors() const { return tensors_; }
  Source& file(size_t i) const { return *files_[i]; }
  size_t file_count() const { return files_.size(); }
  uint64_t bytes() const { return bytes_; }  // of all files

 private:
  // `expected`: what an index says of it, NULL: it is the whole checkpoint.
  Status add_file(Source& source, const struct ShardRecord* expected, safetensors::Header* header);
  Status read_digests(Source& source, const safetensors::Header& header,
                      std::vector<uint32_t>* out) const;
  Status add_tensors(const safetensors::Header& header, const std::vector<uint32_t>& digests,
                     const std::map<std::string, Piece, std::less<>>& pieces);
  Status open_index(const std::string& path);
  Status open_files(const std::string& path, const struct Index& index);
  Status open_file(const std::string& path, safetensors::Header* header);
  Status join_pieces();
  Status take_manifest(const safetensors::Header& header);
  Status check_listed() const;

  std::string name_;
  std::vector<std::unique_ptr<Source>> owned_;
  std::vector<Source*> files_;
  Manifest manifest_;
  std::map<std::string, Stored, std::less<>> tensors_;
  uint64_t bytes_ = 0;
};

}  // namespace talus
