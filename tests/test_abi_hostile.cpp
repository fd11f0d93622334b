// Calls in odd orders and with garbage that a fault of the host may make: each ends in a status that
// names the fault, and nothing is left half done.
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/abi/fixture.h"

using namespace talus::abi;

namespace {

bool says(const char* part) {
  return std::string(talus_last_error()).find(part) != std::string::npos;
}

// A parameter of adamw with its gradient.
struct One {
  std::vector<float> data = std::vector<float>(8, 1), grad = std::vector<float>(8, 0.5f);
  int64_t extent = 8;
  talus_param descriptor(const char* name = nullptr) {
    talus_param p = describe<float>(TALUS_F32, data.data(), grad.data(), &extent);
    p.name = name;
    return p;
  }
};

void* counted_alloc(void* user, uint64_t bytes, uint64_t alignment, void*) {
  ++*static_cast<int*>(user);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
void* crooked_alloc(void* user, uint64_t bytes, uint64_t, void*) {
  ++*static_cast<int*>(user);
  return static_cast<char*>(std::malloc(bytes + 1)) + 1;
}
void counted_release(void* user, void* data, uint64_t, void*) {
  --*static_cast<int*>(user);
  std::free(data);
}
void crooked_release(void* user, void* data, uint64_t, void*) {
  --*static_cast<int*>(user);
  std::free(static_cast<char*>(data) - 1);
}

talus_allocator allocator_of(int* live, bool crooked) {
  talus_allocator a{};
  a.struct_size = sizeof a;
  a.user = live;
  a.alloc = crooked ? crooked_alloc : counted_alloc;
  a.release = crooked ? crooked_release : counted_release;
  return a;
}

void loop_of_nothing(void*, int64_t, talus_task, void*) {}
void loop_too_far(void*, int64_t count, talus_task task, void* context) {
  for (int64_t i = -1; i <= count; ++i) task(context, i);
}
void loop_of_some(void*, int64_t count, talus_task task, void* context) {
  for (int64_t i = 0; i < count; i += 2) task(context, i);
}

}  // namespace

TEST_CASE("abi: bound memory is forgotten when a fixed hyperparameter does away with its slot") {
  Handle opt("adamw");
  One one;
  add(opt, one.descriptor());
  REQUIRE(talus_set(opt, 0, "amsgrad", 1) == TALUS_OK);
  std::vector<float> mine(8, 7);
  REQUIRE(talus_bind_state(opt, 0, "max_exp_avg_sq", mine.data(), 32) == TALUS_OK);
  REQUIRE(talus_set(opt, 0, "amsgrad", 0) == TALUS_OK);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  CHECK(mine == std::vector<float>(8, 7));
  CHECK(talus_bind_state(opt, 0, "exp_avg", mine.data(), 32) == TALUS_OK);  // free for another use
}

TEST_CASE("abi: bound memory stays bound while the slot exists") {
  Handle opt("adamw");
  One one;
  add(opt, one.descriptor());
  std::vector<float> mine(8, 7);
  REQUIRE(talus_bind_state(opt, 0, "exp_avg", mine.data(), 32) == TALUS_OK);
  REQUIRE(talus_prepare(opt, nullptr) == TALUS_OK);
  REQUIRE(talus_set(opt, 0, "amsgrad", 1) == TALUS_OK);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  CHECK(mine == std::vector<float>(8, float((1 - 0.9) * 0.5)));
}

TEST_CASE("abi: a name of 3,000 bytes leaves room for what is wrong and what was expected") {
  Handle opt("adamw");
  const std::string name(3000, 'n');
  One one;
  talus_param p = one.descriptor(name.c_str());
  p.dtype = 0x7777;
  CHECK(talus_add_params(opt, 0, 1, &p, nullptr) == TALUS_E_UNSUPPORTED);
  CHECK(says("0x7777"));
  CHECK(says("expected"));
  CHECK(talus_set(opt, 0, name.c_str(), 1) == TALUS_E_NAME);
  CHECK(says("weight_decay"));
  CHECK(talus_set_setting(opt, name.c_str(), 1) == TALUS_E_NAME);
  CHECK(says("threads"));
  talus_optimizer* none = nullptr;
  CHECK(talus_create(name.c_str(), TALUS_CPU, 0, &none) == TALUS_E_NAME);
  CHECK(says("adamw"));
  add(opt, one.descriptor());
  CHECK(talus_bind_state(opt, 0, name.c_str(), one.data.data(), 32) == TALUS_E_NAME);
  CHECK(says("exp_avg_sq"));
}

TEST_CASE("abi: names that are not UTF-8 are refused") {
  Handle opt("sgd");
  One one;
  for (const char* bad :
       {"\xff\xfe", "a\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xe2\x82"}) {
    const talus_param p = one.descriptor(bad);
    CHECK(talus_add_params(opt, 0, 1, &p, nullptr) == TALUS_E_ARGUMENT);
    CHECK(says("UTF-8"));
  }
  for (const char* good : {"caf\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x8e\xb2"}) {
    One each;
    const talus_param p = each.descriptor(good);
    Handle other("sgd");
    CHECK(talus_add_params(other, 0, 1, &p, nullptr) == TALUS_OK);
  }
}

TEST_CASE("abi: counts beyond memory are refused with the name of the call") {
  Handle opt("sgd");
  One one;
  const talus_param p = one.descriptor();
  for (const int64_t count : {INT64_MAX, int64_t{1} << 58}) {
    CHECK(talus_add_params(opt, 0, count, &p, nullptr) == TALUS_E_MEMORY);
    CHECK(says("talus_add_params"));
  }
  talus_param garbage = p;
  garbage.struct_size = 0xfffffff0;
  CHECK(talus_add_params(opt, 0, 1, &garbage, nullptr) == TALUS_E_ARGUMENT);
  CHECK(says("struct_size"));
  CHECK(talus_param_count(opt) == 0);
}

TEST_CASE("abi: a tensor that no machine can hold ends in TALUS_E_MEMORY, soon") {
  const int64_t huge = int64_t{1} << 45;
  float anything = 0;
  talus_param p = describe<float>(TALUS_F32, &anything, nullptr, &huge);
  const int64_t many = (int64_t{1} << 59);
  talus_param q = describe<double>(TALUS_F64, nullptr, nullptr, &many);
  q.data = reinterpret_cast<void*>(uintptr_t{64});  // never touched: no step follows
  // An allocator of our own says no: those of sanitizers abort where malloc returns NULL.
  int live = 0;
  Handle opt("adam");
  talus_allocator small = allocator_of(&live, false);
  small.alloc = [](void* user, uint64_t bytes, uint64_t alignment, void* stream) -> void* {
    return bytes >> 40 ? nullptr : counted_alloc(user, bytes, alignment, stream);
  };
  REQUIRE(talus_set_allocator(opt, &small) == TALUS_OK);
  REQUIRE(talus_add_params(opt, 0, 1, &p, nullptr) == TALUS_OK);
  CHECK(talus_prepare(opt, nullptr) == TALUS_E_MEMORY);
  CHECK(says("bytes"));
  (void)talus_add_params(opt, 0, 1, &q, nullptr);
  CHECK(talus_prepare(opt, nullptr) == TALUS_E_MEMORY);
}

TEST_CASE("abi: an allocator's crooked pointer is given back and refused") {
  One one;
  int live = 0;
  Handle opt("adam");
  const talus_allocator crooked = allocator_of(&live, true);
  REQUIRE(talus_set_allocator(opt, &crooked) == TALUS_OK);
  add(opt, one.descriptor());
  CHECK(talus_step(opt, nullptr) == TALUS_E_MEMORY);
  CHECK(says("multiple of 64"));
  CHECK(live == 0);
  CHECK(one.data == std::vector<float>(8, 1));
}

TEST_CASE("abi: check_pointers 0 lets bound state overlap, 1 does not") {
  Handle opt("adam");
  One one;
  add(opt, one.descriptor());
  CHECK(talus_bind_state(opt, 0, "exp_avg", one.data.data(), 32) == TALUS_E_ARGUMENT);
  REQUIRE(talus_set_setting(opt, "check_pointers", 0) == TALUS_OK);
  CHECK(talus_bind_state(opt, 0, "exp_avg", one.data.data(), 32) == TALUS_OK);
}

TEST_CASE(
    "abi: a host loop that runs nothing, some, or too many tasks still steps every element once") {
  const int64_t n = 200000;
  std::vector<float> expected;
  for (const talus_parallel_for loop :
       {talus_parallel_for{nullptr}, talus_parallel_for{loop_of_nothing},
        talus_parallel_for{loop_of_some}, talus_parallel_for{loop_too_far}}) {
    std::vector<float> data(size_t(n), 1), grad(size_t(n), 0.5f);
    Handle opt("adamw");
    REQUIRE(talus_set_setting(opt, "threads", 4) == TALUS_OK);
    if (loop) REQUIRE(talus_set_parallel_for(opt, loop, nullptr) == TALUS_OK);
    add(opt, describe<float>(TALUS_F32, data.data(), grad.data(), &n));
    REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
    if (!loop) expected = data;
    CHECK(data == expected);
    CHECK(data[size_t(n) - 1] != 1);
  }
}

TEST_CASE("abi: a workspace that cannot be had leaves no state behind") {
  One one;
  struct Once {
    int calls = 0, live = 0;
  } once;
  Handle opt("adam");
  talus_allocator a{};
  a.struct_size = sizeof a;
  a.user = &once;
  a.alloc = [](void* user, uint64_t bytes, uint64_t alignment, void*) -> void* {
    Once& o = *static_cast<Once*>(user);
    if (++o.calls == 2) return nullptr;
    ++o.live;
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  };
  a.release = [](void* user, void* data, uint64_t, void*) {
    --static_cast<Once*>(user)->live;
    std::free(data);
  };
  REQUIRE(talus_set_allocator(opt, &a) == TALUS_OK);
  add(opt, one.descriptor());
  CHECK(talus_step(opt, nullptr) == TALUS_E_MEMORY);
  CHECK(once.live == 0);
  talus_stats stats{};
  stats.struct_size = sizeof stats;
  REQUIRE(talus_get_stats(opt, 0, &stats) == TALUS_OK);
  CHECK(stats.state_bytes == 0);
  CHECK(stats.workspace_bytes == 0);
  CHECK(one.data == std::vector<float>(8, 1));
  CHECK(talus_step(opt, nullptr) == TALUS_OK);
}

TEST_CASE(
    "abi: rows bound before moves, removals and additions step what is left, and go at last") {
  int live = 0;
  {
    Handle opt("sgd");
    const talus_allocator counted = allocator_of(&live, false);
    REQUIRE(talus_set_allocator(opt, &counted) == TALUS_OK);
    int32_t group = -1;
    REQUIRE(talus_add_group(opt, "sgd", &group) == TALUS_OK);
    One a, b, c;
    const int64_t first = add(opt, a.descriptor("a")), second = add(opt, b.descriptor("b"));
    const int64_t seven = 7, gone[] = {first, second};
    const float one = 1;
    const talus_rows rows = {sizeof rows, TALUS_I64, 1, &seven, &one, 0};
    REQUIRE(talus_bind_rows(opt, first, &rows) == TALUS_OK);
    REQUIRE(talus_bind_rows(opt, second, &rows) == TALUS_OK);
    REQUIRE(talus_move_params(opt, group, 1, &second) == TALUS_OK);
    REQUIRE(talus_remove_params(opt, 1, &first) == TALUS_OK);
    CHECK(talus_remove_params(opt, 2, gone) == TALUS_E_ARGUMENT);
    CHECK(says("removed"));
    const int64_t third = add(opt, c.descriptor("a"));
    REQUIRE(talus_set_steps(opt, second, 4) == TALUS_OK);
    REQUIRE(talus_bind_rows(opt, third, &rows) == TALUS_OK);
    REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
    CHECK(a.data == std::vector<float>(8, 1));
    for (const One* each : {&b, &c}) {
      CHECK(each->data[0] == 1);
      CHECK(each->data[7] == 1 - 1e-3f);
    }
    CHECK(steps(opt, second) == 5);
    REQUIRE(talus_bind_rows(opt, third, &rows) == TALUS_OK);  // bound at the end
    CHECK(live > 0);
  }
  CHECK(live == 0);
}

TEST_CASE("abi: parameters that are added and removed again and again leave nothing behind") {
  Handle opt("adam");
  One one;
  talus_stats stats{};
  stats.struct_size = sizeof stats;
  for (int64_t i = 0; i < 300; ++i) {
    REQUIRE(add(opt, one.descriptor("same")) == i);
    REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
    REQUIRE(talus_remove_params(opt, 1, &i) == TALUS_OK);
    REQUIRE(talus_get_stats(opt, 0, &stats) == TALUS_OK);
    REQUIRE(stats.state_bytes == 0);
  }
  CHECK(talus_param_count(opt) == 300);
  CHECK(talus_state_count(opt) == 0);
}
