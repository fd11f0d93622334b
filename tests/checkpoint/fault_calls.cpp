// Definitions of the C library's file calls on raw system calls, so that tests see them and decide.
#include "tests/checkpoint/fault_calls.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <map>
#include <mutex>
#include <optional>

namespace talus::faults {
namespace {

// Never destroyed: calls come before main and after it.
struct Watch {
  std::recursive_mutex mutex;
  bool on = false;
  std::string folder;
  Plan plan;
  int64_t counted = 0;
  std::map<int, std::string> paths;  // of open descriptors below the folder
  std::map<int, int64_t> positions;
  std::vector<Call> calls;
};
Watch& state() {
  static Watch& it = *new Watch;
  return it;
}

std::string working_folder() {
  char buffer[4096];
  return syscall(SYS_getcwd, buffer, sizeof buffer) > 0 ? buffer : "";
}

std::string absolute(int folder, const char* path) {
  if (path[0] == '/') return path;
  const auto known = state().paths.find(folder);
  const bool here = std::string(path) == ".";
  const std::string in = known != state().paths.end() ? known->second : working_folder();
  return here ? in : in + '/' + path;
}

// A folder is known without the slash at its end.
std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

bool is_below(const std::string& path) {
  const std::string& folder = state().folder;
  return path == folder || path.starts_with(folder + '/');
}

// What is known of a call before it is made; none: it is not watched.
std::optional<Call> seen(const char* name, std::string path) {
  if (!state().on || !is_below(path)) return {};
  Call call;
  call.name = name;
  call.path = std::move(path);
  return call;
}

std::optional<Call> seen(const char* name, int descriptor) {
  const auto known = state().paths.find(descriptor);
  if (known == state().paths.end()) return {};
  return seen(name, known->second);
}

// Whether this is the one that fails; the error is then in the call.
bool fails(Call* call) {
  Watch& w = state();
  if (w.plan.only != nullptr && call->name != w.plan.only) return false;
  if (w.counted++ != w.plan.fail_at) return false;
  call->error = w.plan.error;
  return true;
}

template <class Result>
Result logged(Call call, Result result) {
  if (result < 0 && call.error == 0) call.error = errno;
  const int error = call.error;
  state().calls.push_back(std::move(call));
  if (error != 0) errno = error;
  return error != 0 ? Result{-1} : result;
}

size_t allowed(size_t count) {
  const Plan& plan = state().plan;
  if (plan.halves) count = (count + 1) / 2;
  return plan.most == 0 ? count : std::min<size_t>(count, plan.most);
}

using Lock = std::lock_guard<std::recursive_mutex>;

// A call that either is made as it is or fails.
template <class Target, class Raw>
auto plain(const char* name, Target target, Raw raw) -> decltype(raw()) {
  const Lock lock(state().mutex);
  std::optional<Call> call = seen(name, target);
  if (!call) return raw();
  if (fails(&*call)) return logged(std::move(*call), decltype(raw()){-1});
  return logged(std::move(*call), raw());
}

int open_at(const char* name, int folder, const char* path, int flags, unsigned mode) {
  const Lock lock(state().mutex);
  const std::string whole = without_slash(absolute(folder, path));
  std::optional<Call> call = seen(name, whole);
  if (call) {
    call->creates = (flags & O_CREAT) != 0;
    if (fails(&*call)) return logged(std::move(*call), -1);
  }
  const int opened = static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
  if (opened >= 0) state().paths.erase(opened);  // a close inside the C library is not seen
  if (opened >= 0 && is_below(whole)) {
    state().paths[opened] = whole;
    state().positions[opened] = 0;
  }
  return call ? logged(std::move(*call), opened) : opened;
}

ssize_t write_to(int descriptor, const void* bytes, size_t count) {
  const Lock lock(state().mutex);
  std::optional<Call> call = seen("write", descriptor);
  if (!call) return syscall(SYS_write, descriptor, bytes, count);
  if (fails(&*call)) return logged(std::move(*call), ssize_t{-1});
  const ssize_t put = syscall(SYS_write, descriptor, bytes, allowed(count));
  call->offset = state().positions[descriptor];
  if (put > 0) {
    call->bytes.assign(static_cast<const char*>(bytes), static_cast<size_t>(put));
    state().positions[descriptor] += put;
  }
  return logged(std::move(*call), put);
}

ssize_t read_at(int descriptor, void* out, size_t count, int64_t offset) {
  const Lock lock(state().mutex);
  std::optional<Call> call = seen("pread", descriptor);
  if (!call) return syscall(SYS_pread64, descriptor, out, count, offset);
  call->offset = offset;
  if (fails(&*call)) return logged(std::move(*call), ssize_t{-1});
  return logged(std::move(*call),
                ssize_t{syscall(SYS_pread64, descriptor, out, allowed(count), offset)});
}

// Linux closes the descriptor whatever it then says.
int close_it(int descriptor) {
  const Lock lock(state().mutex);
  std::optional<Call> call = seen("close", descriptor);
  const bool failing = call && fails(&*call);
  const int result = static_cast<int>(syscall(SYS_close, descriptor));
  state().paths.erase(descriptor);
  return call ? logged(std::move(*call), failing ? -1 : result) : result;
}

// Not made: what is durable is known from the log, and a disk would make the tests minutes long.
int sync_it(int descriptor) {
  const Lock lock(state().mutex);
  std::optional<Call> call = seen("fsync", descriptor);
  if (!call) return 0;
  struct stat facts {};
  call->is_folder = stat(call->path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
  const bool failing = fails(&*call);
  return logged(std::move(*call), failing ? -1 : 0);
}

int rename_at(int folder, const char* from, int to_folder, const char* to) {
  const Lock lock(state().mutex);
  const auto raw = [&] {
    return static_cast<int>(syscall(SYS_renameat2, folder, from, to_folder, to, 0));
  };
  std::optional<Call> call = seen("rename", absolute(folder, from));
  if (!call) return raw();
  call->to = absolute(to_folder, to);
  if (fails(&*call)) return logged(std::move(*call), -1);
  return logged(std::move(*call), raw());
}

// Returns the error itself.
int allocate(int descriptor, int64_t offset, int64_t bytes) {
  errno = 0;
  const int result = plain("posix_fallocate", descriptor, [&] {
    return static_cast<int>(syscall(SYS_fallocate, descriptor, 0, offset, bytes));
  });
  if (result == 0) {
    const Lock lock(state().mutex);
    if (state().on && !state().calls.empty()) state().calls.back().offset = offset + bytes;
  }
  return result == 0 ? 0 : errno;
}

int stat_at(int folder, const char* path, void* out, int flags) {
  return plain("stat", absolute(folder, path),
               [&] { return static_cast<int>(syscall(SYS_newfstatat, folder, path, out, flags)); });
}

int stat_of(int descriptor, void* out) {
  return plain("fstat", descriptor,
               [&] { return static_cast<int>(syscall(SYS_fstat, descriptor, out)); });
}

int unlink_at(int folder, const char* path, int flags) {
  return plain("unlink", absolute(folder, path),
               [&] { return static_cast<int>(syscall(SYS_unlinkat, folder, path, flags)); });
}

}  // namespace

void watch(const std::string& folder, const Plan& plan) {
  const Lock lock(state().mutex);
  Watch& w = state();
  w.folder = without_slash(folder);
  w.plan = plan;
  w.counted = 0;
  w.paths.clear();
  w.calls.clear();
  w.on = true;
}

std::vector<Call> stop() {
  const Lock lock(state().mutex);
  state().on = false;
  state().paths.clear();
  return std::move(state().calls);
}

std::string describe(const std::vector<Call>& calls) {
  std::string out;
  for (const Call& call : calls) {
    out += call.name + ' ' + call.path + (call.to.empty() ? "" : " -> " + call.to);
    if (call.name == "write") out += ' ' + std::to_string(call.bytes.size()) + " bytes";
    out += call.error != 0 ? " fails with " + std::to_string(call.error) + '\n' : "\n";
  }
  return out;
}

}  // namespace talus::faults

// The names of the C library, by assembler label: its headers give some of them another one
// already.
using namespace talus;
#define TALUS_CALL(name) asm(#name) __attribute__((visibility("default"), used))
extern "C" {
int fault_open(const char*, int, ...) TALUS_CALL(open);
int fault_open64(const char*, int, ...) TALUS_CALL(open64);
int fault_openat(int, const char*, int, ...) TALUS_CALL(openat);
int fault_openat64(int, const char*, int, ...) TALUS_CALL(openat64);
ssize_t fault_write(int, const void*, size_t) TALUS_CALL(write);
ssize_t fault_pread(int, void*, size_t, int64_t) TALUS_CALL(pread);
ssize_t fault_pread64(int, void*, size_t, int64_t) TALUS_CALL(pread64);
int fault_fsync(int) TALUS_CALL(fsync);
int fault_close(int) TALUS_CALL(close);
int fault_rename(const char*, const char*) TALUS_CALL(rename);
int fault_renameat(int, const char*, int, const char*) TALUS_CALL(renameat);
int fault_unlink(const char*) TALUS_CALL(unlink);
int fault_unlinkat(int, const char*, int) TALUS_CALL(unlinkat);
int fault_fallocate(int, int64_t, int64_t) TALUS_CALL(posix_fallocate);
int fault_fallocate64(int, int64_t, int64_t) TALUS_CALL(posix_fallocate64);
int fault_fstat(int, void*) TALUS_CALL(fstat);
int fault_fstat64(int, void*) TALUS_CALL(fstat64);
int fault_fstatat(int, const char*, void*, int) TALUS_CALL(fstatat);
int fault_fstatat64(int, const char*, void*, int) TALUS_CALL(fstatat64);
int fault_fchmod(int, unsigned) TALUS_CALL(fchmod);

#define TALUS_MODE(flags)                            \
  va_list arguments;                                 \
  va_start(arguments, flags);                        \
  const unsigned mode = va_arg(arguments, unsigned); \
  va_end(arguments)

int fault_open(const char* path, int flags, ...) {
  TALUS_MODE(flags);
  return faults::open_at("open", AT_FDCWD, path, flags, mode);
}
int fault_open64(const char* path, int flags, ...) {
  TALUS_MODE(flags);
  return faults::open_at("open", AT_FDCWD, path, flags, mode);
}
int fault_openat(int folder, const char* path, int flags, ...) {
  TALUS_MODE(flags);
  return faults::open_at("open", folder, path, flags, mode);
}
int fault_openat64(int folder, const char* path, int flags, ...) {
  TALUS_MODE(flags);
  return faults::open_at("open", folder, path, flags, mode);
}
ssize_t fault_write(int file, const void* bytes, size_t count) {
  return faults::write_to(file, bytes, count);
}
ssize_t fault_pread(int file, void* out, size_t count, int64_t offset) {
  return faults::read_at(file, out, count, offset);
}
ssize_t fault_pread64(int file, void* out, size_t count, int64_t offset) {
  return faults::read_at(file, out, count, offset);
}
int fault_fsync(int file) { return faults::sync_it(file); }
int fault_close(int file) { return faults::close_it(file); }
int fault_rename(const char* from, const char* to) {
  return faults::rename_at(AT_FDCWD, from, AT_FDCWD, to);
}
int fault_renameat(int folder, const char* from, int to_folder, const char* to) {
  return faults::rename_at(folder, from, to_folder, to);
}
int fault_unlink(const char* path) { return faults::unlink_at(AT_FDCWD, path, 0); }
int fault_unlinkat(int folder, const char* path, int flags) {
  return faults::unlink_at(folder, path, flags);
}
int fault_fallocate(int file, int64_t offset, int64_t bytes) {
  return faults::allocate(file, offset, bytes);
}
int fault_fallocate64(int file, int64_t offset, int64_t bytes) {
  return faults::allocate(file, offset, bytes);
}
int fault_fstat(int file, void* out) { return faults::stat_of(file, out); }
int fault_fstat64(int file, void* out) { return faults::stat_of(file, out); }
int fault_fstatat(int folder, const char* path, void* out, int flags) {
  return faults::stat_at(folder, path, out, flags);
}
int fault_fstatat64(int folder, const char* path, void* out, int flags) {
  return faults::stat_at(folder, path, out, flags);
}
int fault_fchmod(int file, unsigned mode) {
  return faults::plain("fchmod", file,
                       [&] { return static_cast<int>(syscall(SYS_fchmod, file, mode)); });
}
}
