//! The step, norms and clips, statistics; on a stream or without one.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem;

use crate::error::check;
use crate::gradients::bind_column;
use crate::guard::guarded;
use crate::lending::Ledger;
use crate::tensor::{Access, Tensor};
use crate::{sys, Element, Error, Group, Optimizer, Param, Result, Scaler, Stream};

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

    /// Calls the closure for the loss, which it returns, and the gradients, and takes a step. An error
    /// or a panic of the closure comes out of here, and no step was taken.
    ///
    /// ```
    /// # fn main() -> talus::Result<()> {
    /// use talus::{Group, Optimizer, Tensor};
    /// let (mut weights, mut gradient) = ([3.0f32], [0.0f32]);
    /// let mut opt = Optimizer::builder("sgd").set("lr", 0.25).build()?;
    /// let w = opt.add(Group(0), Tensor::new(&mut weights).grad_mut(&mut gradient))?;
    /// let loss = opt.step_closure(|eval| {
    ///     let (weights, gradient) = eval.tensor_mut::<f32>(w)?;
    ///     gradient[0] = 2.0 * weights[0];
    ///     Ok(f64::from(weights[0] * weights[0]))
    /// })?;
    /// assert_eq!((loss, opt.data::<f32>(w)?), (9.0, &[1.5f32][..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn step_closure(
        &mut self,
        closure: impl FnMut(&mut Evaluation<'_, 't>) -> Result<f64>,
    ) -> Result<f64> {
        self.on(Stream::DEFAULT).step_closure(closure)
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

    /// See [`Optimizer::step_closure`].
    pub fn step_closure<F>(&mut self, closure: F) -> Result<f64>
    where
        F: FnMut(&mut Evaluation<'_, 't>) -> Result<f64>,
    {
        self.opt.ledger.check_present()?;
        let (handle, stream) = (self.opt.as_ptr(), self.stream.as_ptr());
        let _turn = self.opt.scaler.as_ref().map(Scaler::turn).transpose()?;
        let (ledger, mut loss) = (&mut self.opt.ledger, 0.0);
        let eval = Evaluation { handle, ledger, _tensors: PhantomData };
        let mut call = ClosureCall { closure, eval, error: None };
        let user: *mut ClosureCall<'_, 't, F> = &mut call;
        // SAFETY: tensors and stream are there, and the call outlives this function of it.
        let status = check(unsafe {
            let closure = Some(evaluate::<F> as unsafe extern "C" fn(_, _) -> _);
            sys::talus_step_closure(handle, closure, user.cast(), &mut loss, stream)
        });
        match call.error {
            Some(error) => Err(error),
            None => status.map(|()| loss),
        }
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
unsafe fn zero_grad(
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

/// What a closure may do with the optimizer: use its tensors, bind and zero gradients.
#[derive(Debug)]
pub struct Evaluation<'c, 't> {
    handle: *mut sys::talus_optimizer,
    ledger: &'c mut Ledger,
    _tensors: PhantomData<&'t mut [u8]>,
}

impl<'t> Evaluation<'_, 't> {
    /// See [`Optimizer::data`].
    pub fn data<T: Element>(&self, param: Param) -> Result<&[T]> {
        self.ledger.data(param)
    }

    /// See [`Optimizer::grad_mut`].
    pub fn grad_mut<T: Element>(&mut self, param: Param) -> Result<&mut [T]> {
        self.ledger.grad_mut(param)
    }

    /// See [`Optimizer::tensor_mut`].
    pub fn tensor_mut<T: Element>(&mut self, param: Param) -> Result<(&mut [T], &mut [T])> {
        let mut lent = self.tensors_mut(&[param])?;
        Ok(lent.pop().expect("one for one"))
    }

    /// See [`Optimizer::tensors_mut`].
    pub fn tensors_mut<T: Element>(
        &mut self,
        params: &[Param],
    ) -> Result<Vec<(&mut [T], &mut [T])>> {
        self.ledger.tensors_mut(params)
    }

    /// See [`Optimizer::bind_grad`].
    pub fn bind_grad<G: Element>(&mut self, param: Param, grad: &'t [G]) -> Result<()> {
        let memory = Tensor::new(&mut [] as &mut [G]).grad(grad).grad;
        // SAFETY: a live handle and its ledger; the memory is borrowed for 't.
        unsafe { bind_column(self.handle, self.ledger, param, &[memory]) }
    }

    /// See [`Optimizer::zero_grad`].
    pub fn zero_grad(&mut self, mode: ZeroGrad) -> Result<()> {
        // SAFETY: a live handle and its ledger.
        unsafe { zero_grad(self.handle, self.ledger, mode, Stream::DEFAULT) }
    }
}

struct ClosureCall<'c, 't, F> {
    closure: F,
    eval: Evaluation<'c, 't>,
    error: Option<Error>,
}

/// # Safety
/// `user` is a ClosureCall that nobody else uses, `loss` a place for the value.
unsafe extern "C" fn evaluate<'c, 't: 'c, F>(user: *mut c_void, loss: *mut f64) -> i32
where
    F: FnMut(&mut Evaluation<'_, 't>) -> Result<f64>,
{
    guarded(1, || {
        // SAFETY: the caller's.
        let call = unsafe { &mut *user.cast::<ClosureCall<'c, 't, F>>() };
        match (call.closure)(&mut call.eval) {
            Ok(value) => {
                // SAFETY: the caller's.
                unsafe { *loss = value };
                0
            }
            Err(error) => {
                let code = i32::try_from(error.detail()).unwrap_or(1);
                call.error = Some(error);
                if code == 0 {
                    1
                } else {
                    code
                }
            }
        }
    })
}
