#include "lib/device/plugin.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <mutex>

#if defined(__GLIBC__)
#include <link.h>
#endif

namespace talus {
namespace {

constexpr size_t kLongestPath = PATH_MAX;
constexpr size_t kLongestText = 1024;  // of a status

// What the process has asked for and found. Constant-initialised, and nothing to destroy: a library
// that is only loaded or unloaded runs no code.
struct Search {
  std::mutex mutex;
  bool done = false;
  char first_folders[kLongestPath] = "";
  char file[kLongestPath] = "";
  int32_t failure = TALUS_OK;
  char text[kLongestText] = "";
  std::atomic<const Backend*> found{nullptr};
};
Search g_cuda;

void keep(std::string_view text, char* out, size_t room) {
  const size_t bytes = std::min(text.size(), room - 1);
  std::memcpy(out, text.data(), bytes);
  out[bytes] = 0;
}

// Calls f(folder) for each of "a:b:c"; an empty one would be the working directory and is none.
template <class F>
void for_each_folder(std::string_view folders, F f) {
  while (!folders.empty()) {
    const size_t colon = std::min(folders.find(':'), folders.size());
    if (colon > 0) f(folders.substr(0, colon));
    folders.remove_prefix(std::min(colon + 1, folders.size()));
  }
}

#if defined(__GLIBC__)
// Of the program, where the library is inside it: the loader may know no folder of a program.
std::string program_folder() {
  char file[kLongestPath];
  if (!realpath("/proc/self/exe", file)) return "";
  return std::string(file, size_t(std::strrchr(file, '/') - file));
}
#endif

// Where the library was loaded from, "" where nobody can say. dladdr alone gives the path as the
// host wrote it, which means another file once the host has changed its working directory.
std::string own_folder() {
  const void* const self = reinterpret_cast<const void*>(&set_plugin_path);
  Dl_info info{};
#if defined(__GLIBC__)
  link_map* map = nullptr;
  char origin[kLongestPath] = "", plain[kLongestPath];
  if (dladdr1(self, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) && map) {
    if (map->l_name[0] == 0) return program_folder();
    if (dlinfo(map, RTLD_DI_ORIGIN, origin) == 0) return realpath(origin, plain) ? plain : origin;
  }
#endif
  if (!dladdr(self, &info) || !info.dli_fname || info.dli_fname[0] != '/') return "";
  const std::string_view file = info.dli_fname;
  return std::string(file.substr(0, file.rfind('/')));
}

const char* environment(const char* name) {
#if defined(__GLIBC__)
  return secure_getenv(name);  // what runs with more rights than its user loads nothing of his
#else
  return std::getenv(name);
#endif
}

std::string version_text(uint32_t version) {
  return text("%u.%u.%u", version >> 16, version >> 8 & 255, version & 255);
}

Status shake_hands(const char* file, const Backend* table) {
  if (!table)
    return failure(TALUS_E_UNSUPPORTED,
                   "the plugin %s refuses boundary %u of this library: it is of another version, "
                   "expected %s",
                   file, kBackendAbi, version_text(TALUS_VERSION).c_str());
  if (table->abi == kBackendAbi && table->size == sizeof(Backend) &&
      table->version == int32_t(TALUS_VERSION))
    return {};
  return failure(
      TALUS_E_UNSUPPORTED,
      "the plugin %s is of another build: version %s, boundary %u of %u bytes, expected version "
      "%s, boundary %u of %zu bytes",
      file, version_text(uint32_t(table->version)).c_str(), table->abi, table->size,
      version_text(TALUS_VERSION).c_str(), kBackendAbi, sizeof(Backend));
}

// NOW: a missing symbol shows here, not in a step. LOCAL: no symbol of the plugin or of the runtime
// in it meets another library's. NODELETE: that runtime has handlers that run at exit.
void* open(const char* file) { return dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); }

std::string loader_text() {
  const char* const why = dlerror();
  return why ? why : "no reason given";
}

Status table_of(void* handle, const char* file, const Backend** out) {
  const auto entry = reinterpret_cast<BackendEntry>(dlsym(handle, kBackendEntry));
  if (!entry)
    return failure(TALUS_E_UNSUPPORTED, "%s is no plugin of this library: it has no %s", file,
                   kBackendEntry);
  const Backend* const table = entry(kBackendAbi);
  TALUS_TRY(shake_hands(file, table));
  *out = table;
  return {};
}

// The first file of that name decides: none further down stands in for one that is refused.
Status search(const std::string& first_folders, std::string* file, const Backend** out) {
  std::string tried;
  const auto look_into = [&](std::string_view folder, const char* whose) {
    if (!file->empty()) return;
    const std::string candidate = std::string(folder) + '/' + kCudaPlugin;
    if (folder.front() == '/' && access(candidate.c_str(), F_OK) == 0)
      *file = candidate;
    else
      tried += (tried.empty() ? "" : ", ") + std::string(folder) +
               (folder.front() == '/' ? "" : " (not absolute: left out)") + whose;
  };
  for_each_folder(first_folders, [&](auto f) { look_into(f, " (talus_set_plugin_path)"); });
  const char* const variable = environment("TALUS_PLUGIN_PATH");
  for_each_folder(variable ? variable : "", [&](auto f) { look_into(f, " (TALUS_PLUGIN_PATH)"); });
  if (const std::string own = own_folder(); !own.empty()) {
    look_into(own, "");
    look_into(own + "/talus", "");
  }
  if (!file->empty()) return open_plugin(file->c_str(), out);

  void* const handle = open(kCudaPlugin);
  if (!handle)
    return failure(TALUS_E_UNSUPPORTED, "no CUDA plugin: %s is in none of: %s; and the loader: %s",
                   kCudaPlugin, tried.c_str(), loader_text().c_str());
  Dl_info info{};
  const void* const entry = dlsym(handle, kBackendEntry);
  *file = entry && dladdr(entry, &info) && info.dli_fname ? info.dli_fname : kCudaPlugin;
  return table_of(handle, file->c_str(), out);
}

}  // namespace

Status set_plugin_path(const char* folders) {
  const std::string_view wanted = folders ? folders : "";
  Status wrong;
  for_each_folder(wanted, [&](std::string_view folder) {
    if (wrong.ok() && folder.front() != '/')
      wrong = failure(TALUS_E_ARGUMENT, "talus_set_plugin_path: folder %s, expected one from /",
                      quoted(folder).c_str());
  });
  TALUS_TRY(wrong);
  if (wanted.size() >= kLongestPath)
    return failure(TALUS_E_ARGUMENT,
                   "talus_set_plugin_path: folders of %zu bytes, expected at most %zu",
                   wanted.size(), kLongestPath - 1);
  const std::lock_guard lock(g_cuda.mutex);
  if (g_cuda.done)
    return failure(TALUS_E_STATE,
                   "talus_set_plugin_path: the CUDA plugin has been looked for already, expected "
                   "a call before its first use");
  keep(wanted, g_cuda.first_folders, kLongestPath);
  return {};
}

Status open_plugin(const char* file, const Backend** out) {
  void* const handle = open(file);
  if (!handle)
    return failure(TALUS_E_UNSUPPORTED, "the plugin %s cannot be loaded: %s", file,
                   loader_text().c_str());
  return table_of(handle, file, out);
}

Status cuda_plugin(const Backend** out, const char** file) {
  const std::lock_guard lock(g_cuda.mutex);
  if (!g_cuda.done) {
    const Backend* found = nullptr;
    std::string where;
    const Status status = search(g_cuda.first_folders, &where, &found);
    keep(where, g_cuda.file, kLongestPath);
    keep(status.text(), g_cuda.text, kLongestText);
    g_cuda.failure = status.code();
    g_cuda.found.store(found, std::memory_order_release);
    g_cuda.done = true;
  }
  if (g_cuda.failure != TALUS_OK) return Status(g_cuda.failure, g_cuda.text);
  *out = g_cuda.found.load(std::memory_order_relaxed);
  if (file) *file = g_cuda.file;
  return {};
}

const Backend* loaded_cuda_plugin() { return g_cuda.found.load(std::memory_order_acquire); }

}  // namespace talus
