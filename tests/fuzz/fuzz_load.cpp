// The first byte as flags, the rest as a checkpoint that is loaded over live state: refused with a text
// and nothing changed, or loaded; either way the optimizer takes its own state again.
#include "tests/fuzz/live.h"

using namespace talus::test;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Live live;
  if (size == 0) return 0;
  const uint64_t flags = uint64_t{data[0] & 0x7fu} << 4;  // TALUS_LOAD_ALLOW_MISSING and on
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  live.check(load_bytes(live.get(), bytes, flags), (flags & TALUS_LOAD_IN_PLACE) != 0);
  return 0;
}
