/* What a host may find in place of libtalus: another ABI, or this one with nothing behind it. */
#include <stdint.h>

uint32_t talus_abi_version(void);
uint32_t talus_abi_version(void) { return (uint32_t)FOREIGN_ABI << 16; }
