/* Sizes, offsets and numbers of the ABI on LP64 and LLP64, fixed at compile time: what it must
 * never change, also where no ABI checker runs. */
#include <stddef.h>
#include <talus.h>

#define OFFSET(type, field, bytes) \
  _Static_assert(offsetof(type, field) == (bytes), #type "." #field " has moved")
#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " has another size")
#define NUMBER(name, value) _Static_assert((name) == (value), #name " has another value")

#if UINTPTR_MAX == 0xffffffffffffffff
OFFSET(talus_hyper, struct_size, 0);
OFFSET(talus_hyper, kind, 4);
OFFSET(talus_hyper, name, 8);
OFFSET(talus_hyper, doc, 16);
OFFSET(talus_hyper, def, 24);
OFFSET(talus_hyper, min, 32);
OFFSET(talus_hyper, max, 40);
OFFSET(talus_hyper, flags, 48);
OFFSET(talus_hyper, reserved, 52);
SIZE(talus_hyper, 56);

OFFSET(talus_param, struct_size, 0);
OFFSET(talus_param, dtype, 4);
OFFSET(talus_param, data, 8);
OFFSET(talus_param, grad, 16);
OFFSET(talus_param, name, 24);
OFFSET(talus_param, shape, 32);
OFFSET(talus_param, ndim, 40);
OFFSET(talus_param, grad_dtype, 44);
OFFSET(talus_param, state_dtype, 48);
OFFSET(talus_param, master, 52);
OFFSET(talus_param, flags, 56);
SIZE(talus_param, 64);

OFFSET(talus_rows, struct_size, 0);
OFFSET(talus_rows, index_dtype, 4);
OFFSET(talus_rows, count, 8);
OFFSET(talus_rows, indices, 16);
OFFSET(talus_rows, values, 24);
OFFSET(talus_rows, flags, 32);
SIZE(talus_rows, 40);

OFFSET(talus_state, struct_size, 0);
OFFSET(talus_state, dtype, 4);
OFFSET(talus_state, slot, 8);
OFFSET(talus_state, data, 16);
OFFSET(talus_state, param, 24);
OFFSET(talus_state, first, 32);
OFFSET(talus_state, count, 40);
OFFSET(talus_state, bytes, 48);
OFFSET(talus_state, alignment, 56);
SIZE(talus_state, 64);

OFFSET(talus_stats, struct_size, 0);
OFFSET(talus_stats, found_inf, 4);
OFFSET(talus_stats, steps, 8);
OFFSET(talus_stats, skipped, 16);
OFFSET(talus_stats, grad_norm, 24);
OFFSET(talus_stats, clip_factor, 32);
OFFSET(talus_stats, loss_scale, 40);
OFFSET(talus_stats, state_bytes, 48);
OFFSET(talus_stats, workspace_bytes, 56);
OFFSET(talus_stats, nonfinite_param, 64);
SIZE(talus_stats, 72);

OFFSET(talus_bytes, struct_size, 0);
OFFSET(talus_bytes, reserved, 4);
OFFSET(talus_bytes, param, 8);
OFFSET(talus_bytes, grad, 16);
OFFSET(talus_bytes, master, 24);
OFFSET(talus_bytes, state, 32);
OFFSET(talus_bytes, read, 40);
OFFSET(talus_bytes, written, 48);
SIZE(talus_bytes, 56);

OFFSET(talus_io, struct_size, 0);
OFFSET(talus_io, reserved, 4);
OFFSET(talus_io, flags, 8);
OFFSET(talus_io, user, 16);
OFFSET(talus_io, progress, 24);
SIZE(talus_io, 32);

OFFSET(talus_writer, struct_size, 0);
OFFSET(talus_writer, reserved, 4);
OFFSET(talus_writer, user, 8);
OFFSET(talus_writer, write, 16);
SIZE(talus_writer, 24);

OFFSET(talus_reader, struct_size, 0);
OFFSET(talus_reader, reserved, 4);
OFFSET(talus_reader, user, 8);
OFFSET(talus_reader, size, 16);
OFFSET(talus_reader, read_at, 24);
SIZE(talus_reader, 32);

OFFSET(talus_allocator, struct_size, 0);
OFFSET(talus_allocator, reserved, 4);
OFFSET(talus_allocator, user, 8);
OFFSET(talus_allocator, alloc, 16);
OFFSET(talus_allocator, release, 24);
OFFSET(talus_allocator, destroy, 32);
SIZE(talus_allocator, 40);
#endif

SIZE(talus_status, 4);

NUMBER(TALUS_OK, 0);
NUMBER(TALUS_E_ARGUMENT, 1);
NUMBER(TALUS_E_NAME, 2);
NUMBER(TALUS_E_RANGE, 3);
NUMBER(TALUS_E_STATE, 4);
NUMBER(TALUS_E_NOT_PREPARED, 5);
NUMBER(TALUS_E_MEMORY, 6);
NUMBER(TALUS_E_UNSUPPORTED, 7);
NUMBER(TALUS_E_DEVICE, 8);
NUMBER(TALUS_E_DEVICE_LOST, 9);
NUMBER(TALUS_E_IO, 10);
NUMBER(TALUS_E_FORMAT, 11);
NUMBER(TALUS_E_MISMATCH, 12);
NUMBER(TALUS_E_VERSION, 13);
NUMBER(TALUS_E_CANCELLED, 14);
NUMBER(TALUS_E_CALLBACK, 15);
NUMBER(TALUS_E_COMM, 16);
NUMBER(TALUS_E_FORKED, 17);
NUMBER(TALUS_E_NONFINITE, 18);
NUMBER(TALUS_E_INTERNAL, 19);

NUMBER(TALUS_F16, 0x1002);
NUMBER(TALUS_BF16, 0x1004);
NUMBER(TALUS_F32, 0x2002);
NUMBER(TALUS_F64, 0x4002);
NUMBER(TALUS_I32, 0x2000);
NUMBER(TALUS_I64, 0x4000);
NUMBER(TALUS_CPU, 1);
NUMBER(TALUS_CUDA, 2);
NUMBER(TALUS_REAL, 0);
NUMBER(TALUS_INTEGER, 1);
NUMBER(TALUS_FLAG, 2);
NUMBER(TALUS_HYPER_MIN_OPEN, 1);
NUMBER(TALUS_HYPER_MAX_OPEN, 2);
NUMBER(TALUS_HYPER_FIXED, 4);
NUMBER(TALUS_HYPER_REQUIRED, 8);
NUMBER(TALUS_CLOCK_APPLIED, 0);
NUMBER(TALUS_CLOCK_CALLED, 1);
NUMBER(TALUS_CLOCK_MANUAL, 2);
NUMBER(TALUS_ALL, -1);
NUMBER(TALUS_MASTER_AUTO, 0);
NUMBER(TALUS_MASTER_NONE, 1);
NUMBER(TALUS_MASTER_F32, 2);
NUMBER(TALUS_ZERO_FILL, 0);
NUMBER(TALUS_ZERO_UNBIND, 1);
NUMBER(TALUS_LOG_ERROR, 0);
NUMBER(TALUS_LOG_WARNING, 1);
NUMBER(TALUS_LOG_INFO, 2);
NUMBER(TALUS_LOG_DEBUG, 3);

int main(void) { return 0; }
