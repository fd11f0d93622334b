// Settings and scaler of a live optimizer to and from what a checkpoint says of them.
#pragma once
#include "lib/checkpoint/compare.h"
#include "lib/checkpoint/manifest.h"
#include "lib/optimizer/optimizer.h"

namespace talus {

// TALUS_E_STATE: between a step and the scaler's update, which no file could finish.
Status record_settings(const Optimizer& from, Manifest* out);

// TALUS_E_STATE: the same for a load, which would lose what others have found.
Status check_round(const Optimizer& into);

// What a load is to put in place, or why it does not fit.
void compare_settings(const Optimizer& live, const Manifest& file, Differences* differences,
                      Restored* out);

}  // namespace talus
