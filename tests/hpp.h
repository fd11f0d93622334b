// What the tests of talus.hpp share.
#pragma once
#include <talus.hpp>

namespace talus::test {

// The status that a call throws.
talus_status code_of(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return TALUS_OK;
}

}  // namespace talus::test
