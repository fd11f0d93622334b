// What every function of the C ABI shares: no exception gets out, the error text of the thread,
// structs that may be older or newer than ours. No logic of the library.
#pragma once
#include <talus.h>

#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>

#include "lib/base/status.h"

namespace talus::capi {

// Keeps the text for talus_last_error of this thread; returns the code.
talus_status report(const Status& status) noexcept;
talus_status report(talus_status code, const char* function, const char* text) noexcept;

// function: of the C ABI, for the text.
template <class F>
talus_status guarded(const char* function, F&& f) noexcept {
  try {
    const Status status = f();
    return status.ok() ? TALUS_OK : report(status);
  } catch (const std::bad_alloc&) {
    return report(TALUS_E_MEMORY, function, "out of memory");
  } catch (const std::length_error&) {
    return report(TALUS_E_MEMORY, function, "a count is more than memory can hold");
  } catch (const std::exception& e) {
    return report(TALUS_E_INTERNAL, function, e.what());
  } catch (...) {
    return report(TALUS_E_INTERNAL, function, "unknown exception");
  }
}

inline Status need(const void* pointer, const char* function, const char* argument) {
  if (pointer) return {};
  return failure(TALUS_E_ARGUMENT, "%s: %s is NULL, expected a pointer", function, argument);
}

// No struct of a newer header is going to be larger: a size above is garbage.
inline constexpr uint32_t kLargestStruct = 4096;

// Reads a struct of the caller that starts with struct_size. Shorter: the rest is zero. Longer:
// what we do not know must be zero. `least` is the size of its first version that has all it needs.
template <class T>
Status take(const void* from, size_t least, const char* what, T* out) {
  uint32_t size;
  std::memcpy(&size, from, sizeof size);
  if (size < least)
    return failure(TALUS_E_ARGUMENT, "%s.struct_size is %u, expected at least %zu", what, size,
                   least);
  if (size > kLargestStruct)
    return failure(TALUS_E_ARGUMENT, "%s.struct_size is %u, expected sizeof(the struct), %zu", what,
                   size, sizeof(T));
  const auto* bytes = static_cast<const unsigned char*>(from);
  for (size_t i = sizeof(T); i < size; ++i)
    if (bytes[i] != 0)
      return failure(TALUS_E_UNSUPPORTED,
                     "%s has a field at byte %zu that this library does not know, expected zero",
                     what, i);
  *out = T{};
  std::memcpy(out, from, size < sizeof(T) ? size : sizeof(T));
  return {};
}

// Fills a struct of the caller: no more bytes than he knows, struct_size stays his.
template <class T>
Status give(T from, const char* what, T* out) {
  const uint32_t size = out->struct_size;
  if (size < 2 * sizeof(uint32_t))
    return failure(TALUS_E_ARGUMENT, "%s.struct_size is %u, expected sizeof(%s), %zu", what, size,
                   what, sizeof(T));
  from.struct_size = size;
  std::memcpy(static_cast<void*>(out), &from, size < sizeof(T) ? size : sizeof(T));
  return {};
}

}  // namespace talus::capi
