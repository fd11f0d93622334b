//! Trains a linear regression through the C ABI, declared by hand; rustc alone builds it, from the
//! 1.63 of Debian 12 on.

use std::ffi::{CStr, CString};
use std::marker::{PhantomData, PhantomPinned};
use std::mem::{size_of, MaybeUninit};
use std::os::raw::{c_char, c_void};
use std::ptr;

#[repr(C)]
struct Optimizer {
    _opaque: [u8; 0],
    _neither_send_nor_moved: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
struct Hyper {
    struct_size: u32,
    kind: i32,
    name: *const c_char,
    doc: *const c_char,
    def: f64,
    min: f64,
    max: f64,
    flags: u32,
    reserved: u32,
}

#[repr(C)]
struct Param {
    struct_size: u32,
    dtype: i32,
    data: *mut c_void,
    grad: *mut c_void,
    name: *const c_char,
    shape: *const i64,
    ndim: i32,
    grad_dtype: i32,
    state_dtype: i32,
    master: i32,
    flags: u64,
}

#[repr(C)]
struct Stats {
    struct_size: u32,
    found_inf: i32,
    steps: i64,
    skipped: i64,
    grad_norm: f64,
    clip_factor: f64,
    loss_scale: f64,
    state_bytes: u64,
    workspace_bytes: u64,
}

const _: () = assert!(size_of::<Hyper>() == 56);
const _: () = assert!(size_of::<Param>() == 64);
const _: () = assert!(size_of::<Stats>() == 64);

macro_rules! offset {
    ($Struct:ty, $field:ident) => {{
        let memory = MaybeUninit::<$Struct>::uninit();
        let base = memory.as_ptr();
        unsafe { ptr::addr_of!((*base).$field) as usize - base as usize }
    }};
}

fn check_layout() {
    assert_eq!([offset!(Hyper, doc), offset!(Hyper, def), offset!(Hyper, flags)], [16, 24, 48]);
    assert_eq!([offset!(Param, shape), offset!(Param, ndim), offset!(Param, flags)], [32, 40, 56]);
    assert_eq!([offset!(Stats, steps), offset!(Stats, state_bytes)], [8, 48]);
}

type Closure = extern "C" fn(*mut c_void, *mut f64) -> i32;

// Status codes are i32 constants, never a Rust enum: a number unknown here must stay legal.
const OK: i32 = 0;
const E_NAME: i32 = 2;
const E_RANGE: i32 = 3;
const E_CALLBACK: i32 = 15;
const CPU: i32 = 1;
const F32: i32 = 0x2002;
const ALL: i32 = -1;

extern "C" {
    fn talus_abi_version() -> u32;
    fn talus_name_count(list: *const c_char) -> i32;
    fn talus_name_at(list: *const c_char, i: i32) -> *const c_char;
    fn talus_last_error() -> *const c_char;
    fn talus_last_error_detail() -> i64;
    fn talus_hyper_count(owner: *const c_char) -> i32;
    fn talus_hyper_info(owner: *const c_char, i: i32, out: *mut Hyper) -> i32;
    fn talus_create(
        algorithm: *const c_char,
        device_type: i32,
        device_id: i32,
        out: *mut *mut Optimizer,
    ) -> i32;
    fn talus_destroy(opt: *mut Optimizer);
    fn talus_set(opt: *mut Optimizer, group: i32, name: *const c_char, value: f64) -> i32;
    fn talus_get(opt: *const Optimizer, group: i32, name: *const c_char, value: *mut f64) -> i32;
    fn talus_add_params(
        opt: *mut Optimizer,
        group: i32,
        count: i64,
        params: *const Param,
        first: *mut i64,
    ) -> i32;
    fn talus_step_closure(
        opt: *mut Optimizer,
        closure: Closure,
        user: *mut c_void,
        loss: *mut f64,
        stream: *mut c_void,
    ) -> i32;
    fn talus_get_stats(opt: *mut Optimizer, wait: i32, out: *mut Stats) -> i32;
}

fn last_error() -> String {
    unsafe { CStr::from_ptr(talus_last_error()) }.to_string_lossy().into_owned()
}

fn check(status: i32) {
    assert_eq!(status, OK, "{}", last_error());
}

fn c(text: &str) -> CString {
    CString::new(text).unwrap()
}

fn check_names() {
    let list = c("algorithms");
    let count = unsafe { talus_name_count(list.as_ptr()) };
    let names: Vec<&CStr> = (0..count)
        .map(|i| unsafe { CStr::from_ptr(talus_name_at(list.as_ptr(), i)) })
        .collect();
    assert!(names.iter().any(|name| name.to_bytes() == b"adamw"), "{names:?}");
    assert!(unsafe { talus_name_at(list.as_ptr(), count) }.is_null());
    for owner in names {
        for i in 0..unsafe { talus_hyper_count(owner.as_ptr()) } {
            let mut hyper: Hyper = unsafe { std::mem::zeroed() };
            hyper.struct_size = size_of::<Hyper>() as u32;
            check(unsafe { talus_hyper_info(owner.as_ptr(), i, &mut hyper) });
            assert!(!hyper.name.is_null() && !hyper.doc.is_null() && (0..=2).contains(&hyper.kind));
            assert!(hyper.min <= hyper.def && hyper.def <= hyper.max);
            assert!(hyper.flags < 8 && hyper.reserved == 0);
        }
    }
}

fn check_errors(opt: *mut Optimizer) {
    assert_eq!(unsafe { talus_set(opt, ALL, c("lr").as_ptr(), f64::NAN) }, E_RANGE);
    assert!(last_error().contains("lr"), "{}", last_error());
    let mut value = -1.0;
    assert_eq!(unsafe { talus_get(opt, 0, c("learning_rate").as_ptr(), &mut value) }, E_NAME);
    assert!(last_error().contains("learning_rate") && value == -1.0, "{}", last_error());
    let mut none = ptr::null_mut();
    assert_eq!(unsafe { talus_create(c("nonsense").as_ptr(), CPU, 0, &mut none) }, E_NAME);
    assert!(none.is_null() && last_error().contains("adamw"), "{}", last_error());
}

#[derive(Default)]
struct Line {
    weights: [f32; 3],
    gradient: [f32; 3],
    stop: i32,
}

impl Line {
    /// Mean square error of w0 x + w1 y + w2 against 2x - 3y + 1 over a grid, and its gradient.
    fn evaluate(&mut self) -> f64 {
        let (mut loss, mut sum) = (0.0, [0.0; 3]);
        for i in 0..25 {
            let x = [f64::from(i % 5) / 4.0, f64::from(i / 5) / 4.0, 1.0];
            let fit: f64 = (0..3).map(|k| f64::from(self.weights[k]) * x[k]).sum();
            let error = fit - (2.0 * x[0] - 3.0 * x[1] + 1.0);
            loss += error * error / 25.0;
            (0..3).for_each(|k| sum[k] += 2.0 * error * x[k] / 25.0);
        }
        self.gradient = sum.map(|g| g as f32);
        loss
    }
}

extern "C" fn closure(user: *mut c_void, loss: *mut f64) -> i32 {
    let line = user.cast::<Line>();
    unsafe {
        *loss = (*line).evaluate();
        (*line).stop
    }
}

fn step(opt: *mut Optimizer, line: *mut Line, loss: &mut f64) -> i32 {
    unsafe { talus_step_closure(opt, closure, line.cast(), loss, ptr::null_mut()) }
}

fn main() {
    assert_eq!(unsafe { talus_abi_version() } >> 16, 0);
    check_layout();
    check_names();

    let mut opt = ptr::null_mut();
    check(unsafe { talus_create(c("adamw").as_ptr(), CPU, 0, &mut opt) });
    check(unsafe { talus_set(opt, ALL, c("lr").as_ptr(), 0.1) });

    // The library and the closure both reach the line through this one pointer.
    let line = Box::into_raw(Box::<Line>::default());
    let (name, shape) = (c("line"), [3i64]);
    let param = Param {
        struct_size: size_of::<Param>() as u32,
        dtype: F32,
        data: unsafe { ptr::addr_of_mut!((*line).weights) }.cast(),
        grad: unsafe { ptr::addr_of_mut!((*line).gradient) }.cast(),
        name: name.as_ptr(),
        shape: shape.as_ptr(),
        ndim: 1,
        grad_dtype: 0,
        state_dtype: 0,
        master: 0,
        flags: 0,
    };
    check(unsafe { talus_add_params(opt, 0, 1, &param, ptr::null_mut()) });

    let mut losses = [0.0; 200];
    losses.iter_mut().for_each(|loss| check(step(opt, line, loss)));
    assert!(losses[10] < losses[0] && losses[199] < 0.01 * losses[0], "{losses:?}");

    unsafe { (*line).stop = 7 };
    let mut untouched = -1.0;
    assert_eq!(step(opt, line, &mut untouched), E_CALLBACK);
    assert_eq!((unsafe { talus_last_error_detail() }, untouched), (7, -1.0));

    let mut stats: Stats = unsafe { std::mem::zeroed() };
    stats.struct_size = size_of::<Stats>() as u32;
    check(unsafe { talus_get_stats(opt, 1, &mut stats) });
    assert_eq!((stats.steps, stats.skipped, stats.found_inf), (200, 0, 0));
    assert!(stats.state_bytes >= 24 && stats.loss_scale == 1.0 && stats.clip_factor == 1.0);
    assert!(stats.grad_norm.is_nan() && stats.workspace_bytes < 1 << 30);

    check_errors(opt);
    unsafe {
        talus_destroy(opt);
        let weights = Box::from_raw(line).weights;
        assert!((weights[0] - 2.0).abs() < 0.2 && (weights[1] + 3.0).abs() < 0.2, "{weights:?}");
    }
    println!("ok");
}
