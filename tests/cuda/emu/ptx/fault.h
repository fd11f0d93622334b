// What stops a kernel.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>

namespace ptx {

enum class FaultKind : uint8_t { illegal_address, misaligned_address, race, bad_program };

struct Fault : std::runtime_error {
  FaultKind kind;
  Fault(FaultKind k, const std::string& message) : std::runtime_error("ptx: " + message), kind(k) {}
};

}  // namespace ptx
