// The container of checkpoints, safetensors: a strict reader of its header, and the layout of a
// file that is to be written. Bytes and JSON alone; of optimizers it knows nothing.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"

namespace talus::safetensors {

struct Tensor {
  std::string dtype;  // "F32"
  std::vector<uint64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes, counted from Header::data_begin

  uint64_t bytes() const { return end - begin; }
};

using Strings = std::map<std::string, std::string, std::less<>>;

struct Header {
  std::map<std::string, Tensor, std::less<>> tensors;
  Strings metadata;
  uint64_t data_begin = 0;
};

struct Limits {
  uint64_t header_bytes = 100'000'000;
  size_t tensors = size_t{1} << 20, rank = 16, metadata = size_t{1} << 16;
  size_t name_bytes = 4096, metadata_value_bytes = size_t{64} << 20;
};

// "[2, 3]", for texts and tables.
std::string shape_text(const std::vector<uint64_t>& shape);

// Bytes of an element, 0: a dtype that we do not read.
uint64_t dtype_bytes(std::string_view dtype);

// The length of the header that the first bytes of a file announce, without those. file: for texts.
Status header_length(std::span<const uint8_t> first, uint64_t file_size, const std::string& file,
                     uint64_t* out, const Limits& limits = {});

// Reads a header. head: the first 8 + N bytes. TALUS_E_FORMAT names file, key and byte (the last
// one that was looked at), TALUS_E_UNSUPPORTED a dtype that we do not read. What is accepted tiles
// the file: no hole, no overlap, no byte behind the last tensor. On failure *out is as before.
Status parse(std::span<const uint8_t> head, uint64_t file_size, const std::string& file,
             Header* out, const Limits& limits = {});

// A tensor to be written.
struct Entry {
  std::string name;
  const char* dtype = "F32";
  std::vector<uint64_t> shape;

  uint64_t bytes() const;  // not checked for overflow: lay_out does
};

struct Layout {
  std::string head;           // length and header, a multiple of 64 bytes
  std::vector<size_t> order;  // of the data: indices of the entries
  uint64_t total = 0;         // bytes of the file
};

// By descending size of the dtype, then by name, as the reference writer does; the entry of the
// name `last` (empty: none) behind all others. Equal arguments give equal bytes. TALUS_E_ARGUMENT:
// two equal names, one that is no UTF-8 or has control characters, and whatever parse would refuse.
Status lay_out(std::span<const Entry> entries, const Strings& metadata, std::string_view last,
               Layout* out);

}  // namespace talus::safetensors
