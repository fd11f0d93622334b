// Gives every file of the folders that are its arguments to a fuzz target: the corpus as a plain test.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/fuzz/target.h"

namespace {

size_t replay(const std::filesystem::path& folder) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
    talus::test::require(!file.bad(), "cannot read " + entry.path().string());
    std::fprintf(stderr, "%s\n", entry.path().filename().c_str());  // the last one is at fault
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    ++count;
  }
  return count;
}

}  // namespace

int main(int count, char** folders) {
  size_t files = 0;
  for (int i = 1; i < count; ++i) {
    const size_t found = replay(folders[i]);
    talus::test::require(found > 0, std::string("no files in ") + folders[i]);
    files += found;
  }
  talus::test::require(files > 0, "usage: replay FOLDER...");
  std::printf("%zu files\n", files);
  return 0;
}
