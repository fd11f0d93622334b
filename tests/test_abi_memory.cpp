// Memory over the life of a process: thousands of optimizers leave nothing behind.
#include "tests/abi/fixture.h"

#include <fstream>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

using namespace talus::abi;

namespace {

// Bytes that malloc has handed out, -1 where that cannot be asked.
int64_t bytes_in_use() {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  const struct mallinfo2 info = mallinfo2();
  return int64_t(info.uordblks + info.hblkhd);
#else
  return -1;
#endif
}

int64_t resident_pages() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = -1;
  file >> size >> resident;
  return resident;
}

// 10,000 times the 16 bytes of the smallest block is ten times that.
constexpr int64_t kSlack = 16384;

// No assertions in here: they allocate.
bool one_life(int i) {
  static const char* const kAlgorithms[] = {"sgd", "adam", "adamw", "fused_adam"};
  talus_optimizer* opt = nullptr;
  if (talus_create(kAlgorithms[i % 4], TALUS_CPU, 0, &opt) != TALUS_OK) return false;
  std::vector<float> data(5, 1), grad(5, 1);
  const int64_t five = 5;
  const talus_param param = describe(TALUS_F32, data.data(), grad.data(), &five);
  int32_t group = 0;
  talus_add_group(opt, "adamw", &group);
  talus_set(opt, TALUS_ALL, "lr", 0.01);
  talus_add_params(opt, group, 1, &param, nullptr);
  const bool stepped = talus_step(opt, nullptr) == TALUS_OK;
  talus_set(opt, 0, "no such name", 1);
  if (i % 2 == 0) talus_add_params(opt, 0, 1, nullptr, nullptr);
  talus_destroy(opt);
  return stepped && talus_create("no such rule", TALUS_CPU, 0, &opt) == TALUS_E_NAME;
}

}  // namespace

TEST_CASE("abi: 10,000 optimizers leave no memory behind") {
  bool right = true;
  for (int i = 0; i < 200; ++i) right = one_life(i) && right;  // what is allocated once
  const int64_t before = bytes_in_use(), pages = resident_pages();
  for (int i = 0; i < 10000; ++i) right = one_life(i) && right;
  const int64_t after = bytes_in_use();
  CAPTURE(before, after);
  CHECK(right);
  if (before <= 0) return;  // under a sanitizer malloc cannot be asked, but leaks are found at exit
  CHECK(after - before < kSlack);
  CHECK(resident_pages() - pages < 256);
}

TEST_CASE("abi: an optimizer that is reused for thousands of failures does not grow") {
  Handle opt("adamw");
  Model model;
  model.add_to(opt);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  const auto fail = [&] {
    const int64_t two = 2;
    talus_param batch[] = {describe<float>(TALUS_F32, model.w.data() + 8, nullptr, &two),
                           describe<float>(TALUS_F32, model.w.data(), nullptr, &two)};
    talus_add_params(opt, 0, 2, batch, nullptr);
    talus_set(opt, TALUS_ALL, "lr", -1);
    int32_t group = 0;
    talus_add_group(opt, "no such rule", &group);
    talus_bind_state(opt, 0, "exp_avg", nullptr, 20);
  };
  for (int i = 0; i < 100; ++i) fail();
  const int64_t before = bytes_in_use();
  if (before <= 0) SKIP("malloc cannot be asked here");
  for (int i = 0; i < 10000; ++i) fail();
  CHECK(bytes_in_use() - before < kSlack);
  CHECK(talus_param_count(opt) == 2);
}

TEST_CASE("abi: values set for TALUS_ALL in every step do not pile up") {
  Handle opt("adamw");
  Model model;
  model.add_to(opt);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  const int64_t before = bytes_in_use();
  if (before <= 0) SKIP("malloc cannot be asked here");
  for (int i = 0; i < 10000; ++i) {
    talus_set(opt, TALUS_ALL, "lr", 1e-3 / (i + 1));
    talus_step(opt, nullptr);
  }
  CHECK(bytes_in_use() - before < kSlack);
}
