// Limits that the system itself sets: no space, a largest file size, 4 GiB, and another process
// that saves under the same name.
#include <catch2/catch_test_macros.hpp>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <set>

#include "tests/checkpoint/folder.h"
#include "tests/checkpoint/whole_file.h"

using namespace talus;
using namespace talus::test;

namespace {

using Names = std::set<std::string>;

constexpr size_t kMegabyte = size_t{1} << 20;

// Of what a child process found; a text of its own goes to stderr.
enum Verdict { kRight = 0, kWrong = 1, kSkipped = 2 };

// Runs `body` in a child, whose limits and mounts are its own.
template <class Body>
int in_child(Body body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(body());
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : kWrong;
}

int said(bool right, const char* what, const std::string& text) {
  if (!right) std::fprintf(stderr, "%s: %s\n", what, text.c_str());
  return right ? kRight : kWrong;
}

// A save that has no room fails with this error and leaves the old file alone.
int check_no_room(const Folder& folder, const std::string& bytes, int error) {
  const std::string path = folder / "x";
  if (!save(path, "old").ok()) return said(false, "first save", path);
  std::unique_ptr<Sink> sink;
  Status status = create_sink(path, &sink);
  if (status.ok()) status = sink->begin(bytes.size());
  if (status.ok()) status = sink->write(bytes.data(), bytes.size());
  const bool right = status.code() == TALUS_E_IO && status.detail() == error &&
                     status.text().find(path) != std::string::npos;
  sink.reset();
  if (!right) return said(false, "status", std::to_string(status.detail()) + ' ' + status.text());
  if (file_bytes(path) != "old") return said(false, "the old file", file_bytes(path));
  return said(folder.names() == Names{"x"}, "more files than one in", folder.path());
}

// A file system of 1 MiB that this process alone sees.
bool mount_small(const std::string& at) {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", at.c_str(), "tmpfs", 0, "size=1m") == 0;
}

// Bytes that tell whose they are at every place.
std::string signed_bytes(char of, size_t size) { return std::string(size, of); }

void save_in_loop(const std::string& path, char of, int times) {
  for (int i = 0; i < times; ++i)
    if (!save(path, signed_bytes(of, 200000), 4).ok()) ::_exit(kWrong);
  ::_exit(kRight);
}

}  // namespace

TEST_CASE("file limits: on a full file system a save fails and the old file stays") {
  const Folder folder;
  const std::string bytes(2 * kMegabyte, 'n');
  const int verdict = in_child([&] {
    if (!mount_small(folder.path())) return int{kSkipped};
    return check_no_room(folder, bytes, ENOSPC);
  });
  if (verdict == kSkipped) SKIP("no small file system can be mounted here");
  CHECK(verdict == kRight);
}

TEST_CASE("file limits: a file larger than the process may write fails and the old file stays") {
  const Folder folder;
  const std::string bytes(2 * kMegabyte, 'n');
  CHECK(in_child([&] {
          ::signal(SIGXFSZ, SIG_IGN);
          const rlimit limit = {kMegabyte, kMegabyte};
          if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return int{kWrong};
          return check_no_room(folder, bytes, EFBIG);
        }) == kRight);
}

TEST_CASE("file limits: two processes that save one name leave the bytes of one of them, whole") {
  const Folder folder;
  const std::string path = folder / "x";
  const std::string a = signed_bytes('a', 200000), b = signed_bytes('b', 200000);
  pid_t children[2];
  for (int i = 0; i < 2; ++i) {
    children[i] = ::fork();
    REQUIRE(children[i] >= 0);
    if (children[i] == 0) save_in_loop(path, i == 0 ? 'a' : 'b', 60);
  }
  int seen = 0, running = 2;
  while (running > 0) {
    std::string got;
    if (load(path, &got).ok()) {
      ++seen;
      if (got != a && got != b) {
        CAPTURE(got.size(), got.find_first_not_of(got[0]));
        CHECK(false);
      }
    }
    int status = 0;
    while (running > 0 && ::waitpid(-1, &status, WNOHANG) > 0) {
      --running;
      CHECK((WIFEXITED(status) && WEXITSTATUS(status) == kRight));
    }
  }
  CHECK(seen > 0);
  CHECK((file_bytes(path) == a || file_bytes(path) == b));
  CHECK(folder.names() == Names{"x"});
}

TEST_CASE("file limits: a file over 4 GiB is read on both sides of 2^32") {
  const Folder folder;
  constexpr uint64_t kEdge = uint64_t{1} << 32, kSize = kEdge + (uint64_t{1} << 20);
  const int file = ::open((folder / "x").c_str(), O_WRONLY | O_CREAT, 0600);
  REQUIRE(file >= 0);
  const bool sparse = ::ftruncate(file, static_cast<off_t>(kSize)) == 0;
  REQUIRE(::pwrite(file, "before|behind", 13, static_cast<off_t>(kEdge) - 7) == 13);
  REQUIRE(::pwrite(file, "the end", 7, static_cast<off_t>(kSize) - 7) == 7);
  struct stat facts {};
  REQUIRE(::fstat(file, &facts) == 0);
  ::close(file);
  if (!sparse || facts.st_blocks > 100000) SKIP("this file system has no sparse files");
  std::unique_ptr<Source> source;
  REQUIRE(open_source(folder / "x", true, &source).ok());
  CHECK(source->size() == kSize);
  char out[16] = {};
  REQUIRE(source->read(kEdge - 7, out, 13).ok());
  CHECK(std::string(out, 13) == "before|behind");
  REQUIRE(source->read(kEdge, out, 6).ok());
  CHECK(std::string(out, 6) == "behind");
  REQUIRE(source->read(kSize - 7, out, 7).ok());
  CHECK(std::string(out, 7) == "the end");
  const Status behind = source->read(kSize - 7, out, 8);
  CHECK(behind.code() == TALUS_E_IO);
  CHECK(behind.text().find(std::to_string(kSize)) != std::string::npos);
}
