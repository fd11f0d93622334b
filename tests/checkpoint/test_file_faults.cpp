// Each file call of a save or a read fails once, moves few bytes, or is the last before the power
// goes.
#include <catch2/catch_test_macros.hpp>

#include <cerrno>
#include <map>
#include <set>

#include "tests/checkpoint/fault_calls.h"
#include "tests/checkpoint/folder.h"
#include "tests/checkpoint/whole_file.h"

using namespace talus;
using namespace talus::test;
using faults::Call;
using faults::Plan;

namespace {

using Names = std::set<std::string>;
using Calls = std::vector<Call>;

constexpr int kErrors[] = {EIO, ENOSPC, EDQUOT, EINTR, EACCES};

std::string long_text(size_t size) {
  std::string out(size, ' ');
  for (size_t i = 0; i < size; ++i) out[i] = static_cast<char>('a' + (i * 31 + i / 97) % 26);
  return out;
}

// A save under faults, and what was called.
struct Run {
  Status status;
  Calls calls;
};

Run run_save(const Folder& folder, const std::string& bytes, const Plan& plan, size_t pieces = 3) {
  faults::watch(folder.path(), plan);
  Run run;
  run.status = save(folder / "x", bytes, pieces);
  run.calls = faults::stop();
  return run;
}

const Call* failed_call(const Calls& calls, const Plan& plan) {
  if (plan.fail_at >= static_cast<int64_t>(calls.size())) return nullptr;
  return &calls[static_cast<size_t>(plan.fail_at)];
}

size_t position(const Calls& calls, const std::string& name, bool of_folder = false) {
  for (size_t i = 0; i < calls.size(); ++i)
    if (calls[i].name == name && calls[i].is_folder == of_folder) return i;
  return calls.size();
}

size_t position_of_last(const Calls& calls, const std::string& name) {
  size_t at = calls.size();
  for (size_t i = 0; i < calls.size(); ++i)
    if (calls[i].name == name) at = i;
  return at;
}

// The calls that EINTR may stop and that are then made again.
bool is_repeated(const Call& call) {
  static const std::set<std::string> names = {"open", "write", "pread", "posix_fallocate",
                                              "unlink"};
  return names.count(call.name) != 0;
}

// Closing is over even where EINTR is said. The search for left-overs, the second time that the
// folder is opened, is best effort, and nobody asks what became of descriptors that were only read.
bool is_harmless(const Calls& calls, int64_t k, int error, const std::string& folder) {
  const Call& call = calls[static_cast<size_t>(k)];
  if (error == EINTR && (is_repeated(call) || call.name == "close")) return true;
  return call.path == folder && (call.name == "close" || (call.name == "open" && k > 0));
}

}  // namespace

TEST_CASE("file faults: the calls of the library are seen, and in an order that is durable") {
  const Folder folder;
  write_file(folder / "x", "old");
  const Run run = run_save(folder, "new bytes", {});
  CAPTURE(faults::describe(run.calls));
  REQUIRE(run.status.ok());
  std::set<std::string> names;
  for (const Call& call : run.calls) names.insert(call.name);
  for (const char* name : {"open", "posix_fallocate", "write", "fsync", "close", "rename", "stat"})
    CHECK(names.count(name) == 1);
  const size_t file_synced = position(run.calls, "fsync"), renamed = position(run.calls, "rename");
  const size_t folder_synced = position(run.calls, "fsync", true);
  CHECK(position_of_last(run.calls, "write") < file_synced);
  CHECK(file_synced < renamed);
  CHECK(renamed < folder_synced);
  CHECK(folder_synced < run.calls.size());
  CHECK(run.calls[renamed].to == folder / "x");
}

TEST_CASE("file faults: each call of a save fails once, and the old file stays") {
  const std::string before = long_text(5000), after = long_text(9000) + "new";
  for (const int error : kErrors) {
    for (int64_t k = 0;; ++k) {
      const Folder folder;
      write_file(folder / "x", before);
      const Plan plan = {.fail_at = k, .error = error};
      const Run run = run_save(folder, after, plan);
      CAPTURE(k, error, run.status.text(), faults::describe(run.calls));
      REQUIRE(k < 100);
      const Call* failed = failed_call(run.calls, plan);
      if (failed == nullptr) {
        CHECK(k > 10);
        CHECK(run.status.ok());
        break;
      }
      CHECK(folder.names() == Names{"x"});
      const bool renamed = position(run.calls, "rename") < static_cast<size_t>(k);
      if (run.status.ok()) {
        CHECK(is_harmless(run.calls, k, error, folder.path()));
        CHECK((file_bytes(folder / "x") == after));
        continue;
      }
      CHECK(!is_harmless(run.calls, k, error, folder.path()));
      CHECK((file_bytes(folder / "x") == (renamed ? after : before)));
      CHECK(run.status.code() == TALUS_E_IO);
      CHECK(run.status.detail() == error);
      CHECK(run.status.text().find(folder / "x") != std::string::npos);
      CHECK(run.status.text().find(failed->name) != std::string::npos);
      const bool says = run.status.text().find("not known to be durable") != std::string::npos;
      CHECK(says == renamed);
    }
  }
}

TEST_CASE("file faults: without an old file a failure leaves none") {
  for (int64_t k = 0;; ++k) {
    const Folder folder;
    const Plan plan = {.fail_at = k, .error = EIO};
    const Run run = run_save(folder, long_text(100), plan);
    CAPTURE(k, run.status.text(), faults::describe(run.calls));
    if (failed_call(run.calls, plan) == nullptr) break;
    if (run.status.ok()) continue;
    const bool renamed = position(run.calls, "rename") < static_cast<size_t>(k);
    CHECK(folder.names() == (renamed ? Names{"x"} : Names{}));
  }
}

TEST_CASE("file faults: where space cannot be promised or a folder not synced, a save goes on") {
  for (const auto& [call, error] : std::vector<std::pair<const char*, int>>{
           {"posix_fallocate", EOPNOTSUPP}, {"posix_fallocate", EINVAL}, {"fsync", EINVAL}}) {
    const Folder folder;
    write_file(folder / "x", "old");
    const bool of_folder = std::string(call) == "fsync";
    const Plan plan = {.fail_at = of_folder ? 1 : 0, .error = error, .only = call};
    const Run run = run_save(folder, "new", plan);
    CAPTURE(call, error, run.status.text(), faults::describe(run.calls));
    CHECK(run.status.ok());
    CHECK(file_bytes(folder / "x") == "new");
  }
  const Folder folder;
  write_file(folder / "x", "old");
  const Run run = run_save(folder, "new", {.fail_at = 0, .error = EINVAL, .only = "fsync"});
  CHECK(run.status.detail() == EINVAL);  // of the file itself it counts
  CHECK(file_bytes(folder / "x") == "old");
}

TEST_CASE("file faults: a left-over that cannot be removed does not stop a save") {
  const Folder folder;
  const std::string left = folder / ".x.0123456789abcdef.tmp";
  write_file(left, "");
  std::filesystem::last_write_time(
      left, std::filesystem::file_time_type::clock::now() - std::chrono::hours(48));
  const Run run = run_save(folder, "new", {.fail_at = 0, .error = EACCES, .only = "unlink"});
  CAPTURE(faults::describe(run.calls));
  CHECK(run.status.ok());
  CHECK(folder.names() == Names{".x.0123456789abcdef.tmp", "x"});
}

TEST_CASE("file faults: writes and reads of one byte or of halves move the same bytes") {
  const std::string bytes = long_text(3000);
  for (const Plan& plan : {Plan{.most = 1}, Plan{.halves = true}, Plan{.most = 7}}) {
    const Folder folder;
    const Run run = run_save(folder, bytes, plan);
    REQUIRE(run.status.ok());
    CHECK(run.calls.size() > 30);
    CHECK((file_bytes(folder / "x") == bytes));
    faults::watch(folder.path(), plan);
    std::string got;
    const Status status = load(folder / "x", &got);
    const size_t calls = faults::stop().size();
    CHECK(status.ok());
    CHECK((got == bytes));
    CHECK(calls > 12);
  }
}

TEST_CASE("file faults: each call of a read fails once, with the path and the call") {
  const Folder folder;
  const std::string bytes = long_text(3000);
  write_file(folder / "x", bytes);
  for (const int error : kErrors) {
    for (int64_t k = 0;; ++k) {
      const Plan plan = {.fail_at = k, .error = error, .most = 1000};
      std::string got;
      faults::watch(folder.path(), plan);
      const Status status = load(folder / "x", &got);
      const Calls calls = faults::stop();
      CAPTURE(k, error, status.text(), faults::describe(calls));
      const Call* failed = failed_call(calls, plan);
      if (failed == nullptr) {
        CHECK(k >= 5);  // open, fstat, three reads
        CHECK(status.ok());
        break;
      }
      if (is_repeated(*failed) && error == EINTR) {
        CHECK(status.ok());
        CHECK((got == bytes));
      } else if (failed->name != "close") {
        CHECK(status.code() == TALUS_E_IO);
        CHECK(status.detail() == error);
        CHECK(status.text().find(failed->name + ' ' + (folder / "x")) != std::string::npos);
      }
    }
  }
}
