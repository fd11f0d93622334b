// What may be on a disk when the power goes during a save: sure is what was fsynced; of what came
// later, any part. Built from the log of real calls.
#include <catch2/catch_test_macros.hpp>

#include <map>
#include <set>

#include "tests/checkpoint/fault_calls.h"
#include "tests/checkpoint/folder.h"
#include "tests/checkpoint/whole_file.h"

using namespace talus;
using namespace talus::test;
using faults::Call;

namespace {

using Calls = std::vector<Call>;
using Outcomes = std::set<std::string>;

// The disk after some calls have reached it: names lead to files, by the path of their creation.
struct Disk {
  std::map<std::string, std::string> names, files;

  void take(const Call& call) {
    if (call.name == "open" && call.creates) names[call.path] = call.path;
    if (call.name == "unlink") names.erase(call.path);
    if (call.name == "rename") rename(call);
    if (call.name == "posix_fallocate") files[call.path].resize(static_cast<size_t>(call.offset));
    if (call.name == "write") write(&files[call.path], call);
  }
  void rename(const Call& call) {
    names.erase(call.path);
    names[call.to] = call.path;
  }
  static void write(std::string* file, const Call& call) {
    const size_t offset = static_cast<size_t>(call.offset), end = offset + call.bytes.size();
    if (file->size() < end) file->resize(end);
    file->replace(offset, call.bytes.size(), call.bytes);
  }
  std::string content(const std::string& path) const {
    const auto name = names.find(path);
    if (name == names.end()) return "(no such name)";
    const auto file = files.find(name->second);
    return file == files.end() ? "" : file->second;
  }
};

bool changes_content(const Call& call) {
  return call.name == "write" || call.name == "posix_fallocate";
}
bool changes_names(const Call& call) {
  return call.name == "rename" || call.name == "unlink" || (call.name == "open" && call.creates);
}

// Whether an fsync among calls[i + 1 .. count) makes calls[i] sure.
bool is_sure(const Calls& calls, size_t i, size_t count) {
  for (size_t k = i + 1; k < count; ++k) {
    if (calls[k].name != "fsync" || !calls[k].done()) continue;
    if (changes_names(calls[i]) ? calls[k].is_folder : calls[k].path == calls[i].path) return true;
  }
  return false;
}

// All that `path` may hold if the power goes after the first `count` calls.
Outcomes outcomes(const Calls& calls, size_t count, const std::string& path,
                  const std::string& old) {
  std::vector<size_t> changes, unsure;
  for (size_t i = 0; i < count; ++i) {
    if (!calls[i].done() || !(changes_content(calls[i]) || changes_names(calls[i]))) continue;
    changes.push_back(i);
    if (!is_sure(calls, i, count)) unsure.push_back(i);
  }
  REQUIRE(unsure.size() <= 14);
  Outcomes out;
  for (uint32_t lost = 0; lost < uint32_t{1} << unsure.size(); ++lost) {
    std::set<size_t> gone;
    for (size_t bit = 0; bit < unsure.size(); ++bit)
      if ((lost >> bit & 1) != 0) gone.insert(unsure[bit]);
    Disk disk;
    disk.names[path] = path;
    disk.files[path] = old;
    for (const size_t i : changes)
      if (gone.count(i) == 0) disk.take(calls[i]);
    out.insert(disk.content(path));
  }
  return out;
}

Outcomes all_outcomes(const Calls& calls, const std::string& path, const std::string& old) {
  Outcomes out;
  for (size_t count = 0; count <= calls.size(); ++count)
    out.merge(outcomes(calls, count, path, old));
  return out;
}

Calls log_of_save(const Folder& folder, const std::string& bytes, const faults::Plan& plan) {
  faults::watch(folder.path(), plan);
  const Status status = save(folder / "x", bytes, 4);
  Calls calls = faults::stop();
  CAPTURE(status.text());
  REQUIRE(status.ok() == (plan.fail_at < 0));
  return calls;
}

Calls without(Calls calls, const std::string& name, bool of_folder) {
  std::erase_if(calls,
                [&](const Call& call) { return call.name == name && call.is_folder == of_folder; });
  return calls;
}

const std::string kOld = "the old bytes", kNew = "quite new bytes, and some more of them";

}  // namespace

TEST_CASE("power loss: at each call of a save the path holds the old bytes or the new, whole") {
  const Folder folder;
  write_file(folder / "x", kOld);
  const Calls calls = log_of_save(folder, kNew, {.most = 8});
  CAPTURE(faults::describe(calls));
  CHECK(all_outcomes(calls, folder / "x", kOld) == Outcomes{kOld, kNew});
  CHECK(outcomes(calls, calls.size(), folder / "x", kOld) == Outcomes{kNew});
}

TEST_CASE("power loss: also where a save fails at one of its calls") {
  for (int64_t k = 0; k < 100; ++k) {
    const Folder folder;
    write_file(folder / "x", kOld);
    faults::watch(folder.path(), {.fail_at = k, .error = 5, .most = 16});
    (void)save(folder / "x", kNew, 4).ok();
    const Calls calls = faults::stop();
    CAPTURE(k, faults::describe(calls));
    for (const std::string& found : all_outcomes(calls, folder / "x", kOld))
      CHECK((found == kOld || found == kNew));
    if (k >= static_cast<int64_t>(calls.size())) return;
  }
  FAIL("a save of 100 calls");
}

// That the model can find a fault at all.
TEST_CASE("power loss: a save that syncs too little is found by what is left of it") {
  const Folder folder;
  write_file(folder / "x", kOld);
  const Calls calls = log_of_save(folder, kNew, {.most = 8});
  const Calls file_unsynced = without(calls, "fsync", false);
  CHECK(all_outcomes(file_unsynced, folder / "x", kOld).size() > 2);
  const Calls folder_unsynced = without(calls, "fsync", true);
  CHECK(outcomes(folder_unsynced, folder_unsynced.size(), folder / "x", kOld) ==
        Outcomes{kOld, kNew});
}
