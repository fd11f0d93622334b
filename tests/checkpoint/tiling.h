// What an accepted header must be true of, looked at byte by byte: no code of the reader.
#pragma once
#include <string>
#include <vector>

#include "lib/checkpoint/safetensors.h"

namespace talus::test {

// "" if every byte behind the header belongs to exactly one tensor, and each tensor has the bytes of
// its shape; for files that are small enough to be counted out.
inline std::string tiling_fault(const safetensors::Header& header, uint64_t file_size) {
  if (header.data_begin < 8 || header.data_begin > file_size) return "the data begins outside";
  std::vector<unsigned char> owners(file_size - header.data_begin, 0);
  for (const auto& [name, tensor] : header.tensors) {
    if (tensor.begin > tensor.end || tensor.end > owners.size())
      return "tensor " + name + " lies outside";
    if (safetensors::dtype_bytes(tensor.dtype) == 0) return "tensor " + name + " has no dtype";
    long double bytes = safetensors::dtype_bytes(tensor.dtype);  // exact up to 2^64
    for (const uint64_t n : tensor.shape) bytes *= static_cast<long double>(n);
    if (bytes != static_cast<long double>(tensor.end - tensor.begin))
      return "tensor " + name + " has another size";
    for (uint64_t i = tensor.begin; i < tensor.end; ++i)
      if (owners[i]++ != 0) return "byte " + std::to_string(i) + " has two owners";
  }
  for (size_t i = 0; i < owners.size(); ++i)
    if (owners[i] == 0) return "byte " + std::to_string(i) + " has no owner";
  return "";
}

}  // namespace talus::test
