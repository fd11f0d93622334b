// What the host hands over as functions: closure, parallel loop, allocator, log.
#include "tests/abi/fixture.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <thread>

using namespace talus::abi;

namespace {

// An f32 tensor with elements enough for many chunks.
struct Large {
  std::vector<float> data = std::vector<float>(300001), grad = data;
  int64_t extent = int64_t(data.size());

  Large() {
    for (size_t i = 0; i < data.size(); ++i) {
      data[i] = float(i % 1009) / 64 - 7;
      grad[i] = float(i % 613) / 512 - 0.5f;
    }
  }
  void add_to(talus_optimizer* opt) {
    add(opt, describe(TALUS_F32, data.data(), grad.data(), &extent));
  }
};

/* an allocator that counts, and can refuse */

struct Heap {
  std::map<void*, uint64_t> live;
  int calls = 0, refuse_at = -1, destroyed = 0;
  bool aligned = true;
};

void* heap_alloc(void* user, uint64_t bytes, uint64_t alignment, void*) {
  Heap& heap = *static_cast<Heap*>(user);
  if (heap.calls++ == heap.refuse_at) return nullptr;
  heap.aligned = heap.aligned && alignment > 0 && (alignment & (alignment - 1)) == 0;
  void* data = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  std::memset(data, 0xff, bytes);  // NaN: nobody may count on zeros
  heap.live[data] = bytes;
  return data;
}

void heap_release(void* user, void* data, uint64_t bytes, void*) {
  Heap& heap = *static_cast<Heap*>(user);
  REQUIRE(heap.destroyed == 0);
  REQUIRE(heap.live.count(data) == 1);
  REQUIRE(heap.live[data] == bytes);
  heap.live.erase(data);
  std::free(data);
}

void heap_destroy(void* user) { ++static_cast<Heap*>(user)->destroyed; }

talus_allocator allocator_of(Heap& heap) {
  talus_allocator table{};
  table.struct_size = sizeof table;
  table.user = &heap;
  table.alloc = heap_alloc;
  table.release = heap_release;
  table.destroy = heap_destroy;
  return table;
}

// Tries each call until it succeeds; every failure must be MEMORY and leave all as it was.
template <class Call>
int retry(talus_optimizer* opt, Call call) {
  for (int failures = 0;; ++failures) {
    const auto before = see(opt, Reserved::overlooked);
    const std::string stale = leave_stale_error();
    const talus_status status = call();
    if (status == TALUS_OK) return failures;
    CHECK(status == TALUS_E_MEMORY);
    CHECK(talus_last_error() != stale);
    CHECK(first_difference(before, see(opt, Reserved::overlooked)) == "");
    REQUIRE(failures < 10);
  }
}

}  // namespace

TEST_CASE("abi: a closure that says stop prevents the step, and its value is the detail") {
  Handle opt("adamw");
  Model model;
  model.add_to(opt);
  for (const int32_t answer : {7, -1, INT32_MIN, INT32_MAX}) {
    double loss = -7;
    int32_t user = answer;
    refused(opt, TALUS_E_CALLBACK, {std::to_string(answer).c_str()}, [&] {
      const talus_closure closure = [](void* u, double* out) {
        *out = 99;
        return *static_cast<int32_t*>(u);
      };
      return talus_step_closure(opt, closure, &user, &loss, nullptr);
    });
    CHECK(talus_step_closure(
              opt, [](void* u, double*) { return *static_cast<int32_t*>(u); }, &user, &loss,
              nullptr) == TALUS_E_CALLBACK);
    CHECK(talus_last_error_detail() == answer);
    CHECK(loss == -7);
  }
  leave_stale_error();
  CHECK(talus_last_error_detail() == 0);
  double loss = -7;
  refused(opt, TALUS_E_ARGUMENT, {"closure"},
          [&] { return talus_step_closure(opt, nullptr, nullptr, &loss, nullptr); });
  CHECK(loss == -7);
}

TEST_CASE("abi: a closure may bind and zero gradients, and gives the loss") {
  Handle opt("sgd");
  Model model;
  std::vector<float> other(5, 2);
  model.add_to(opt);
  REQUIRE(talus_set(opt, 0, "lr", 0.5) == TALUS_OK);
  struct Host {
    talus_optimizer* opt;
    std::vector<float>& grad;
    std::thread::id thread;
  } host{opt, other, {}};
  const talus_closure closure = [](void* user, double* loss) -> int32_t {
    Host& h = *static_cast<Host*>(user);
    h.thread = std::this_thread::get_id();
    void* grads[] = {h.grad.data(), nullptr};
    if (talus_zero_grad(h.opt, TALUS_ZERO_FILL, nullptr) != TALUS_OK) return 1;
    if (talus_bind_grads(h.opt, 0, 2, grads) != TALUS_OK) return 2;
    *loss = 0.25;
    return 0;
  };
  double loss = -7;
  REQUIRE(talus_step_closure(opt, closure, &host, &loss, nullptr) == TALUS_OK);
  CHECK(loss == 0.25);
  CHECK(host.thread == std::this_thread::get_id());
  CHECK(model.w == std::vector<float>{0, -3, 2, -5, 4});
  CHECK(model.gw == std::vector<float>(5, 0));
  CHECK((steps(opt, 0) == 1 && steps(opt, 1) == 0));
  CHECK(talus_step_closure(opt, closure, &host, nullptr, nullptr) == TALUS_OK);  // no loss wanted
}

TEST_CASE("abi: a step that fails behind its closure leaves the loss alone") {
  Handle opt("sgd");
  Model model;
  model.add_to(opt);
  const talus_closure closure = [](void* user, double* loss) -> int32_t {
    *loss = 1;
    return talus_zero_grad(static_cast<talus_optimizer*>(user), TALUS_ZERO_UNBIND, nullptr);
  };
  double loss = -7;
  CHECK(talus_step_closure(opt, closure, opt, &loss, nullptr) == TALUS_E_STATE);
  CHECK(loss == -7);
  CHECK(steps(opt, 0) == 0);
}

TEST_CASE("abi: a loop of the host runs each task once, on the stepping thread's call") {
  struct Host {
    int calls = 0;
    int64_t largest = 0;
    bool backwards = false;
    std::thread::id thread;
  } host;
  const talus_parallel_for run = [](void* user, int64_t count, talus_task task, void* context) {
    Host& h = *static_cast<Host*>(user);
    ++h.calls;
    h.largest = std::max(h.largest, count);
    h.thread = std::this_thread::get_id();
    for (int64_t i = 0; i < count; ++i) task(context, h.backwards ? count - 1 - i : i);
  };
  Large expected;
  Handle reference("adamw");
  REQUIRE(talus_set_setting(reference, "threads", 1) == TALUS_OK);
  expected.add_to(reference);
  for (int i = 0; i < 3; ++i) REQUIRE(talus_step(reference, nullptr) == TALUS_OK);

  for (const int threads : {1, 2, 3, 7}) {
    for (const bool backwards : {false, true}) {
      CAPTURE(threads, backwards);
      host = {};
      host.backwards = backwards;
      Large tensor;
      Handle opt("adamw");
      REQUIRE(talus_set_setting(opt, "threads", threads) == TALUS_OK);
      REQUIRE(talus_set_parallel_for(opt, run, &host) == TALUS_OK);
      tensor.add_to(opt);
      for (int i = 0; i < 3; ++i) REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
      CHECK(host.largest <= threads);
      if (threads > 1) CHECK((host.calls > 0 && host.thread == std::this_thread::get_id()));
      CHECK(std::memcmp(tensor.data.data(), expected.data.data(), tensor.data.size() * 4) == 0);
      const int calls = host.calls;
      REQUIRE(talus_set_parallel_for(opt, nullptr, nullptr) == TALUS_OK);
      REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
      CHECK(host.calls == calls);
    }
  }
}

TEST_CASE("abi: chunk_tiles decides how far a tensor is divided, also between steps, never a bit") {
  const talus_parallel_for run = [](void* user, int64_t count, talus_task task, void* context) {
    *static_cast<int64_t*>(user) = count;
    for (int64_t i = 0; i < count; ++i) task(context, i);
  };
  struct Case {
    double chunk_tiles;
    int64_t chunks;  // of the 74 tiles; one chunk is no work for a loop
  };
  Large expected, tensor;
  Handle reference("adamw"), opt("adamw");
  int64_t count = 0;
  REQUIRE(talus_set_setting(reference, "threads", 1) == TALUS_OK);
  REQUIRE(talus_set_setting(opt, "threads", 256) == TALUS_OK);
  REQUIRE(talus_set_parallel_for(opt, run, &count) == TALUS_OK);
  expected.add_to(reference);
  tensor.add_to(opt);
  for (const Case& each : {Case{1, 74}, Case{4, 19}, Case{73, 2}, Case{65536, 0}, Case{1, 74}}) {
    CAPTURE(each.chunk_tiles);
    count = 0;
    REQUIRE(talus_set_setting(opt, "chunk_tiles", each.chunk_tiles) == TALUS_OK);
    REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
    REQUIRE(talus_step(reference, nullptr) == TALUS_OK);
    CHECK(count == each.chunks);
    CHECK(std::memcmp(tensor.data.data(), expected.data.data(), tensor.data.size() * 4) == 0);
  }
}

TEST_CASE("abi: an allocator that refuses at any call leaves a handle that goes on, same bits") {
  const auto train = [](Heap& heap, Model& model, int* failures) {
    Handle opt("adamw");
    const talus_allocator allocator = allocator_of(heap);
    REQUIRE(talus_set_allocator(opt, &allocator) == TALUS_OK);
    model.add_to(opt);
    *failures += retry(opt, [&] { return talus_prepare(opt, nullptr); });
    *failures += retry(opt, [&] { return talus_step(opt, nullptr); });
    int32_t group = -1;
    REQUIRE(talus_add_group(opt, "sgd", &group) == TALUS_OK);
    REQUIRE(talus_set(opt, group, "momentum", 0.9) == TALUS_OK);
    std::vector<float> late = {1, 2, 3}, grad = {1, 1, 1};
    const int64_t three = 3;
    add(opt, describe(TALUS_F32, late.data(), grad.data(), &three), group);
    *failures += retry(opt, [&] { return talus_step(opt, nullptr); });
    *failures += retry(opt, [&] { return talus_step(opt, nullptr); });
    talus_stats stats{};
    stats.struct_size = sizeof stats;
    REQUIRE(talus_get_stats(opt, 1, &stats) == TALUS_OK);
    uint64_t live = 0;
    for (const auto& [data, bytes] : heap.live) live += bytes;
    CHECK(stats.state_bytes + stats.workspace_bytes == live);
    return late[0];
  };
  Heap whole;
  Model expected;
  int failures = 0;
  const float expected_late = train(whole, expected, &failures);
  CHECK(failures == 0);
  REQUIRE(whole.calls >= 2);
  for (int k = 0; k < whole.calls; ++k) {
    CAPTURE(k);
    Heap heap;
    heap.refuse_at = k;
    Model model;
    failures = 0;
    const float late = train(heap, model, &failures);
    CHECK(failures == 1);
    CHECK(model.w == expected.w);
    CHECK(model.b == expected.b);
    CHECK(late == expected_late);
    CHECK((heap.live.empty() && heap.destroyed == 1 && heap.aligned));
  }
}

TEST_CASE("abi: an allocator is replaced before memory has been allocated, not after") {
  Heap first, second;
  const talus_allocator one = allocator_of(first), two = allocator_of(second);
  {
    Handle opt("adamw");
    Model model;
    model.add_to(opt);
    for (const bool alloc : {true, false}) {
      talus_allocator broken = one;
      (alloc ? reinterpret_cast<void**>(&broken.alloc)
             : reinterpret_cast<void**>(&broken.release))[0] = nullptr;
      refused(opt, TALUS_E_ARGUMENT, {alloc ? "alloc" : "release"},
              [&] { return talus_set_allocator(opt, &broken); });
    }
    CHECK(first.destroyed == 0);
    REQUIRE(talus_set_allocator(opt, &one) == TALUS_OK);
    REQUIRE(talus_set_allocator(opt, nullptr) == TALUS_OK);
    CHECK(first.destroyed == 1);
    REQUIRE(talus_set_allocator(opt, &two) == TALUS_OK);
    REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
    CHECK((first.calls == 0 && second.calls > 0));
    refused(opt, TALUS_E_STATE, {"allocator"}, [&] { return talus_set_allocator(opt, &one); });
    refused(opt, TALUS_E_STATE, {"allocator"}, [&] { return talus_set_allocator(opt, nullptr); });
    CHECK((first.destroyed == 1 && second.destroyed == 0));
  }
  CHECK((second.destroyed == 1 && second.live.empty()));
}

TEST_CASE("abi: the log is silent by default, filters by level, and can be taken back") {
  struct Lines {
    std::vector<std::pair<int32_t, std::string>> all;
  } lines;
  const talus_log log = [](void* user, int32_t level, const char* text) {
    static_cast<Lines*>(user)->all.emplace_back(level, text);
  };
  const auto work = [] {
    Handle opt("adamw");
    Model model;
    model.add_to(opt);
    REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  };
  size_t last = 0;
  for (const int32_t level :
       {TALUS_LOG_ERROR, TALUS_LOG_WARNING, TALUS_LOG_INFO, TALUS_LOG_DEBUG}) {
    lines.all.clear();
    talus_set_log(log, level, &lines);
    work();
    for (const auto& [of, text] : lines.all) {
      CHECK((of >= TALUS_LOG_ERROR && of <= level));
      CHECK_FALSE(text.empty());
      CHECK(text.find('\n') == std::string::npos);
    }
    CHECK(lines.all.size() >= last);
    last = lines.all.size();
  }
  CHECK(last > 0);
  talus_set_log(nullptr, TALUS_LOG_DEBUG, nullptr);
  work();
  CHECK(lines.all.size() == last);
}
