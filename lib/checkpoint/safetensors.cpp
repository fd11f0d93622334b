#include "lib/checkpoint/safetensors.h"

#include <algorithm>
#include <utility>

#include "lib/checkpoint/json_reader.h"

namespace talus::safetensors {
namespace {

constexpr std::string_view kMetadata = "__metadata__";
constexpr uint64_t kLengthBytes = 8;

struct DtypeBytes {
  std::string_view name;
  uint64_t bytes;
};
constexpr DtypeBytes kDtypeBytes[] = {{"F64", 8},     {"I64", 8},     {"U64", 8}, {"F32", 4},
                                      {"I32", 4},     {"U32", 4},     {"F16", 2}, {"BF16", 2},
                                      {"I16", 2},     {"U16", 2},     {"I8", 1},  {"U8", 1},
                                      {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"BOOL", 1}};

std::string tensor_name(std::string_view name) { return "tensor " + shown(name) + ": "; }

Status refused(const std::string& file, const std::string& why) {
  return {TALUS_E_FORMAT, file + ": " + why};
}

std::string range(uint64_t begin, uint64_t end) {
  return "[" + std::to_string(begin) + ", " + std::to_string(end) + "]";
}

// False: more than 64 bits hold.
bool multiply(uint64_t bytes, const std::vector<uint64_t>& shape, uint64_t* out) {
  bool fits = true;
  for (const uint64_t n : shape) fits = !__builtin_mul_overflow(bytes, n, &bytes) && fits;
  *out = bytes;
  return fits;
}

uint64_t length_of(const uint8_t* first) {
  uint64_t n = 0;
  for (int i = 7; i >= 0; --i) n = n << 8 | first[i];
  return n;
}

// ---- the grammar, members in any order:
// {"__metadata__": {s: s}, name: {"dtype": s, "shape": [n..], "data_offsets": [b, e]}, ..}

class HeaderReader final : public JsonReader {
 public:
  HeaderReader(const Limits& limits, Header* out) : limits_(limits), header_(*out) {}

  bool start_object(size_t) override {
    if (at_ == At::start) return go(At::top);
    if (at_ != At::value) return fail("an object is not expected here");
    if (in_metadata_) return go(At::metadata);
    tensor_ = {}, seen_ = 0, offsets_ = 0;
    return go(At::tensor);
  }

  bool key(string_t& key) override {
    if (at_ == At::tensor) return member(key);
    return at_ == At::metadata ? metadata_key(std::move(key)) : top_key(std::move(key));
  }

  bool string(string_t& value) override {
    if (at_ == At::dtype) {
      tensor_.dtype = std::move(value);
      return go(At::tensor);
    }
    if (at_ != At::metadata_value) return fail("a string is not expected here");
    if (value.size() > limits_.metadata_value_bytes)
      return fail("longer than " + std::to_string(limits_.metadata_value_bytes) + " bytes");
    header_.metadata.emplace(std::move(metadata_key_), std::move(value));
    return go(At::metadata);
  }

  bool start_array(size_t) override {
    if (at_ == At::shape_value) return go(At::shape);
    if (at_ == At::offsets_value) return go(At::offsets);
    return fail("a list is not expected here");
  }

  bool number_unsigned(number_unsigned_t n) override {
    if (at_ == At::shape) {
      if (tensor_.shape.size() == limits_.rank)
        return fail("rank above " + std::to_string(limits_.rank));
      tensor_.shape.push_back(n);
      return true;
    }
    if (at_ != At::offsets) return fail("a number is not expected here");
    if (offsets_ == 2) return fail("data_offsets has more than two numbers");
    (offsets_++ == 0 ? tensor_.begin : tensor_.end) = n;
    return true;
  }

  bool end_array() override {
    if (at_ == At::offsets && offsets_ != 2) return fail("data_offsets has fewer than two numbers");
    return go(At::tensor);
  }

  bool end_object() override {
    if (at_ == At::tensor) {
      if (seen_ != kSawAll) return fail("without dtype, shape or data_offsets");
      header_.tensors.emplace(std::move(name_), std::move(tensor_));
    }
    return go(at_ == At::top ? At::done : At::top);
  }

 protected:
  std::string at() const override {
    switch (at_) {
      case At::start:
      case At::top:
      case At::done: return "header: ";
      case At::metadata: return "__metadata__: ";
      case At::metadata_value: return "__metadata__: " + shown(metadata_key_) + ": ";
      default: return in_metadata_ ? "__metadata__: " : tensor_name(name_);
    }
  }

 private:
  enum class At {
    start,
    top,
    value,
    tensor,
    dtype,
    shape_value,
    shape,
    offsets_value,
    offsets,
    metadata,
    metadata_value,
    done
  };
  static constexpr unsigned kSawDtype = 1, kSawShape = 2, kSawOffsets = 4, kSawAll = 7;

  bool go(At next) {
    at_ = next;
    return true;
  }

  bool check_name(const std::string& name) {
    if (name.size() <= limits_.name_bytes) return true;
    return fail("name " + shown(name) + " is longer than " + std::to_string(limits_.name_bytes) +
                " bytes");
  }

  bool top_key(std::string&& name) {
    in_metadata_ = name == kMetadata;
    if (in_metadata_ ? std::exchange(had_metadata_, true) : header_.tensors.contains(name))
      return fail("two keys " + shown(name));
    if (!in_metadata_ && header_.tensors.size() == limits_.tensors)
      return fail("more than " + std::to_string(limits_.tensors) + " tensors");
    if (!in_metadata_ && !check_name(name)) return false;
    name_ = std::move(name);
    return go(At::value);
  }

  bool metadata_key(std::string&& name) {
    if (header_.metadata.contains(name)) return fail("two keys " + shown(name));
    if (header_.metadata.size() == limits_.metadata)
      return fail("more than " + std::to_string(limits_.metadata) + " entries");
    if (!check_name(name)) return false;
    metadata_key_ = std::move(name);
    return go(At::metadata_value);
  }

  bool member(const std::string& name) {
    if (name == "dtype") return once(kSawDtype, At::dtype);
    if (name == "shape") return once(kSawShape, At::shape_value);
    if (name == "data_offsets") return once(kSawOffsets, At::offsets_value);
    return fail("unknown key " + shown(name) + ", expected dtype, shape, data_offsets");
  }
  bool once(unsigned member, At next) {
    if (seen_ & member) return fail("dtype, shape or data_offsets twice");
    seen_ |= member;
    return go(next);
  }

  const Limits& limits_;
  Header& header_;
  At at_ = At::start;
  std::string name_, metadata_key_;
  Tensor tensor_;
  unsigned seen_ = 0;
  int offsets_ = 0;
  bool in_metadata_ = false, had_metadata_ = false;
};

// ---- what the header says of the data

Status check_size(const std::string& file, const std::string& name, const Tensor& tensor) {
  const uint64_t element = dtype_bytes(tensor.dtype);
  if (element == 0)
    return {TALUS_E_UNSUPPORTED,
            file + ": " + tensor_name(name) + "dtype " + shown(tensor.dtype) + " is not read"};
  uint64_t bytes = 0;
  if (!multiply(element, tensor.shape, &bytes))
    return refused(file, tensor_name(name) + "shape " + shape_text(tensor.shape) + " overflows");
  if (tensor.begin <= tensor.end && tensor.bytes() == bytes) return {};
  return refused(file, tensor_name(name) + "data_offsets " + range(tensor.begin, tensor.end) +
                           ", expected " + std::to_string(bytes) + " bytes of " + tensor.dtype +
                           " " + shape_text(tensor.shape));
}

Status check_sizes(const std::string& file, const Header& header) {
  for (const auto& [name, tensor] : header.tensors) TALUS_TRY(check_size(file, name, tensor));
  return {};
}

// No hole, no overlap, nothing behind the last: a file cannot be two formats at once.
Status check_tiling(const std::string& file, const Header& header, uint64_t data_bytes) {
  std::vector<const std::pair<const std::string, Tensor>*> order;
  order.reserve(header.tensors.size());
  for (const auto& tensor : header.tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  uint64_t next = 0;
  for (const auto* tensor : order) {
    const uint64_t begin = tensor->second.begin;
    if (begin != next)
      return refused(file, tensor_name(tensor->first) + "data begins at byte " +
                               std::to_string(begin) + " of the data, " +
                               (begin > next ? "behind a hole" : "inside of another tensor") +
                               ", expected " + std::to_string(next));
    next = tensor->second.end;
  }
  if (next == data_bytes) return {};
  return refused(file, std::to_string(data_bytes) + " bytes of data from byte " +
                           std::to_string(header.data_begin) + " on, expected " +
                           std::to_string(next));
}

}  // namespace

std::string shape_text(const std::vector<uint64_t>& shape) {
  return "[" + join_names(shape, [](uint64_t n) { return std::to_string(n); }) + "]";
}

uint64_t dtype_bytes(std::string_view dtype) {
  for (const DtypeBytes& known : kDtypeBytes)
    if (known.name == dtype) return known.bytes;
  return 0;
}

Status header_length(std::span<const uint8_t> first, uint64_t file_size, const std::string& file,
                     uint64_t* out, const Limits& limits) {
  if (file_size < kLengthBytes || first.size() < kLengthBytes)
    return refused(file, std::to_string(std::min<uint64_t>(file_size, first.size())) +
                             " bytes are no safetensors file: its first " +
                             std::to_string(kLengthBytes) + " are the length of the header");
  const uint64_t length = length_of(first.data());
  const std::string got = "bytes 0 .. 7: a header of " + std::to_string(length) + " bytes";
  if (length > limits.header_bytes)
    return refused(file, got + ", at most " + std::to_string(limits.header_bytes) + " are read");
  if (length > file_size - kLengthBytes)
    return refused(file, got + " in a file of " + std::to_string(file_size));
  *out = length;
  return {};
}

Status parse(std::span<const uint8_t> head, uint64_t file_size, const std::string& file,
             Header* out, const Limits& limits) {
  uint64_t length = 0;
  TALUS_TRY(header_length(head, file_size, file, &length, limits));
  if (length > head.size() - kLengthBytes)
    return refused(file, "only " + std::to_string(head.size()) + " bytes of the header");
  const std::string_view json(reinterpret_cast<const char*>(head.data()) + kLengthBytes, length);
  Header header;
  header.data_begin = kLengthBytes + length;
  TALUS_TRY(HeaderReader(limits, &header).read(json, file, kLengthBytes));
  TALUS_TRY(check_sizes(file, header));
  TALUS_TRY(check_tiling(file, header, file_size - header.data_begin));
  *out = std::move(header);
  return {};
}

}  // namespace talus::safetensors
