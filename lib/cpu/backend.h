// The CPU as a backend; see lib/table/backend.h for the table of functions.
#pragma once
#include "lib/table/backend.h"

namespace talus {

const Backend& cpu_backend();

}  // namespace talus
