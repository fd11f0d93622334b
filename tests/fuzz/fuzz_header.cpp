// Any bytes as a safetensors file: it is refused with a text, or its tensors tile it.
#include "lib/checkpoint/safetensors.h"
#include "tests/checkpoint/tiling.h"
#include "tests/fuzz/target.h"

using talus::test::require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  talus::safetensors::Header header;
  const talus::Status status = talus::safetensors::parse({data, size}, size, "file", &header);
  if (status.ok()) {
    const std::string fault = talus::test::tiling_fault(header, size);
    require(fault.empty(), fault);
    return 0;
  }
  require(status.code() == TALUS_E_FORMAT || status.code() == TALUS_E_UNSUPPORTED,
          "refused with another status: " + status.text());
  require(status.text().starts_with("file: "), "a text without the file: " + status.text());
  require(talus::is_utf8(status.text()), "a text that is no UTF-8");
  require(header.tensors.empty() && header.metadata.empty(), "refused, but written to");
  return 0;
}
