// A folder of a test's own, and whole files in it.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "lib/checkpoint/files.h"

namespace talus::scratch {

class Folder {
 public:
  Folder() : Folder(std::filesystem::temp_directory_path()) {}
  explicit Folder(const std::filesystem::path& in) {
    std::string name = (in / "talus-files-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder " + name);
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + '/' + name; }

  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      out.push_back(entry.path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
  }

 private:
  std::string path_;
};

inline void put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return "(no file " + path + ")";
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// As a save writes: `pieces` writes of about equal size.
inline Status save(const std::string& path, const std::string& bytes, size_t pieces = 1) {
  std::unique_ptr<Sink> sink;
  TALUS_TRY(create_sink(path, &sink));
  TALUS_TRY(sink->begin(bytes.size()));
  for (size_t i = 0; i < pieces; ++i) {
    const size_t from = bytes.size() * i / pieces, to = bytes.size() * (i + 1) / pieces;
    TALUS_TRY(sink->write(bytes.data() + from, to - from));
  }
  return sink->commit();
}

inline Status load(const std::string& path, std::string* out) {
  std::unique_ptr<Source> source;
  TALUS_TRY(open_source(path, true, &source));
  out->assign(source->size(), '?');
  return source->read(0, out->data(), out->size());
}

}  // namespace talus::scratch
