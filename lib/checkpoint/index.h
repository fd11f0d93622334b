// A checkpoint of several files: the index that names them, and their names.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "lib/checkpoint/manifest.h"

namespace talus {

inline constexpr const char* kIndexSuffix = ".safetensors.index.json";
inline constexpr const char* kFileSuffix = ".safetensors";

inline constexpr uint64_t kMostIndexBytes = 100'000'000;

struct ShardRecord {
  uint64_t size = 0;
  uint32_t header_crc32c = 0;
  Pieces pieces;
};

struct Index {
  uint64_t total_size = 0;        // bytes of all tensors
  std::string generation;         // 16 hex digits
  safetensors::Strings metadata;  // as of one file: write_manifest, notes
  std::map<std::string, std::string, std::less<>> weight_map;  // key -> file
  std::map<std::string, ShardRecord, std::less<>> files;
};

bool is_index(std::string_view path);

// "x-<generation>-00001-of-00008.safetensors" for "dir/x.safetensors.index.json"; number from 1.
std::string shard_name(const std::string& index_path, const std::string& generation, int number,
                       int count);
// Whether a base name is one that shard_name gives for this index, of any generation.
bool is_shard_of(const std::string& index_path, std::string_view name);
// Whether it is the temporary of such a one, left by a save that was killed.
bool is_shard_left_over(const std::string& index_path, std::string_view name);

std::string write_index(const Index& from);
// TALUS_E_FORMAT: no strict JSON, an unknown member, a weight_map that names a file which is no plain
// base name or is not among talus_files.
Status read_index(std::string_view text, const std::string& file, Index* out);
Status read_index_file(const std::string& path, Index* out);  // also TALUS_E_IO

}  // namespace talus
