// What a checkpoint says of itself beside its tensors: parameters, groups, counts, notes, as plain
// values and as the metadata of a file.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/status.h"
#include "lib/checkpoint/json_value.h"
#include "lib/checkpoint/safetensors.h"
#include "lib/checkpoint/schedule_record.h"
#include "lib/checkpoint/settings_record.h"

namespace talus {

inline constexpr int kFormatVersion = 1;
inline constexpr int64_t kMostSteps = int64_t{1} << 62;  // more could not be counted on from

struct ParamRecord {
  std::string name, dtype;  // "F32"
  std::vector<uint64_t> shape;
  int32_t group = 0;
  std::vector<std::string> slots;  // that the file holds

  bool operator==(const ParamRecord&) const = default;
};

struct GroupRecord {
  std::string algorithm;                              // its own name, no alias
  std::vector<std::pair<std::string, double>> hyper;  // in the order of the file
  std::string mode = "train";

  bool operator==(const GroupRecord&) const = default;
};

struct Counts {
  int64_t applied = 0, called = 0, skipped = 0, clock = 0;  // steps; the clock that the caller sets

  bool operator==(const Counts&) const = default;
};

// A part of a tensor, in a shard.
struct Piece {
  std::string param, slot;
  uint64_t first = 0, count = 0;  // elements of the flattened tensor

  bool operator==(const Piece&) const = default;
};

struct Manifest {
  int version = kFormatVersion;
  std::vector<std::string> required;  // features, sorted
  std::string writer;
  std::vector<ParamRecord> params;  // in order of registration
  std::vector<GroupRecord> groups;
  NamedValues settings;
  std::optional<ScalerRecord> scaler;
  Counts counts;
  SchedulesRecord schedules;
  safetensors::Strings notes;  // without "user."

  bool operator==(const Manifest&) const = default;
};

// The key of a tensor of state; every parameter has that of its step count.
inline constexpr const char* kStepSlot = "step";
std::string state_key(const std::string& param, std::string_view slot);

// Features that this library knows.
inline constexpr const char* kKnownFeatures[] = {"master", "ranges", kSchedulesFeature,
                                                 kSettingsFeature, kScalerFeature};

// The metadata of section "talus." and "user.", and `format`.
safetensors::Strings write_manifest(const Manifest& from);

// TALUS_E_FORMAT: not written by this library's format (names file and key); TALUS_E_VERSION: a
// version or a required feature that is not known, named. Unknown keys are left out of account,
// unknown members inside of "talus." JSON are a fault. Without talus.counts they are 0.
Status read_manifest(const safetensors::Strings& metadata, const std::string& file, Manifest* out);

// "talus.pieces" of a shard: key -> piece.
using Pieces = std::map<std::string, Piece, std::less<>>;
Json pieces_json(const Pieces& from);
Status take_pieces(const Json& json, const std::string& file, Pieces* out);
std::string write_pieces(const Pieces& from);
Status read_pieces(std::string_view text, const std::string& file, Pieces* out);

}  // namespace talus
