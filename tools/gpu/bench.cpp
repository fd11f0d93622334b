// What a step costs on a device, beside a copy of as many bytes in the same run. One JSON line a
// case, times in ms, of the host in us.
//     gpu_bench [--elements N] [--tensors N] [--steps N] [--warm-ups N] [--host-steps N] [--chunks 1]
// --elements: of the large tensors (1e9); --chunks: chunk sizes beside the default too. Looks inside
// the library for the count of launches and for the norm alone.
#include <algorithm>
#include <cmath>
#include <vector>

#include "lib/device/devices.h"
#include "lib/optimizer/optimizer.h"
#include "tools/gpu/device.hpp"
#include "tools/gpu/timing.hpp"

namespace {

using gpu::Memory, gpu::Stream, gpu::Sizes, gpu::Times, gpu::kNone;

constexpr int64_t kPattern = 1 << 22;

void check(const talus::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.text());
}

int64_t size_of(int32_t dtype) { return (dtype >> 8) / 8; }

// Around 0.01, of either sign, in the bits of a dtype; a constant would flatter the memory's power.
void fill(const Memory& memory, int32_t dtype) {
  const size_t size = size_t(size_of(dtype));
  std::vector<char> pattern(std::min(memory.bytes() / size * size, size_t(kPattern) * size));
  uint64_t random = 1;
  for (size_t at = 0; at < pattern.size(); at += size) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const uint32_t r = uint32_t(random >> 32), sign = r & 0x80000000u;
    const uint32_t f32 = sign | 0x3c000000u | (r & 0x007fffffu);
    const uint16_t bf16 = uint16_t(f32 >> 16), f16 = uint16_t(sign >> 16 | 0x2000u | (r & 0x3ffu));
    if (size == 4)
      std::copy_n(reinterpret_cast<const char*>(&f32), size, &pattern[at]);
    else
      std::copy_n(reinterpret_cast<const char*>(dtype == TALUS_F16 ? &f16 : &bf16), size,
                  &pattern[at]);
  }
  for (size_t at = 0; at < memory.bytes(); at += std::max<size_t>(pattern.size(), 1))
    memory.put(pattern.data(), std::min(pattern.size(), memory.bytes() - at), at);
}

// AdamW over tensors that lie one behind the other.
struct Case {
  std::string name;
  int32_t dtype = TALUS_F32, master = TALUS_MASTER_AUTO;
  std::vector<int64_t> counts;
  int lead = 0;  // elements before the first: 1 makes every start odd

  int64_t elements() const {
    int64_t sum = 0;
    for (const int64_t n : counts) sum += n;
    return sum;
  }
  // Read + written by a step for one element.
  int64_t bytes_each() const {
    const int64_t size = size_of(dtype);
    const bool has_master = size == 2 && master != TALUS_MASTER_NONE;
    return 2 * size + size_of(TALUS_F32) * 4 + (has_master ? 8 : size);
  }
};

class Bench {
 public:
  Bench(const Sizes& sizes, const Case& c)
      : sizes_(sizes),
        case_(c),
        data_(size_t((c.elements() + c.lead) * size_of(c.dtype))),
        grad_(data_.bytes()),
        half_(size_t(c.elements() * c.bytes_each() / 2)),
        other_half_(half_.bytes()) {
    fill(data_, c.dtype);
    fill(grad_, c.dtype);
    check(talus::find_backend(TALUS_CUDA, 0, &backend_));
    check(talus::Optimizer::create(talus::find_algorithm("adamw"), *backend_, 0, &opt_));
    check(opt_->set_setting("check_pointers", 0));
    std::vector<talus_param> params;
    int64_t at = c.lead * size_of(c.dtype);
    for (const int64_t& count : case_.counts) {
      talus_param p{};
      p.struct_size = sizeof p;
      p.dtype = c.dtype;
      p.grad_dtype = c.dtype;
      p.master = c.master;
      p.data = data_.data() + at;
      p.grad = grad_.data() + at;
      p.shape = &count;
      p.ndim = 1;
      params.push_back(p);
      grads_.push_back(p.grad);
      at += count * size_of(c.dtype);
    }
    check(opt_->add_params(0, params, nullptr));
    check(opt_->prepare(stream_));
    step();
    stream_.wait();
  }

  void step() { check(opt_->step(stream_)); }

  void measure_step() {
    const int64_t launches = count_launches();
    const Times host = time_on_host(stream_, host_steps(), [&] { step(); });
    measure(case_.name, case_.elements() * case_.bytes_each(), launches, host, [&] { step(); });
  }

  void measure_chunks() {
    for (const int tiles : {1, 4, 16}) {
      check(opt_->set_setting("chunk_tiles", tiles));
      step();
      measure(case_.name + ", chunk_tiles " + std::to_string(tiles),
              case_.elements() * case_.bytes_each(), count_launches(), {}, [&] { step(); });
    }
  }

  void measure_norm() {
    const auto norm = [&] {
      const talus::Measure what;
      if (backend_->measure(opt_->backend_context(), &what, stream_) != TALUS_OK)
        throw std::runtime_error("the norm could not be measured");
    };
    const int64_t before = launches();
    norm();
    measure("norm of " + case_.name, case_.elements() * size_of(case_.dtype), launches() - before,
            {}, norm);
  }

  // The pointer column goes to the device at each step.
  void measure_new_gradients() {
    std::vector<void*> turned(grads_.rbegin(), grads_.rend());
    bool turn = false;
    const auto bind_and_step = [&] {
      turn = !turn;
      check(opt_->bind_grads(0, turn ? turned : grads_));
      step();
    };
    const int64_t kernels = count_launches();
    const Times host = time_on_host(stream_, host_steps(), bind_and_step);
    check(opt_->bind_grads(0, grads_));
    print(case_.name + ", gradients bound anew", 0, {}, kNone, kernels, host);
  }

  void measure_replay() {
    check(opt_->prepare(stream_));
    const gpu::Graph graph(stream_, [&] { step(); });
    const auto replay = [&] {
      check(opt_->advance(stream_));
      graph.launch(stream_);
    };
    const Times host = time_on_host(stream_, host_steps(), replay);
    measure(case_.name + ", a captured step", case_.elements() * case_.bytes_each(),
            graph.kernels(), host, replay);
  }

 private:
  // Fewer where one takes milliseconds of the device.
  int host_steps() const {
    return case_.elements() > 100000000 ? sizes_.host_steps / 10 : sizes_.host_steps;
  }
  int64_t launches() {
    talus::Report report{};
    if (backend_->read_report(opt_->backend_context(), talus::Sum::squares, &report, stream_) !=
        TALUS_OK)
      throw std::runtime_error("no report");
    return report.launches;
  }
  // By the plugin's counter, and by the nodes of a graph; they must agree.
  int64_t count_launches() {
    const int64_t before = launches();
    step();
    const int64_t counted = launches() - before;
    stream_.wait();
    const int captured = gpu::Graph(stream_, [&] { step(); }).kernels();
    if (captured != counted)
      throw std::runtime_error(case_.name + ": " + std::to_string(counted) +
                               " launches by the plugin's count, " + std::to_string(captured) +
                               " in a captured step");
    if (counted != 1)
      throw std::runtime_error(case_.name + ": " + std::to_string(counted) +
                               " launches, expected 1");
    return counted;
  }

  template <class F>
  void measure(const std::string& name, int64_t bytes, int64_t kernels, Times host, F f) {
    const auto copy = [&] {
      GPU_CALL(cudaMemcpyAsync(half_.data(), other_half_.data(), size_t(bytes / 2),
                               cudaMemcpyDeviceToDevice, stream_));
    };
    const Times before = time_on_device(stream_, sizes_, copy);
    const Times times = time_on_device(stream_, sizes_, f);
    const Times after = time_on_device(stream_, sizes_, copy);
    print(name, bytes, times, (before.median + after.median) / 2, kernels, host);
  }

  static std::string number(double value) {
    if (!std::isfinite(value) || value < 0) return "null";
    char text[40];
    std::snprintf(text, sizeof text, "%.6g", value);
    return text;
  }
  void print(const std::string& name, int64_t bytes, Times device, double copy_ms, int64_t kernels,
             Times host) const {
    const double gb = double(bytes) / 1e6;  // per millisecond: GB/s
    const double gbps = device.median > 0 ? gb / device.median : kNone;
    const double copy_gbps = copy_ms > 0 ? gb / copy_ms : kNone;
    const double ratio = gbps > 0 && copy_gbps > 0 ? gbps / copy_gbps : kNone;
    std::printf("{\"name\": \"%s\", \"elements\": %lld, \"tensors\": %zu, \"bytes\": %lld",
                name.c_str(), static_cast<long long>(case_.elements()), case_.counts.size(),
                static_cast<long long>(bytes));
    const std::pair<const char*, double> figures[] = {
        {"ms_median", device.median}, {"ms_min", device.least}, {"gbps", gbps},
        {"copy_gbps", copy_gbps},     {"ratio", ratio},         {"launches", double(kernels)},
        {"host_us", host.median},     {"host_us_p99", host.p99}};
    for (const auto& [key, value] : figures)
      std::printf(", \"%s\": %s", key, number(value).c_str());
    std::printf("}\n");
    std::fflush(stdout);
  }

  const Sizes sizes_;
  const Case case_;
  Stream stream_;
  Memory data_, grad_, half_, other_half_;
  std::vector<void*> grads_;
  const talus::Backend* backend_ = nullptr;
  std::unique_ptr<talus::Optimizer> opt_;  // goes before the memory it points to
};

// The tensors of a transformer of 124 million parameters, with `share` of their elements.
std::vector<int64_t> transformer(double share) {
  constexpr int64_t kWidth = 768, kLayers = 12;
  std::vector<int64_t> counts = {50257 * kWidth, 1024 * kWidth};
  for (int64_t layer = 0; layer < kLayers; ++layer)
    for (const int64_t n :
         {kWidth, kWidth, 3 * kWidth * kWidth, 3 * kWidth, kWidth * kWidth, kWidth, kWidth, kWidth,
          4 * kWidth * kWidth, 4 * kWidth, 4 * kWidth * kWidth, kWidth})
      counts.push_back(n);
  counts.insert(counts.end(), {kWidth, kWidth});
  for (int64_t& n : counts) n = std::max<int64_t>(1, int64_t(double(n) * share));
  return counts;
}

void run(const Sizes& sizes, bool chunks) {
  const std::vector<int64_t> flat = {sizes.elements};
  const std::vector<int64_t> equal(size_t(sizes.tensors), 1024);
  std::vector<int64_t> odd;
  for (int64_t i = 0; i < sizes.tensors; ++i) odd.push_back(1 + i * 7919 % 2039);
  {
    Bench bench(sizes, {"flat f32", TALUS_F32, TALUS_MASTER_AUTO, flat});
    bench.measure_step();
    bench.measure_norm();
    if (chunks) bench.measure_chunks();
  }
  {
    Bench bench(sizes, {"equal tensors f32", TALUS_F32, TALUS_MASTER_AUTO, equal});
    bench.measure_step();
    bench.measure_new_gradients();
    bench.measure_replay();
  }
  Bench(sizes, {"transformer f32", TALUS_F32, TALUS_MASTER_AUTO,
                transformer(std::min(1.0, double(sizes.elements) / 1e9))})
      .measure_step();
  Bench(sizes, {"odd tensors f32", TALUS_F32, TALUS_MASTER_AUTO, odd}).measure_step();
  Bench(sizes, {"flat f32, odd start", TALUS_F32, TALUS_MASTER_AUTO, flat, 1}).measure_step();
  {
    Bench bench(sizes, {"flat bf16, f32 state", TALUS_BF16, TALUS_MASTER_NONE, flat});
    bench.measure_step();
    bench.measure_norm();
  }
  Bench(sizes, {"flat bf16, f32 master", TALUS_BF16, TALUS_MASTER_F32, flat}).measure_step();
  Bench(sizes, {"flat f16, f32 master", TALUS_F16, TALUS_MASTER_F32, flat}).measure_step();
}

}  // namespace

int main(int argc, char** argv) try {
  const gpu::Options options(argc, argv);
  const Sizes sizes = {options.number("elements", 1000000000), options.number("tensors", 10000),
                       int(options.number("steps", 20)), int(options.number("warm-ups", 5)),
                       int(options.number("host-steps", 1000))};
  run(sizes, options.number("chunks", 0) != 0);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "gpu_bench: %s\n", error.what());
  return 1;
}
