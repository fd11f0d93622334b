// Everything of one instruction set, in order of dependence; rules come last but the loop. Included
// inside the namespace of its target, which defines TALUS_FN and includes its lane before.
#include "lib/base/rounding.inl"
#include "lib/cpu/lane_arithmetic.inl"
#include "lib/cpu/convert.inl"
#include "lib/cpu/tile_sum.inl"
#include "lib/rules/numbered.inl"
#include "lib/cpu/pass.inl"
#include "lib/cpu/begin.inl"
#include "lib/cpu/measure.inl"
#include "lib/cpu/table.inl"
