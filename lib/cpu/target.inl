// Everything of one instruction set, in order of dependence; rules come last but the loop. Included
// inside the namespace of its target, which defines TALUS_FN, TALUS_TARGET_NAME and
// TALUS_SCALAR_TARGET before.
#undef TALUS_MASKED_TAIL
#undef TALUS_F16C
#undef TALUS_BF16_SPANS
#include "lib/base/rounding.inl"
#include "lib/cpu/lane_scalar.inl"
#if !TALUS_SCALAR_TARGET
#include "lib/cpu/lane_hwy.inl"
#endif
#include "lib/rules/lane_arithmetic.inl"
#include "lib/cpu/prefetch.inl"
#include "lib/cpu/convert.inl"
#include "lib/cpu/tile_sum.inl"
#include "lib/rules/numbered.inl"
#include "lib/cpu/pass.inl"
#include "lib/cpu/begin.inl"
#include "lib/cpu/measure.inl"
#include "lib/cpu/table.inl"
