// Durable files and files to read, on POSIX calls alone; of what is in them it knows nothing.
#include "lib/checkpoint/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

namespace talus {
namespace {

static_assert(sizeof(off_t) == 8, "files of checkpoints are larger than 2 GiB");

constexpr uint64_t kPiece = uint64_t{1} << 30;  // Linux moves at most 0x7ffff000 bytes a call
constexpr time_t kDay = 24 * 60 * 60;
constexpr size_t kRandomDigits = 16;
constexpr std::string_view kTemporarySuffix = ".tmp";

// ---- texts

// strerror_r gives a text with the GNU signature, a number with POSIX's.
[[maybe_unused]] const char* message_of(const char* given, const char*) { return given; }
[[maybe_unused]] const char* message_of(int, const char* buffer) { return buffer; }

std::string message(int error) {
  char buffer[160] = "unknown error";
  return message_of(strerror_r(error, buffer, sizeof buffer), buffer);
}

// A path in a text: UTF-8, and its end where it is too long for a message that must say more.
std::string shown(std::string path) {
  constexpr size_t kLongest = 640;
  if (!is_utf8(path))
    std::replace_if(
        path.begin(), path.end(), [](char c) { return (c & 0x80) != 0; }, '?');
  if (path.size() <= kLongest) return path;
  size_t from = path.size() - kLongest;
  while (from < path.size() && (path[from] & 0xc0) == 0x80) ++from;
  return "..." + path.substr(from);
}

Status io_failure(const char* call, const std::string& path, int error) {
  return Status(TALUS_E_IO, std::string(call) + ' ' + shown(path) + ": " + message(error), error);
}

Status io_failure(const char* call, const std::string& path, int error, const char* why) {
  return Status(TALUS_E_IO, std::string(call) + ' ' + shown(path) + ": " + why, error);
}

// ---- calls

template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& from) noexcept : number_(std::exchange(from.number_, -1)) {}
  Descriptor& operator=(Descriptor&& from) noexcept {
    std::swap(number_, from.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_;
};

Descriptor open_at(int folder, const char* name, int flags, mode_t mode = 0) {
  return Descriptor(uninterrupted([&] { return ::openat(folder, name, flags | O_CLOEXEC, mode); }));
}

bool unlink_at(int folder, const char* name) {
  return uninterrupted([&] { return ::unlinkat(folder, name, 0); }) == 0;
}

// Of a file's content, or of the names in a folder. What fails once has lost pages that a second
// call would report as written, so it is never repeated, not even after EINTR.
int sync(int descriptor) {
#ifdef __APPLE__
  if (::fcntl(descriptor, F_FULLFSYNC) == 0) return 0;  // fsync stops at the drive's own cache
#endif
  return ::fsync(descriptor) == 0 ? 0 : errno;
}

// 0, or the error; a file system that cannot promise space finds out while it is written.
int reserve([[maybe_unused]] int descriptor, [[maybe_unused]] uint64_t bytes) {
#ifndef __APPLE__
  int error = EINTR;
  while (error == EINTR) error = ::posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  return error == EOPNOTSUPP || error == EINVAL ? 0 : error;
#else
  return 0;
#endif
}

// ---- reading

class FileSource final : public Source {
 public:
  FileSource(const std::string& path, Descriptor file, uint64_t size)
      : path_(path), name_(shown(path)), file_(std::move(file)), size_(size) {}

  const std::string& name() const override { return name_; }
  uint64_t size() const override { return size_; }

  Status read(uint64_t offset, void* out, uint64_t bytes) override {
    if (offset > size_ || bytes > size_ - offset) return ends_at(size_, offset, bytes);
    auto* to = static_cast<char*>(out);
    for (uint64_t done = 0; done < bytes;) {
      const size_t piece = static_cast<size_t>(std::min(bytes - done, kPiece));
      const ssize_t got = uninterrupted([&] {
        return ::pread(file_.get(), to + done, piece, static_cast<off_t>(offset + done));
      });
      if (got < 0) return io_failure("pread", path_, errno);
      if (got == 0) return ends_at(offset + done, offset, bytes);
      done += static_cast<uint64_t>(got);
    }
    return {};
  }

 private:
  Status ends_at(uint64_t end, uint64_t offset, uint64_t bytes) const {
    return failure(TALUS_E_IO, "pread %s: ends at byte %llu, wanted %llu bytes at byte %llu",
                   name_.c_str(), static_cast<unsigned long long>(end),
                   static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(offset));
  }

  std::string path_, name_;
  Descriptor file_;
  uint64_t size_;
};

// ---- writing

// 0, or the error.
int draw_digits(std::string* out) {
  uint64_t random = 0;
  if (::getentropy(&random, sizeof random) != 0) return errno;
  char digits[kRandomDigits + 1];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(random));
  *out = digits;
  return 0;
}

// "." + base + "." + 16 hex digits + ".tmp"
int draw_temporary_name(const std::string& base, std::string* out) {
  std::string digits;
  if (const int error = draw_digits(&digits)) return error;
  *out = '.' + base + '.' + digits + std::string(kTemporarySuffix);
  return 0;
}

bool is_temporary_of(const std::string& base, std::string_view name) {
  if (name.size() != base.size() + kRandomDigits + kTemporarySuffix.size() + 2) return false;
  if (name.front() != '.' || name.substr(1, base.size()) != base) return false;
  if (name[base.size() + 1] != '.' || !name.ends_with(kTemporarySuffix)) return false;
  const std::string_view digits = name.substr(base.size() + 2, kRandomDigits);
  return digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

// Calls f for each file of a folder with a name that is wanted and that nobody has written for a day. A
// save under way writes, and so its file is young. Best effort.
template <class Wanted, class F>
void for_each_old_file(int folder, Wanted wanted, F f) {
  Descriptor again = open_at(folder, ".", O_RDONLY | O_DIRECTORY);
  if (!again) return;
  const std::unique_ptr<DIR, CloseFolder> listing(::fdopendir(again.get()));
  if (listing == nullptr) return;
  again.release();  // closedir closes it
  const time_t now = ::time(nullptr);
  while (const dirent* entry = ::readdir(listing.get())) {
    struct stat facts {};
    if (!wanted(entry->d_name)) continue;
    if (::fstatat(folder, entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISREG(facts.st_mode) && now - facts.st_mtime > kDay) f(entry->d_name);
  }
}

void remove_left_overs(int folder, const std::string& base) {
  for_each_old_file(
      folder, [&](const char* name) { return is_temporary_of(base, name); },
      [&](const char* name) { unlink_at(folder, name); });
}

class FileSink final : public Sink {
 public:
  FileSink(const std::string& path, bool is_new)
      : path_(path), name_(shown(path)), base_(base_name(path)), is_new_(is_new) {}
  ~FileSink() override {
    if (has_temporary_) unlink_at(folder_.get(), temporary_.c_str());
  }
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;

  Status create();
  const std::string& name() const override { return name_; }
  Status begin(uint64_t total) override;
  Status write(const void* bytes, uint64_t count) override;
  Status commit() override;
  bool visible() const override { return renamed_; }

 private:
  Status look_at_target(std::optional<mode_t>* mode) const;
  Status open_temporary(mode_t mode);
  Status keep_mode(mode_t mode) const;
  Status publish();
  Status fail(const char* call, int error) const { return io_failure(call, path_, error); }

  std::string path_, name_, base_, temporary_;
  Descriptor folder_;  // held, so that a process may change its own folder meanwhile
  Descriptor file_;
  uint64_t total_ = 0, written_ = 0;
  bool is_new_, has_temporary_ = false, renamed_ = false;
};

Status FileSink::create() {
  if (base_.empty()) return io_failure("open", path_, EISDIR, "names no file");
  const std::string folder = folder_of(path_);
  folder_ = open_at(AT_FDCWD, folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (!folder_) return io_failure("open the folder of", path_, errno);
  std::optional<mode_t> mode;
  TALUS_TRY(look_at_target(&mode));
  remove_left_overs(folder_.get(), base_);
  TALUS_TRY(open_temporary(mode.value_or(0666)));
  return mode ? keep_mode(*mode) : Status();
}

// Refuses what rename should not replace, before much is written. mode: of an old file.
Status FileSink::look_at_target(std::optional<mode_t>* mode) const {
  struct stat facts {};
  if (::fstatat(folder_.get(), base_.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0)
    return errno == ENOENT ? Status() : fail("stat", errno);
  if (is_new_) return fail("open", EEXIST);
  if (S_ISDIR(facts.st_mode)) return fail("open", EISDIR);
  if (!S_ISREG(facts.st_mode) && !S_ISLNK(facts.st_mode))
    return io_failure("open", path_, EINVAL, "is neither a file nor a link, and is not replaced");
  if (S_ISREG(facts.st_mode)) *mode = facts.st_mode & 0777;
  return {};
}

Status FileSink::open_temporary(mode_t mode) {
  if (const int error = draw_temporary_name(base_, &temporary_)) return fail("getentropy", error);
  file_ =
      open_at(folder_.get(), temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
  if (!file_) return io_failure("open a new file beside", path_, errno);
  has_temporary_ = true;
  return {};
}

// The umask may have taken bits that the old file has.
Status FileSink::keep_mode(mode_t mode) const {
  struct stat facts {};
  if (::fstat(file_.get(), &facts) != 0) return fail("fstat", errno);
  if ((facts.st_mode & 0777) == mode) return {};
  return ::fchmod(file_.get(), mode) == 0 ? Status() : fail("fchmod", errno);
}

Status FileSink::begin(uint64_t total) {
  if (total > static_cast<uint64_t>(INT64_MAX)) return fail("posix_fallocate", EFBIG);
  total_ = total;
  const int error = reserve(file_.get(), total);
  return error == 0 ? Status() : fail("posix_fallocate", error);
}

Status FileSink::write(const void* bytes, uint64_t count) {
  if (count > total_ - written_)
    return failure(TALUS_E_INTERNAL, "%s: %llu bytes announced, and more are written",
                   name_.c_str(), static_cast<unsigned long long>(total_));
  const auto* from = static_cast<const char*>(bytes);
  for (uint64_t done = 0; done < count;) {
    const size_t piece = static_cast<size_t>(std::min(count - done, kPiece));
    const ssize_t put = uninterrupted([&] { return ::write(file_.get(), from + done, piece); });
    if (put <= 0) return fail("write", put < 0 ? errno : EIO);
    done += static_cast<uint64_t>(put);
    written_ += static_cast<uint64_t>(put);
  }
  return {};
}

Status FileSink::commit() {
  if (!file_ || written_ != total_)
    return failure(TALUS_E_INTERNAL, "%s: %llu bytes announced, %llu written", name_.c_str(),
                   static_cast<unsigned long long>(total_),
                   static_cast<unsigned long long>(written_));
  if (const int error = sync(file_.get())) return fail("fsync", error);
  // After EINTR it is closed all the same, and durable since fsync.
  if (::close(file_.release()) != 0 && errno != EINTR) return fail("close", errno);
  return publish();
}

Status FileSink::publish() {
  std::optional<mode_t> unused;
  TALUS_TRY(look_at_target(&unused));
  if (::renameat(folder_.get(), temporary_.c_str(), folder_.get(), base_.c_str()) != 0)
    return fail("rename", errno);
  has_temporary_ = false;
  renamed_ = true;
  const int error = sync(folder_.get());
  if (error == 0 || error == EINVAL) return {};  // some network file systems have nothing to sync
  return Status(TALUS_E_IO,
                "fsync the folder of " + name_ + ": " + message(error) +
                    "; the file is whole and renamed, but not known to be durable",
                error);
}

Status make_sink(const std::string& path, bool is_new, std::unique_ptr<Sink>* out) {
  auto sink = std::make_unique<FileSink>(path, is_new);
  TALUS_TRY(sink->create());
  *out = std::move(sink);
  return {};
}

}  // namespace

Status open_source(const std::string& path, bool links, std::unique_ptr<Source>* out) {
  // O_NONBLOCK: a FIFO without a writer would hang here.
  Descriptor file =
      open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_NONBLOCK | (links ? 0 : O_NOFOLLOW));
  if (!file && errno == ELOOP && !links)
    return io_failure("open", path, ELOOP, "is a symbolic link, and may not be one");
  if (!file) return io_failure("open", path, errno);
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) return io_failure("fstat", path, errno);
  if (S_ISDIR(facts.st_mode)) return io_failure("open", path, EISDIR);
  if (!S_ISREG(facts.st_mode)) return io_failure("open", path, EINVAL, "is no regular file");
  *out = std::make_unique<FileSource>(path, std::move(file), static_cast<uint64_t>(facts.st_size));
  return {};
}

Status create_sink(const std::string& path, std::unique_ptr<Sink>* out) {
  return make_sink(path, false, out);
}

Status create_new_sink(const std::string& path, std::unique_ptr<Sink>* out) {
  return make_sink(path, true, out);
}

Status random_name(std::string* out) {
  const int error = draw_digits(out);
  return error == 0 ? Status() : Status(TALUS_E_IO, "getentropy: " + message(error), error);
}

std::vector<std::string> old_files(const std::string& folder,
                                   const std::function<bool(std::string_view)>& wanted) {
  std::vector<std::string> out;
  const Descriptor open =
      open_at(AT_FDCWD, folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (open)
    for_each_old_file(open.get(), wanted, [&](const char* name) { out.emplace_back(name); });
  return out;
}

bool remove_file(const std::string& path) { return unlink_at(AT_FDCWD, path.c_str()); }

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace talus
