// A file written and read through the library's own sink and source.
#pragma once
#include <memory>
#include <string>

#include "lib/checkpoint/files.h"

namespace talus::test {

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

}  // namespace talus::test
