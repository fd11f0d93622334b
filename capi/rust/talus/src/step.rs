//! The step, norms and clips, statistics; on a stream or without one.

use std::mem;

use crate::error::check;
use crate::lending::Ledger;
use crate::tensor::Access;
use crate::{sys, Error, Group, Optimizer, Param, Result, Scaler, Stream};

/// What `zero_grad` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZeroGrad {
    /// Writes zeros into the bound gradients, which were given as mutable slices or raw.
    Fill,
    /// Forgets them; touches no tensor.
    Unbind,
}

/// What the last step has measured, and what is allocated.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// The last step was skipped over a gradient that is not finite.
    pub found_inf: bool,
    /// Performed since creation.
    pub steps: i64,
    /// Skipped since creation.
    pub skipped: i64,
    /// Of all gradients, scaled back and before clipping; NaN: not measured.
    pub grad_norm: f64,
    /// Of "max_grad_norm"; 1: nothing was clipped.
    pub clip_factor: f64,
    /// That gradients are divided by.
    pub loss_scale: f64,
    /// Allocated by the optimizer.
    pub state_bytes: u64,
    /// Allocated by the optimizer.
    pub workspace_bytes: u64,
    /// The first parameter whose gradient was not finite.
    pub nonfinite_param: Option<Param>,
}

/// An optimizer, and the stream that its work is put on: for one call each.
#[derive(Debug)]
pub struct On<'o, 't> {
    pub(crate) opt: &'o mut Optimizer<'t>,
    pub(crate) stream: Stream,
}

impl<'t> Optimizer<'t> {
    /// Chooses a stream for one call.
    pub fn on(&mut self, stream: Stream) -> On<'_, 't> {
        On { opt: self, stream }
    }

    /// Allocates all state and builds the plan now; a step does it for what it needs.
    pub fn prepare(&mut self) -> Result<()> {
        self.on(Stream::DEFAULT).prepare()
    }

    /// Takes one step: reads the gradients, writes parameters and state.
    pub fn step(&mut self) -> Result<()> {
        self.on(Stream::DEFAULT).step()
    }

    /// Zeroes or forgets all gradients.
    pub fn zero_grad(&mut self, mode: ZeroGrad) -> Result<()> {
        self.on(Stream::DEFAULT).zero_grad(mode)
    }

    /// Measures the gradients of a group or of all, scaled back and before clipping: of type 1, 2 or
    /// infinity.
    pub fn grad_norm(&mut self, group: Group, norm_type: f64) -> Result<f64> {
        self.on(Stream::DEFAULT).grad_norm(group, norm_type)
    }

    /// Measures them, and has the next step clipped to `max_norm`.
    pub fn clip_grad_norm(&mut self, group: Group, max_norm: f64, norm_type: f64) -> Result<f64> {
        self.on(Stream::DEFAULT).clip_grad_norm(group, max_norm, norm_type)
    }

    /// Tells what has happened; `wait`: waits for a device first.
    pub fn stats(&self, wait: bool) -> Result<Stats> {
        let mut raw = sys::talus_stats {
            struct_size: mem::size_of::<sys::talus_stats>() as u32,
            found_inf: 0,
            steps: 0,
            skipped: 0,
            grad_norm: 0.0,
            clip_factor: 0.0,
            loss_scale: 0.0,
            state_bytes: 0,
            workspace_bytes: 0,
            nonfinite_param: -1,
        };
        // SAFETY: a struct of the size that it says.
        self.call(|opt| unsafe { sys::talus_get_stats(opt, wait.into(), &mut raw) })?;
        let nonfinite = raw.nonfinite_param;
        let sys::talus_stats { steps, skipped, grad_norm, clip_factor, loss_scale, .. } = raw;
        let sys::talus_stats { state_bytes, workspace_bytes, .. } = raw;
        Ok(Stats {
            found_inf: raw.found_inf != 0,
            steps,
            skipped,
            grad_norm,
            clip_factor,
            loss_scale,
            state_bytes,
            workspace_bytes,
            nonfinite_param: (nonfinite >= 0).then_some(Param(nonfinite)),
        })
    }
}

impl<'t> On<'_, 't> {
    /// See [`Optimizer::prepare`].
    pub fn prepare(&mut self) -> Result<()> {
        let stream = self.stream.as_ptr();
        // SAFETY: tensors are there, and so is the stream.
        self.opt.touch(|opt| unsafe { sys::talus_prepare(opt, stream) })
    }

    /// See [`Optimizer::step`].
    pub fn step(&mut self) -> Result<()> {
        let stream = self.stream.as_ptr();
        // SAFETY: tensors are there, and so is the stream.
        self.opt.touch(|opt| unsafe { sys::talus_step(opt, stream) })
    }

    /// Counts a step before each replay of a captured one, see `talus_advance`.
    pub fn advance(&mut self) -> Result<()> {
        let stream = self.stream.as_ptr();
        // SAFETY: tensors are there, and so is the stream.
        self.opt.touch(|opt| unsafe { sys::talus_advance(opt, stream) })
    }

    /// See [`Optimizer::zero_grad`].
    pub fn zero_grad(&mut self, mode: ZeroGrad) -> Result<()> {
        let handle = self.opt.as_ptr();
        // SAFETY: a live handle and its ledger.
        unsafe { zero_grad(handle, &mut self.opt.ledger, mode, self.stream) }
    }

    /// See [`Optimizer::grad_norm`].
    pub fn grad_norm(&mut self, group: Group, norm_type: f64) -> Result<f64> {
        let (stream, mut norm) = (self.stream.as_ptr(), 0.0);
        self.opt.touch(|opt| {
            let one: *const _ = &opt;
            // SAFETY: one optimizer, whose tensors are there, and a place for the norm.
            unsafe { sys::talus_grad_norm(one, 1, group.0, norm_type, &mut norm, stream) }
        })?;
        Ok(norm)
    }

    /// See [`Optimizer::clip_grad_norm`].
    pub fn clip_grad_norm(&mut self, group: Group, max: f64, norm_type: f64) -> Result<f64> {
        let (stream, mut norm) = (self.stream.as_ptr(), 0.0);
        self.opt.touch(|opt| {
            let one: *const _ = &opt;
            // SAFETY: one optimizer, whose tensors are there, and a place for the norm.
            unsafe { sys::talus_clip_grad_norm(one, 1, group.0, max, norm_type, &mut norm, stream) }
        })?;
        Ok(norm)
    }
}

/// Measures the gradients of several optimizers of one device as if they were one's.
pub fn grad_norm<'t>(
    opts: &mut [&mut Optimizer<'t>],
    norm_type: f64,
    stream: Stream,
) -> Result<f64> {
    over_all(opts, |raw, count, norm| {
        // SAFETY: optimizers whose tensors are there, and a place for the norm.
        unsafe {
            sys::talus_grad_norm(raw, count, sys::TALUS_ALL, norm_type, norm, stream.as_ptr())
        }
    })
}

/// Measures them, and has the next step of each clipped to `max_norm` for all.
pub fn clip_grad_norm<'t>(
    opts: &mut [&mut Optimizer<'t>],
    max_norm: f64,
    norm_type: f64,
    stream: Stream,
) -> Result<f64> {
    over_all(opts, |raw, count, norm| {
        let (all, stream) = (sys::TALUS_ALL, stream.as_ptr());
        // SAFETY: optimizers whose tensors are there, and a place for the norm.
        unsafe { sys::talus_clip_grad_norm(raw, count, all, max_norm, norm_type, norm, stream) }
    })
}

fn over_all<'t>(
    opts: &mut [&mut Optimizer<'t>],
    function: impl FnOnce(*const *mut sys::talus_optimizer, i32, &mut f64) -> sys::talus_status,
) -> Result<f64> {
    opts.iter().try_for_each(|opt| opt.ledger.check_present())?;
    let _turns = Scaler::turns(opts.iter().filter_map(|opt| opt.scaler.as_ref()))?;
    let raw: Vec<_> = opts.iter().map(|opt| opt.as_ptr()).collect();
    let mut norm = 0.0;
    check(function(raw.as_ptr(), raw.len() as i32, &mut norm))?;
    Ok(norm)
}

/// # Safety
/// A live handle, and the ledger of it.
pub(crate) unsafe fn zero_grad(
    handle: *mut sys::talus_optimizer,
    ledger: &mut Ledger,
    mode: ZeroGrad,
    stream: Stream,
) -> Result<()> {
    let code = match mode {
        ZeroGrad::Unbind => sys::TALUS_ZERO_UNBIND,
        ZeroGrad::Fill => {
            ledger.check_present()?;
            let is_read = |memory: Option<_>| matches!(memory, Some(Access::Read));
            let read = |entry: &crate::lending::Entry| is_read(entry.grad.map(|grad| grad.access));
            if let Some(i) = ledger.entries.iter().position(read) {
                let text = format!(
                    "parameter {i}: the gradient was given to be read, expected a mutable slice"
                );
                return Err(Error::new(sys::TALUS_E_STATE, text));
            }
            sys::TALUS_ZERO_FILL
        }
    };
    // SAFETY: what is filled may be written.
    check(unsafe { sys::talus_zero_grad(handle, code, stream.as_ptr()) })?;
    if mode == ZeroGrad::Unbind {
        ledger.entries.iter_mut().for_each(|entry| entry.grad = None);
    }
    Ok(())
}
