// What a captured step needs before each replay: its scalars, which a graph reads from the device.
#include "lib/base/float_contract.h"
#include "lib/base/float_environment.h"
#include "lib/optimizer/optimizer.h"

namespace talus {

Status Optimizer::advance(void* stream) {
  if (on_cpu())
    return failure(TALUS_E_UNSUPPORTED,
                   "talus_advance: the CPU captures no steps, expected "
                   "talus_step");
  TALUS_TRY(lost_);
  TALUS_TRY(check_step());
  TALUS_TRY(check_conflicts());
  if (plan_changed_ || state_wanted_ || columns_changed_ != 0 || model_.classes.any_first())
    return failure(TALUS_E_STATE,
                   "talus_advance: parameters have changed since the step that was captured, "
                   "expected talus_prepare and another capture");
  const FloatEnvironment ieee;
  TALUS_TRY(send_scalars(stream));
  count_step();
  return {};
}

}  // namespace talus
