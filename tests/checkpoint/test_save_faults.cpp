// Saves and loads through the C ABI of which each file call fails once, or that the caller stops.
#include <catch2/catch_test_macros.hpp>

#include <cerrno>
#include <functional>

#include "tests/checkpoint/fault_calls.h"
#include "tests/checkpoint/saved_model.h"

using namespace talus;
using namespace talus::test;
using faults::Call;
using faults::Plan;

namespace {

using Calls = std::vector<Call>;
using Names = std::set<std::string>;

constexpr int kErrors[] = {EIO, ENOSPC, EDQUOT, EINTR, EACCES};
constexpr int64_t kMostCalls = 400;

// A checkpoint of two steps, and an optimizer that is further.
struct Scene {
  explicit Scene(const char* name) : path(folder / name) {
    const SmallModel before(2);
    REQUIRE(save_at(before, path) == TALUS_OK);
    old = before.bytes();
    names = folder.names();
  }
  Folder folder;
  std::string path, old;
  Names names;
  SmallModel live{3};
};

struct Run {
  talus_status status = TALUS_OK;
  int64_t detail = 0;
  std::string error;
  Calls calls;
};

Run under_faults(const Scene& scene, const Plan& plan, const std::function<talus_status()>& call) {
  Run run;
  faults::watch(scene.folder.path(), plan);
  run.status = call();
  run.calls = faults::stop();
  if (run.status != TALUS_OK) run.error = talus_last_error();
  if (run.status != TALUS_OK) run.detail = talus_last_error_detail();
  return run;
}

bool has_temporary(const Names& names) {
  for (const std::string& name : names)
    if (name.starts_with('.')) return true;
  return false;
}

// The rename that publishes: of the path itself.
bool is_published(const Run& run, const Scene& scene) {
  for (const Call& call : run.calls)
    if (call.name == "rename" && call.to == scene.path && call.done()) return true;
  return false;
}

void check_failed_save(const Run& run, const Scene& scene, int error, const std::string& saved) {
  CHECK(run.status == TALUS_E_IO);
  CHECK(run.detail == error);
  CHECK(run.error.find(scene.folder.path()) != std::string::npos);
  const bool published = is_published(run, scene);
  CHECK((run.error.find("renamed, but not known") != std::string::npos) >= published);
  CHECK((loaded_bytes(scene.path) == (published ? saved : scene.old)));
  if (!published) CHECK(scene.folder.names() == scene.names);
}

// Each call of a save fails once; returns how many failed.
int64_t fail_each_call_of_a_save(const char* name, int error) {
  for (int64_t k = 0;; ++k) {
    const Scene scene(name);
    const std::string live = scene.live.bytes();
    const Run run = under_faults(scene, {.fail_at = k, .error = error},
                                 [&] { return save_at(scene.live, scene.path); });
    CAPTURE(name, error, k, run.error, faults::describe(run.calls));
    REQUIRE(k < kMostCalls);
    CHECK((scene.live.bytes() == live));
    CHECK(!has_temporary(scene.folder.names()));
    if (run.status != TALUS_OK)
      check_failed_save(run, scene, error, live);
    else
      CHECK((loaded_bytes(scene.path) == live));
    if (k >= static_cast<int64_t>(run.calls.size())) return k;
  }
}

void fail_each_call_of_a_load(const char* name, int error, uint64_t flags) {
  const Scene scene(name);
  const std::string live = scene.live.bytes();
  int64_t failures = 0;
  for (int64_t k = 0;; ++k) {
    const SmallModel into(3);
    const Run run = under_faults(scene, {.fail_at = k, .error = error, .most = 512},
                                 [&] { return load_at(into, scene.path, io_of(flags)); });
    CAPTURE(name, error, k, run.error, faults::describe(run.calls));
    REQUIRE(k < kMostCalls);
    if (run.status == TALUS_OK) {
      CHECK((into.bytes() == ((flags & TALUS_LOAD_CHECK_ONLY) != 0 ? live : scene.old)));
    } else {
      ++failures;
      CHECK(run.status == TALUS_E_IO);
      CHECK(run.detail == error);
      CHECK(run.error.find(scene.folder.path()) != std::string::npos);
      CHECK((into.bytes() == live));
    }
    if (k >= static_cast<int64_t>(run.calls.size())) break;
  }
  if (error != EINTR) CHECK(failures > 4);
}

// Says stop at its k-th call.
struct Stop {
  int64_t at = 0, calls = 0;
  static int32_t progress(void* user, uint64_t, uint64_t) {
    auto* stop = static_cast<Stop*>(user);
    return stop->calls++ == stop->at ? 77 : 0;
  }
  talus_io io(uint64_t flags = 0) {
    talus_io out = io_of(flags);
    out.user = this;
    out.progress = progress;
    return out;
  }
};

}  // namespace

TEST_CASE("save faults: the calls of the shared library are seen, the last rename is the path's") {
  for (const char* name : {kPlainName, kIndexName}) {
    const Scene scene(name);
    const Run run = under_faults(scene, {}, [&] { return save_at(scene.live, scene.path); });
    CAPTURE(name, run.error, faults::describe(run.calls));
    REQUIRE(run.status == TALUS_OK);
    std::set<std::string> seen;
    std::string last_renamed;
    bool synced = true;  // what was written before a rename
    for (const Call& call : run.calls) {
      seen.insert(call.name);
      if (call.name == "write") synced = false;
      if (call.name == "fsync" && !call.is_folder) synced = true;
      if (call.name == "rename") CHECK(synced);
      if (call.name == "rename") last_renamed = call.to;
    }
    for (const char* call : {"open", "write", "posix_fallocate", "fsync", "close", "rename"})
      CHECK(seen.count(call) == 1);
    CHECK(last_renamed == scene.path);
    CHECK((loaded_bytes(scene.path) == scene.live.bytes()));
  }
}

TEST_CASE("save faults: each call of a save fails once; the old file loads, nothing is left over") {
  for (const int error : kErrors) CHECK(fail_each_call_of_a_save(kPlainName, error) > 20);
}

TEST_CASE("save faults: so it is where a save writes shards and an index") {
  for (const int error : {EIO, ENOSPC, EINTR})
    CHECK(fail_each_call_of_a_save(kIndexName, error) > 60);
}

TEST_CASE("save faults: each call of a load fails once, and the live optimizer is as it was") {
  for (const int error : kErrors)
    for (const char* name : {kPlainName, kIndexName}) {
      fail_each_call_of_a_load(name, error, 0);
      fail_each_call_of_a_load(name, error, TALUS_LOAD_CHECK_ONLY);
    }
}

TEST_CASE("save faults: a save and a load in single bytes and in halves give the same state") {
  for (const Plan& plan : {Plan{.most = 1}, Plan{.halves = true}})
    for (const char* name : {kPlainName, kIndexName}) {
      const Scene scene(name);
      const Run saved = under_faults(scene, plan, [&] { return save_at(scene.live, scene.path); });
      CAPTURE(name, saved.error);
      REQUIRE(saved.status == TALUS_OK);
      CHECK(saved.calls.size() > 60);
      const SmallModel into;
      const Run loaded = under_faults(scene, plan, [&] { return load_at(into, scene.path); });
      CAPTURE(loaded.error);
      REQUIRE(loaded.status == TALUS_OK);
      CHECK(loaded.calls.size() > 60);
      CHECK((into.bytes() == scene.live.bytes()));
    }
}

TEST_CASE("save faults: a save that is cancelled at any progress call leaves the old file alone") {
  for (const char* name : {kPlainName, kIndexName}) {
    for (int64_t k = 0;; ++k) {
      const Scene scene(name);
      const std::string live = scene.live.bytes();
      Stop stop{k};
      const talus_status status = save_at(scene.live, scene.path, stop.io());
      CAPTURE(name, k);
      CHECK((scene.live.bytes() == live));
      if (status == TALUS_OK) {
        CHECK(k >= 2);  // at the start and at the end at least
        CHECK(stop.calls == k);
        break;
      }
      CHECK(status == TALUS_E_CANCELLED);
      CHECK(talus_last_error_detail() == 77);
      CHECK(scene.folder.names() == scene.names);
      CHECK((loaded_bytes(scene.path) == scene.old));
    }
  }
}

TEST_CASE("save faults: a load that is cancelled at any progress call changes nothing") {
  for (const char* name : {kPlainName, kIndexName}) {
    const Scene scene(name);
    const std::string live = scene.live.bytes();
    for (int64_t k = 0;; ++k) {
      const SmallModel into(3);
      Stop stop{k};
      const talus_status status = load_at(into, scene.path, stop.io());
      CAPTURE(name, k);
      if (status == TALUS_OK) {
        CHECK(k >= 2);
        CHECK((into.bytes() == scene.old));
        break;
      }
      CHECK(status == TALUS_E_CANCELLED);
      CHECK((into.bytes() == live));
    }
  }
}

TEST_CASE("save faults: a file that is cut while it is loaded is an I/O failure without a change") {
  const Scene scene(kPlainName);
  const std::string live = scene.live.bytes();
  struct Cut {
    std::string path;
    uintmax_t size;
  } cut{scene.path, std::filesystem::file_size(scene.path) - 150};  // in the data
  talus_io io = io_of(0);
  io.user = &cut;
  io.progress = [](void* user, uint64_t, uint64_t) -> int32_t {
    std::filesystem::resize_file(static_cast<Cut*>(user)->path, static_cast<Cut*>(user)->size);
    return 0;
  };
  const talus_status status = load_at(scene.live, scene.path, io);
  const std::string said = talus_last_error();
  CAPTURE(said, cut.size);
  CHECK(status == TALUS_E_IO);
  CHECK(said.find("ends at byte " + std::to_string(cut.size)) != std::string::npos);
  CHECK((scene.live.bytes() == live));
}
