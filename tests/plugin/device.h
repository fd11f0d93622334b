// A device of the fake plugin as a test sees it: memory, copies, the log, failures on demand; and an
// optimizer's tensors on it or, for comparison, in the host's memory.
#pragma once
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <deque>

#include "lib/table/backend.h"
#include "tests/abi/fixture.h"
#include "tests/plugin/fake_plugin.h"

namespace talus::abi {

// The plugin that the library uses, which must be the fake.
class Fake {
 public:
  Fake() {
    REQUIRE(talus_has_feature("cuda") == 1);
    file_ = dlopen(talus_name_at("plugins", 0), RTLD_LAZY | RTLD_NOLOAD);
    REQUIRE(file_);
    entry_ = reinterpret_cast<BackendEntry>(dlsym(file_, kBackendEntry));
    log_ = reinterpret_cast<FakeLogFn>(dlsym(file_, "talus_fake_log"));
    replay_ = reinterpret_cast<FakeReplayFn>(dlsym(file_, "talus_fake_replay"));
    REQUIRE((entry_ && log_ && replay_));
  }
  const Backend& table() const { return *entry_(kBackendAbi); }
  const FakeLog& log() const { return *log_(); }
  int32_t replay() const { return replay_(); }

 private:
  void* file_ = nullptr;
  BackendEntry entry_ = nullptr;
  FakeLogFn log_ = nullptr;
  FakeReplayFn replay_ = nullptr;
};

inline const Fake& fake() {
  static const Fake only;
  return only;
}

// While it lives, call `call` of `function` ends with this status and number.
class Failing {
 public:
  Failing(const std::string& function, int call, talus_status status, int number = 0) {
    static int serial = 0;  // another plan each time, so that the count starts anew
    const std::string plan = function + ":" + std::to_string(call) + ":" + std::to_string(status) +
                             ":" + std::to_string(number) + ":" + std::to_string(++serial);
    setenv("TALUS_FAKE_FAIL", plan.c_str(), 1);
  }
  ~Failing() { unsetenv("TALUS_FAKE_FAIL"); }
  Failing(const Failing&) = delete;
};

// Memory of a device, or of the host for device -1.
class Memory {
 public:
  explicit Memory(int32_t device) : device_(device) {
    if (device < 0) return;
    BackendConfig config{};
    config.device = device;
    config.threads = 1;
    REQUIRE(fake().table().create(&config, &context_) == TALUS_OK);
  }
  ~Memory() {
    for (const auto& [data, bytes] : blocks_) {
      if (device_ < 0)
        std::free(data);
      else
        fake().table().release(context_, data, bytes, nullptr);
    }
    if (context_) fake().table().destroy(context_);
  }
  Memory(const Memory&) = delete;

  void* put(const void* from, uint64_t bytes) {
    void* const data = device_ < 0 ? std::aligned_alloc(256, (bytes + 255) / 256 * 256)
                                   : fake().table().allocate(context_, bytes, 256, nullptr);
    REQUIRE(data);
    blocks_.emplace_back(data, bytes);
    write(data, from, bytes);
    return data;
  }
  void write(void* to, const void* from, uint64_t bytes) const { copy(to, from, bytes); }
  std::vector<unsigned char> read(const void* from, uint64_t bytes) const {
    std::vector<unsigned char> out(bytes);
    if (from) copy(out.data(), from, bytes);
    return out;
  }
  int32_t device() const { return device_; }

 private:
  void copy(void* to, const void* from, uint64_t bytes) const {
    if (bytes == 0) return;
    if (device_ < 0)
      std::memcpy(to, from, bytes);
    else
      REQUIRE(fake().table().copy(context_, to, from, bytes, nullptr) == TALUS_OK);
  }

  int32_t device_;
  void* context_ = nullptr;
  std::vector<std::pair<void*, uint64_t>> blocks_;
};

// An optimizer and its tensors, on a device or on the CPU, with the same values either way: one
// parameter for each kind of kernel.
class Run {
 public:
  struct Tensor {
    int32_t dtype, grad_dtype;
    int64_t count;
    void *data, *grad;
  };

  Run(const char* algorithm, int32_t device) : memory(device) {
    REQUIRE(talus_create(algorithm, device < 0 ? TALUS_CPU : TALUS_CUDA, std::max(device, 0),
                         &opt) == TALUS_OK);
    add(TALUS_F32, TALUS_F32, 5001);
    add(TALUS_BF16, TALUS_F32, 17);
    add(TALUS_F64, TALUS_F64, 9);
    add(TALUS_F16, TALUS_F16, 0);
  }
  ~Run() { talus_destroy(opt); }
  Run(const Run&) = delete;

  void add(int32_t dtype, int32_t grad_dtype, int64_t count) {
    Tensor t{dtype, grad_dtype, count, nullptr, nullptr};
    t.data = memory.put(bytes_of(dtype, count, 1).data(), size_of(dtype, count));
    t.grad = memory.put(bytes_of(grad_dtype, count, 2).data(), size_of(grad_dtype, count));
    tensors.push_back(t);
    talus_param param = describe(dtype, t.data, t.grad, &tensors.back().count);
    param.grad_dtype = grad_dtype;
    abi::add(opt, param);
  }

  // Every byte but for pointers that a host could read, hidden behind copies.
  std::vector<std::string> bytes() const {
    std::vector<std::string> lines;
    for (const Tensor& t : tensors) {
      see("data", t.data, size_of(t.dtype, t.count), lines);
      see("grad", t.grad, size_of(t.grad_dtype, t.count), lines);
    }
    for (const talus_state& s : states(opt))
      if (steps(opt, s.param) > 0) see(s.slot, s.data, s.bytes, lines);
    for (int64_t p = 0; p < talus_param_count(opt); ++p)
      lines.push_back("steps " + std::to_string(steps(opt, p)));
    lines.push_back("stats " + std::to_string(stats().steps));
    return lines;
  }
  talus_stats stats() const {
    talus_stats out{};
    out.struct_size = sizeof out;
    REQUIRE(talus_get_stats(opt, 1, &out) == TALUS_OK);
    return out;
  }

  static uint64_t size_of(int32_t dtype, int64_t count) { return uint64_t(count * (dtype >> 11)); }
  // Small numbers in each dtype: 3c.. to 3f.. in the upper byte.
  static std::vector<unsigned char> bytes_of(int32_t dtype, int64_t count, unsigned seed) {
    std::vector<unsigned char> out(size_of(dtype, count));
    const size_t width = size_t(dtype >> 11);
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = i % width == width - 1 ? (unsigned char)(0x3c + (i + seed) % 4)
                                      : (unsigned char)(i * 37 + seed * 101);
    return out;
  }

  Memory memory;
  talus_optimizer* opt = nullptr;
  std::deque<Tensor> tensors;

 private:
  void see(const std::string& what, const void* data, uint64_t bytes,
           std::vector<std::string>& lines) const {
    const std::vector<unsigned char> all = memory.read(data, bytes);
    for (uint64_t i = 0; i < bytes; i += 32)
      lines.push_back(what + " byte " + std::to_string(i) + ": " +
                      hex(all.data() + i, std::min<uint64_t>(32, bytes - i)));
  }
};

// A call on a device fails so and has changed nothing that can be seen.
template <class Call>
void refused_on(const Run& run, talus_status expected, std::initializer_list<const char*> causes,
                Call call) {
  const std::vector<std::string> before = run.bytes();
  const std::string stale = leave_stale_error();
  const talus_status status = call();
  const std::string text = talus_last_error();
  INFO("status " << talus_status_name(status) << ", text: " << text);
  CHECK(status == expected);
  CHECK(text != stale);
  for (const char* cause : causes) {
    INFO("the text should name: " << cause);
    CHECK(text.find(cause) != std::string::npos);
  }
  unsetenv("TALUS_FAKE_FAIL");
  CHECK(first_difference(before, run.bytes()) == "");
}

}  // namespace talus::abi
