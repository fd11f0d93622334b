// Trap 18: tensors of more than 2^31 elements. Slow, and skipped where memory does not suffice.
// deepspeedai/DeepSpeed#7640, #3429; NVIDIA/apex#1654, #1825
#include <catch2/catch_test_macros.hpp>

#if defined(__linux__)
#include <sys/mman.h>

#include <fstream>

#include "tests/optimizer.h"

using namespace talus::test;

namespace {

constexpr int64_t kCount = (int64_t{1} << 31) + 8;
constexpr double kNeededGb = 9.5;  // parameter and gradient 8.6, and room for the rest

double available_gb() {
  std::ifstream info("/proc/meminfo");
  for (std::string key, unit; info >> key;) {
    double kib = 0;
    info >> kib;
    std::getline(info, unit);
    if (key == "MemAvailable:") return kib * 1024 / 1e9;
  }
  return 0;
}

// bf16 elements in pages of their own.
class Pages {
 public:
  Pages()
      : first_(static_cast<uint16_t*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {}
  ~Pages() {
    if (mapped()) munmap(first_, kBytes);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  bool mapped() const { return first_ != MAP_FAILED; }
  uint16_t* data() { return first_; }
  uint16_t& operator[](int64_t i) { return first_[i]; }

 private:
  static constexpr size_t kBytes = size_t(kCount) * 2;
  uint16_t* first_;
};

uint16_t bf16(double x) { return uint16_t(encode(format_of(TALUS_BF16), x)); }

}  // namespace

TEST_CASE("trap 18: a bf16 tensor of 2^31 + 8 elements is updated to its far end") {
  if (available_gb() < kNeededGb)
    SKIP("needs " << kNeededGb << " GB of memory, " << available_gb() << " are available");
  Pages param, grad;
  if (!param.mapped() || !grad.mapped()) SKIP("mmap refused 8.6 GB");

  // Every element moves; the ones where a 32-bit index would go astray each in its own way.
  std::fill(grad.data(), grad.data() + kCount, bf16(.5));
  const int64_t marked[] = {0, (int64_t{1} << 31) - 1, int64_t{1} << 31, kCount - 1};
  for (int k = 0; k < 4; ++k) grad[marked[k]] = bf16(1 + k);

  Optimizer optimizer("sgd", {{"lr", 1}});
  talus_param d{};
  d.struct_size = sizeof d;
  d.dtype = TALUS_BF16;
  d.data = param.data();  // zeros
  d.grad = grad.data();
  d.shape = &kCount;
  d.ndim = 1;
  d.master = TALUS_MASTER_NONE;
  must(talus_add_params(optimizer.get(), 0, 1, &d, nullptr));
  optimizer.step();

  for (int k = 0; k < 4; ++k) {
    INFO("index " << marked[k]);
    CHECK(param[marked[k]] == bf16(-(1 + k)));
    param[marked[k]] = bf16(-.5);
  }
  const uint16_t want = bf16(-.5);
  int64_t wrong = -1;
  for (int64_t i = 0; i < kCount && wrong < 0; ++i)
    if (param[i] != want) wrong = i;
  CHECK(wrong == -1);
}
#else
TEST_CASE("trap 18: a bf16 tensor of 2^31 + 8 elements is updated to its far end") {
  SKIP("needs mmap and /proc/meminfo");
}
#endif
