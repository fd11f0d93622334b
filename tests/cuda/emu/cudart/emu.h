/* What tests ask of the emulated libcudart: which calls came in which order, and that one of them fail.
 *
 * Device memory is out of the host's reach, as on a device: its addresses are mapped without access, so
 * that a host which touches it dies; tests copy. New memory is 0xff bytes (NaN); freed addresses never
 * come back; kernels and copies are held to the exact bounds of allocations of their device. Kernels
 * run from the PTX inside of the plugin.
 *
 * By default an operation runs as soon as everything before it allows. With emu_defer(1) operations wait in
 * their streams until something waits for them (or emu_run_all), and other streams run first wherever
 * that is allowed: a staging buffer reused too early, or a missing event, gives a wrong result. */
#ifndef TALUS_EMU_H
#define TALUS_EMU_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

enum {
  EMU_LAUNCH,
  EMU_COPY,          /* asynchronous, of pinned or device memory */
  EMU_COPY_PAGEABLE, /* asynchronous by name, but may block the host */
  EMU_SET,
  EMU_EVENT,
  EMU_QUERY,
  EMU_GRAPH,
  EMU_ALLOCATE, /* of memory, also stream-ordered and pinned, streams and events */
  EMU_RELEASE,
  EMU_SYNC, /* blocks the host */
  EMU_OTHER
};

typedef struct {
  int kind;
  const char *call;
  void *stream;
  size_t bytes; /* of a copy; of a launch: the grid */
} emu_record;

/* Log, errors, injections and settings as at the start; what is queued runs, allocations stay. */
void emu_reset(void);

size_t emu_log_size(void);
emu_record emu_log_at(size_t i);
size_t emu_count(int kind, size_t from); /* records of that kind from index `from` on */

/* The nth call from now (1: the next) of that function, or of any (NULL), returns the error. A release
 * that fails has released all the same, as after an earlier asynchronous error. A sticky error stays. */
void emu_fail(const char *call, int nth, int error);
int emu_failures(void); /* how many of these have happened since emu_reset */

void emu_defer(int on);
void emu_run_all(void);
void emu_shuffle(uint64_t seed); /* not 0: kernels draw the order of their blocks and warps */
void emu_check_races(int on);    /* in global memory too, of kernels in PTX: several times slower */

void emu_set_devices(int count, int driver_version, int count_error);
void emu_set_memory(size_t bytes); /* of each device; more is error 2 */
size_t emu_live_allocations(void); /* device and pinned memory, streams, events */
const char *emu_last_fault(void);  /* text of the last kernel fault */

/* Launches of a kernel that the host's compiler made, and that has no PTX, go to `run` with the kernel's
 * only argument and the seed of emu_shuffle. Device memory is open to the host meanwhile; its gaps are
 * poisoned for the address sanitizer. */
typedef void (*emu_host_kernel)(const void *kernel, unsigned grid, unsigned block,
                                const void *argument, uint64_t seed);
void emu_add_host_kernel(const void *kernel, size_t argument_bytes, emu_host_kernel run);

#ifdef __cplusplus
}
#endif
#endif
