//! Declarations of `talus.h`, written by hand; the header is the manual. The tests of this crate
//! compare every name, signature, offset and number with it.
//!
//! Status codes and dtypes are `i32` constants, never a Rust enum: a number unknown here is legal.
#![no_std]
#![allow(non_camel_case_types)]

mod functions;

use core::ffi::{c_char, c_void};
use core::marker::{PhantomData, PhantomPinned};

pub use functions::*;

/// The SONAME number that these declarations are for: `talus_abi_version() >> 16`.
pub const ABI_MAJOR: u32 = 0;

macro_rules! opaque {
    ($($Name:ident),*) => {$(
        /// Known by pointer alone; neither `Send`, `Sync` nor `Unpin`.
        #[repr(C)]
        pub struct $Name {
            _data: [u8; 0],
            _marker: PhantomData<(*mut u8, PhantomPinned)>,
        }
    )*};
}
opaque!(talus_optimizer, talus_schedule, talus_scaler);

macro_rules! constants {
    ($Type:ty: $($NAME:ident = $value:expr),* $(,)?) => {$(
        #[allow(missing_docs)]
        pub const $NAME: $Type = $value;
    )*};
}

pub type talus_status = i32;
constants!(talus_status:
    TALUS_OK = 0,
    TALUS_E_ARGUMENT = 1,
    TALUS_E_NAME = 2,
    TALUS_E_RANGE = 3,
    TALUS_E_STATE = 4,
    TALUS_E_NOT_PREPARED = 5,
    TALUS_E_MEMORY = 6,
    TALUS_E_UNSUPPORTED = 7,
    TALUS_E_DEVICE = 8,
    TALUS_E_DEVICE_LOST = 9,
    TALUS_E_IO = 10,
    TALUS_E_FORMAT = 11,
    TALUS_E_MISMATCH = 12,
    TALUS_E_VERSION = 13,
    TALUS_E_CANCELLED = 14,
    TALUS_E_CALLBACK = 15,
    TALUS_E_COMM = 16,
    TALUS_E_FORKED = 17,
    TALUS_E_NONFINITE = 18,
    TALUS_E_INTERNAL = 19,
);
constants!(i32:
    TALUS_F16 = 0x1002,
    TALUS_BF16 = 0x1004,
    TALUS_F32 = 0x2002,
    TALUS_F64 = 0x4002,
    TALUS_I32 = 0x2000,
    TALUS_I64 = 0x4000,
    TALUS_CPU = 1,
    TALUS_CUDA = 2,
    TALUS_REAL = 0,
    TALUS_INTEGER = 1,
    TALUS_FLAG = 2,
    TALUS_ALL = -1,
    TALUS_MASTER_AUTO = 0,
    TALUS_MASTER_NONE = 1,
    TALUS_MASTER_F32 = 2,
    TALUS_ZERO_FILL = 0,
    TALUS_ZERO_UNBIND = 1,
    TALUS_CLOCK_APPLIED = 0,
    TALUS_CLOCK_CALLED = 1,
    TALUS_CLOCK_MANUAL = 2,
    TALUS_LOG_ERROR = 0,
    TALUS_LOG_WARNING = 1,
    TALUS_LOG_INFO = 2,
    TALUS_LOG_DEBUG = 3,
);
constants!(i64: // details of TALUS_E_MISMATCH
    TALUS_M_MISSING_PARAM = 1,
    TALUS_M_EXTRA_PARAM = 2,
    TALUS_M_SHAPE = 3,
    TALUS_M_PARAM_DTYPE = 4,
    TALUS_M_STATE_DTYPE = 5,
    TALUS_M_SLOT = 6,
    TALUS_M_ALGORITHM = 7,
    TALUS_M_HYPER = 8,
    TALUS_M_GROUP = 9,
    TALUS_M_MASTER = 10,
    TALUS_M_SCHEDULE = 11,
    TALUS_M_SCALER = 12,
);
constants!(u32:
    TALUS_VERSION = 0x000100,
    TALUS_HYPER_MIN_OPEN = 1,
    TALUS_HYPER_MAX_OPEN = 2,
    TALUS_HYPER_FIXED = 4,
    TALUS_HYPER_REQUIRED = 8,
);
constants!(u64:
    TALUS_SAVE_PARAMS = 1,
    TALUS_SAVE_NO_DIGEST = 2,
    TALUS_LOAD_ALLOW_MISSING = 16,
    TALUS_LOAD_ALLOW_EXTRA = 32,
    TALUS_LOAD_CONVERT = 64,
    TALUS_LOAD_KEEP_HYPER = 128,
    TALUS_LOAD_PARAMS = 256,
    TALUS_LOAD_IN_PLACE = 512,
    TALUS_LOAD_CHECK_ONLY = 1024,
);

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct talus_hyper {
    pub struct_size: u32,
    pub kind: i32,
    pub name: *const c_char,
    pub doc: *const c_char,
    pub def: f64,
    pub min: f64,
    pub max: f64,
    pub flags: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct talus_param {
    pub struct_size: u32,
    pub dtype: i32,
    pub data: *mut c_void,
    pub grad: *mut c_void,
    pub name: *const c_char,
    pub shape: *const i64,
    pub ndim: i32,
    pub grad_dtype: i32,
    pub state_dtype: i32,
    pub master: i32,
    pub flags: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct talus_rows {
    pub struct_size: u32,
    pub index_dtype: i32,
    pub count: i64,
    pub indices: *const c_void,
    pub values: *const c_void,
    pub flags: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct talus_state {
    pub struct_size: u32,
    pub dtype: i32,
    pub slot: *const c_char,
    pub data: *mut c_void,
    pub param: i64,
    pub first: i64,
    pub count: i64,
    pub bytes: u64,
    pub alignment: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct talus_bytes {
    pub struct_size: u32,
    pub reserved: u32,
    pub param: f64,
    pub grad: f64,
    pub master: f64,
    pub state: f64,
    pub read: f64,
    pub written: f64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct talus_stats {
    pub struct_size: u32,
    pub found_inf: i32,
    pub steps: i64,
    pub skipped: i64,
    pub grad_norm: f64,
    pub clip_factor: f64,
    pub loss_scale: f64,
    pub state_bytes: u64,
    pub workspace_bytes: u64,
    pub nonfinite_param: i64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct talus_io {
    pub struct_size: u32,
    pub reserved: u32,
    pub flags: u64,
    pub user: *mut c_void,
    pub progress:
        Option<unsafe extern "C" fn(user: *mut c_void, done_bytes: u64, total_bytes: u64) -> i32>,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct talus_writer {
    pub struct_size: u32,
    pub reserved: u32,
    pub user: *mut c_void,
    pub write:
        Option<unsafe extern "C" fn(user: *mut c_void, bytes: *const c_void, count: u64) -> i32>,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct talus_reader {
    pub struct_size: u32,
    pub reserved: u32,
    pub user: *mut c_void,
    pub size: u64,
    pub read_at: Option<
        unsafe extern "C" fn(user: *mut c_void, offset: u64, bytes: *mut c_void, count: u64) -> i32,
    >,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct talus_allocator {
    pub struct_size: u32,
    pub reserved: u32,
    pub user: *mut c_void,
    pub alloc: Option<
        unsafe extern "C" fn(
            user: *mut c_void,
            bytes: u64,
            alignment: u64,
            stream: *mut c_void,
        ) -> *mut c_void,
    >,
    pub release: Option<
        unsafe extern "C" fn(user: *mut c_void, data: *mut c_void, bytes: u64, stream: *mut c_void),
    >,
    pub destroy: Option<unsafe extern "C" fn(user: *mut c_void)>,
}

pub type talus_closure = Option<unsafe extern "C" fn(user: *mut c_void, loss: *mut f64) -> i32>;
pub type talus_schedule_function = Option<unsafe extern "C" fn(user: *mut c_void, t: i64) -> f64>;
pub type talus_task = Option<unsafe extern "C" fn(context: *mut c_void, i: i64)>;
pub type talus_parallel_for = Option<
    unsafe extern "C" fn(user: *mut c_void, count: i64, task: talus_task, context: *mut c_void),
>;
pub type talus_log =
    Option<unsafe extern "C" fn(user: *mut c_void, level: i32, text: *const c_char)>;
