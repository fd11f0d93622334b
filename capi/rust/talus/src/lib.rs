//! Optimizers for people who bring their own engine: the safe layer over libtalus.
//!
//! ```
//! use talus::{Group, Optimizer, Tensor};
//!
//! # fn main() -> talus::Result<()> {
//! let mut weights = vec![1.0f32; 4];
//! let mut gradient = vec![0.0f32; 4];
//! let mut opt = Optimizer::builder("adamw").set("lr", 3e-3).set("weight_decay", 0.1).build()?;
//! let w = opt.add(Group(0), Tensor::new(&mut weights).grad_mut(&mut gradient).name("w"))?;
//! for _ in 0..10 {
//!     let (weights, gradient) = opt.tensor_mut::<f32>(w)?;
//!     for (g, x) in gradient.iter_mut().zip(weights) {
//!         *g = 2.0 * *x; // of the sum of squares
//!     }
//!     opt.step()?;
//! }
//! drop(opt);
//! assert!(weights[0] < 0.98);
//! # Ok(())
//! # }
//! ```
//!
//! Whatever is said of a function in `talus.h` holds for the one here that wraps it. What is common:
//!
//! * Names are the library's own: [`names`] lists algorithms, settings and kinds of schedules,
//!   [`hypers`] describes hyperparameters. Nothing of them is written down in this crate.
//! * An [`Error`] has changed nothing, unless its function says otherwise.
//! * Tensors are borrowed. [`Optimizer::add`] borrows one for as long as the optimizer lives (declare
//!   the tensor first) and lends it back by [`Optimizer::tensor_mut`]; [`Optimizer::step_with`] and [`Optimizer::with`]
//!   borrow for one call; [`Optimizer::add_raw`] leaves all of it to the caller, and is unsafe.
//! * An [`Optimizer`] may move to another thread, and is used by one at a time: it is `Send`, not
//!   `Sync`. A [`Scaler`] may be shared by optimizers of several threads.
//! * A panic in a callback (of a closure, a schedule, a writer) does not cross the library: the call
//!   ends first, and then the panic goes on. One in the log ends there.
//! * `talus_destroy` and its kin are `Drop`, so nothing can be closed twice.
//! * [`Optimizer::as_ptr`] lends the raw handle for what [`sys`] has besides.
#![warn(missing_docs, unsafe_op_in_unsafe_fn)]

pub use talus_sys as sys;

mod builder;
mod checkpoint;
mod closure;
mod element;
mod error;
mod gradients;
mod guard;
mod hooks;
mod lending;
mod log;
mod masters;
mod names;
mod optimizer;
mod params;
mod scaler;
mod schedule;
mod scoped;
mod state;
mod step;
mod tensor;

pub use builder::Builder;
pub use checkpoint::{LoadOptions, SaveOptions};
pub use closure::Evaluation;
pub use element::{Bf16, DType, Device, Element, RowIndex, Stream, F16};
pub use error::{check, Error, ErrorKind, Result};
pub use hooks::{Allocate, Tasks};
pub use log::{set_log, silence_log, Level};
pub use masters::BytesPerElement;
pub use names::{
    abi_version, build_info, doc, feature, hypers, names, set_plugin_path, version, Hyper,
    HyperKind,
};
pub use optimizer::{Group, Optimizer, Param};
pub use params::ParamInfo;
pub use scaler::Scaler;
pub use schedule::{Attached, AttachedMut, Clock, Piece, Schedule, ScheduleRef};
pub use state::StateInfo;
pub use step::{clip_grad_norm, grad_norm, On, Stats, ZeroGrad};
pub use tensor::{Master, Tensor};

/// The code of the page is tested as well.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Page;
