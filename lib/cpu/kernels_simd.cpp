// Compiles rules and traversal once per SIMD target through Highway's foreach_target: this file
// includes itself once for each. Library headers come before the target's region, so that no inline
// function of theirs is built with a stronger instruction set and then linked for everyone.
#include <cmath>
#include <cstring>
#include <utility>

#include "lib/base/float_contract.h"
#include "lib/base/power.h"
#include "lib/cpu/kernels.h"
#include "lib/table/norm.h"

// SSSE3 and SSE4 gain nothing over the scalar target, which the compiler vectorises with SSE2, and
// each is a fifth of the object (AdamW f32, 2-core Zen 5, 2026-11-30). Tests compile them too.
// A vector of SVE has no size at compile time and cannot be a member of our Vec; NEON runs there.
#define TALUS_SVE (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#if defined(TALUS_ALL_TARGETS)
#define HWY_DISABLED_TARGETS TALUS_SVE
#elif defined(TALUS_ONE_SIMD_TARGET)
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | TALUS_SVE)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | TALUS_SVE)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/cpu/kernels_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace talus {
namespace HWY_NAMESPACE {
#undef TALUS_FN
#undef TALUS_TARGET_NAME
#undef TALUS_SCALAR_TARGET
#define TALUS_FN HWY_INLINE
#define TALUS_SCALAR_TARGET 0
#if HWY_TARGET == HWY_AVX3
#define TALUS_TARGET_NAME "avx3"
#elif HWY_TARGET == HWY_AVX2
#define TALUS_TARGET_NAME "avx2"
#elif HWY_TARGET == HWY_SSE4
#define TALUS_TARGET_NAME "sse4"
#elif HWY_TARGET == HWY_SSSE3
#define TALUS_TARGET_NAME "ssse3"
#elif HWY_TARGET == HWY_NEON
#define TALUS_TARGET_NAME "neon"
#else
#error "a Highway target without a name here"
#endif
#include "lib/cpu/target.inl"
const KernelTable& kernels() { return kKernels; }
}  // namespace HWY_NAMESPACE
}  // namespace talus
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace talus {

const KernelTable* simd_kernels(Simd target) {
  switch (target) {
#if HWY_TARGETS & HWY_AVX3
    case Simd::avx3: return &N_AVX3::kernels();
#endif
#if HWY_TARGETS & HWY_AVX2
    case Simd::avx2: return &N_AVX2::kernels();
#endif
#if HWY_TARGETS & HWY_SSE4
    case Simd::sse4: return &N_SSE4::kernels();
#endif
#if HWY_TARGETS & HWY_SSSE3
    case Simd::ssse3: return &N_SSSE3::kernels();
#endif
#if HWY_TARGETS & HWY_NEON
    case Simd::neon: return &N_NEON::kernels();
#endif
    default: return nullptr;
  }
}

}  // namespace talus
#endif
