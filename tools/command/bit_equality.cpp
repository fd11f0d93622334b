// Equal bits whoever runs the step: any count of threads, or the host's own loop in any order; and
// an alias equals its rule with the same hyperparameters.
#include "command.hpp"
#include "selftest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace command {
namespace {

struct Mix {
  int32_t dtype, grad_dtype, master;
};

constexpr Mix kMixes[] = {
    {TALUS_F64, TALUS_F64, TALUS_MASTER_AUTO},   {TALUS_F64, TALUS_F32, TALUS_MASTER_AUTO},
    {TALUS_F32, TALUS_F32, TALUS_MASTER_AUTO},   {TALUS_F32, TALUS_F16, TALUS_MASTER_AUTO},
    {TALUS_F32, TALUS_BF16, TALUS_MASTER_AUTO},  {TALUS_F16, TALUS_F16, TALUS_MASTER_F32},
    {TALUS_F16, TALUS_F32, TALUS_MASTER_F32},    {TALUS_F16, TALUS_BF16, TALUS_MASTER_F32},
    {TALUS_F16, TALUS_F16, TALUS_MASTER_NONE},   {TALUS_F16, TALUS_F32, TALUS_MASTER_NONE},
    {TALUS_F16, TALUS_BF16, TALUS_MASTER_NONE},  {TALUS_BF16, TALUS_BF16, TALUS_MASTER_F32},
    {TALUS_BF16, TALUS_F32, TALUS_MASTER_F32},   {TALUS_BF16, TALUS_F16, TALUS_MASTER_F32},
    {TALUS_BF16, TALUS_BF16, TALUS_MASTER_NONE}, {TALUS_BF16, TALUS_F32, TALUS_MASTER_NONE},
    {TALUS_BF16, TALUS_F16, TALUS_MASTER_NONE}};

// Empty, less than a vector, and enough in all for many chunks with cuts inside tensors.
constexpr int64_t kCounts[] = {0, 1, 7, 4097, 12000};
constexpr int kSteps = 3;
constexpr uint64_t kSeed = 20;

const char* dtype_name(int32_t dtype) {
  switch (dtype) {
    case TALUS_F64: return "f64";
    case TALUS_F32: return "f32";
    case TALUS_F16: return "f16";
    case TALUS_BF16: return "bf16";
  }
  return "other";
}

size_t byte_count(int32_t dtype) { return size_t(dtype >> 8) / 8; }

// SplitMix64 (Steele, Lea & Flood 2014): any bits will do as long as they are the same everywhere.
uint64_t hash(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Returns the bits of a value of either sign and of magnitude 2^-5 to 1, exact in its dtype.
uint64_t random_bits(int32_t dtype, uint64_t key) {
  const uint64_t random = hash(key);
  const uint64_t sign = random >> 63, exponent = random % 5;
  switch (dtype) {
    case TALUS_F64:
      return sign << 63 | (1018 + exponent) << 52 | (random >> 11 & ((1ull << 52) - 1));
    case TALUS_F32: return sign << 31 | (122 + exponent) << 23 | (random >> 11 & 0x7fffff);
    case TALUS_F16: return sign << 15 | (10 + exponent) << 10 | (random >> 11 & 0x3ff);
    default: return sign << 15 | (122 + exponent) << 7 | (random >> 11 & 0x7f);
  }
}

void fill(std::vector<std::byte>& bytes, int32_t dtype, uint64_t key) {
  const size_t width = byte_count(dtype);
  for (size_t i = 0; i * width < bytes.size(); ++i) {
    const uint64_t bits = random_bits(dtype, hash(key) + i);
    std::memcpy(bytes.data() + i * width, &bits, width);  // little-endian, as all of the project
  }
}

struct Tensor {
  Mix mix;
  int64_t count;
  std::vector<std::byte> data, grad;
};

std::string describe(const Tensor& tensor) {
  return fmt::format("{} parameter{}, {} gradient, {} elements", dtype_name(tensor.mix.dtype),
                     tensor.mix.master == TALUS_MASTER_F32 ? " with master" : "",
                     dtype_name(tensor.mix.grad_dtype), tensor.count);
}

struct Buffer {
  std::string what;
  size_t tensor, width;
  std::vector<std::byte> bytes;
};

// What a training run leaves, and whether it wrote a gradient.
struct Result {
  std::vector<Tensor> tensors;
  std::vector<Buffer> buffers;
  std::string gradient_difference;
};

std::string difference(const std::vector<std::byte>& a, const std::vector<std::byte>& b,
                       size_t width) {
  if (a == b) return "";
  if (a.size() != b.size()) return fmt::format("{} bytes against {} bytes", a.size(), b.size());
  for (size_t at = 0; at < a.size(); at += width) {
    uint64_t left = 0, right = 0;
    std::memcpy(&left, a.data() + at, width);
    std::memcpy(&right, b.data() + at, width);
    if (left != right)
      return fmt::format("[{}]: {:#0{}x} against {:#0{}x}", at / width, left, 2 * width + 2, right,
                         2 * width + 2);
  }
  return "";
}

// The tensors before the first step, and the gradients of each step; made once.
struct Problem {
  std::vector<Tensor> tensors;
  std::vector<std::vector<std::byte>> grads[kSteps];
};

Problem make_problem() {
  Problem problem;
  for (const Mix& mix : kMixes) {
    for (const int64_t count : kCounts) {
      const uint64_t key = kSeed + problem.tensors.size();
      Tensor tensor{mix, count, {}, {}};
      tensor.data.resize(size_t(count) * byte_count(mix.dtype));
      tensor.grad.resize(size_t(count) * byte_count(mix.grad_dtype));
      fill(tensor.data, mix.dtype, key);
      for (int step = 0; step < kSteps; ++step) {
        fill(tensor.grad, mix.grad_dtype, key + 1000 * uint64_t(step + 1));
        problem.grads[step].push_back(tensor.grad);
      }
      problem.tensors.push_back(std::move(tensor));
    }
  }
  return problem;
}

const Problem& problem() {
  static const Problem made = make_problem();
  return made;
}

void add(talus::Optimizer& opt, std::vector<Tensor>& tensors) {
  for (Tensor& tensor : tensors) {
    auto param = talus::sized<talus_param>();
    param.dtype = tensor.mix.dtype;
    param.grad_dtype = tensor.mix.grad_dtype;
    param.master = tensor.mix.master;
    param.data = tensor.data.data();
    param.grad = tensor.grad.data();
    param.shape = &tensor.count;
    param.ndim = 1;
    opt.add(param);
  }
}

std::vector<Buffer> collect(const talus::Optimizer& opt, const std::vector<Tensor>& tensors) {
  std::vector<Buffer> buffers;
  for (size_t i = 0; i < tensors.size(); ++i)
    buffers.push_back({"parameter", i, byte_count(tensors[i].mix.dtype), tensors[i].data});
  for (const talus_state& state : opt.states()) {
    const auto* data = static_cast<const std::byte*>(state.data);
    const size_t bytes = data == nullptr ? 0 : size_t(state.bytes);
    buffers.push_back({state.slot, size_t(state.param), byte_count(state.dtype),
                       std::vector<std::byte>(data, data + bytes)});
  }
  return buffers;
}

Result train(talus::Optimizer opt) {
  Result result{problem().tensors, {}, ""};
  add(opt, result.tensors);
  for (int step = 0; step < kSteps; ++step) {
    const auto& grads = problem().grads[step];
    for (size_t i = 0; i < grads.size(); ++i)
      std::copy(grads[i].begin(), grads[i].end(), result.tensors[i].grad.begin());
    opt.step();
    for (size_t i = 0; i < grads.size(); ++i) {
      const Tensor& tensor = result.tensors[i];
      if (!result.gradient_difference.empty() || tensor.grad == grads[i]) continue;
      result.gradient_difference =
          fmt::format("{}, step {}: gradient written: {}", describe(tensor), step + 1,
                      difference(tensor.grad, grads[i], byte_count(tensor.mix.grad_dtype)));
    }
  }
  result.buffers = collect(opt, result.tensors);
  return result;
}

// One check per mix of dtypes: parameter and state of all its tensors.
void compare(const Result& expected, const Result& got, const std::string& what, Outcome& outcome) {
  constexpr size_t kMixCount = std::size(kMixes);
  std::vector<std::string> first(kMixCount);
  for (size_t i = 0; i < expected.buffers.size() && i < got.buffers.size(); ++i) {
    const Buffer& buffer = expected.buffers[i];
    const std::string changed = difference(got.buffers[i].bytes, buffer.bytes, buffer.width);
    std::string& found = first[buffer.tensor / std::size(kCounts)];
    if (!changed.empty() && found.empty())
      found = fmt::format("{}: {}: {}{}", what, describe(expected.tensors[buffer.tensor]),
                          buffer.what, changed);
  }
  for (const std::string& each : first) outcome.add(each);
  if (expected.buffers.size() != got.buffers.size())
    outcome.add(fmt::format("{}: {} buffers against {}", what, got.buffers.size(),
                            expected.buffers.size()));
}

// Every flag that decides which state exists is set, and every such real is 0.9.
talus::Optimizer with_all_state(talus::Optimizer opt, const std::string& name) {
  for (const talus_hyper& hyper : talus::hypers(name)) {
    if (!(hyper.flags & TALUS_HYPER_FIXED)) continue;
    opt.set(hyper.name, hyper.kind == TALUS_FLAG ? 1 : 0.9);
  }
  return opt;
}

talus::Optimizer with_threads(talus::Optimizer opt, int threads) {
  opt.set_setting("threads", threads);
  return opt;
}

talus::Optimizer with_host_loop(talus::Optimizer opt) {
  opt.set_setting("threads", 4);
  opt.set_parallel_for([](int64_t count, const talus::Optimizer::Task& task) {
    for (int64_t i = count - 1; i >= 0; --i) task(i);
  });
  return opt;
}

// The rule behind `name`, told every hyperparameter that the alias has.
talus::Optimizer spelt_out(const std::string& name) {
  talus::Optimizer opt(rule_of(name));
  for (const talus_hyper& hyper : talus::hypers(name)) opt.set(hyper.name, hyper.def);
  return opt;
}

}  // namespace

void check_bits(const std::string& name, Outcome& outcome) {
  for (const bool all_state : {false, true}) {
    const auto make = [&] {
      talus::Optimizer opt(name);
      return all_state ? with_all_state(std::move(opt), name) : std::move(opt);
    };
    const std::string state = all_state ? "all state, " : "";
    const Result expected = train(with_threads(make(), 1));
    outcome.add(expected.gradient_difference);
    for (const int threads : {2, 3, 4})
      compare(expected, train(with_threads(make(), threads)),
              fmt::format("{}{} threads against 1", state, threads), outcome);
    compare(expected, train(with_host_loop(make())), state + "host loop backwards against 1 thread",
            outcome);
    if (!all_state && rule_of(name) != name)
      compare(train(with_threads(spelt_out(name), 1)), expected, "alias against its rule", outcome);
  }
}

}  // namespace command
