// Files of checkpoints: what is written is read, under the names, modes and targets that occur.
#include <catch2/catch_test_macros.hpp>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <set>

#include "tests/checkpoint/folder.h"
#include "tests/checkpoint/whole_file.h"

using namespace talus;
using namespace talus::test;
namespace fs = std::filesystem;

namespace {

using Names = std::set<std::string>;

unsigned mode_of(const std::string& path) {
  struct stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  return facts.st_mode & 07777;
}

void make_older(const std::string& path, long seconds) {
  const timespec then = {::time(nullptr) - seconds, 0}, times[2] = {then, then};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

void check_refusal(const Status& status, int error, const std::string& path,
                   const std::string& call) {
  CAPTURE(status.text());
  CHECK(status.code() == TALUS_E_IO);
  CHECK(status.detail() == error);
  CHECK(status.text().find(path) != std::string::npos);
  CHECK(status.text().find(call) != std::string::npos);
}

}  // namespace

TEST_CASE("files: what was saved is read back, and nothing else is left in the folder") {
  const Folder folder;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4096}, size_t{300000}}) {
    std::string bytes(size, 'x'), got;
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7 + i / 251);
    CAPTURE(size);
    const Status saved = save(folder / "x.safetensors", bytes, 5);
    CAPTURE(saved.text());
    REQUIRE(saved.ok());
    REQUIRE(load(folder / "x.safetensors", &got).ok());
    CHECK((got == bytes));
    CHECK(folder.names() == Names{"x.safetensors"});
  }
}

TEST_CASE("files: a part is read, and behind the end is a failure that names the byte") {
  const Folder folder;
  write_file(folder / "x", "0123456789");
  std::unique_ptr<Source> source;
  REQUIRE(open_source(folder / "x", true, &source).ok());
  CHECK(source->size() == 10);
  char out[4] = {};
  REQUIRE(source->read(6, out, 4).ok());
  CHECK(std::string(out, 4) == "6789");
  CHECK(source->read(10, out, 0).ok());
  for (const uint64_t offset : {uint64_t{7}, uint64_t{11}, ~uint64_t{0}, ~uint64_t{0} - 3}) {
    CAPTURE(offset);
    check_refusal(source->read(offset, out, 4), 0, folder / "x", "ends at byte 10");
  }
}

TEST_CASE("files: one that was cut after it was opened is a failure that names the byte") {
  const Folder folder;
  write_file(folder / "x", std::string(100000, 'a'));
  std::unique_ptr<Source> source;
  REQUIRE(open_source(folder / "x", true, &source).ok());
  REQUIRE(::truncate((folder / "x").c_str(), 70001) == 0);
  std::string out(100000, ' ');
  check_refusal(source->read(0, out.data(), out.size()), 0, folder / "x", "ends at byte 70001");
  CHECK(source->read(0, out.data(), 70001).ok());
}

TEST_CASE("files: what is written and not committed leaves the old file and no other") {
  const Folder folder;
  write_file(folder / "x", "old");
  {
    std::unique_ptr<Sink> sink;
    REQUIRE(create_sink(folder / "x", &sink).ok());
    CHECK(folder.names().size() == 2);
    REQUIRE(sink->begin(8).ok());
    REQUIRE(sink->write("1234", 4).ok());
    CHECK(sink->commit().code() == TALUS_E_INTERNAL);  // 8 were announced
    CHECK(sink->write("12345", 5).code() == TALUS_E_INTERNAL);
    CHECK(file_bytes(folder / "x") == "old");
  }
  CHECK(file_bytes(folder / "x") == "old");
  CHECK(folder.names() == Names{"x"});
}

TEST_CASE("files: the mode of an old file is kept, also against the umask") {
  const Folder folder;
  const mode_t before = ::umask(027);
  REQUIRE(save(folder / "new", "1").ok());
  CHECK(mode_of(folder / "new") == 0640);
  for (const mode_t mode : {mode_t{0600}, mode_t{0666}, mode_t{0444}, mode_t{0}}) {
    write_file(folder / "x", "old");
    REQUIRE(::chmod((folder / "x").c_str(), mode) == 0);
    REQUIRE(save(folder / "x", "new").ok());
    CHECK(mode_of(folder / "x") == mode);
    fs::remove(folder / "x");
  }
  ::umask(before);
}

TEST_CASE("files: a symbolic link is replaced, and what it led to is left alone") {
  const Folder folder;
  write_file(folder / "target", "old");
  fs::create_symlink("target", folder / "x");
  std::unique_ptr<Source> source;
  CHECK(open_source(folder / "x", true, &source).ok());
  check_refusal(open_source(folder / "x", false, &source), ELOOP, folder / "x", "symbolic link");
  REQUIRE(save(folder / "x", "new").ok());
  CHECK(!fs::is_symlink(folder / "x"));
  CHECK(file_bytes(folder / "x") == "new");
  CHECK(file_bytes(folder / "target") == "old");
  fs::create_symlink("nowhere", folder / "loose");
  REQUIRE(save(folder / "loose", "new").ok());
  CHECK(file_bytes(folder / "loose") == "new");
}

TEST_CASE("files: a folder, a FIFO and what is missing are refused, with the path and the call") {
  const Folder folder;
  std::unique_ptr<Source> source;
  std::unique_ptr<Sink> sink;
  fs::create_directory(folder / "folder");
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0666) == 0);
  write_file(folder / "file", "");
  check_refusal(create_sink(folder / "folder", &sink), EISDIR, folder / "folder", "open");
  check_refusal(create_sink(folder / "folder/", &sink), EISDIR, folder / "folder/", "open");
  check_refusal(create_sink(folder / "folder/..", &sink), EISDIR, folder / "folder/..", "open");
  check_refusal(create_sink(folder / "fifo", &sink), EINVAL, folder / "fifo", "open");
  check_refusal(create_sink(folder / "none/x", &sink), ENOENT, folder / "none/x", "folder");
  check_refusal(create_sink(folder / "file/x", &sink), ENOTDIR, folder / "file/x", "folder");
  check_refusal(create_sink("", &sink), EISDIR, "", "open");
  check_refusal(open_source(folder / "folder", true, &source), EISDIR, folder / "folder", "open");
  check_refusal(open_source(folder / "fifo", true, &source), EINVAL, folder / "fifo", "open");
  check_refusal(open_source(folder / "none", true, &source), ENOENT, folder / "none", "open");
  check_refusal(open_source(folder / "file/x", true, &source), ENOTDIR, folder / "file/x", "open");
  check_refusal(create_sink(folder / std::string(255, 'x'), &sink), ENAMETOOLONG, "xxx", "open");
  CHECK(folder.names() == Names{"fifo", "file", "folder"});
  CHECK(sink == nullptr);
  CHECK(source == nullptr);
}

TEST_CASE("files: a folder that may not be written is refused") {
  if (::geteuid() == 0) SKIP("root may write everywhere");
  const Folder folder;
  std::unique_ptr<Sink> sink;
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
  check_refusal(create_sink(folder / "x", &sink), EACCES, folder / "x", "open");
  fs::permissions(folder.path(), fs::perms::owner_all);
  CHECK(folder.names().empty());
}

TEST_CASE("files: a new name that exists is refused, at the start and before the rename") {
  const Folder folder;
  std::unique_ptr<Sink> sink;
  REQUIRE(create_new_sink(folder / "x", &sink).ok());
  write_file(folder / "x", "of another");
  REQUIRE(sink->begin(0).ok());
  check_refusal(sink->commit(), EEXIST, folder / "x", "open");
  sink.reset();
  check_refusal(create_new_sink(folder / "x", &sink), EEXIST, folder / "x", "open");
  CHECK(file_bytes(folder / "x") == "of another");
  CHECK(folder.names() == Names{"x"});
  REQUIRE(create_new_sink(folder / "y", &sink).ok());
  REQUIRE(sink->begin(1).ok());
  REQUIRE(sink->write("1", 1).ok());
  REQUIRE(sink->commit().ok());
  CHECK(file_bytes(folder / "y") == "1");
}

TEST_CASE("files: old left-overs of this name go, young ones and other names stay") {
  const Folder folder;
  const std::string old_one = ".x.0123456789abcdef.tmp";
  Names stay = {".x.00000000000000aa.tmp",   // young
                ".y.0123456789abcdef.tmp",   // another name's
                ".x.0123456789abcdef.tmp2",  // no temporary of ours, all of these
                ".x.0123456789ABCDEF.tmp",   "x.0123456789abcdef.tmp",  ".x.0123456789abcde.tmp",
                ".x.y.0123456789abcdef.tmp", ".xx0123456789abcdef.tmp", ".x.0123456789abcdefgtmp"};
  write_file(folder / old_one, "");
  for (const std::string& name : stay) write_file(folder / name, "");
  for (const std::string& name : folder.names())
    make_older(folder / name, name == ".x.00000000000000aa.tmp" ? 23 * 3600 : 25 * 3600);
  fs::create_directory(folder / ".x.1111111111111111.tmp");
  make_older(folder / ".x.1111111111111111.tmp", 25 * 3600);
  REQUIRE(save(folder / "x", "new").ok());
  stay.insert(".x.1111111111111111.tmp");
  stay.insert("x");
  CHECK(folder.names() == stay);
}

TEST_CASE("files: a relative path is saved where it was, though the process moves meanwhile") {
  const Folder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  std::unique_ptr<Sink> sink;
  REQUIRE(create_sink("x", &sink).ok());
  fs::current_path("/");
  REQUIRE(sink->begin(3).ok());
  REQUIRE(sink->write("new", 3).ok());
  const Status status = sink->commit();
  fs::current_path(before);
  CAPTURE(status.text());
  CHECK(status.ok());
  CHECK(file_bytes(folder / "x") == "new");
}

TEST_CASE("files: paths are cut at the last slash") {
  CHECK(folder_of("dir/x.safetensors") == "dir/");
  CHECK(base_name("dir/x.safetensors") == "x.safetensors");
  CHECK(folder_of("x") == "");
  CHECK(base_name("x") == "x");
  CHECK(folder_of("/x") == "/");
  CHECK(base_name("a/b/") == "");
}

TEST_CASE("files: a path that is long or no UTF-8 gives a text that is neither") {
  std::unique_ptr<Source> source;
  const std::string odd = "/none\xff\xfe/x";
  const Status unreadable = open_source(odd, true, &source);
  check_refusal(unreadable, ENOENT, "/none", "open");
  CHECK(is_utf8(unreadable.text()));
  const std::string longest = "/" + std::string(3000, 'y') + "/the end";
  const Status status = open_source(longest, true, &source);
  check_refusal(status, ENAMETOOLONG, "yyy/the end", "open");
  CHECK(status.text().size() < 1000);
}

TEST_CASE("files: a file is removed once") {
  const Folder folder;
  write_file(folder / "x", "");
  CHECK(remove_file(folder / "x"));
  CHECK(!remove_file(folder / "x"));
}
