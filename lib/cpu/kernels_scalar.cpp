// The scalar target: every rule without vectors, for CPUs that have none of ours, and the reference
// that tests compare all other targets with.
#include <cmath>
#include <cstring>
#include <utility>

#include "lib/base/float_contract.h"
#include "lib/base/power.h"
#include "lib/cpu/kernels.h"
#include "lib/table/norm.h"

namespace talus {
namespace {
#define TALUS_FN [[gnu::always_inline]] inline
#define TALUS_TARGET_NAME "scalar"
#define TALUS_SCALAR_TARGET 1
#include "lib/cpu/target.inl"
}  // namespace

const KernelTable& scalar_kernels() { return kKernels; }

}  // namespace talus
