// Everything that a roof of one CPU target is made of, in order of dependence: the library's own
// lanes, then the roofs. Included as lib/cpu/target.inl is.
#undef TALUS_MASKED_TAIL
#undef TALUS_F16C
#include "lib/base/rounding.inl"
#include "lib/cpu/lane_scalar.inl"
#if !TALUS_SCALAR_TARGET
#include "lib/cpu/lane_hwy.inl"
#endif
#include "lib/rules/lane_arithmetic.inl"
#include "lib/cpu/prefetch.inl"
#include "lib/cpu/convert.inl"
#include "lib/rules/numbered.inl"
#include "tools/bench/roof.inl"
