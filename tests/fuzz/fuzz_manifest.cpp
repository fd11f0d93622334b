// Lines `key=value` as the metadata of a checkpoint: refused with a text, or what was read is written
// as it was, and goes through the header of a file.
#include <string_view>

#include "lib/checkpoint/manifest.h"
#include "tests/fuzz/target.h"

using namespace talus;
using talus::test::require;

namespace {

safetensors::Strings metadata_of(std::string_view lines) {
  safetensors::Strings out;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(line.size() < lines.size() ? line.size() + 1 : line.size());
    const size_t sign = line.find('=');
    if (sign != line.npos) out.emplace(line.substr(0, sign), line.substr(sign + 1));
  }
  return out;
}

void check_refusal(const Status& status) {
  require(status.code() == TALUS_E_FORMAT || status.code() == TALUS_E_VERSION,
          "refused with another status: " + status.text());
  require(status.text().starts_with("file: "), "a text without the file: " + status.text());
}

void check_manifest(const safetensors::Strings& metadata) {
  Manifest manifest, again;
  const Status status = read_manifest(metadata, "file", &manifest);
  if (!status.ok()) return check_refusal(status);
  const safetensors::Strings written = write_manifest(manifest);
  const Status second = read_manifest(written, "file", &again);
  require(second.ok(), "what was written is refused: " + second.text());
  require(manifest == again, "what was written reads as something else");

  safetensors::Layout layout;
  if (!safetensors::lay_out({}, written, "", &layout).ok()) return;  // a note that is no UTF-8
  safetensors::Header header;
  const auto* const head = reinterpret_cast<const uint8_t*>(layout.head.data());
  const Status third =
      safetensors::parse({head, layout.head.size()}, layout.total, "file", &header);
  require(third.ok(), "a header that was written is refused: " + third.text());
  require(header.metadata == written, "metadata has changed on its way through a header");
}

void check_pieces(std::string_view text) {
  Pieces pieces, again;
  const Status status = read_pieces(text, "file", &pieces);
  if (!status.ok()) return check_refusal(status);
  const Status second = read_pieces(write_pieces(pieces), "file", &again);
  require(second.ok(), "pieces that were written are refused: " + second.text());
  require(pieces == again, "pieces that were written read as something else");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto metadata = metadata_of({reinterpret_cast<const char*>(data), size});
  check_manifest(metadata);
  if (const auto found = metadata.find("talus.pieces"); found != metadata.end())
    check_pieces(found->second);
  return 0;
}
