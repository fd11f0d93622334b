// Memory of the bench: as the best host would have it, so that pages and alignment do not decide.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>

namespace bench {

// Bytes at a multiple of 2 MiB, on huge pages where the system has them; NULL: none. Not touched:
// pages that nobody writes cost nothing. For std::free.
void* allocate_huge(uint64_t bytes);

struct FreeMemory {
  void operator()(void* data) const { std::free(data); }
};
using HugeMemory = std::unique_ptr<char, FreeMemory>;

// Throws std::bad_alloc.
HugeMemory huge_memory(uint64_t bytes);

// What the system says a new program could use without swapping; absent where it does not say.
std::optional<uint64_t> available_bytes();

// Of the last level; a guess where the system does not say.
uint64_t cache_bytes();

}  // namespace bench
