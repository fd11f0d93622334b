/* talus: optimizer runtime for people who bring their own engine. The whole C ABI, version 0; C99.
 *
 * The host hands over raw pointers (parameter, gradient, element count, dtype) once, then calls
 * talus_step. No macro is needed to call anything, so every language with a C FFI can bind this file.
 *
 *     talus_optimizer *opt;
 *     talus_create("adamw", TALUS_CPU, 0, &opt);      an algorithm by name; group 0 exists
 *     talus_set(opt, TALUS_ALL, "lr", 3e-4);          hyperparameters by name
 *     talus_add_params(opt, 0, count, params, NULL);  descriptors: pointer, dtype, shape, gradient
 *     for (...) { ...write the gradients...; talus_step(opt, NULL); }
 *     talus_destroy(opt);
 *
 * Unless a comment says otherwise:
 * errors     0 is success. On failure nothing has changed, out parameters are untouched, nothing
 *            needs freeing, and talus_last_error() says what, where, got, expected. Each function
 *            may also return TALUS_E_ARGUMENT (NULL, index, count), TALUS_E_MEMORY and
 *            TALUS_E_INTERNAL; other codes are listed where a caller can act on them.
 * ownership  what talus_create gave is freed by talus_destroy. Strings and arrays passed in are
 *            copied during the call. Tensor memory (data, grad, bound state) is the caller's and is
 *            borrowed until bound again or destroyed. Returned text is static or, where said, lives
 *            as long as the optimizer; nobody frees it.
 * threads    different optimizers: any threads. One optimizer: one call at a time, from any thread
 *            (externally synchronized). Functions without an optimizer: any thread, any time.
 * streams    void *stream is a cudaStream_t (CUstream), NULL the legacy default stream. Work is put
 *            on it in order and the call does not wait for it, but where it builds a plan (prepare, a
 *            first step, one after changes), with "check_rows", where uploads of many steps are
 *            under way, and where memory is freed (destroy, remove, move). Tensors belong to the
 *            step until the stream has passed it. On the CPU it must be NULL and the work is done on return.
 * devices    a device is found and used by a plugin, libtalus_cuda.so, which is loaded at the first
 *            question for one and stays loaded; see talus_set_plugin_path. Pointers (data, grad,
 *            state) are memory of the optimizer's device. Calls leave the current device as it was.
 * structs    start with struct_size: set it to sizeof. A zero field means its default. A longer
 *            struct of a newer caller is accepted if all that is unknown here is zero, else
 *            TALUS_E_UNSUPPORTED; a shorter one of an older caller takes defaults for the rest.
 * numbers    one step gives the same bits for every thread count, chunking and instruction set.
 *            Computed in f32 (f64 for f64 parameters) with + - * / sqrt, rounded to nearest even,
 *            whatever rounding mode or flush-to-zero the calling thread has set; that setting is
 *            restored before the call returns.
 * quiet      the library never prints, aborts, exits, throws or installs a signal handler. Variables
 *            named TALUS_* are read once: TALUS_CPU_TARGET at the first talus_create or question for
 *            "cpu_target" or the feature "cpu", TALUS_PLUGIN_PATH at the first question for a device.
 */
#ifndef TALUS_H
#define TALUS_H
#include <stdint.h>

/* What the library exports. TALUS_STATIC is for programs that have it inside. */
#if defined(TALUS_STATIC)
#define TALUS_API
#elif defined(_WIN32)
#if defined(TALUS_BUILDING)
#define TALUS_API __declspec(dllexport)
#else
#define TALUS_API __declspec(dllimport)
#endif
#else
#define TALUS_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- version, names ------------------------------------------------------------------------- */

#define TALUS_VERSION 0x000100 /* of this header: major << 16 | minor << 8 | patch */

/* Returns the version of the loaded library, coded as TALUS_VERSION. */
TALUS_API uint32_t talus_version(void);

/* Returns the ABI: SONAME number << 16 | count of additions since that number. */
TALUS_API uint32_t talus_abi_version(void);

/* Returns version, ABI, compiler, build type and machine in one static line, for bug reports. */
TALUS_API const char *talus_build_info(void);

/* Lists what has a name. Lists:
 *   "algorithms"   optimizers by their own names, such as "adamw"
 *   "aliases"      other libraries' names with their defaults, accepted wherever an algorithm is
 *   "row_gradients"  those that talus_bind_rows is for, as their line when
 *   "papers"       algorithms and aliases; as their line where the algorithm was published
 *   "purposes"     algorithms and aliases; as their line what it is for
 *   "slots/adamw"  the state of one algorithm (or alias), also what only some settings need
 *   "settings"     of a whole optimizer, see talus_set_setting
 *   "schedules"    kinds of talus_schedule_create
 *   "features"     of this build, see talus_has_feature
 *   "cpu_targets"  instruction sets usable on this machine, strongest first
 *   "cpu_target"   the one of them in use, and as its line why it was chosen; empty where the
 *                  variable TALUS_CPU_TARGET names none of them
 *   "plugins"      files of the plugins in use; as their line their versions, or what they miss
 *   "devices"      "cuda:0" and so on, as their line name, capability and memory; empty where
 *                  talus_has_feature("cuda") says why
 *   "lists"        the names above, but for "slots/..."
 * talus_name_count returns -1 for an unknown list; talus_name_at NULL for an unknown list or an i
 * that is not in 0 .. count-1. */
TALUS_API int32_t talus_name_count(const char *list);
TALUS_API const char *talus_name_at(const char *list, int32_t i);

/* Returns one static line about a name of a list, or NULL where either is unknown. */
TALUS_API const char *talus_name_doc(const char *list, const char *name);

/* Returns 1 if the feature can be used here and now, else 0 with the reason in talus_last_error.
 * "cuda" looks for plugin, driver and device, and makes no context. */
TALUS_API int32_t talus_has_feature(const char *name);

/* ---- status --------------------------------------------------------------------------------- */

/* An int32_t, never an enum. Numbers are pinned: never reused, only added. */
typedef int32_t talus_status;
#define TALUS_OK 0
#define TALUS_E_ARGUMENT 1 /* NULL, index, count, alignment, overlap, struct_size */
#define TALUS_E_NAME 2     /* unknown algorithm, hyperparameter, slot; the text lists the known */
#define TALUS_E_RANGE 3    /* a value outside its range, or NaN */
#define TALUS_E_STATE 4    /* right call, wrong moment */
#define TALUS_E_NOT_PREPARED 5 /* capturing, and memory is needed: call talus_prepare first */
#define TALUS_E_MEMORY 6       /* an allocation failed */
#define TALUS_E_UNSUPPORTED 7  /* well formed, but not in this build or on this device */
#define TALUS_E_DEVICE 8       /* detail: the device's own error number */
#define TALUS_E_DEVICE_LOST 9  /* the device needs a new process */
#define TALUS_E_IO 10          /* detail: errno */
#define TALUS_E_FORMAT 11      /* not a well-formed checkpoint */
#define TALUS_E_MISMATCH 12    /* a well-formed checkpoint of another model */
#define TALUS_E_VERSION 13     /* a checkpoint that needs what this library does not know */
#define TALUS_E_CANCELLED 14   /* the caller's progress callback said stop */
#define TALUS_E_CALLBACK 15    /* detail: what the callback returned */
#define TALUS_E_COMM 16        /* detail: the rank that failed, or -1 */
#define TALUS_E_FORKED 17      /* a device handle used in a child process */
#define TALUS_E_NONFINITE 18   /* a gradient is not finite, and that was asked to be an error */
#define TALUS_E_INTERNAL 19    /* our bug: please report the text */

/* Returns "TALUS_E_RANGE" for 3 and so on, "unknown status" for a number not above; static. */
TALUS_API const char *talus_status_name(talus_status status);

/* Returns the text of this thread's last failure, "" if there was none. Never NULL; valid until
 * this thread's next failure; success does not clear it. At most 8191 bytes of UTF-8. */
TALUS_API const char *talus_last_error(void);

/* Returns the number that goes with it (see the codes above), 0 where there is none. */
TALUS_API int64_t talus_last_error_detail(void);

/* ---- dtypes and devices ---------------------------------------------------------------------- */

/* DLPack type code | bits << 8; 0 means "default" where a dtype is optional. */
#define TALUS_F16 0x1002
#define TALUS_BF16 0x1004
#define TALUS_F32 0x2002
#define TALUS_F64 0x4002
#define TALUS_I32 0x2000 /* row numbers only, see talus_bind_rows */
#define TALUS_I64 0x4000

/* DLPack device types. */
#define TALUS_CPU 1
#define TALUS_CUDA 2

/* ---- hyperparameters ------------------------------------------------------------------------- */

#define TALUS_REAL 0    /* any number of the range */
#define TALUS_INTEGER 1 /* exact to 2^53; a fraction is TALUS_E_RANGE */
#define TALUS_FLAG 2    /* 0 or 1; where max is 0, a name of another library, 0 alone */

#define TALUS_HYPER_MIN_OPEN 1u /* min itself is not allowed */
#define TALUS_HYPER_MAX_OPEN 2u /* max itself is not allowed */
/* Decides which state exists. After the group's first step a flag of this kind is fixed, and a real
 * (momentum) moves freely except between 0 and not 0: TALUS_E_STATE. */
#define TALUS_HYPER_FIXED 4u
#define TALUS_HYPER_REQUIRED \
  8u /* of a schedule: has no default, def is NaN; to be set before use */

/* A hyperparameter, a setting or a parameter of a schedule, as the library describes it. */
typedef struct talus_hyper {
  uint32_t struct_size;   /* in: bytes the caller knows; no more than that is written */
  int32_t kind;           /* TALUS_REAL, TALUS_INTEGER or TALUS_FLAG */
  const char *name, *doc; /* static; doc is one line */
  double def, min,
      max;           /* default (NaN: made of others, see doc) and range, which may be infinite */
  uint32_t flags;    /* TALUS_HYPER_... */
  uint32_t reserved; /* 0 */
} talus_hyper;

/* Returns the count of hyperparameters of owner: an algorithm, an alias, "settings", "scaler", or
 * a schedule as "schedule/cosine". -1: unknown owner. */
TALUS_API int32_t talus_hyper_count(const char *owner);

/* Describes hyperparameter i of owner in *out, 0 <= i < talus_hyper_count(owner). An alias has its
 * own defaults and its library's spelling of names; talus_set takes either spelling.
 * TALUS_E_NAME: unknown owner. */
TALUS_API talus_status talus_hyper_info(const char *owner, int32_t i, talus_hyper *out);

/* ---- optimizer ------------------------------------------------------------------------------- */

/* Groups of parameters, each with its algorithm, and their state. */
typedef struct talus_optimizer talus_optimizer;

/* As a group: every group, and the default of groups added later. */
#define TALUS_ALL (-1)

/* Creates an optimizer whose group 0 runs `algorithm` (a name or an alias; see "algorithms").
 * TALUS_CPU with device_id 0, or TALUS_CUDA with the driver's ordinal. *out is the caller's, for
 * talus_destroy. TALUS_E_NAME: unknown algorithm, or a TALUS_CPU_TARGET that this machine does not
 * have; TALUS_E_ARGUMENT: no such device_id; TALUS_E_UNSUPPORTED: no plugin (the text lists where it
 * was looked for) or one of another build, no driver or an old one, no device; TALUS_E_DEVICE.
 * Whatever is missing for a device, the CPU goes on.
 *
 * Calls on a device also return TALUS_E_DEVICE; TALUS_E_DEVICE_LOST once its work has ended in an
 * error that only a new process gets rid of, or half a step was taken: from then on every call that
 * needs the device does, with the first text; TALUS_E_FORKED in a child process. */
TALUS_API talus_status talus_create(const char *algorithm, int32_t device_type, int32_t device_id,
                                    talus_optimizer **out);

/* Frees the optimizer and the state it allocated. NULL is fine; never fails. */
TALUS_API void talus_destroy(talus_optimizer *opt);

/* Adds a group, at any time, also after steps. algorithm NULL: the one given to talus_create. Values
 * set for TALUS_ALL before apply where the algorithm has the name. *group: its index.
 * TALUS_E_NAME: unknown algorithm; TALUS_E_RANGE: such a value is outside the algorithm's range;
 * TALUS_E_UNSUPPORTED: a schedule for TALUS_ALL, of what is no real hyperparameter here. */
TALUS_API talus_status talus_add_group(talus_optimizer *opt, const char *algorithm, int32_t *group);

/* Returns the count of groups, -1 for NULL. */
TALUS_API int32_t talus_group_count(const talus_optimizer *opt);

/* Returns the algorithm's own name (never an alias), NULL for a group that is not there. */
TALUS_API const char *talus_group_algorithm(const talus_optimizer *opt, int32_t group);

/* Sets a hyperparameter of one group, or of all that have the name (TALUS_ALL); it acts on the next
 * step. TALUS_E_NAME: unknown (with TALUS_ALL: in every group); TALUS_E_RANGE: outside the range in
 * any group concerned, or NaN; TALUS_E_STATE: a TALUS_HYPER_FIXED one after the group's first step.
 * Conditions between hyperparameters (nesterov needs momentum) are checked by prepare and step. */
TALUS_API talus_status talus_set(talus_optimizer *opt, int32_t group, const char *name,
                                 double value);

/* Reads a hyperparameter of one group as it was set: the base of a schedule. TALUS_E_NAME: unknown. */
TALUS_API talus_status talus_get(const talus_optimizer *opt, int32_t group, const char *name,
                                 double *value);

/* Sets or reads a setting of the whole optimizer; talus_hyper_info("settings", ...) describes each:
 *   "threads"         most threads of a step, the caller's included; 0: as many as this process may
 *                     use. Never changes a result.
 *   "stats"           1: measure the norm of the gradients in each step (one more read of them)
 *   "check_pointers"  0: calls that bind skip the search for overlaps with other tensors, and do
 *                     not ask the driver whose memory each new pointer is
 *   "check_rows"      1: on a device, a step waits and refuses gradients of rows that repeat a row
 *                     or name one that is not there; on the CPU rows may repeat, and are checked
 *   "check_masters"   1: a step fails (TALUS_E_STATE, detail: the first such parameter) where a parameter
 *                     is not its master rounded, so was written from outside without
 *                     talus_import_param. Reads both once more, waits for a device, and is not for
 *                     captured steps
 *   "chunk_tiles"     most work that a thread takes at once, in tiles of 4,096 elements. Never
 *                     changes a result.
 *   "shard_bytes"     most bytes in one file of a checkpoint of several, see talus_save; 0: any
 *   "grad_scale"      what the loss was multiplied by, where no scaler is attached: 1
 *   "max_grad_norm"   most norm of all gradients; infinity: measure only; 0: off
 *   "grad_norm_type"  of that norm: 1, 2 or infinity
 *   "max_grad_value"  most magnitude of an element of a gradient; 0: off
 *   "check_finite"    1: skip a step whose gradients are not all finite
 *   "error_if_nonfinite"  1: without a scaler such a step fails (TALUS_E_NONFINITE, detail: the first
 *                     parameter, -1 unknown) in place of being skipped; nothing has changed. Waits for a
 *                     device, and is not for captured steps */
TALUS_API talus_status talus_set_setting(talus_optimizer *opt, const char *name, double value);
TALUS_API talus_status talus_get_setting(const talus_optimizer *opt, const char *name,
                                         double *value);

/* ---- parameters ------------------------------------------------------------------------------ */

/* What is optimised behind a 16-bit parameter. */
#define TALUS_MASTER_AUTO 0 /* an f32 master for f16 and bf16 parameters, none for f32 and f64 */
#define TALUS_MASTER_NONE 1 /* the parameter itself: updates below half its ulp are lost */
#define TALUS_MASTER_F32 2  /* slot "master_param"; the parameter receives its rounded copy */

/* One parameter. Zero it, set struct_size, fill what you need. */
typedef struct talus_param {
  uint32_t struct_size; /* also the stride of an array of these: all elements carry the same */
  int32_t dtype;        /* TALUS_F32, TALUS_F16, TALUS_BF16 or TALUS_F64 */
  void *data;           /* contiguous, row-major, aligned to its dtype; may be NULL if empty */
  void *grad;           /* as data, never written by a step; NULL: none yet, see talus_bind_grads */
  const char *name;     /* UTF-8, not empty, unique in the optimizer; NULL: "param.<index>" */
  const int64_t *shape; /* ndim extents >= 0; NULL with ndim 0 is a scalar of one element */
  int32_t ndim;         /* 0 .. 64 */
  int32_t grad_dtype;   /* 0: dtype. f64 parameters take f64 or f32, all others f32, f16 or bf16 */
  int32_t state_dtype;  /* 0: f32, for f64 parameters f64 */
  int32_t master;       /* TALUS_MASTER_... */
  uint64_t flags;       /* 0 */
} talus_param;

/* Adds count parameters to a group, all or none, at any time, also after steps. Each keeps its own
 * step count. *first: index of the first one over the whole optimizer; first may be NULL.
 * TALUS_E_ARGUMENT names the parameter and the field: NULL data of a tensor with elements, shape,
 * alignment, overlap with a tensor known already, name that is there already; TALUS_E_UNSUPPORTED:
 * an unknown dtype, a mix of dtypes or a flag that this build does not have. */
TALUS_API talus_status talus_add_params(talus_optimizer *opt, int32_t group, int64_t count,
                                        const talus_param *params, int64_t *first);

/* Returns the count of parameters, -1 for NULL. */
TALUS_API int64_t talus_param_count(const talus_optimizer *opt);

/* Describes a parameter with defaults filled in (set out->struct_size). name and shape live as long
 * as the optimizer. */
TALUS_API talus_status talus_param_info(const talus_optimizer *opt, int64_t param,
                                        talus_param *out);

/* Returns the group of a parameter, or -1. */
TALUS_API int32_t talus_param_group(const talus_optimizer *opt, int64_t param);

/* Returns the index of the parameter with this name, or -1. */
TALUS_API int64_t talus_find_param(const talus_optimizer *opt, const char *name);

/* Moves parameters to another group of the same rule, all or none, at any time (unfreezing layers):
 * step counts, state and gradients follow. TALUS_E_ARGUMENT: a group of another rule; TALUS_E_STATE:
 * one of them has taken steps, and its state is not what the group's TALUS_HYPER_FIXED values ask. */
TALUS_API talus_status talus_move_params(talus_optimizer *opt, int32_t group, int64_t count,
                                         const int64_t *params);

/* Removes parameters, all or none, at any time: their state is freed (what was allocated for several
 * goes with the last of them), their memory no longer touched, their names and memory may be added
 * anew. Indices of others stay; theirs are never used again, still count in talus_param_count, and
 * calls on them fail (talus_bind_grads takes NULL for them). */
TALUS_API talus_status talus_remove_params(talus_optimizer *opt, int64_t count,
                                           const int64_t *params);

/* Rebinds a parameter whose memory the host has moved. The contents are taken as they are, but for a
 * parameter with a master after its first step: the next step writes the master's copy over them. */
TALUS_API talus_status talus_bind_data(talus_optimizer *opt, int64_t param, void *data);

/* ---- gradients ------------------------------------------------------------------------------- */

/* Binds the gradients of parameters first .. first+count-1, all or none; kept until bound again.
 * NULL: no gradient, the parameter (an empty one as well) is left out of the step whole (no decay,
 * no momentum, no step count, no state). A gradient of zeros is a full step. */
TALUS_API talus_status talus_bind_grads(talus_optimizer *opt, int64_t first, int64_t count,
                                        void *const *grads);

/* A gradient that has some rows of a parameter only; a row is all that one index of the first extent
 * names. */
typedef struct talus_rows {
  uint32_t struct_size;
  int32_t index_dtype; /* TALUS_I32 or TALUS_I64 */
  int64_t count;       /* rows given; 0: the step counts, and nothing else happens */
  const void *indices; /* row numbers in any order; may be NULL if count is 0 */
  const void *values;  /* count rows of the parameter's grad_dtype, row-major, never written */
  uint64_t flags;      /* 0 */
} talus_rows;

/* Binds a gradient of rows to one parameter for the next step alone, where it stands in for the dense
 * one; copied are the pointers, not what they point to, which is read by that step. NULL takes it
 * back, and so does talus_bind_grads for this parameter, with NULL as well. Rows that are not given
 * keep parameter and state as they are. For sparse_adam, adagrad (with weight_decay 0) and sgd (with
 * momentum and weight_decay 0); the cost is in proportion to the rows given, but for the first step of
 * the parameter. On the CPU a row that is given more than once gets the sum, added in order of
 * appearance in the compute type, and a row out of range is refused here and by the step. On a device
 * rows must be different, no more than there are, and rows out of range are left out; see the
 * setting "check_rows".
 * TALUS_E_UNSUPPORTED: the rule takes none, or (from talus_step) not with these hyperparameters;
 * a capturing stream; TALUS_E_ARGUMENT: a row that is not there. */
TALUS_API talus_status talus_bind_rows(talus_optimizer *opt, int64_t param, const talus_rows *rows);

/* Clears every bound gradient, as mode says. */
#define TALUS_ZERO_FILL 0   /* write zeros into the bound gradients */
#define TALUS_ZERO_UNBIND 1 /* forget the gradient pointers; touches no tensor memory */
TALUS_API talus_status talus_zero_grad(talus_optimizer *opt, int32_t mode, void *stream);

/* ---- state ----------------------------------------------------------------------------------- */

/* One state tensor of one parameter: a view of the live memory, no copy. */
typedef struct talus_state {
  uint32_t struct_size;      /* in: bytes the caller knows */
  int32_t dtype;             /* of the elements of data */
  const char *slot;          /* "exp_avg", "master_param"...; static */
  void *data;                /* NULL until prepared, stepped or bound; contents mean nothing before
                             * the parameter's first step. Write only between calls. Valid until a
                             * TALUS_HYPER_FIXED value changes before the group's first step, the
                             * slot is bound, or the parameter is removed or moves before its first
                             * step to a group with other slots. */
  int64_t param;             /* whose state this is */
  int64_t first, count;      /* elements first .. first+count-1 of the tensor are here */
  uint64_t bytes, alignment; /* size of data; what talus_bind_state asks of a pointer */
} talus_state;

/* Returns how many state tensors there are under the present hyperparameters, -1 for NULL. */
TALUS_API int64_t talus_state_count(const talus_optimizer *opt);

/* Describes state tensor i, 0 <= i < talus_state_count: parameters in order, slots in order. */
TALUS_API talus_status talus_state_info(const talus_optimizer *opt, int64_t i, talus_state *out);

/* Puts a state tensor into the caller's memory (bytes as talus_state_info says). Its contents are
 * the state if the parameter's step count is above 0 (talus_set_steps). At 0 the first step
 * initialises them; only "master_param" is taken as it is. Not copied: state that was there before
 * is replaced. Forgotten if a TALUS_HYPER_FIXED value does away with the slot. TALUS_E_NAME: the
 * parameter has no such slot. */
TALUS_API talus_status talus_bind_state(talus_optimizer *opt, int64_t param, const char *slot,
                                        void *data, uint64_t bytes);

/* Reads or sets the count of steps that a parameter has taken. Setting it above 0 declares that all
 * its state tensors hold valid contents: TALUS_E_STATE names one that has no memory yet. It counts as
 * a step of the group for TALUS_HYPER_FIXED. Setting it to 0 starts the parameter afresh at its next
 * step. */
TALUS_API talus_status talus_steps(const talus_optimizer *opt, int64_t param, int64_t *steps);
TALUS_API talus_status talus_set_steps(talus_optimizer *opt, int64_t param, int64_t steps);

/* ---- the step -------------------------------------------------------------------------------- */

/* Allocates the state of every parameter and builds the plan now. Optional: a step does it for what
 * it needs. TALUS_E_RANGE: hyperparameters that exclude each other. */
TALUS_API talus_status talus_prepare(talus_optimizer *opt, void *stream);

/* Takes one step: reads the bound gradients, writes parameters and state. From the second step of
 * an unchanged optimizer on it allocates nothing. With nothing bound at all, though parameters
 * have elements: TALUS_E_STATE. Errors
 * as talus_prepare. */
TALUS_API talus_status talus_step(talus_optimizer *opt, void *stream);

/* For CUDA graphs. On a capturing stream talus_step records its launches and counts nothing; what
 * it needs must be there, from talus_prepare, else TALUS_E_NOT_PREPARED and the capture goes on.
 * Before each replay, on the same stream, this counts a step and sends what its kernels read: values
 * set and pointers bound since then act on it. Of several captures the last one is meant.
 * TALUS_E_STATE: nothing was captured, or its launches are no longer those of a step: the plan was
 * built anew (parameters added, moved or removed, chunks, values that choose kernels), also by an
 * eager step in between, or how gradients are measured, checked or cut has changed; prepare and capture
 * again. A replay without this call before it takes no step where gradients are checked; a later call
 * says so (TALUS_E_STATE). TALUS_E_UNSUPPORTED: on the CPU, or with error_if_nonfinite. */
TALUS_API talus_status talus_advance(talus_optimizer *opt, void *stream);

/* Evaluates the loss, writes it to *loss and writes (or binds) the gradients. Runs on the calling
 * thread and may call talus_bind_grads and talus_zero_grad of the same optimizer, nothing else of
 * it. Non-zero: stop. Must not unwind. */
typedef int32_t (*talus_closure)(void *user, double *loss);

/* Calls closure(user, &value), then takes a step; *loss gets the value of the first call and may be
 * NULL. TALUS_E_CALLBACK, detail = the closure's value: no step was taken. */
TALUS_API talus_status talus_step_closure(talus_optimizer *opt, talus_closure closure, void *user,
                                          double *loss, void *stream);

/* ---- schedules ------------------------------------------------------------------------------- */

/* What a hyperparameter is at time t: value(base, t) in double, the same for the same kind, parameters,
 * base and t whatever was asked before; "plateau" alone has a state, see talus_observe. base is the
 * value that talus_set has set: no schedule ever writes it, a step uses the schedule's value in its
 * place. So creating, attaching, saving and loading may be done in any order, at any time. Sums,
 * powers and cosines are the library's own: the same bits on every machine.
 *
 * Kinds, in talus_name_at("schedules", i); their parameters, in talus_hyper_info("schedule/cosine", ...):
 *   step, multistep, exponential, constant, linear, polynomial, cosine, cosine_restarts, cyclic,
 *   one_cycle, inverse_sqrt, wsd     closed forms
 *   lambda, multiplicative           of a function of the caller, talus_schedule_set_function
 *   plateau                          of reported metrics, talus_observe
 *   sequential, chained              of other schedules, talus_schedule_add
 * PyTorch's names and numbers where it has the schedule, lr_scheduler.*LR, with "lr" read as "value";
 * cosine stays at eta_min behind T_max unless periodic is 1, one_cycle stays at its end.
 *
 * ownership  a handle is a reference, freed by talus_schedule_destroy; what it is attached to or a
 *            piece of keeps the schedule alive.
 * threads    one call at a time for a schedule; steps of optimizers that share a multiplicative one
 *            count as such. */
typedef struct talus_schedule talus_schedule;

/* Creates a schedule with its defaults. TALUS_E_NAME: unknown kind. */
TALUS_API talus_status talus_schedule_create(const char *kind, talus_schedule **out);

/* Gives the reference back. NULL is fine; never fails. */
TALUS_API void talus_schedule_destroy(talus_schedule *schedule);

/* Returns the kind, static; NULL for NULL. */
TALUS_API const char *talus_schedule_kind(const talus_schedule *schedule);

/* Sets a parameter, also while the schedule is attached: it acts on the next step. TALUS_E_NAME:
 * unknown; TALUS_E_RANGE: outside its range, or, once the schedule is in use, against another
 * parameter or the place of a piece. Until then such conflicts are seen by attach and value. What has
 * no default cannot be unset. Another "mode" of plateau forgets its reports. */
TALUS_API talus_status talus_schedule_set(talus_schedule *schedule, const char *name, double value);

/* Reads a parameter; NaN: not set, and without a default of its own. */
TALUS_API talus_status talus_schedule_get(const talus_schedule *schedule, const char *name,
                                          double *value);

/* Sets "milestones", each 0 .. 2^63-1, copied: of multistep in any order, equal ones count twice; of
 * sequential where each piece but the first begins, not decreasing. TALUS_E_NAME: another name or
 * kind; TALUS_E_RANGE: below 0, or decreasing. count 0 to 65536. */
TALUS_API talus_status talus_schedule_set_list(talus_schedule *schedule, const char *name,
                                               const int64_t *values, int64_t count);

/* Copies at most capacity milestones to values (NULL where capacity is 0); *count: how many there
 * are. */
TALUS_API talus_status talus_schedule_get_list(const talus_schedule *schedule, const char *name,
                                               int64_t *values, int64_t capacity, int64_t *count);

/* The factor at t: of the base for lambda; of the value before for multiplicative, t >= 1, whose value
 * is base times the product of the factors of 1 .. t, t calls where no earlier product is at hand.
 * Pure: asked anew at any time. Called on the stepping thread, before anything is touched; must not
 * unwind nor use the optimizer or schedule. */
typedef double (*talus_schedule_function)(void *user, int64_t t);

/* Gives lambda or multiplicative its function; destroy(user), where given, is called once it is
 * replaced or the schedule gone, and not on failure. A checkpoint cannot hold a function: after a load
 * it is missing, and steps fail (TALUS_E_STATE, named) until it is given again, here or by attaching
 * another schedule there. TALUS_E_UNSUPPORTED: another kind. */
TALUS_API talus_status talus_schedule_set_function(talus_schedule *schedule,
                                                   talus_schedule_function function, void *user,
                                                   void (*destroy)(void *user));

/* Adds a piece, of which a reference is kept. sequential: piece i sees the base and the time since its
 * milestone; no plateau. chained: each piece takes the value of the one before as its base, at the
 * same t; one that ignores it (one_cycle with max_value or initial_value) stands first, plateau last.
 * TALUS_E_UNSUPPORTED: neither kind; TALUS_E_ARGUMENT: a circle, or more than 16 levels or 4096 pieces;
 * TALUS_E_STATE: the schedule is in use. */
TALUS_API talus_status talus_schedule_add(talus_schedule *schedule, talus_schedule *piece);

/* Returns the count of pieces, -1 for NULL. */
TALUS_API int32_t talus_schedule_piece_count(const talus_schedule *schedule);

/* A new reference to piece i, the caller's to destroy. */
TALUS_API talus_status talus_schedule_piece(const talus_schedule *schedule, int32_t i,
                                            talus_schedule **out);

/* Evaluates a schedule without an optimizer, t >= 0, base finite: for plans and plots.
 * TALUS_E_RANGE: t, base, parameters that exclude each other, or a value that is not finite;
 * TALUS_E_STATE: a required parameter, piece or function is missing; TALUS_E_UNSUPPORTED: a plateau in
 * it, whose value is what an optimizer's reports have made it. */
TALUS_API talus_status talus_schedule_value(const talus_schedule *schedule, double base, int64_t t,
                                            double *value);

/* What t of an attached schedule counts: steps completed before the one being taken, so that the
 * first one sees 0. */
#define TALUS_CLOCK_APPLIED 0 /* steps applied: a skipped one does not count */
#define TALUS_CLOCK_CALLED 1  /* every step, skipped or not */
#define TALUS_CLOCK_MANUAL 2  /* what talus_set_clock says: epochs, tokens */

/* Attaches a schedule to a real hyperparameter of one group, or of all that have it (TALUS_ALL), those
 * added later too, each with its own base; schedule NULL takes it away, and the base is used again.
 * Values are checked by the step, which fails with nothing changed where one is not finite, outside
 * the hyperparameter's range, against another, or asks for state that the base has ruled out (momentum
 * 0): TALUS_E_RANGE, with schedule, group, hyperparameter, t and value. A callback counts as the
 * schedule. TALUS_E_NAME: unknown hyperparameter; TALUS_E_UNSUPPORTED: a flag or an integer;
 * TALUS_E_STATE: it has a schedule already (other than one that has lost its function), the
 * schedule is not complete, or its plateau serves another optimizer; TALUS_E_RANGE: its parameters
 * exclude each other. */
TALUS_API talus_status talus_attach_schedule(talus_optimizer *opt, int32_t group, const char *hyper,
                                             talus_schedule *schedule, int32_t clock);

/* A new reference to what is attached, the caller's to destroy, NULL: none; and its clock. A load puts
 * schedules of its own in place of those attached: this is how to reach them. clock may be NULL. */
TALUS_API talus_status talus_get_schedule(const talus_optimizer *opt, int32_t group,
                                          const char *hyper, talus_schedule **schedule,
                                          int32_t *clock);

/* Reads what the next step will use, scheduled or not. Calls callbacks. Errors as the step's, of this
 * value alone: what excludes it together with others the step finds. */
TALUS_API talus_status talus_value_now(const talus_optimizer *opt, int32_t group, const char *name,
                                       double *value);

/* Sets the manual clock, 0 at first; it changes nothing until the next step. TALUS_E_RANGE: t < 0.
 * The three clocks are the optimizer's and kept in its checkpoints. */
TALUS_API talus_status talus_set_clock(talus_optimizer *opt, int64_t t);
TALUS_API talus_status talus_get_clock(const talus_optimizer *opt, int32_t clock, int64_t *t);

/* Reports a metric to every plateau schedule attached, once: better than the best so far, or one more
 * bad report; after more than `patience` bad ones every value that it serves shrinks. NaN is never
 * better. TALUS_E_STATE: none is attached. talus_set of the hyperparameter sets that value too; so does
 * attaching anew, and reports are the schedule's. */
TALUS_API talus_status talus_observe(talus_optimizer *opt, double metric);

/* ---- mixed precision: scale, check, clip ------------------------------------------------------- */

/* Gradients are read as they are and never written. On their way into a step they are, in this order:
 * multiplied by 1 / scale in the compute type, checked, cut to max_grad_value, measured, and clipped
 * to max_grad_norm; the last factor is folded into the step. So: no call to unscale, no order to keep.
 *
 * With a scaler, a bound scale without a flag, max_grad_norm, or the setting check_finite, a step whose
 * gradients are not all finite is skipped whole: no parameter, state, master or step count changes, no
 * bit of them, and the clock TALUS_CLOCK_APPLIED stands. talus_step returns TALUS_OK; talus_get_stats
 * tells of it, and which parameter was the first.
 *
 * On a device the device decides. Scale, norm and check stay there, the step waits for nothing (but for
 * the oldest of 15 of them that the device has not come to), and the host learns later what became of it:
 * talus_get_stats without wait tells what has arrived; talus_steps, talus_get_clock and others that need
 * counts wait. Parameters that get a gradient which they did not have in the steps under way wait, too.
 *
 * O0, O1 and O2 of apex amp, without a framework:
 *        the engine casts                          descriptor                           scale
 *   O0   nothing                                   dtype F32, grad_dtype F32            1
 *   O1   inputs of its matrix products             dtype F32, grad_dtype F32            a scaler; for
 *                                                                                       bf16 none
 *   O2   everything: the model is 16-bit           dtype F16 or BF16, grad_dtype the    a scaler; for
 *                                                  same or F32, master AUTO (f32)       bf16 none */

/* The loss scaler: multiply the loss by its scale before the backward pass; attached optimizers divide
 * by it. Parameters: talus_hyper_info("scaler", ...); PyTorch's GradScaler with the defaults, apex's
 * hysteresis, floor and cap beside. Reference counted: a destroyed one serves on where it is attached.
 * One call at a time, steps of attached optimizers included. */
typedef struct talus_scaler talus_scaler;

/* Creates a scaler for optimizers of a device; errors as talus_create. On CUDA the scale lives and moves
 * there, and each call that reads or sets it waits for the device. */
TALUS_API talus_status talus_scaler_create(int32_t device_type, int32_t device_id,
                                           talus_scaler **out);
TALUS_API void talus_scaler_destroy(talus_scaler *scaler);

/* Sets a parameter; init_scale sets the scale too, "scale" it alone; "growth_tracker" with it takes over
 * another scaler's state (PyTorch's scale and _growth_tracker). TALUS_E_NAME; TALUS_E_RANGE: 0,
 * negative, not finite, or against min_scale and max_scale; TALUS_E_STATE: between a step and the
 * update, within which the scale may not change. */
TALUS_API talus_status talus_scaler_set(talus_scaler *scaler, const char *name, double value);

/* Reads a parameter, or "scale", "growth_tracker", "hysteresis_tracker", "consecutive_skips" or
 * "total_skips". */
TALUS_API talus_status talus_scaler_get(const talus_scaler *scaler, const char *name,
                                        double *value);

/* Reads the scale, 65536 at first. */
TALUS_API talus_status talus_scaler_scale(talus_scaler *scaler, double *scale);

/* Closes a round, once all optimizers have stepped: the scale falls if any of them found gradients
 * that are not finite, and grows after growth_interval rounds without. At min_scale steps go on being
 * skipped; consecutive_skips is the caller's signal to stop. On a capturing stream it is recorded, and each
 * talus_advance of an attached optimizer then counts a round. TALUS_E_STATE: none has stepped. */
TALUS_API talus_status talus_scaler_update(talus_scaler *scaler, void *stream);

/* Attaches a scaler, NULL: none, as at first. Several optimizers may share one: each skips alone, and
 * steps once a round (a second time: TALUS_E_STATE). TALUS_E_STATE: beside grad_scale or a bound
 * scale; TALUS_E_ARGUMENT: of another device. */
TALUS_API talus_status talus_attach_scaler(talus_optimizer *opt, talus_scaler *scaler);

/* Somebody else's scale and flag (PyTorch's GradScaler: _scale and found_inf), in memory of the
 * optimizer's device, read by each step and borrowed until bound anew: *scale divides, *found not 0
 * skips; found NULL: steps check by themselves. scale NULL: none, as at first. TALUS_E_STATE: a scaler
 * is attached. A *scale outside of 2^-126 .. 2^126 fails the step (TALUS_E_RANGE); on a device the
 * step is not taken, and the next call that learns of it fails. */
TALUS_API talus_status talus_bind_scale(talus_optimizer *opt, const float *scale,
                                        const float *found);

/* Measures a norm of the bound gradients of one optimizer, of one of its groups, or of several
 * optimizers in order as if they were one (group TALUS_ALL then): norm_type 1, 2 or infinity, in f64,
 * scaled back and cut, before clipping. NULL gradients and nothing at all count 0. Waits for a
 * device. TALUS_E_RANGE: norm_type; errors as talus_prepare. */
TALUS_API talus_status talus_grad_norm(talus_optimizer *const *opts, int32_t count, int32_t group,
                                       double norm_type, double *norm, void *stream);

/* The same, and the next step of each, and that alone, has its gradients (those of the group) times
 * min(1, max_norm / (norm + 1e-6)), or is skipped where the norm is not finite: PyTorch's
 * clip_grad_norm_, without writing gradients. Another call before the same step measures what this one
 * has left; the setting max_grad_norm measures what is bound, and its factor comes on top. The step that
 * follows uses it up, also where that fails with TALUS_E_NONFINITE; so does talus_advance, which answers
 * TALUS_E_NONFINITE where a graph without a check was to be skipped. norm may be NULL. TALUS_E_RANGE:
 * max_norm is not above 0; TALUS_E_UNSUPPORTED: one group of several, beside a rule that reads the norm
 * of all gradients (lamb). */
TALUS_API talus_status talus_clip_grad_norm(talus_optimizer *const *opts, int32_t count,
                                            int32_t group, double max_norm, double norm_type,
                                            double *norm, void *stream);

/* The master behind a 16-bit parameter, view "master", as f32 of the parameter's count.
 * export: copies it to data, or, data NULL, writes its rounded copy to the parameter.
 * import: takes data as the master and writes the parameter too; data NULL: the parameter was written
 * from outside (weights loaded, broadcast, pruned), and the master starts again from it: without
 * this call the next step undoes what was written. Both wait for a device. Before the first step a
 * master is what the first step starts from, unless a TALUS_HYPER_FIXED value changes or the parameter
 * moves before it: then that is the parameter again. TALUS_E_NAME: no such view; TALUS_E_UNSUPPORTED: the
 * parameter has no master, or dtype is not TALUS_F32; TALUS_E_STATE: export before there is one. */
TALUS_API talus_status talus_export_param(talus_optimizer *opt, const char *view, int64_t param,
                                          void *data, int32_t dtype, void *stream);
TALUS_API talus_status talus_import_param(talus_optimizer *opt, const char *view, int64_t param,
                                          const void *data, int32_t dtype, void *stream);

/* Bytes for each element of a parameter, of descriptors as talus_add_params takes them; data, grad,
 * name and shape are not read. */
typedef struct talus_bytes {
  uint32_t struct_size, reserved;
  double param, grad, master, state; /* stored; slots of one value for a tensor not counted */
  double read, written;              /* by a step that neither measures nor checks */
} talus_bytes;

/* Fills *out for a group as it is set. TALUS_E_UNSUPPORTED: dtypes that do not go together. */
TALUS_API talus_status talus_bytes_per_param(const talus_optimizer *opt, int32_t group,
                                             const talus_param *param, talus_bytes *out);

/* ---- statistics ------------------------------------------------------------------------------ */

/* What the optimizer has counted and measured. */
typedef struct talus_stats {
  uint32_t struct_size;   /* in: bytes the caller knows */
  int32_t found_inf;      /* 1: the last step was skipped over a gradient that is not finite */
  int64_t steps, skipped; /* steps performed and skipped since creation */
  /* Of all bound gradients of the last step, scaled back and before clipping, of the type that
   * grad_norm_type says; NaN if neither the setting stats nor a clip nor a rule asks for it. */
  double grad_norm;
  double clip_factor; /* of max_grad_norm in the last step; 1: nothing was clipped */
  double loss_scale;  /* that gradients are divided by */
  uint64_t state_bytes, workspace_bytes; /* allocated by the optimizer, bound memory not counted */
  int64_t
      nonfinite_param; /* found_inf: the first parameter whose gradient was not finite, else -1 */
} talus_stats;

/* Fills *out. wait 1: waits for the device first; 0: what is known. The CPU is always up to date. */
TALUS_API talus_status talus_get_stats(talus_optimizer *opt, int32_t wait, talus_stats *out);

/* ---- checkpoints ----------------------------------------------------------------------------- */

#define TALUS_SAVE_PARAMS 1u    /* also the parameters, under their plain names */
#define TALUS_SAVE_NO_DIGEST 2u /* without CRC-32C of every tensor */
/* Parameters that the file lacks keep their state; not after a load in place that has failed. */
#define TALUS_LOAD_ALLOW_MISSING 16u
#define TALUS_LOAD_ALLOW_EXTRA 32u /* parameters that only the file has are ignored */
/* Another dtype of state is converted: exactly where ours is wider, else with one rounding. Another
 * dtype of a parameter is accepted if both or neither has a master. A master that the file lacks is
 * made of the parameter. */
#define TALUS_LOAD_CONVERT 64u
#define TALUS_LOAD_KEEP_HYPER \
  128u /* groups, hyperparameters and schedules stay; TALUS_HYPER_FIXED must agree */
/* Also the caller's parameters are written, from the file or from its masters. Without it a parameter
 * with a master must be its rounded copy already: load the model first. */
#define TALUS_LOAD_PARAMS 256u
/* No second copy of state that is live: the file is read twice, and a failure of the second reading
 * leaves an optimizer that answers TALUS_E_STATE to all but load and destroy. */
#define TALUS_LOAD_IN_PLACE 512u
#define TALUS_LOAD_CHECK_ONLY 1024u /* everything is read and verified, nothing changed */

/* How to save or load. NULL where one may be given: strict, silent. */
typedef struct talus_io {
  uint32_t struct_size, reserved;
  uint64_t flags; /* TALUS_SAVE_... or TALUS_LOAD_... */
  void *user;
  /* Called on the calling thread at the start, at least every 64 MiB, and at the end; done_bytes never
   * decreases. Non-zero: cancel. May be NULL. */
  int32_t (*progress)(void *user, uint64_t done_bytes, uint64_t total_bytes);
} talus_io;

/* What differs, for talus_last_error_detail after TALUS_E_MISMATCH: the first kind. The text lists up
 * to 32 differences, a line each. */
#define TALUS_M_MISSING_PARAM 1 /* parameters match by name, never by position */
#define TALUS_M_EXTRA_PARAM 2
#define TALUS_M_SHAPE 3
#define TALUS_M_PARAM_DTYPE 4
#define TALUS_M_STATE_DTYPE 5
#define TALUS_M_SLOT 6
#define TALUS_M_ALGORITHM 7
#define TALUS_M_HYPER 8
#define TALUS_M_GROUP 9
#define TALUS_M_MASTER 10
#define TALUS_M_SCHEDULE 11
#define TALUS_M_SCALER 12

/* Saves step counts, state, masters, groups with every hyperparameter, schedules with their state,
 * clocks, notes, the settings about gradients ("grad_scale" to "error_if_nonfinite") and an
 * attached scaler to `path` (UTF-8), as safetensors with keys "state.<parameter>.<slot>". A path
 * that ends in ".safetensors.index.json" is an index with shards beside it, of the setting
 * "shard_bytes". Shards belong to the index of that name and go with its next save: a copy of the
 * index is no copy of the checkpoint. What was at the path stays whole and in place until the new
 * checkpoint is whole and durable; a failure or a kill leaves the old one. Equal state gives equal
 * bytes (the names of shards aside). Waits for the stream. TALUS_E_IO: detail errno, the text
 * names call and path; where it says "renamed", the new file is in place and only its durability
 * is unknown. TALUS_E_STATE: a step waits for its scaler's update; TALUS_E_CANCELLED;
 * TALUS_E_ARGUMENT: a name that cannot be a key, or more in a header than a load reads (100 MB);
 * TALUS_E_UNSUPPORTED: more than 16 extents; TALUS_E_NOT_PREPARED: a capturing stream. */
TALUS_API talus_status talus_save(talus_optimizer *opt, const char *path, const talus_io *io,
                                  void *stream);

/* Loads what talus_save wrote, on any backend, also right after the parameters were added. All is
 * checked before anything changes: format, digests, features, then every parameter, slot and group
 * against the optimizer. Hyperparameters, schedules, clocks, notes, settings about gradients and
 * the scaler's state become those of the file, step counts too; a schedule that the optimizer has
 * and the file lacks, or of another kind there, is a difference, and so is a scaler in one of them
 * alone. Functions of schedules are missing then, see talus_schedule_set_function. Memory stays
 * where it is; a state tensor that is live is read into a second copy on the host first (see
 * TALUS_LOAD_IN_PLACE). Waits for the stream; a captured step is to be captured again.
 * TALUS_E_STATE: a step waits for its scaler's update; TALUS_E_IO; TALUS_E_FORMAT: no such file as
 * talus writes, or damaged; TALUS_E_VERSION: needs what this library does not know;
 * TALUS_E_UNSUPPORTED: a dtype that is not read; TALUS_E_MISMATCH: of another model;
 * TALUS_E_CANCELLED. */
TALUS_API talus_status talus_load(talus_optimizer *opt, const char *path, const talus_io *io,
                                  void *stream);

/* Takes the bytes of a checkpoint. */
typedef struct talus_writer {
  uint32_t struct_size, reserved;
  void *user;
  int32_t (*write)(void *user, const void *bytes, uint64_t count); /* all of them, or non-zero */
} talus_writer;
/* Gives the bytes of a checkpoint. */
typedef struct talus_reader {
  uint32_t struct_size, reserved;
  void *user;
  uint64_t size; /* of the whole checkpoint */
  /* All of them or non-zero; in any order, some bytes more than once. */
  int32_t (*read_at)(void *user, uint64_t offset, void *bytes, uint64_t count);
} talus_reader;

/* The bytes of one file through the caller's functions, on the calling thread, front to back when
 * written. Durability is the caller's, and what was written before a failure his to discard.
 * TALUS_E_CALLBACK: detail is what the function returned. Else as talus_save and talus_load. */
TALUS_API talus_status talus_save_to(talus_optimizer *opt, const talus_writer *writer,
                                     const talus_io *io, void *stream);
TALUS_API talus_status talus_load_from(talus_optimizer *opt, const talus_reader *reader,
                                       const talus_io *io, void *stream);

/* Notes of the caller that a checkpoint keeps: epoch, position of the data loader, seeds. key: UTF-8
 * of 1 .. 4000 bytes without control characters; text: UTF-8 of at most 16 MiB, NULL removes it. */
TALUS_API talus_status talus_set_note(talus_optimizer *opt, const char *key, const char *text);

/* Copies a note with its NUL to text. *needed (may be NULL): bytes with the NUL, 0: no such note.
 * TALUS_E_NAME: no such note; TALUS_E_ARGUMENT: capacity is less than needed, which *needed tells. */
TALUS_API talus_status talus_get_note(const talus_optimizer *opt, const char *key, char *text,
                                      uint64_t capacity, uint64_t *needed);

/* ---- hooks of the host ----------------------------------------------------------------------- */

/* A loop of the host: runs task(context, i) once for each 0 <= i < count, on any threads, and
 * returns when all are done. Tasks never wait for each other and do not unwind; one after the other
 * on the calling thread is right as well. */
typedef void (*talus_task)(void *context, int64_t i);
typedef void (*talus_parallel_for)(void *user, int64_t count, talus_task task, void *context);

/* Runs steps on the host's threads instead of the library's own; NULL: the library's own again.
 * count is at most the setting "threads". user must outlive the optimizer. Called on the stepping
 * thread. */
TALUS_API talus_status talus_set_parallel_for(talus_optimizer *opt, talus_parallel_for run,
                                              void *user);

/* Where state and workspace come from; NULL members other than alloc and release are left out. stream
 * is that of the call, in whose order the memory is used and free again; NULL in release: no work on
 * the device uses it any more, the library has waited. In a forked child a device's memory is not
 * released. */
typedef struct talus_allocator {
  uint32_t struct_size, reserved;
  void *user;
  /* Returns bytes at a multiple of alignment (a power of two), NULL: no memory. */
  void *(*alloc)(void *user, uint64_t bytes, uint64_t alignment, void *stream);
  /* Takes back what alloc returned. */
  void (*release)(void *user, void *data, uint64_t bytes, void *stream);
  void (*destroy)(void *user); /* after the last release, or when replaced */
} talus_allocator;

/* Sets the allocator; NULL: the library's own. TALUS_E_STATE once memory has been allocated. */
TALUS_API talus_status talus_set_allocator(talus_optimizer *opt, const talus_allocator *allocator);

/* Sets the folders that plugins are looked for in first: absolute, separated by ':', copied; NULL:
 * none. Then come the folders of the variable TALUS_PLUGIN_PATH, the folder of this library and its
 * subfolder talus, and the loader's own path; never the working directory. The first file of the
 * name is taken or refused. Process-wide, from any thread. TALUS_E_STATE once a plugin has been
 * looked for. */
TALUS_API talus_status talus_set_plugin_path(const char *folders);

/* Levels of a log. */
#define TALUS_LOG_ERROR 0
#define TALUS_LOG_WARNING 1
#define TALUS_LOG_INFO 2
#define TALUS_LOG_DEBUG 3

/* Receives one line without a line end; text is valid during the call. Called on the thread that
 * called the library, one call at a time over the process; must not call the library. */
typedef void (*talus_log)(void *user, int32_t level, const char *text);

/* Sets the process-wide log for levels up to `level`; NULL: silent, the default. user must outlive
 * its replacement. */
TALUS_API void talus_set_log(talus_log log, int32_t level, void *user);

#ifdef __cplusplus
}
#endif
#endif
