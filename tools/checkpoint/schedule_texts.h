// The schedules of a checkpoint in words.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "lib/checkpoint/manifest.h"

namespace checkpoint {

// Of each attachment what has it ("group 0 lr") and what it is: kind, parameters, pieces in brackets,
// clock, state.
std::vector<std::pair<std::string, std::string>> schedule_texts(const talus::Manifest& manifest);

}  // namespace checkpoint
