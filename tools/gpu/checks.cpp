// Whether a device gives the CPU's bits where `talus selftest --device` does not look: captured
// steps, streams, sums, many tensors, a tensor beyond 2^31 elements. Through the C ABI, as a host does.
//     gpu_checks [--tensors N] [--large N] [--most N] [--steps N]
//                                 one JSON line a check; 1: one failed, 77: no device
//     gpu_checks --identify 1     one JSON line: device, driver, memory
#include <talus.hpp>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "device.hpp"

namespace {

using gpu::Memory, gpu::Stream, gpu::Options;

constexpr int32_t kDtypes[] = {TALUS_F32, TALUS_BF16, TALUS_F16, TALUS_F64};

size_t bytes_of(int32_t dtype) { return size_t(dtype >> 8) / 8; }

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }
void expect(bool right, const std::string& what) {
  if (!right) fail(what);
}

// Finite bits of any dtype, of either sign and of sizes around 0.01.
void scatter(std::vector<char>& bytes, int32_t dtype, uint64_t* random) {
  for (size_t at = 0; at < bytes.size(); at += bytes_of(dtype)) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    const uint32_t r = uint32_t(*random >> 32);
    const float x = (r & 1 ? -1.0f : 1.0f) * (0.001f + float(r >> 8) * 0x1p-28f);
    uint32_t bits = 0;
    std::memcpy(&bits, &x, sizeof bits);
    const double wide = x;
    const uint16_t upper = uint16_t(bits >> 16);
    const uint16_t half =
        uint16_t((bits >> 16 & 0x8000u) | (((bits >> 13) - (112u << 10)) & 0x7fffu));
    const void* const from = dtype == TALUS_F32    ? static_cast<const void*>(&bits)
                             : dtype == TALUS_F64  ? static_cast<const void*>(&wide)
                             : dtype == TALUS_BF16 ? static_cast<const void*>(&upper)
                                                   : static_cast<const void*>(&half);
    std::memcpy(&bytes[at], from, bytes_of(dtype));
  }
}

struct Tensor {
  int32_t dtype;
  int64_t count;
  int lead;  // elements before the first, so that it starts between two vectors
};

// One optimizer on either device over memory of its own.
class Trainer {
 public:
  Trainer(const char* algorithm, int32_t device, const std::vector<Tensor>& tensors, void* stream)
      : opt_(algorithm, {}, device), on_device_(device == TALUS_CUDA), stream_(stream) {
    uint64_t random = 7;
    opt_.set_setting("stats", 1);
    std::vector<talus_param> params;
    tensors_ = tensors;
    for (const Tensor& t : tensors_) {
      const size_t bytes = size_t(t.count + t.lead) * bytes_of(t.dtype);
      host_.emplace_back(bytes);
      scatter(host_.back(), t.dtype, &random);
      host_grad_.emplace_back(bytes);
    }
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const Tensor& t = tensors_[i];
      auto p = talus::sized<talus_param>();
      p.dtype = t.dtype;
      const size_t lead = size_t(t.lead) * bytes_of(t.dtype);
      p.data = place(host_[i], data_) + lead;
      p.grad = place(host_grad_[i], grad_) + lead;
      p.shape = &tensors_[i].count;
      p.ndim = 1;
      params.push_back(p);
    }
    opt_.add(params);
  }

  void new_gradients(int step) {
    uint64_t random = uint64_t(step) + 100;
    if (on_device_) GPU_CALL(cudaStreamSynchronize(static_cast<cudaStream_t>(stream_)));
    for (size_t i = 0; i < tensors_.size(); ++i) {
      scatter(host_grad_[i], tensors_[i].dtype, &random);
      if (on_device_) grad_[i].put(host_grad_[i].data(), host_grad_[i].size());
    }
    opt_.set("lr", 0.01 / (step + 1));
  }
  void step() { opt_.step(stream_); }
  talus::Optimizer& opt() { return opt_; }

  // Everything that training has made, in bytes.
  std::vector<std::vector<char>> result() {
    if (on_device_) GPU_CALL(cudaStreamSynchronize(static_cast<cudaStream_t>(stream_)));
    std::vector<std::vector<char>> all = host_;
    for (size_t i = 0; on_device_ && i < all.size(); ++i)
      data_[i].get(all[i].data(), all[i].size());
    for (const talus_state& state : opt_.states()) {
      if (!state.data || state.bytes == 0) continue;
      std::vector<char>& bytes = all.emplace_back(size_t(state.bytes));
      const cudaMemcpyKind kind = on_device_ ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost;
      GPU_CALL(cudaMemcpy(bytes.data(), state.data, bytes.size(), kind));
    }
    return all;
  }

 private:
  char* place(std::vector<char>& host, std::vector<Memory>& device) {
    if (!on_device_) return host.data();
    device.emplace_back(host.size());
    device.back().put(host.data(), host.size());
    return device.back().data();
  }

  std::vector<Tensor> tensors_;
  std::vector<std::vector<char>> host_, host_grad_;
  std::vector<Memory> data_, grad_;  // outlive the optimizer
  talus::Optimizer opt_;
  bool on_device_;
  void* stream_;
};

void expect_same(Trainer& got, Trainer& wanted) {
  const auto a = got.result(), b = wanted.result();
  expect(a.size() == b.size(), "other state tensors than the CPU's");
  for (size_t i = 0; i < a.size(); ++i)
    expect(a[i] == b[i], "buffer " + std::to_string(i) + " has other bits than the CPU's");
}

// How far a check goes; an emulated device takes seconds for what a real one does in none.
struct Extent {
  int64_t most;  // elements of a tensor: larger ones are left out or cut
  int steps;
};

std::vector<Tensor> mixed_tensors(const Extent& extent) {
  std::vector<Tensor> tensors;
  for (const int32_t dtype : kDtypes)
    for (const int64_t count : {0, 1, 33, 4097, 8200})
      for (const int lead : {0, 1})
        if (count <= extent.most) tensors.push_back({dtype, count, lead});
  return tensors;
}

void replay(const char* algorithm, const Extent& extent) {
  const Stream stream;
  Trainer device(algorithm, TALUS_CUDA, mixed_tensors(extent), stream);
  Trainer cpu(algorithm, TALUS_CPU, mixed_tensors(extent), nullptr);
  device.opt().prepare(stream);
  const gpu::Graph graph(stream, [&] { device.step(); });
  for (int step = 0; step < extent.steps; ++step) {
    device.new_gradients(step);
    cpu.new_gradients(step);
    device.opt().advance(stream);
    graph.launch(stream);
    cpu.step();
  }
  expect_same(device, cpu);
}

// Two optimizers at once, each on a stream of its own: eager, or captured and replayed in turns.
void two_streams(const Extent& extent, bool captured) {
  const Stream a, b;
  const std::vector<Tensor> tensors = mixed_tensors(extent);
  Trainer first("adamw", TALUS_CUDA, tensors, a), second("sgd", TALUS_CUDA, tensors, b);
  Trainer first_cpu("adamw", TALUS_CPU, tensors, nullptr);
  Trainer second_cpu("sgd", TALUS_CPU, tensors, nullptr);
  gpu::Graph first_graph, second_graph;
  if (captured) {
    first.opt().prepare(a);
    second.opt().prepare(b);
    first_graph.begin(a);
    second_graph.begin(b);
    first.step();
    second.step();
    first_graph.end(a);
    second_graph.end(b);
    first_graph.instantiate();
    second_graph.instantiate();
  }
  const auto replay = [](Trainer& each, const gpu::Graph& graph, const Stream& stream) {
    each.opt().advance(stream);
    graph.launch(stream);
  };
  for (int step = 0; step < extent.steps; ++step) {
    for (Trainer* each : {&first, &second, &first_cpu, &second_cpu}) each->new_gradients(step);
    if (captured) {
      replay(first, first_graph, a);
      replay(second, second_graph, b);
    } else {
      for (Trainer* each : {&first, &second}) each->step();
    }
    for (Trainer* each : {&first_cpu, &second_cpu}) each->step();
  }
  expect_same(first, first_cpu);
  expect_same(second, second_cpu);
}

void norms(const Extent& extent) {
  const Stream stream;
  std::vector<Tensor> tensors = {{TALUS_F32, 70001, 1}, {TALUS_BF16, 65537, 0},
                                 {TALUS_F16, 4095, 1},  {TALUS_F64, 4097, 0},
                                 {TALUS_F32, 1, 0},     {TALUS_F32, 0, 0}};
  for (Tensor& tensor : tensors) tensor.count = std::min(tensor.count, extent.most);
  Trainer device("sgd", TALUS_CUDA, tensors, stream), cpu("sgd", TALUS_CPU, tensors, nullptr);
  for (int step = 0; step < 3; ++step) {
    for (Trainer* each : {&device, &cpu}) each->new_gradients(step), each->step();
    const double got = device.opt().stats(true).grad_norm, wanted = cpu.opt().stats().grad_norm;
    expect(got == wanted,
           "norm " + std::to_string(got) + ", the CPU's is " + std::to_string(wanted));
  }
}

void many_tensors(long long count) {
  const Stream stream;
  std::vector<Tensor> tensors;
  for (long long i = 0; i < count; ++i)
    tensors.push_back({kDtypes[i % 3], 1 + i * 37 % 97, int(i % 2)});
  Trainer device("adamw", TALUS_CUDA, tensors, stream), cpu("adamw", TALUS_CPU, tensors, nullptr);
  for (int step = 0; step < 2; ++step)
    for (Trainer* each : {&device, &cpu}) each->new_gradients(step), each->step();
  expect_same(device, cpu);
}

// A bf16 tensor of equal elements: every part of it ends as the CPU's one element does.
void large_tensor(int64_t count) {
  constexpr uint16_t kParam = 0x3f80, kGrad = 0x3d4d;
  constexpr size_t kLook = 4096;
  const Memory data(size_t(count) * 2), grad(size_t(count) * 2);
  const std::vector<uint16_t> params(size_t(std::min<int64_t>(count, 1 << 24)), kParam),
      grads(params.size(), kGrad);
  for (size_t at = 0; at < data.bytes(); at += 2 * params.size()) {
    const size_t bytes = std::min(2 * params.size(), data.bytes() - at);
    data.put(params.data(), bytes, at);
    grad.put(grads.data(), bytes, at);
  }
  uint16_t one = kParam, one_grad = kGrad;
  const auto train = [](int32_t device, void* param, void* gradient, int64_t elements) {
    talus::Optimizer opt("sgd", {{"lr", 0.5}}, device);
    auto p = talus::sized<talus_param>();
    p.dtype = TALUS_BF16;
    p.master = TALUS_MASTER_NONE;
    p.data = param;
    p.grad = gradient;
    p.shape = &elements;
    p.ndim = 1;
    opt.add(p);
    opt.step();
    if (device == TALUS_CUDA) GPU_CALL(cudaDeviceSynchronize());
  };
  train(TALUS_CUDA, data.data(), grad.data(), count);
  train(TALUS_CPU, &one, &one_grad, 1);
  expect(one != kParam, "the CPU's step changed nothing");
  for (const int64_t middle : {int64_t{0}, int64_t{1} << 30, int64_t{1} << 31, count}) {
    const int64_t look = std::min<int64_t>(kLook, count);
    const int64_t first = std::clamp<int64_t>(middle - look / 2, 0, count - look);
    std::vector<uint16_t> seen(static_cast<size_t>(look));
    data.get(seen.data(), 2 * seen.size(), 2 * size_t(first));
    const auto other = std::find_if(seen.begin(), seen.end(), [&](uint16_t x) { return x != one; });
    expect(other == seen.end(),
           "element " + std::to_string(first + (other - seen.begin())) + " has not the CPU's bits");
  }
}

void bad_pointers() {
  const Memory memory(64);
  float host[4] = {};
  const int64_t count = 4;
  for (const int32_t device : {TALUS_CPU, TALUS_CUDA}) {
    talus::Optimizer opt("sgd", {}, device);
    auto p = talus::sized<talus_param>();
    p.dtype = TALUS_F32;
    p.data = device == TALUS_CPU ? memory.data() : reinterpret_cast<char*>(host);
    p.shape = &count;
    p.ndim = 1;
    expect(talus_add_params(opt.handle(), 0, 1, &p, nullptr) == TALUS_E_ARGUMENT,
           device == TALUS_CPU ? "memory of the device taken for the CPU"
                               : "memory of the host taken for the device");
  }
}

std::string in_quotes(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) (c == '"' || c == '\\') ? (out += '\\') += c : out += c < ' ' ? ' ' : c;
  return out + '"';
}

bool run(const std::string& name, const std::function<void()>& check) {
  std::string failure;
  try {
    check();
  } catch (const std::exception& error) {
    failure = error.what();
  }
  std::printf("{\"name\": %s, \"ok\": %s, \"text\": %s}\n", in_quotes(name).c_str(),
              failure.empty() ? "true" : "false", in_quotes(failure).c_str());
  std::fflush(stdout);
  return failure.empty();
}

int identify() {
  int driver = 0, runtime = 0;
  cudaDeviceProp properties{};
  GPU_CALL(cudaDriverGetVersion(&driver));
  GPU_CALL(cudaRuntimeGetVersion(&runtime));
  GPU_CALL(cudaGetDeviceProperties(&properties, 0));
  std::printf(
      "{\"device\": %s, \"capability\": \"%d.%d\", \"memory\": %zu, \"multiprocessors\": %d, "
      "\"driver\": \"%d.%d\", \"runtime\": \"%d.%d\", \"talus\": %s}\n",
      in_quotes(properties.name).c_str(), properties.major, properties.minor,
      properties.totalGlobalMem, properties.multiProcessorCount, driver / 1000, driver % 1000 / 10,
      runtime / 1000, runtime % 1000 / 10, in_quotes(talus_build_info()).c_str());
  return 0;
}

int run_all(const Options& options) {
  const long long tensors = options.number("tensors", 10000);
  const int64_t large = options.number("large", (1LL << 31) + 8);
  const Extent extent = {options.number("most", 70001), int(options.number("steps", 6))};
  bool right = true;
  for (const std::string& algorithm : talus::names("algorithms")) {
    const char* const rows = talus_name_doc("row_gradients", algorithm.c_str());
    if (rows && std::string(rows) == "takes no others") continue;  // a graph takes no rows
    right &=
        run("a captured step, replayed: " + algorithm, [&] { replay(algorithm.c_str(), extent); });
  }
  right &= run("two streams at once", [&] { two_streams(extent, false); });
  right &= run("two captures at once", [&] { two_streams(extent, true); });
  right &= run("norms", [&] { norms(extent); });
  right &= run(std::to_string(tensors) + " tensors", [&] { many_tensors(tensors); });
  if (large > 0)
    right &=
        run("a tensor of " + std::to_string(large) + " elements", [&] { large_tensor(large); });
  right &= run("pointers of another device are refused", bad_pointers);
  return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options(argc, argv);
  std::string why;
  if (!talus::has_feature("cuda", &why)) {
    std::fprintf(stderr, "%s\n", why.c_str());
    return gpu::kNoDevice;
  }
  return options.number("identify", 0) ? identify() : run_all(options);
} catch (const std::exception& error) {
  std::fprintf(stderr, "gpu_checks: %s\n", error.what());
  return 1;
}
