// File calls of the library, logged and made to fail. The program that links this defines open,
// write, fsync and the others itself; its definitions stand before those of the C library, also for
// what a shared library calls. Nothing in the product knows of it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace talus::faults {

struct Call {
  std::string name;   // "openat", "write"; "open64" and so on are logged as "open"
  std::string path;   // of the descriptor, or what is opened or renamed; absolute
  std::string to;     // rename alone
  std::string bytes;  // write alone: those that were taken
  int64_t offset = 0;
  int error = 0;  // 0: done
  bool creates = false, is_folder = false;

  bool done() const { return error == 0; }
};

struct Plan {
  int64_t fail_at = -1;        // this call, from 0; -1: none
  int error = 0;               // of it
  uint64_t most = 0;           // bytes that a read or write moves at most; 0: all
  bool halves = false;         // a read or write moves half, rounded up
  const char* only = nullptr;  // counts calls of this name alone
};

// From here on calls on paths under `folder` (absolute) are logged and fail as planned. Others
// pass.
void watch(const std::string& folder, const Plan& plan = {});

// Ends it and returns what was called.
std::vector<Call> stop();

// "openat /a/b, write /a/b, ..." for a failed check.
std::string describe(const std::vector<Call>& calls);

}  // namespace talus::faults
