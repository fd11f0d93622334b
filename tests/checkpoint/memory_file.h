// Checkpoints in memory, by the C ABI: the bytes that a save gives, and a load of any bytes.
#pragma once
#include <talus.h>

#include <cstring>
#include <string>

#include "tests/optimizer.h"

namespace talus::test {

inline talus_io io_of(uint64_t flags) {
  talus_io io{};
  io.struct_size = sizeof io;
  io.flags = flags;
  return io;
}

inline int32_t append_bytes(void* user, const void* bytes, uint64_t count) {
  static_cast<std::string*>(user)->append(static_cast<const char*>(bytes), size_t(count));
  return 0;
}

inline std::string save_bytes(talus_optimizer* opt, uint64_t flags = 0, void* stream = nullptr) {
  std::string out;
  talus_writer writer{sizeof writer, 0, &out, append_bytes};
  const talus_io io = io_of(flags);
  must(talus_save_to(opt, &writer, &io, stream));
  return out;
}

inline int32_t read_bytes(void* user, uint64_t offset, void* bytes, uint64_t count) {
  const std::string& from = *static_cast<const std::string*>(user);
  if (offset > from.size() || count > from.size() - offset) return 1;
  std::memcpy(bytes, from.data() + offset, size_t(count));
  return 0;
}

inline talus_status load_bytes(talus_optimizer* opt, const std::string& from, uint64_t flags = 0,
                               void* stream = nullptr) {
  talus_reader reader{sizeof reader, 0, const_cast<std::string*>(&from), from.size(), read_bytes};
  const talus_io io = io_of(flags);
  return talus_load_from(opt, &reader, &io, stream);
}

}  // namespace talus::test
