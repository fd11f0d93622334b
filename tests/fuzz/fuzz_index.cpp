// Bytes as the index of a checkpoint whose two shards are good: refused with a text and nothing changed,
// or loaded.
#include <filesystem>

#include "tests/checkpoint/folder.h"
#include "tests/fuzz/live.h"

using namespace talus::test;

namespace {

// The shards' names hold no generation drawn by chance: the corpus names them.
struct Shards {
  Live live;
  Folder folder;
  std::string path = folder / "x.safetensors.index.json";

  Shards() {
    must(talus_set_setting(live.get(), "shard_bytes", 40));
    must(talus_save(live.get(), path.c_str(), nullptr, nullptr));
    int number = 0;
    for (const std::string& name : folder.names())
      if (name.ends_with(".safetensors"))
        std::filesystem::rename(folder / name,
                                folder / ("shard-" + std::to_string(++number) + ".safetensors"));
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Shards shards;
  write_file(shards.path, std::string(reinterpret_cast<const char*>(data), size));
  const talus_io io = io_of(TALUS_LOAD_PARAMS | TALUS_LOAD_ALLOW_MISSING);
  const talus_status status = talus_load(shards.live.get(), shards.path.c_str(), &io, nullptr);
  shards.live.check(status, false);
  return 0;
}
