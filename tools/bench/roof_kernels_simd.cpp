// Compiles the roofs once per SIMD target, as lib/cpu/kernels_simd.cpp does the rules, and with the
// same care: every header comes before the target's region.
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "lib/base/float_contract.h"
#include "lib/base/power.h"
#include "lib/cpu/kernels.h"
#include "tools/bench/roof_kernels.h"

// As the library, see kernels_simd.cpp.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tools/bench/roof_kernels_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace bench {
namespace HWY_NAMESPACE {
using namespace talus;
#undef TALUS_FN
#undef TALUS_TARGET_NAME
#undef TALUS_SCALAR_TARGET
#define TALUS_FN HWY_INLINE
#define TALUS_SCALAR_TARGET 0
#if HWY_TARGET == HWY_AVX3
#define TALUS_TARGET_NAME "avx3"
#elif HWY_TARGET == HWY_AVX2
#define TALUS_TARGET_NAME "avx2"
#elif HWY_TARGET == HWY_NEON
#define TALUS_TARGET_NAME "neon"
#else
#error "a Highway target without a name here"
#endif
#include "tools/bench/roof_target.inl"
const RoofTable& roofs() { return kRoofs; }
}  // namespace HWY_NAMESPACE
}  // namespace bench
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace bench {

const RoofTable* simd_roof(std::string_view target) {
  const RoofTable* const tables[] = {
#if HWY_TARGETS & HWY_AVX3
    &N_AVX3::roofs(),
#endif
#if HWY_TARGETS & HWY_AVX2
    &N_AVX2::roofs(),
#endif
#if HWY_TARGETS & HWY_NEON
    &N_NEON::roofs(),
#endif
    nullptr
  };
  for (const RoofTable* table : tables)
    if (table && target == table->target) return table;
  return nullptr;
}

}  // namespace bench
#endif
