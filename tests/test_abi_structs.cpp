// Growing structs: an older caller's is shorter, a newer caller's longer. Each is cut at every
// field and extended with zero and with non-zero tails.
#include "tests/abi/fixture.h"

#include <cstddef>
#include <cstdlib>

using namespace talus::abi;

namespace {

constexpr unsigned char kFill = 0xa5;
constexpr size_t kTail = 24;  // bytes of a newer caller's fields

// Calls fill(struct) for every size that a caller may know. What he knows must be as in the full
// struct, struct_size must stay his, and not one byte beyond may be written.
template <class Struct, class Fill>
void check_filled(Fill fill) {
  Struct full{};
  full.struct_size = sizeof full;
  REQUIRE(fill(&full) == TALUS_OK);
  alignas(16) unsigned char memory[sizeof(Struct) + kTail];
  for (uint32_t size = 0; size <= sizeof memory; size += 4) {
    CAPTURE(size);
    std::memset(memory, kFill, sizeof memory);
    std::memcpy(memory, &size, sizeof size);
    const talus_status status = fill(reinterpret_cast<Struct*>(memory));
    uint32_t size_after = 0;
    std::memcpy(&size_after, memory, sizeof size);
    CHECK(size_after == size);
    const bool too_short = size < offsetof(Struct, struct_size) + 8;
    CHECK(status == (too_short ? TALUS_E_ARGUMENT : TALUS_OK));
    if (too_short) CHECK(std::string(talus_last_error()).find("struct_size") != std::string::npos);
    for (size_t i = 4; i < sizeof memory; ++i) {
      const bool known = !too_short && i < size && i < sizeof full;
      CAPTURE(i);
      REQUIRE(memory[i] == (known ? reinterpret_cast<unsigned char*>(&full)[i] : kFill));
    }
  }
}

struct NewerParam {
  talus_param known;
  unsigned char tail[kTail];
};

struct NewerAllocator {
  talus_allocator known;
  unsigned char tail[kTail];
};

}  // namespace

TEST_CASE("abi: structs that the library fills get no more bytes than the caller knows") {
  Handle opt("adamw");
  Model model;
  model.add_to(opt);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  check_filled<talus_hyper>([](talus_hyper* out) { return talus_hyper_info("adamw", 1, out); });
  check_filled<talus_param>([&](talus_param* out) { return talus_param_info(opt, 1, out); });
  check_filled<talus_state>([&](talus_state* out) { return talus_state_info(opt, 3, out); });
  check_filled<talus_stats>([&](talus_stats* out) { return talus_get_stats(opt, 1, out); });
}

TEST_CASE("abi: an older caller's parameter takes defaults for the fields that he does not know") {
  const size_t cuts[] = {offsetof(talus_param, grad_dtype), offsetof(talus_param, state_dtype),
                         offsetof(talus_param, master), offsetof(talus_param, flags),
                         sizeof(talus_param)};
  for (const size_t cut : cuts) {
    CAPTURE(cut);
    Handle opt("sgd");
    std::vector<uint16_t> data(4);
    const int64_t four = 4;
    talus_param param = describe<uint16_t>(TALUS_BF16, data.data(), nullptr, &four);
    param.name = "old";
    // What lies behind the cut would be refused if it were read.
    std::memset(reinterpret_cast<char*>(&param) + cut, kFill, sizeof param - cut);
    param.struct_size = uint32_t(cut);
    add(opt, param);
    talus_param info{};
    info.struct_size = sizeof info;
    REQUIRE(talus_param_info(opt, 0, &info) == TALUS_OK);
    CHECK(std::string(info.name) == "old");
    CHECK((info.grad_dtype == TALUS_BF16 && info.state_dtype == TALUS_F32));
    CHECK((info.master == TALUS_MASTER_F32 && info.flags == 0));
  }
}

TEST_CASE("abi: a parameter too short to describe one is refused") {
  Handle opt("sgd");
  const int64_t four = 4;
  std::vector<float> data(4);
  talus_param param = describe<float>(TALUS_F32, data.data(), nullptr, &four);
  for (uint32_t size = 0; size < offsetof(talus_param, grad_dtype); size += 4) {
    CAPTURE(size);
    param.struct_size = size;
    int64_t first = -7;
    refused(opt, TALUS_E_ARGUMENT, {"struct_size"},
            [&] { return talus_add_params(opt, 0, 1, &param, &first); });
    CHECK(first == -7);
  }
}

TEST_CASE("abi: a newer caller's parameter is taken if all that is unknown is zero") {
  Handle opt("sgd");
  const int64_t four = 4;
  std::vector<float> data(4);
  NewerParam newer{};
  newer.known = describe<float>(TALUS_F32, data.data(), nullptr, &four);
  newer.known.struct_size = sizeof newer;
  for (size_t i = 0; i < kTail; ++i) {
    newer.tail[i] = 1;
    int64_t first = -7;
    refused(opt, TALUS_E_UNSUPPORTED, {},
            [&] { return talus_add_params(opt, 0, 1, &newer.known, &first); });
    CHECK(first == -7);
    newer.tail[i] = 0;
  }
  CHECK(talus_add_params(opt, 0, 1, &newer.known, nullptr) == TALUS_OK);
}

TEST_CASE("abi: an array of parameters has the stride of its first struct_size") {
  std::vector<float> data(12), grad(12, 1);
  const int64_t four = 4;
  const char* const names[] = {"a", "b", "c"};
  const auto fill = [&](void* array, uint32_t stride) {
    for (int i = 0; i < 3; ++i) {
      talus_param param = describe(TALUS_F32, data.data() + 4 * i, grad.data() + 4 * i, &four);
      param.struct_size = stride;
      param.name = names[i];
      std::memcpy(static_cast<char*>(array) + i * int(stride), &param,
                  stride < sizeof param ? stride : sizeof param);
    }
  };
  alignas(8) unsigned char memory[3 * sizeof(NewerParam)] = {};
  const auto* params = reinterpret_cast<const talus_param*>(memory);
  for (const uint32_t stride :
       {uint32_t(48), uint32_t(sizeof(talus_param)), uint32_t(sizeof(NewerParam))}) {
    CAPTURE(stride);
    std::memset(memory, 0, sizeof memory);
    fill(memory, stride);
    Handle opt("sgd");
    REQUIRE(talus_add_params(opt, 0, 3, params, nullptr) == TALUS_OK);
    for (int64_t i = 0; i < 3; ++i) {
      talus_param info{};
      info.struct_size = sizeof info;
      REQUIRE(talus_param_info(opt, i, &info) == TALUS_OK);
      CHECK(info.data == data.data() + 4 * i);
      CHECK(std::string(info.name) == names[i]);
    }
  }
  // All elements carry the same size, and each tail is looked at.
  Handle opt("sgd");
  auto* second = reinterpret_cast<talus_param*>(memory + sizeof(NewerParam));
  second->struct_size = sizeof(talus_param);
  refused(opt, TALUS_E_ARGUMENT, {"1", "struct_size"},
          [&] { return talus_add_params(opt, 0, 3, params, nullptr); });
  second->struct_size = sizeof(NewerParam);
  memory[sizeof memory - 1] = 1;
  refused(opt, TALUS_E_UNSUPPORTED, {"2"},
          [&] { return talus_add_params(opt, 0, 3, params, nullptr); });
}

TEST_CASE("abi: an older and a newer caller's allocator") {
  static int destroyed;
  destroyed = 0;
  NewerAllocator newer{};
  newer.known.alloc = [](void*, uint64_t bytes, uint64_t alignment, void*) {
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  };
  newer.known.release = [](void*, void* data, uint64_t, void*) { std::free(data); };
  newer.known.destroy = [](void*) { ++destroyed; };
  Handle opt("adamw");
  Model model;
  model.add_to(opt);
  newer.known.struct_size = sizeof newer;
  newer.tail[kTail - 1] = 1;
  refused(opt, TALUS_E_UNSUPPORTED, {}, [&] { return talus_set_allocator(opt, &newer.known); });
  CHECK(destroyed == 0);
  newer.tail[kTail - 1] = 0;
  REQUIRE(talus_set_allocator(opt, &newer.known) == TALUS_OK);
  // Replaced by an older caller's, whose destroy is not there to be called.
  newer.known.struct_size = offsetof(talus_allocator, destroy);
  REQUIRE(talus_set_allocator(opt, &newer.known) == TALUS_OK);
  CHECK(destroyed == 1);
  REQUIRE(talus_step(opt, nullptr) == TALUS_OK);
  for (uint32_t size = 0; size < offsetof(talus_allocator, release); size += 4) {
    newer.known.struct_size = size;
    Handle other("adamw");
    refused(other, TALUS_E_ARGUMENT, {"struct_size"},
            [&] { return talus_set_allocator(other, &newer.known); });
  }
  CHECK(destroyed == 1);
}
