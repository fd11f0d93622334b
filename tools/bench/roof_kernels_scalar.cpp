// The roof of the scalar target.
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "lib/base/float_contract.h"
#include "lib/base/power.h"
#include "lib/cpu/kernels.h"
#include "tools/bench/roof_kernels.h"

namespace bench {
namespace {
using namespace talus;
#define TALUS_FN [[gnu::always_inline]] inline
#define TALUS_TARGET_NAME "scalar"
#define TALUS_SCALAR_TARGET 1
#include "tools/bench/roof_target.inl"
}  // namespace

const RoofTable& scalar_roof() { return kRoofs; }

}  // namespace bench
