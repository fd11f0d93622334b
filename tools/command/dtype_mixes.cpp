// Tensors for the self-test.
#include "dtype_mixes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace command {
namespace {

constexpr Mix kMixes[kMixCount] = {
    {TALUS_F64, TALUS_F64, TALUS_MASTER_AUTO},   {TALUS_F64, TALUS_F32, TALUS_MASTER_AUTO},
    {TALUS_F32, TALUS_F32, TALUS_MASTER_AUTO},   {TALUS_F32, TALUS_F16, TALUS_MASTER_AUTO},
    {TALUS_F32, TALUS_BF16, TALUS_MASTER_AUTO},  {TALUS_F16, TALUS_F16, TALUS_MASTER_F32},
    {TALUS_F16, TALUS_F32, TALUS_MASTER_F32},    {TALUS_F16, TALUS_BF16, TALUS_MASTER_F32},
    {TALUS_F16, TALUS_F16, TALUS_MASTER_NONE},   {TALUS_F16, TALUS_F32, TALUS_MASTER_NONE},
    {TALUS_F16, TALUS_BF16, TALUS_MASTER_NONE},  {TALUS_BF16, TALUS_BF16, TALUS_MASTER_F32},
    {TALUS_BF16, TALUS_F32, TALUS_MASTER_F32},   {TALUS_BF16, TALUS_F16, TALUS_MASTER_F32},
    {TALUS_BF16, TALUS_BF16, TALUS_MASTER_NONE}, {TALUS_BF16, TALUS_F32, TALUS_MASTER_NONE},
    {TALUS_BF16, TALUS_F16, TALUS_MASTER_NONE}};

// Around the edges of vectors (up to 16 f32), of the 512 elements that are converted at once and of
// a tile; the last is cut in many places where chunks are small.
constexpr int64_t kCounts[] = {0, 1, 7, 8, 9, 15, 16, 17, 31, 33, 511, 512, 513, 4095, 4097, 12289};
constexpr uint64_t kSeed = 20;
int64_t g_most = kCounts[std::size(kCounts) - 1];

struct Format {
  const char* name;
  int bytes, mantissa_bits;
  uint64_t sign() const { return uint64_t{1} << (bytes * 8 - 1); }
  uint64_t exponent_bit() const {
    return uint64_t{1} << mantissa_bits;
  }  // the exponent's lowest bit
  uint64_t inf() const { return (sign() - 1) >> mantissa_bits << mantissa_bits; }
  uint64_t one() const { return (inf() >> 1) >> mantissa_bits << mantissa_bits; }
};

Format format_of(int32_t dtype) {
  switch (dtype) {
    case TALUS_F64: return {"f64", 8, 52};
    case TALUS_F32: return {"f32", 4, 23};
    case TALUS_F16: return {"f16", 2, 10};
    case TALUS_BF16: return {"bf16", 2, 7};
  }
  throw std::invalid_argument(fmt::format("dtype {:#x}", dtype));
}

// SplitMix64 (Steele, Lea & Flood 2014): any bits will do as long as they are the same everywhere.
uint64_t hash(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Either sign, magnitude 2^-5 to 1.
uint64_t ordinary(const Format& f, uint64_t key) {
  const uint64_t random = hash(key);
  return (random >> 63 ? f.sign() : 0) | (f.one() - (1 + random % 5) * f.exponent_bit()) |
         (random >> 11 & (f.exponent_bit() - 1));
}

// Zero, the smallest and largest subnormal and normal numbers, 1 and its neighbour, infinity, NaN;
// both signs.
constexpr uint64_t kSpecialCount = 2 * 9;
uint64_t special(const Format& f, uint64_t i) {
  const uint64_t magnitudes[kSpecialCount / 2] = {
      0,           1,       f.exponent_bit() - 1, f.exponent_bit(), f.one(), f.one() | 1,
      f.inf() - 1, f.inf(), f.inf() | 1};
  return magnitudes[i / 2 % (kSpecialCount / 2)] | (i % 2 ? f.sign() : 0);
}

void put(std::vector<std::byte>& bytes, size_t i, const Format& f, uint64_t bits) {
  std::memcpy(bytes.data() + i * size_t(f.bytes), &bits, size_t(f.bytes));  // little-endian
}

uint64_t take(const std::vector<std::byte>& bytes, size_t i, const Format& f) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + i * size_t(f.bytes), size_t(f.bytes));
  return bits;
}

std::vector<std::byte> ordinary_values(const Tensor& tensor, int32_t dtype, uint64_t key) {
  const Format f = format_of(dtype);
  const size_t count = size_t(tensor.count + tensor.lead);
  std::vector<std::byte> bytes(count * size_t(f.bytes));
  for (size_t i = 0; i < count; ++i) put(bytes, i, f, ordinary(f, hash(key) + i));
  return bytes;
}

// Every special value of the one beside every special value of the other, in a loop of `period`.
std::vector<std::byte> special_values(const Tensor& tensor, int32_t dtype, uint64_t period,
                                      uint64_t first) {
  const Format f = format_of(dtype);
  const size_t count = size_t(tensor.count + tensor.lead);
  std::vector<std::byte> bytes(count * size_t(f.bytes));
  for (size_t i = 0; i < count; ++i) put(bytes, i, f, special(f, i / period + first));
  return bytes;
}

void add_ordinary(Problem& made, int mix, int64_t count) {
  if (count > g_most) return;
  const uint64_t key = kSeed + made.tensors.size();
  Tensor tensor{mix, count, int(made.tensors.size() % 2), {}, {}};
  tensor.data = ordinary_values(tensor, kMixes[mix].dtype, key);
  for (int step = 0; step < kStepCount; ++step)
    made.grads[step].push_back(
        ordinary_values(tensor, kMixes[mix].grad_dtype, key + 1000 * uint64_t(step + 1)));
  made.tensors.push_back(std::move(tensor));
}

void add_special(Problem& made, int mix) {
  Tensor tensor{mix, int64_t(2 * kSpecialCount * kSpecialCount) + 5, 1, {}, {}};
  if (tensor.count > g_most) return;
  tensor.data = special_values(tensor, kMixes[mix].dtype, 1, 0);
  for (int step = 0; step < kStepCount; ++step)
    made.grads[step].push_back(
        special_values(tensor, kMixes[mix].grad_dtype, kSpecialCount, uint64_t(5 * step)));
  made.tensors.push_back(std::move(tensor));
}

Problem make_problem() {
  Problem made;
  for (int mix = 0; mix < kMixCount; ++mix) {
    for (const int64_t count : kCounts) add_ordinary(made, mix, count);
    add_special(made, mix);
  }
  for (size_t i = 0; i < made.tensors.size(); ++i) made.tensors[i].grad = made.grads[0][i];
  return made;
}

std::vector<std::byte> without_lead(const std::vector<std::byte>& bytes, const Tensor& tensor,
                                    int32_t dtype) {
  return {bytes.begin() + tensor.lead * format_of(dtype).bytes, bytes.end()};
}

// g++ 12 compares vectors of std::byte one by one.
bool same(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

bool is_nan(const Format& f, uint64_t bits) { return (bits & ~f.sign()) > f.inf(); }

// "" or the first element that differs, and both values in hex. Any NaN equals any other: sign and
// payload are no promise.
std::string difference(const std::vector<std::byte>& a, const std::vector<std::byte>& b,
                       int32_t dtype) {
  if (same(a, b)) return "";
  if (a.size() != b.size()) return fmt::format(": {} bytes against {}", a.size(), b.size());
  const Format f = format_of(dtype);
  for (size_t i = 0; i < a.size() / size_t(f.bytes); ++i) {
    const uint64_t x = take(a, i, f), y = take(b, i, f);
    if (x != y && !(is_nan(f, x) && is_nan(f, y)))
      return fmt::format("[{}] is {:#0{}x}, expected {:#0{}x}", i, x, 2 * f.bytes + 2, y,
                         2 * f.bytes + 2);
  }
  return "";
}

bool takes_rows_only(const talus::Optimizer& opt) {
  const char* const doc = talus_name_doc("row_gradients", opt.group_algorithm().c_str());
  return doc && doc == std::string("takes no others");
}

Place place_of(std::vector<Tensor>& tensors, const std::vector<Place>& places, size_t i) {
  return places.empty() ? Place{tensors[i].data.data(), tensors[i].grad.data()} : places[i];
}

std::byte* gradient_of(std::vector<Tensor>& tensors, const std::vector<Place>& places, size_t i) {
  const Tensor& tensor = tensors[i];
  return place_of(tensors, places, i).grad +
         tensor.lead * format_of(kMixes[tensor.mix].grad_dtype).bytes;
}

}  // namespace

const Problem& problem() {
  static const Problem made = make_problem();
  return made;
}

void add(talus::Optimizer& opt, std::vector<Tensor>& tensors, const std::vector<Place>& places) {
  const bool by_rows = takes_rows_only(opt);
  for (size_t i = 0; i < tensors.size(); ++i) {
    Tensor& tensor = tensors[i];
    const Mix& mix = kMixes[tensor.mix];
    auto param = talus::sized<talus_param>();
    param.dtype = mix.dtype;
    param.grad_dtype = mix.grad_dtype;
    param.master = mix.master;
    param.data = place_of(tensors, places, i).data + tensor.lead * format_of(mix.dtype).bytes;
    param.grad = by_rows ? nullptr : gradient_of(tensors, places, i);
    param.shape = &tensor.count;
    param.ndim = 1;
    opt.add(param);
  }
}

std::vector<int64_t> row_numbers() {
  std::vector<int64_t> numbers(static_cast<size_t>(largest_count()));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

void step(talus::Optimizer& opt, std::vector<Tensor>& tensors, const int64_t* numbers,
          const std::vector<Place>& places) {
  for (size_t i = 0; i < tensors.size() && takes_rows_only(opt); ++i) {
    auto rows = talus::sized<talus_rows>();
    rows.index_dtype = TALUS_I64;
    rows.count = tensors[i].count;
    rows.indices = numbers;
    rows.values = gradient_of(tensors, places, i);
    talus::check(talus_bind_rows(opt.handle(), int64_t(i), &rows));
  }
  opt.step();
}

Buffers collect(const talus::Optimizer& opt, const std::vector<Tensor>& tensors, const Copy& copy) {
  Buffers buffers;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int32_t dtype = kMixes[tensors[i].mix].dtype;
    buffers.push_back(
        {"parameter", int32_t(i), dtype, without_lead(tensors[i].data, tensors[i], dtype)});
  }
  for (const talus_state& state : opt.states()) {
    std::vector<std::byte> bytes(state.data == nullptr ? 0 : size_t(state.bytes));
    if (!bytes.empty()) copy(bytes.data(), state.data, bytes.size());
    buffers.push_back({state.slot, int32_t(state.param), state.dtype, std::move(bytes)});
  }
  return buffers;
}

std::vector<std::string> differences(const Buffers& got, const Buffers& expected) {
  std::vector<std::string> first(kMixCount);
  for (size_t i = 0; i < expected.size() && i < got.size(); ++i) {
    const Buffer& buffer = expected[i];
    const Tensor& tensor = problem().tensors[size_t(buffer.tensor)];
    const std::string changed = difference(got[i].bytes, buffer.bytes, buffer.dtype);
    std::string& found = first[size_t(tensor.mix)];
    if (!changed.empty() && found.empty())
      found = fmt::format("{}: {}{}", describe(tensor), buffer.what, changed);
  }
  if (got.size() != expected.size())
    first[0] = fmt::format("{} state tensors, expected {}", got.size(), expected.size());
  return first;
}

std::string describe(const Tensor& tensor) {
  const Mix& mix = kMixes[tensor.mix];
  return fmt::format("{} parameter{}, {} gradient, {} elements", format_of(mix.dtype).name,
                     mix.master == TALUS_MASTER_F32 ? " with master" : "",
                     format_of(mix.grad_dtype).name, tensor.count);
}

std::string gradient_change(const std::vector<Tensor>& tensors, int step) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    const std::vector<std::byte>& given = problem().grads[step][i];
    if (same(tensor.grad, given)) continue;
    const int32_t dtype = kMixes[tensor.mix].grad_dtype;
    return fmt::format("{}: gradient{}", describe(tensor),
                       difference(without_lead(tensor.grad, tensor, dtype),
                                  without_lead(given, tensor, dtype), dtype));
  }
  return "";
}

int64_t largest_count() { return g_most; }
void leave_out_above(int64_t most) { g_most = std::min(most, g_most); }

}  // namespace command
