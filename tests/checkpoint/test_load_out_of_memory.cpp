// Every allocation of a load and of a save fails once: TALUS_E_MEMORY, nothing changed, no file
// left over, and the same call succeeds afterwards.
#include <catch2/catch_test_macros.hpp>

#include "tests/checkpoint/saved_model.h"

#if defined(TALUS_TEST_TSAN)
TEST_CASE("out of memory: each allocation of a load and of a save fails once") {
  SKIP("the thread sanitizer has an operator new of its own");
}
#else
#include "tests/failing_new.h"

// In place of the C library's: thousands of saves need no disk.
extern "C" int fsync(int) { return 0; }

using namespace talus::test;

namespace {

constexpr int kMost = 20000;

// Fails the k-th allocation of a call; whether there were as many.
template <class Call>
bool fails_at(int k, const Call& call, talus_status* status) {
  countdown = k;
  *status = call();
  const bool reached = countdown < 0;
  countdown = -1;
  return reached;
}

void fail_each_of_a_load(const char* name, int64_t steps_before) {
  const Folder folder;
  const SmallModel saved(2);
  const std::string path = folder / name;
  REQUIRE(save_at(saved, path) == TALUS_OK);
  int failures = 0;
  for (int k = 0;; ++k) {
    const SmallModel into(steps_before);
    const std::string before = into.bytes();
    talus_status status = TALUS_OK;
    const bool reached = fails_at(
        k, [&] { return load_at(into, path); }, &status);
    CAPTURE(name, steps_before, k);
    REQUIRE(k < kMost);
    if (status != TALUS_OK) {
      ++failures;
      REQUIRE(status == TALUS_E_MEMORY);
      REQUIRE((into.bytes() == before));
      REQUIRE(load_at(into, path) == TALUS_OK);
    }
    REQUIRE((into.bytes() == saved.bytes()));
    if (!reached) break;
  }
  CHECK(failures > 50);
}

void fail_each_of_a_save(const char* name) {
  int failures = 0;
  for (int k = 0;; ++k) {
    const Folder folder;
    const std::string path = folder / name;
    const SmallModel before(2), live(3);
    REQUIRE(save_at(before, path) == TALUS_OK);
    const auto names = folder.names();
    const std::string bytes = live.bytes();
    talus_status status = TALUS_OK;
    const bool reached = fails_at(
        k, [&] { return save_at(live, path); }, &status);
    CAPTURE(name, k);
    REQUIRE(k < kMost);
    REQUIRE((live.bytes() == bytes));
    if (status != TALUS_OK) {
      ++failures;
      REQUIRE(status == TALUS_E_MEMORY);
      REQUIRE(folder.names() == names);
      REQUIRE((loaded_bytes(path) == before.bytes()));
      REQUIRE(save_at(live, path) == TALUS_OK);
    }
    REQUIRE((loaded_bytes(path) == bytes));
    if (!reached) break;
  }
  CHECK(failures > 50);
}

size_t bytes_of_a_load_over_live_state(int params) {
  std::vector<ParamSpec> specs;
  for (int i = 0; i < params; ++i) specs.push_back({"p" + std::to_string(i), {1}});
  const Model model(specs, {{"adamw", {}}}, 1);
  const std::string saved = model.bytes(0);
  const size_t before = asked_bytes;
  must(load_bytes(model.get(), saved));
  return asked_bytes - before;
}

}  // namespace

TEST_CASE("out of memory: a load over live state asks for memory in proportion to the parameters") {
  const size_t few = bytes_of_a_load_over_live_state(500);
  const size_t many = bytes_of_a_load_over_live_state(4000);
  INFO(few << " bytes for 500 parameters, " << many << " for 4,000");
  CHECK(many < 12 * few);
}

TEST_CASE("out of memory: each allocation of a load fails once, into a new or a live optimizer") {
  for (const char* name : {kPlainName, kIndexName})
    for (const int64_t steps : {0, 5}) fail_each_of_a_load(name, steps);
}

TEST_CASE("out of memory: each allocation of a save fails once") {
  for (const char* name : {kPlainName, kIndexName}) fail_each_of_a_save(name);
}
#endif
