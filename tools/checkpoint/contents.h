// The tensors of a checkpoint as both commands go through them, and their bytes from front to back.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lib/checkpoint/catalogue.h"

namespace checkpoint {

// Of one file, of an index, or of another writer. Throws talus::Error.
talus::Catalogue open(const std::string& path);

struct Entry {
  std::string key,
      slot;  // slot: "exp_avg", "step"; "" for a parameter, or a tensor of other writers
  const talus::Stored* stored;

  uint64_t bytes() const;
  uint64_t count() const;
};
// In the order of their keys.
std::vector<Entry> entries_of(const talus::Catalogue& file);
// In the order of their bytes in the files.
std::vector<const Entry*> in_file_order(const std::vector<Entry>& entries);

// How many of the parts of a tensor have a digest.
enum class Digests : uint8_t { none, some, all };
Digests digests_of(const talus::Stored& stored);

// The bytes of a tensor over all its parts. Digests are compared on the way.
class TensorStream {
 public:
  static constexpr uint64_t kPiece = uint64_t{1} << 20;  // most bytes at once; whole elements

  TensorStream(const talus::Catalogue& file, const Entry& entry);
  uint64_t left() const { return left_; }
  // The next kPiece bytes, or what is left. Valid until the next call. Throws talus::Error.
  const std::vector<char>& next();
  // Once nothing is left: whether all is as its digests say.
  bool sound() const { return sound_; }

 private:
  void read(char* out, uint64_t bytes);
  void end_part();

  const talus::Catalogue& file_;
  const talus::Stored& stored_;
  std::vector<char> piece_;
  uint64_t left_, at_ = 0;  // at: in the part
  size_t part_ = 0;
  uint32_t digest_ = 0;
  bool sound_ = true;
};

}  // namespace checkpoint
