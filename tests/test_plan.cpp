// The chunk plan: what it covers, where it cuts, how full chunks are. No tensor memory is touched.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <array>
#include <map>

#include "lib/base/status.h"
#include "lib/table/chunk_plan.h"
#include "tests/cases.h"

using namespace talus::test;
using talus::ChunkPlan;
using talus::Dtype;
using talus::KernelKey;
using talus::kTile;
using talus::Segment;
using talus::TensorTable;

namespace {

constexpr KernelKey kKeys[] = {
    {0, 0, Dtype::f32}, {0, 0, Dtype::f64}, {0, 1, Dtype::f32}, {1, 0, Dtype::f32}};

struct Case {
  TensorTable table;
  std::vector<KernelKey> keys;
  int64_t chunk = talus::kChunk;

  Case& add(int64_t elements, const KernelKey& key = kKeys[0]) {
    table.add_row(elements);
    keys.push_back(key);
    return *this;
  }
  ChunkPlan plan() const {
    ChunkPlan plan;
    plan.build(table, keys, chunk);
    return plan;
  }
};

Case of_sizes(std::initializer_list<int64_t> sizes, int64_t chunk = talus::kChunk) {
  Case c;
  c.chunk = chunk;
  for (int64_t n : sizes) c.add(n);
  return c;
}

std::string at(const char* what, int64_t index, int64_t got, int64_t want) {
  return talus::text("%s %lld: got %lld, want %lld", what, (long long)index, (long long)got,
                     (long long)want);
}

// Every element exactly once, in order; cuts at tiles; nothing empty.
std::string coverage_fault(const Case& c, const ChunkPlan& plan) {
  std::vector<int64_t> covered(size_t(c.table.size()), 0);
  for (int64_t k = 0; k < plan.chunk_count(); ++k) {
    int64_t elements = 0;
    for (const Segment& s : plan.chunk(k)) {
      if (s.tensor < 0 || s.tensor >= c.table.size()) return at("tensor of chunk", k, s.tensor, 0);
      if (s.count <= 0) return at("count in chunk", k, s.count, 1);
      if (s.begin % kTile != 0) return at("cut in chunk", k, s.begin, s.begin / kTile * kTile);
      int64_t& next = covered[size_t(s.tensor)];
      if (s.begin != next) return at("begin in tensor", s.tensor, s.begin, next);
      next += s.count;
      elements += s.count;
    }
    if (elements == 0) return at("elements of chunk", k, 0, 1);
    if (elements > c.chunk) return at("elements of chunk", k, elements, c.chunk);
  }
  for (int64_t t = 0; t < c.table.size(); ++t)
    if (covered[size_t(t)] != c.table.count[size_t(t)])
      return at("elements of tensor", t, covered[size_t(t)], c.table.count[size_t(t)]);
  return "";
}

// Launches follow each other, one for each key that has elements; chunks of one key only; all but
// the last chunk of a launch have no room for another tile.
std::string launch_fault(const Case& c, const ChunkPlan& plan) {
  int64_t next = 0, index = 0;
  std::vector<KernelKey> seen;
  for (const talus::Launch& launch : plan.launches()) {
    if (launch.first_chunk != next)
      return at("first chunk of launch", index, launch.first_chunk, next);
    if (launch.chunk_count <= 0) return at("chunks of launch", index, launch.chunk_count, 1);
    next += launch.chunk_count;
    if (std::find(seen.begin(), seen.end(), launch.key) != seen.end())
      return at("launch has the key of an earlier one:", index, 0, 0);
    seen.push_back(launch.key);
    for (int64_t k = launch.first_chunk; k < next; ++k) {
      int64_t elements = 0;
      for (const Segment& s : plan.chunk(k)) {
        if (c.keys[size_t(s.tensor)] != launch.key) return at("key in chunk", k, s.tensor, index);
        elements += s.count;
      }
      if (k + 1 < next && elements <= c.chunk - kTile)
        return at("elements of chunk", k, elements, c.chunk);
    }
    ++index;
  }
  if (next != plan.chunk_count()) return at("chunks of launch", index, next, plan.chunk_count());
  return "";
}

std::string tile_fault(const Case& c, const ChunkPlan& plan) {
  const int64_t* tile_first = plan.view(c.table).tile_first;
  int64_t tiles = 0;
  for (int64_t t = 0; t < c.table.size(); ++t) {
    if (tile_first[t] != tiles) return at("first tile of tensor", t, tile_first[t], tiles);
    const int64_t n = c.table.count[size_t(t)];
    tiles += n / kTile + (n % kTile != 0);
  }
  if (tile_first[c.table.size()] != tiles)
    return at("end of tiles", 0, tile_first[c.table.size()], tiles);
  if (plan.tile_count() != tiles) return at("count of tiles", 0, plan.tile_count(), tiles);
  return "";
}

// What a backend is given is what the plan's own functions say.
std::string view_fault(const Case& c, const ChunkPlan& plan) {
  const talus::PlanView view = plan.view(c.table);
  if (view.chunk_count != plan.chunk_count())
    return at("chunks in view", 0, view.chunk_count, plan.chunk_count());
  if (view.launch_count != int64_t(plan.launches().size()))
    return at("launches in view", 0, view.launch_count, int64_t(plan.launches().size()));
  if (view.table.tensor_count != c.table.size())
    return at("tensors in view", 0, view.table.tensor_count, c.table.size());
  for (int64_t k = 0; k < view.chunk_count; ++k) {
    const std::span<const Segment> chunk = plan.chunk(k);
    if (view.segments + view.chunk_first[k] != chunk.data())
      return at("first segment of chunk", k, view.chunk_first[k], 0);
    if (view.chunk_first[k + 1] - view.chunk_first[k] != int64_t(chunk.size()))
      return at("segments of chunk", k, view.chunk_first[k + 1] - view.chunk_first[k],
                int64_t(chunk.size()));
  }
  return "";
}

std::string fault(const Case& c, const ChunkPlan& plan) {
  for (const auto check : {coverage_fault, launch_fault, tile_fault, view_fault})
    if (std::string text = check(c, plan); !text.empty()) return text;
  return "";
}
std::string fault(const Case& c) { return fault(c, c.plan()); }

Case random_case(uint64_t seed) {
  int64_t i = 0;
  const auto next = [&] { return draw(seed, 0, i++); };
  Case c;
  c.chunk = kTile << next() % 7;
  const uint64_t keys = 1 + next() % std::size(kKeys);
  for (uint64_t tensors = next() % 60; tensors > 0; --tensors) {
    const uint64_t kind = next() % 4;
    int64_t n = 0;
    if (kind == 1) n = int64_t(next() % 50);
    if (kind == 2) n = kEdgeSizes[next() % std::size(kEdgeSizes)];
    if (kind == 3) n = int64_t(next() % 600000);
    c.add(n, kKeys[next() % keys]);
  }
  return c;
}

std::vector<std::array<int64_t, 3>> segments_of(const ChunkPlan& plan) {
  std::vector<std::array<int64_t, 3>> list;
  for (int64_t k = 0; k < plan.chunk_count(); ++k) {
    for (const Segment& s : plan.chunk(k)) list.push_back({s.tensor, s.begin, s.count});
    list.push_back({-1, -1, k});
  }
  return list;
}

}  // namespace

TEST_CASE("a plan of random tensors, keys and chunks is right") {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    const std::string text = fault(random_case(seed));
    INFO("seed " << seed);
    CHECK(text == "");
  }
}

TEST_CASE("a plan of one tensor is right around tiles and chunks") {
  for (int64_t chunk : {4096, 8192, 16384, 262144})
    for (int64_t edge : {int64_t{0}, kTile, chunk - kTile, chunk, chunk + kTile, 3 * chunk})
      for (int64_t n = edge - 2; n <= edge + 2; ++n) {
        if (n < 0) continue;
        const Case c = of_sizes({n}, chunk);
        INFO("chunk " << chunk << ", elements " << n);
        CHECK(fault(c) == "");
        CHECK(c.plan().chunk_count() == (n + chunk - 1) / chunk);
      }
}

TEST_CASE("tensors on both sides of a full chunk are cut at tiles of their own") {
  const Case c = of_sizes({100, 20000, 12284, 1, 4096});
  CHECK(fault(c) == "");
  const ChunkPlan plan = c.plan();
  REQUIRE(plan.chunk_count() >= 2);
  CHECK(segments_of(plan)[1] == std::array<int64_t, 3>{1, 0, 12288});
}

TEST_CASE("small tensors share chunks: 10,000 of 17 elements are 11 chunks of one launch") {
  Case c;
  for (int i = 0; i < 10000; ++i) c.add(17);
  const ChunkPlan plan = c.plan();
  CHECK(fault(c, plan) == "");
  CHECK(plan.launches().size() == 1);
  CHECK(plan.chunk_count() == 11);  // 963 tensors fit into 16,384 elements
}

// Trap 17 [github.com/pytorch/pytorch/issues/100701]: the last tensor of a list was empty and the
// whole update was skipped.
TEST_CASE("trap 17: empty tensors anywhere cost nothing and hide nothing") {
  const std::initializer_list<int64_t> sizes = {5, 70001, 4096, 17};
  const ChunkPlan whole = of_sizes(sizes).plan();
  for (size_t place = 0; place <= sizes.size(); ++place)
    for (int empties : {1, 3}) {
      Case c;
      for (size_t i = 0; i <= sizes.size(); ++i) {
        for (int e = 0; i == place && e < empties; ++e) c.add(0);
        if (i < sizes.size()) c.add(sizes.begin()[i]);
      }
      INFO("place " << place << ", empty tensors " << empties);
      CHECK(fault(c) == "");
      CHECK(c.plan().chunk_count() == whole.chunk_count());
      CHECK(c.plan().tile_count() == whole.tile_count());
    }
}

TEST_CASE("a key whose tensors are all empty has no launch") {
  Case c;
  c.add(0, kKeys[1]).add(40, kKeys[0]).add(0, kKeys[2]).add(0, kKeys[1]);
  CHECK(fault(c) == "");
  CHECK(c.plan().launches().size() == 1);
}

TEST_CASE("no tensors, or only empty ones, are a plan without chunks") {
  for (const Case& c : {of_sizes({}), of_sizes({0}), of_sizes({0, 0, 0})}) {
    const ChunkPlan plan = c.plan();
    CHECK(fault(c, plan) == "");
    CHECK(plan.chunk_count() == 0);
    CHECK(plan.tile_count() == 0);
    CHECK(plan.launches().empty());
  }
}

// Trap 18 [github.com/deepspeedai/DeepSpeed/issues/7640]: more than 2^31 elements.
TEST_CASE("trap 18: tensors beyond 2^31 and 2^33 elements are covered to the far end") {
  for (int64_t n : {(int64_t{1} << 31) - 1, int64_t{1} << 31, (int64_t{1} << 31) + 5,
                    (int64_t{1} << 32) + 4097, (int64_t{1} << 33) + 12345}) {
    Case c = of_sizes({3, n, 100});
    c.chunk = 262144;
    const ChunkPlan plan = c.plan();
    INFO("elements " << n);
    CHECK(fault(c, plan) == "");
    CHECK(plan.tile_count() == 2 + (n + kTile - 1) / kTile);
    int64_t end = 0;
    for (int64_t k = 0; k < plan.chunk_count(); ++k)
      for (const Segment& s : plan.chunk(k))
        if (s.tensor == 1) end = std::max(end, s.begin + s.count);
    CHECK(end == n);
  }
}

TEST_CASE("trap 18: a thousand tensors of 2^22 elements are counted in 64 bits") {
  Case c;
  for (int i = 0; i < 1025; ++i) c.add(int64_t{1} << 22);
  CHECK(fault(c) == "");
  CHECK(c.plan().chunk_count() == 1025 * ((int64_t{1} << 22) / talus::kChunk));
}

TEST_CASE("chunks keep the order of the tensors of each key") {
  const Case c = random_case(1);
  std::map<int64_t, int64_t> last;  // by launch
  const ChunkPlan plan = c.plan();
  REQUIRE(plan.launches().size() > 1);
  for (size_t l = 0; l < plan.launches().size(); ++l) {
    const talus::Launch& launch = plan.launches()[l];
    for (int64_t k = launch.first_chunk; k < launch.first_chunk + launch.chunk_count; ++k)
      for (const Segment& s : plan.chunk(k)) {
        CHECK(s.tensor >= last[int64_t(l)]);
        last[int64_t(l)] = s.tensor;
      }
  }
}

TEST_CASE("a plan depends on no pointer, gradient or scalar class") {
  const Case plain = random_case(24);
  Case other = random_case(24);
  int somewhere = 0;
  for (int64_t t = 0; t < other.table.size(); ++t) {
    other.table.set_data(talus::kValue, t, &somewhere);
    if (t % 2) other.table.set_data(talus::kGradient, t, &somewhere);
    other.table.scalar_class[size_t(t)] = int32_t(t % 3) - 1;
  }
  REQUIRE(plain.plan().chunk_count() > 1);
  CHECK(segments_of(plain.plan()) == segments_of(other.plan()));
}

TEST_CASE("a plan that is built again forgets the one before") {
  ChunkPlan plan;
  for (uint64_t seed = 20; seed < 30; ++seed) {
    const Case c = random_case(seed);
    plan.build(c.table, c.keys, c.chunk);
    INFO("seed " << seed);
    CHECK(fault(c, plan) == "");
    CHECK(segments_of(plan) == segments_of(c.plan()));
  }
}
