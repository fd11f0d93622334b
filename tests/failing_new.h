// An operator new that fails when a test says so; for one source of a program, since it defines
// them. A shared library uses them then too.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace talus::test {

inline std::atomic<int> countdown{-1};      // allocations until one fails; below 0: none does
inline std::atomic<size_t> asked_bytes{0};  // of all allocations so far

inline void* allocate(size_t bytes, size_t alignment) {
  if (countdown >= 0 && countdown-- == 0) return nullptr;
  asked_bytes += bytes;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes == 0 ? 1 : bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

inline void* allocate_or_throw(size_t bytes, size_t alignment) {
  void* data = allocate(bytes, alignment);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

// Inlined, it looks to g++ like memory of new that is given to free.
[[gnu::noinline]] inline void release(void* data) { std::free(data); }

}  // namespace talus::test

void* operator new(size_t bytes) { return talus::test::allocate_or_throw(bytes, 1); }
void* operator new[](size_t bytes) { return talus::test::allocate_or_throw(bytes, 1); }
void* operator new(size_t bytes, std::align_val_t a) {
  return talus::test::allocate_or_throw(bytes, size_t(a));
}
void* operator new[](size_t bytes, std::align_val_t a) {
  return talus::test::allocate_or_throw(bytes, size_t(a));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return talus::test::allocate(bytes, 1);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return talus::test::allocate(bytes, 1);
}
void operator delete(void* data) noexcept { talus::test::release(data); }
void operator delete[](void* data) noexcept { talus::test::release(data); }
void operator delete(void* data, size_t) noexcept { talus::test::release(data); }
void operator delete[](void* data, size_t) noexcept { talus::test::release(data); }
void operator delete(void* data, std::align_val_t) noexcept { talus::test::release(data); }
void operator delete[](void* data, std::align_val_t) noexcept { talus::test::release(data); }
void operator delete(void* data, size_t, std::align_val_t) noexcept { talus::test::release(data); }
void operator delete[](void* data, size_t, std::align_val_t) noexcept {
  talus::test::release(data);
}
void operator delete(void* data, const std::nothrow_t&) noexcept { talus::test::release(data); }
void operator delete[](void* data, const std::nothrow_t&) noexcept { talus::test::release(data); }
