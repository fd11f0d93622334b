//! Steps that call a closure of the host for loss and gradients.

use std::ffi::c_void;
use std::marker::PhantomData;

use crate::error::check;
use crate::gradients::bind_column;
use crate::guard::guarded;
use crate::lending::Ledger;
use crate::step::zero_grad;
use crate::tensor::Tensor;
use crate::{sys, Element, Error, On, Optimizer, Param, Result, Scaler, Stream, ZeroGrad};

impl<'t> Optimizer<'t> {
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
}

impl<'t> On<'_, 't> {
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
