// A step in chunks: no cut of the work, on no threads, changes a bit of it.
#include <catch2/catch_test_macros.hpp>

#include <memory>

#include "lib/optimizer/optimizer.h"
#include "tests/chunk_tally.h"
#include "tests/optimizer.h"
#include "tests/reference/all.hpp"

using namespace talus::test;

namespace {

struct Tensors {
  std::deque<TestTensor> list;

  Tensors& add(const Mix& mix, int64_t n) {
    const uint64_t seed = list.size() + 1;
    list.emplace_back(mix, n).fill(seed).fill_grad(seed, 1);
    return *this;
  }
};

// All mixes, tensors that share a chunk, that are cut, and that are empty, in changing order.
const Tensors& zoo() {
  static const Tensors tensors = [] {
    Tensors made;
    const int64_t kCut[] = {40001, 4096, 16385, 8193, 4097, 12288, 16384};
    for (size_t m = 0; m < all_mixes().size(); ++m)
      for (int64_t n : {int64_t{17}, kCut[m % std::size(kCut)], int64_t{0}, int64_t{63}})
        made.add(all_mixes()[m], n);
    return made;
  }();
  return tensors;
}

struct How {
  int threads;
  int64_t chunk;
  Host host;
};

struct Result {
  Tensors tensors;
  std::vector<std::pair<std::string, Buffer>> states;
  double norm;
};

std::unique_ptr<talus::Optimizer> optimizer_of(const HyperSet& set, const How& how) {
  std::unique_ptr<talus::Optimizer> made;
  REQUIRE(talus::Optimizer::create(talus::find_algorithm(set.algorithm), &made).ok());
  for (const auto& [name, value] : set.values) REQUIRE(made->set(TALUS_ALL, name, value).ok());
  REQUIRE(made->set_setting("threads", how.threads).ok());
  REQUIRE(made->set_setting("stats", 1).ok());
  REQUIRE(made->set_parallel_for(how.host.loop, nullptr).ok());
  made->set_chunk(how.chunk);
  return made;
}

constexpr int kSteps = 2;

Result train(const HyperSet& set, const How& how) {
  Result result{zoo(), {}, NAN};
  const std::unique_ptr<talus::Optimizer> optimizer = optimizer_of(set, how);
  std::vector<talus_param> descriptors;
  for (TestTensor& t : result.tensors.list) descriptors.push_back(t.descriptor());
  REQUIRE(optimizer->add_params(0, descriptors, nullptr).ok());
  for (int step = 0; step < kSteps; ++step) REQUIRE(optimizer->step(nullptr).ok());
  for (int64_t i = 0; i < optimizer->state_count(); ++i) {
    int64_t param = -1;
    talus::StateSlot slot{};
    optimizer->state_at(i, &param, &slot);
    Buffer copy(talus::info(slot.dtype).abi, slot.count);
    if (slot.count > 0) std::memcpy(copy.data(), optimizer->state_data(param, slot), copy.bytes());
    result.states.emplace_back(std::string(slot.name) + " of " + std::to_string(param), copy);
  }
  talus::StepStats stats;
  REQUIRE(optimizer->read_stats(true, &stats).ok());
  result.norm = stats.grad_norm;
  return result;
}

std::string difference(const Result& a, const Result& b) {
  std::string text;
  for (size_t i = 0; i < a.tensors.list.size() && text.empty(); ++i) {
    const Buffer& param = a.tensors.list[i].param;
    text =
        talus::test::difference("parameter " + std::to_string(i), param, b.tensors.list[i].param);
    if (!param.guards_intact()) text = "guard bytes of parameter " + std::to_string(i);
  }
  for (size_t i = 0; i < a.states.size() && text.empty(); ++i)
    text = talus::test::difference(a.states[i].first, a.states[i].second, b.states[i].second);
  if (text.empty() && a.states.size() != b.states.size()) text = "counts of states differ";
  if (text.empty() && bits_of(a.norm) != bits_of(b.norm)) text = "norms differ";
  return text;
}

const HyperSet kSets[] = {
    hyper_set("sgd", "maximize, dampening, weight decay"),
    hyper_set("adam", "amsgrad, weight decay, maximize"),
    hyper_set("adamw", "defaults"),
};

}  // namespace

TEST_CASE("any chunk, any number of threads and any loop of the host give the same bits") {
  for (const HyperSet& set : kSets) {
    const Result want = train(set, {1, talus::kChunk, kHosts[0]});
    REQUIRE(!want.tensors.list[1].param.same_bytes(zoo().list[1].param));
    for (int64_t chunk : {4096, 8192, 16384, 262144})
      for (int threads : {1, 2, 3, 8})
        for (const Host& host : kHosts) {
          if (threads == 1 && host.loop) continue;  // never called
          INFO(set.algorithm << ", chunk " << chunk << ", threads " << threads << ", "
                             << host.name);
          CHECK(difference(train(set, {threads, chunk, host}), want) == "");
        }
  }
}
