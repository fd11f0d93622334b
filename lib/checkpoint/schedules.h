// Schedules of a live optimizer to and from what a checkpoint says of them.
#pragma once
#include "lib/checkpoint/compare.h"
#include "lib/checkpoint/schedule_record.h"
#include "lib/optimizer/optimizer.h"

namespace talus {

// In the order of groups and hyperparameters. TALUS_E_ARGUMENT: more than a load reads.
Status record_schedules(const Optimizer& from, SchedulesRecord* out);

// Makes anew what the file has attached, without functions, or adds why it does not fit.
void compare_schedules(const Optimizer& live, const SchedulesRecord& record,
                       Differences* differences, Restored* out);

}  // namespace talus
