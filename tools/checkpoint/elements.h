// Numbers of the dtypes that a file may hold: what they come to, and how far two of them are apart.
// Knows no files.
#pragma once
#include <cstdint>
#include <string_view>

namespace checkpoint {

// Of a tensor, or of several. Extremes and squares are those of finite elements.
struct Statistics {
  uint64_t count = 0, non_finite = 0;
  long double min = 0, max = 0, squares = 0;  // exact for integers of 64 bits on x86

  bool any() const { return count > non_finite; }
  long double norm() const;
  void add(const Statistics& more);
};

// Adds `count` elements of a dtype such as "F32".
void measure(std::string_view dtype, const void* data, uint64_t count, Statistics* into);

// Two tensors of one dtype. Elements are the same if their bits are.
struct Distance {
  uint64_t count = 0, different = 0, first = 0;  // first: index of the first that differs
  uint64_t nan = 0;  // of those that differ, where one side or both are NaN; not in what follows
  long double largest = 0;
  uint64_t ulps = 0;  // steps from one number of a floating-point dtype to the next
};

// Adds `count` elements behind those that have been added.
void compare(std::string_view dtype, const void* a, const void* b, uint64_t count, Distance* into);

bool is_floating(std::string_view dtype);
bool is_unsigned(std::string_view dtype);

}  // namespace checkpoint
