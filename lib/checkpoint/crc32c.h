// CRC-32C (Castagnoli), the digest of tensors in a checkpoint: finds decay of storage.
#pragma once
#include <cstddef>
#include <cstdint>

namespace talus {

// Of bytes that follow those whose digest is `before`; 0: there are none. By the instruction of
// SSE4.2 where the CPU has it, else by tables.
uint32_t crc32c(uint32_t before, const void* data, size_t bytes);
uint32_t crc32c_by_table(uint32_t before, const void* data, size_t bytes);

}  // namespace talus
