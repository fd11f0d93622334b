// Refuses compiler settings under which the numerics contract (include/talus.h, "numbers") cannot
// hold. Included first by every file that computes: as a subproject we inherit a parent's flags.
#pragma once
#include <cfloat>

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "talus must not be built with -ffast-math: it reorders sums and drops NaN"
#endif
#if FLT_EVAL_METHOD != 0
#error "talus needs FLT_EVAL_METHOD 0 (on 32-bit x86: -msse2 -mfpmath=sse)"
#endif
