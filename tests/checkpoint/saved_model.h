// A small optimizer with a checkpoint on disk, plain or of several files, for tests of what fails.
#pragma once
#include "tests/checkpoint/folder.h"
#include "tests/checkpoint/model.h"
#include "tests/checkpoint/schedules.h"

namespace talus::test {

// Three parameters of adamw, one with a master, and a schedule; trained by that many steps.
class SmallModel : public Model {
 public:
  explicit SmallModel(int64_t steps = 0)
      : Model({{"w"}, {"b", {5}}, {"half", {4, 3}, TALUS_BF16}}, {{"adamw", {}}}) {
    must(talus_set_setting(get(), "shard_bytes", 120));
    must(talus_set_setting(get(), "threads", 1));
    attach(get(), "lr",
           ScheduleRef("chained")
               .piece(ScheduleRef("multistep").milestones({1, 4}))
               .piece(ScheduleRef("plateau", {{"patience", 3}})));
    must(talus_observe(get(), 1));
    for (int64_t s = 1; s <= steps; ++s) step(s);
  }
};

inline const char* const kPlainName = "x.safetensors";
inline const char* const kIndexName = "x.safetensors.index.json";

inline talus_status save_at(const SmallModel& model, const std::string& path,
                            talus_io io = io_of(0)) {
  io.flags |= TALUS_SAVE_PARAMS;
  return talus_save(model.get(), path.c_str(), &io, nullptr);
}

inline talus_status load_at(const SmallModel& model, const std::string& path,
                            talus_io io = io_of(0)) {
  io.flags |= TALUS_LOAD_PARAMS;
  return talus_load(model.get(), path.c_str(), &io, nullptr);
}

// The bytes of what is saved there, or why it cannot be loaded.
inline std::string loaded_bytes(const std::string& path) {
  const SmallModel fresh;
  if (load_at(fresh, path) != TALUS_OK) return talus_last_error();
  return fresh.bytes();
}

}  // namespace talus::test
