// Elements of one dtype as another: exact where it is wider, else rounded once to nearest even.
#pragma once
#include <cstdint>

#include "lib/base/dtype.h"

namespace talus {

void convert(const void* from, Dtype from_dtype, void* to, Dtype to_dtype, uint64_t count);

// The first element of which `rounded` is not what `value` rounds to; count: there is none. Two NaN are
// the same.
uint64_t find_unrounded(const void* value, Dtype value_dtype, const void* rounded,
                        Dtype rounded_dtype, uint64_t count);

}  // namespace talus
