//! Binding gradients: dense ones, rows, somebody else's loss scale.

use std::ffi::c_void;
use std::{mem, ptr};

use crate::error::check;
use crate::lending::Ledger;
use crate::tensor::{Memory, Rows, Tensor};
use crate::{sys, Element, Optimizer, Param, Result, RowIndex};

impl<'t> Optimizer<'t> {
    /// Binds a gradient that a step reads, until it is bound anew. A gradient of zeros is a full step;
    /// a parameter without one is left out.
    pub fn bind_grad<G: Element>(&mut self, param: Param, grad: &'t [G]) -> Result<()> {
        self.bind_grads(param, [Some(grad)])
    }

    /// Binds a gradient that the optimizer lends back, and that `zero_grad` may fill.
    pub fn bind_grad_mut<G: Element>(&mut self, param: Param, grad: &'t mut [G]) -> Result<()> {
        self.bind_column(param, &[Tensor::new(&mut [] as &mut [G]).grad_mut(grad).grad])
    }

    /// Binds the gradients of a parameter and those that follow it in one call; None: no gradient.
    pub fn bind_grads<G: Element>(
        &mut self,
        first: Param,
        grads: impl IntoIterator<Item = Option<&'t [G]>>,
    ) -> Result<()> {
        let memory = |grad| Tensor::new(&mut [] as &mut [G]).grad(grad).grad;
        let column: Vec<_> = grads.into_iter().map(|grad| grad.and_then(memory)).collect();
        self.bind_column(first, &column)
    }

    fn bind_column(&mut self, first: Param, column: &[Option<Memory>]) -> Result<()> {
        self.check_host()?;
        self.park()?;
        // SAFETY: a live handle; what is in the column is borrowed for 't.
        unsafe { bind_column(self.as_ptr(), &mut self.ledger, first, column) }
    }

    /// Takes the gradient of a parameter away.
    pub fn unbind_grad(&mut self, param: Param) -> Result<()> {
        // SAFETY: a live handle, and no memory.
        unsafe { bind_column(self.as_ptr(), &mut self.ledger, param, &[None]) }
    }

    /// Binds the gradients of a parameter and those that follow it in one call; null: no gradient.
    ///
    /// # Safety
    /// Each is null or a gradient as [`Tensor::grad_raw`] says, of the parameter's size and type of
    /// gradient.
    pub unsafe fn bind_grads_raw(&mut self, first: Param, grads: &[*mut c_void]) -> Result<()> {
        self.park()?;
        // SAFETY: as many pointers as it is told; the memory is the caller's to vouch for.
        check(unsafe {
            sys::talus_bind_grads(self.as_ptr(), first.0, grads.len() as i64, grads.as_ptr())
        })?;
        let first = first.0 as usize;
        for entry in self.ledger.entries.iter_mut().skip(first).take(grads.len()) {
            entry.grad = None; // raw: not to be lent
        }
        Ok(())
    }

    /// Binds a gradient of some rows, for the next step alone: as many values as rows times their
    /// length. For rules in `names("row_gradients")`.
    pub fn bind_rows<I: RowIndex, G: Element>(
        &mut self,
        param: Param,
        indices: &'t [I],
        values: &'t [G],
    ) -> Result<()> {
        self.check_host()?;
        self.park()?;
        let rows = Rows::new(indices, values);
        self.ledger.get(param)?.check_rows(param.0, &rows)?;
        // SAFETY: borrowed for 't.
        unsafe { self.bind_row_memory(param, &rows) }
    }

    /// Binds rows in memory that no slice can name.
    ///
    /// # Safety
    /// `raw` is what `talus_bind_rows` asks for, until the next step has passed it.
    pub unsafe fn bind_rows_raw(&mut self, param: Param, raw: &sys::talus_rows) -> Result<()> {
        // SAFETY: the caller's.
        check(unsafe { sys::talus_bind_rows(self.as_ptr(), param.0, raw) })
    }

    /// Takes rows back: the dense gradient, or none, is bound again.
    pub fn unbind_rows(&mut self, param: Param) -> Result<()> {
        // SAFETY: null takes them back.
        check(unsafe { sys::talus_bind_rows(self.as_ptr(), param.0, ptr::null()) })
    }

    /// # Safety
    /// The rows live until the next step or until they are taken back.
    pub(crate) unsafe fn bind_row_memory(&self, param: Param, rows: &Rows) -> Result<()> {
        let raw = sys::talus_rows {
            struct_size: mem::size_of::<sys::talus_rows>() as u32,
            index_dtype: rows.index_code,
            count: rows.count as i64,
            indices: rows.indices,
            values: rows.values.data,
            flags: 0,
        };
        // SAFETY: counts and types have been checked; the rest is the caller's.
        check(unsafe { sys::talus_bind_rows(self.as_ptr(), param.0, &raw) })
    }

    /// Binds somebody else's loss scale, and its flag or null; see `talus_bind_scale`.
    ///
    /// # Safety
    /// Memory of the optimizer's device, read by each step until [`unbind_scale`](Self::unbind_scale).
    pub unsafe fn bind_scale(&mut self, scale: *const f32, found: *const f32) -> Result<()> {
        // SAFETY: the caller's.
        self.call(|opt| unsafe { sys::talus_bind_scale(opt, scale, found) })
    }

    /// Takes it away.
    pub fn unbind_scale(&mut self) -> Result<()> {
        // SAFETY: no memory.
        self.call(|opt| unsafe { sys::talus_bind_scale(opt, ptr::null(), ptr::null()) })
    }
}

/// Checks gradients against their parameters, and binds them.
///
/// # Safety
/// A live handle, and the ledger of it; memory that lives until it is bound anew or the handle goes.
pub(crate) unsafe fn bind_column(
    handle: *mut sys::talus_optimizer,
    ledger: &mut Ledger,
    first: Param,
    column: &[Option<Memory>],
) -> Result<()> {
    let params = || (first.0..).map(Param).zip(column);
    for (param, grad) in params() {
        if let Some(grad) = grad {
            ledger.get(param)?.check_grad(param.0, grad)?;
        }
    }
    let pointers: Vec<_> =
        column.iter().map(|grad| grad.map_or(ptr::null_mut(), |grad| grad.data)).collect();
    // SAFETY: as many pointers as it is told; the rest is the caller's.
    check(unsafe {
        sys::talus_bind_grads(handle, first.0, pointers.len() as i64, pointers.as_ptr())
    })?;
    for (param, grad) in params() {
        if let Ok(entry) = ledger.get_mut(param) {
            entry.grad = *grad;
        }
    }
    Ok(())
}
