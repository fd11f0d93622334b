/* The header alone, compiled in every dialect that it promises; twice, to test its guard. */
#include "talus.h"
#include "talus.h"

talus_param header_alone_param;
