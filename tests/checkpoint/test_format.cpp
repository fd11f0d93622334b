// The format stays: files of every version load for ever, and nothing is allocated from what a header
// claims.
#include <catch2/catch_test_macros.hpp>

#include "tests/checkpoint/folder.h"
#include "tests/checkpoint/model.h"

using namespace talus;
using namespace talus::test;

namespace {

const std::vector<ParamSpec> kParams = {{"layer.weight", {4, 3}},
                                        {"layer.bias", {4}},
                                        {"h\xc3\xb6he", {}, TALUS_F64, 0, 1},
                                        {"half", {5}, TALUS_BF16, TALUS_MASTER_AUTO, 1},
                                        {"empty", {0, 2}, TALUS_F32, 0, 1}};
const Model::Groups kGroups = {{"adamw", {{"lr", 0.125}, {"amsgrad", 1}}},
                               {"nadam", {{"weight_decay", 0.25}}}};

}  // namespace

TEST_CASE("format: a file of version 1 loads and means what it meant") {
  const std::string path = TALUS_GOLDEN_CHECKPOINTS "/version-1.safetensors";
  Model trained(kParams, kGroups, 3), loaded(kParams, kGroups);
  must(talus_set_note(trained.get(), "epoch", "3"));
  if (std::getenv("TALUS_WRITE_GOLDEN")) {
    const talus_io io = io_of(TALUS_SAVE_PARAMS);
    must(talus_save(trained.get(), path.c_str(), &io, nullptr));
  }
  const talus_io io = io_of(TALUS_LOAD_PARAMS);
  const talus_status status = talus_load(loaded.get(), path.c_str(), &io, nullptr);
  INFO(talus_last_error());
  REQUIRE(status == TALUS_OK);
  CHECK((loaded.bytes() == trained.bytes()));
}

TEST_CASE("format: a header that claims terabytes costs no memory") {
  // One tensor of 2^38 elements behind a reader that has no such bytes.
  const std::string manifest =
      R"("__metadata__":{"talus.version":"1","talus.params":"[{\"name\":\"w\",\"dtype\":\"F32\",)"
      R"(\"shape\":[274877906944],\"group\":0,\"slots\":[\"exp_avg\",\"exp_avg_sq\"]}]",)"
      R"("talus.groups":"[{\"algorithm\":\"adamw\",\"hyper\":{},\"mode\":\"train\"}]"})";
  const std::string header =
      "{" + manifest +
      R"(,"state.w.step":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
      R"("state.w.exp_avg":{"dtype":"F32","shape":[274877906944],"data_offsets":[8,1099511627784]},)"
      R"("state.w.exp_avg_sq":{"dtype":"F32","shape":[274877906944],)"
      R"("data_offsets":[1099511627784,2199023255560]}})";
  struct Reader {
    std::string head;
    static int32_t read(void* user, uint64_t offset, void* out, uint64_t count) {
      const std::string& head = static_cast<Reader*>(user)->head;
      if (offset > head.size() || count > head.size() - offset) return 1;
      std::memcpy(out, head.data() + offset, size_t(count));
      return 0;
    }
  } user;
  const uint64_t length = header.size();
  user.head.assign(reinterpret_cast<const char*>(&length), 8);
  user.head += header;
  talus_reader reader{sizeof reader, 0, &user, user.head.size() + 2199023255560, Reader::read};
  Model model({{"w", {3}}});
  const std::string before = model.bytes();
  CHECK(talus_load_from(model.get(), &reader, nullptr, nullptr) == TALUS_E_MISMATCH);
  CHECK(talus_last_error_detail() == TALUS_M_SHAPE);
  CHECK((model.bytes() == before));
}
