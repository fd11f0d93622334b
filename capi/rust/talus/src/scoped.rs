//! Tensors that are the host's between steps: borrowed for the time of one call.

use std::ffi::c_void;
use std::ptr;

use crate::error::check;
use crate::tensor::{Memory, Tensor};
use crate::{sys, Element, Error, Group, Optimizer, Param, Result};

/// Addresses that no memory has, for parameters that are away: nothing there is ever read, and new
/// memory may lie where theirs was.
const NOWHERE: usize = 1 << 62;

impl<'t> Optimizer<'t> {
    /// Adds a parameter whose memory is lent by [`step_with`](Self::step_with) or
    /// [`with`](Self::with), in the order of adding; here it lends no more than type, shape and name.
    /// Outside of them whatever reads or writes tensors is refused.
    pub fn add_scoped(&mut self, group: Group, tensor: Tensor<'_>) -> Result<Param> {
        self.check_host()?;
        let param = self.add_tensors(group, std::slice::from_ref(&tensor))?[0];
        let entry = self.ledger.get_mut(param)?;
        entry.is_scoped = true;
        entry.is_away = true;
        Ok(param)
    }

    /// Takes one step on tensors and their gradients: those of
    /// [`add_scoped`](Self::add_scoped), all of them, in that order.
    ///
    /// ```
    /// # fn main() -> talus::Result<()> {
    /// use talus::{Group, Optimizer, Tensor};
    /// let (mut weights, mut bias) = (vec![1.0f32; 6], vec![0.0f32; 2]);
    /// let mut opt = Optimizer::builder("sgd").set("lr", 0.5).build()?;
    /// opt.add_scoped(Group(0), Tensor::new(&mut weights).shape(&[3, 2]))?;
    /// opt.add_scoped(Group(0), Tensor::new(&mut bias))?;
    /// for _ in 0..2 {
    ///     let gradient = weights.clone();
    ///     opt.step_with(&mut [(&mut weights, &gradient), (&mut bias, &[1.0, 2.0])])?;
    /// }
    /// assert_eq!((weights[0], bias), (0.25, vec![-1.0, -2.0]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn step_with<T: Element>(&mut self, tensors: &mut [(&mut [T], &[T])]) -> Result<()> {
        let tensors = tensors.iter_mut().map(|(data, grad)| Tensor::new(data).grad(grad));
        self.with(tensors, |opt| opt.step())?
    }

    /// Lends the tensors of [`add_scoped`](Self::add_scoped), all of them, in that order, to whatever
    /// the function does: steps, norms, clipping, saving, loading. Gradients may be of rows.
    ///
    /// What is bound here cannot leave:
    ///
    /// ```compile_fail,E0521
    /// use talus::{Group, Optimizer, Tensor};
    /// let mut weights = [1.0f32];
    /// let mut opt = Optimizer::new("sgd").unwrap();
    /// let mut other = Optimizer::new("sgd").unwrap();
    /// opt.add_scoped(Group(0), Tensor::new(&mut weights)).unwrap();
    /// opt.with([Tensor::new(&mut weights)], |inner| std::mem::swap(inner, &mut other)).unwrap();
    /// ```
    pub fn with<'a, R>(
        &mut self,
        tensors: impl IntoIterator<Item = Tensor<'a>>,
        function: impl for<'s> FnOnce(&mut Optimizer<'s>) -> R,
    ) -> Result<R> {
        let tensors: Vec<_> = tensors.into_iter().collect();
        let visit = Visit::begin(self, &tensors)?;
        // SAFETY: only the lifetime changes, to one that the function cannot name: no tensor that is
        // borrowed for less than 't fits in, and what is bound cannot be moved out.
        let opt = unsafe { &mut *(visit.opt as *mut Optimizer<'t>).cast::<Optimizer<'_>>() };
        Ok(function(opt))
    }

    /// Points parameters that are away to nowhere, before memory is compared with theirs.
    pub(crate) fn park(&mut self) -> Result<()> {
        let is_left = |i: &usize| {
            let entry = &self.ledger.entries[*i];
            entry.is_away && !entry.data.data.is_null() && entry.data.count > 0
        };
        let left: Vec<_> = (0..self.ledger.entries.len()).filter(is_left).collect();
        if left.is_empty() {
            return Ok(());
        }
        let mut place = NOWHERE;
        self.unchecked(|opt| {
            for &i in &left {
                let entry = &mut opt.ledger.entries[i];
                let (bytes, none) = (entry.data.count * entry.data.dtype.bytes(), ptr::null_mut());
                entry.data.data = ptr::null_mut();
                // SAFETY: pointers are compared alone: while a parameter is away nothing that reads
                // tensors is called.
                unsafe {
                    check(sys::talus_bind_grads(opt.as_ptr(), i as i64, 1, &none))?;
                    opt.bind_memory(Param(i as i64), place as *mut c_void)?;
                }
                place += (bytes / 64 + 1) * 64;
            }
            Ok(())
        })
    }

    /// Runs what binds memory that cannot overlap any other, without the search for overlaps: tensors
    /// may have changed places since they were bound last.
    fn unchecked<R>(&mut self, function: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let before = self.setting("check_pointers")?;
        self.set_setting("check_pointers", 0.0)?;
        let result = function(self);
        self.set_setting("check_pointers", before)?;
        result
    }

    fn scoped_params(&self) -> Vec<Param> {
        let entries = self.ledger.entries.iter().enumerate();
        let scoped = entries.filter(|(_, entry)| entry.is_scoped && !entry.is_removed);
        scoped.map(|(i, _)| Param(i as i64)).collect()
    }

    /// Checks a tensor against the parameter that it is lent to.
    fn check_lent(&self, param: Param, tensor: &Tensor<'_>) -> Result<()> {
        let entry = self.ledger.get(param)?;
        entry.check_data(param.0, &tensor.data)?;
        tensor.grad.iter().try_for_each(|grad| entry.check_grad(param.0, grad))?;
        tensor.rows.iter().try_for_each(|rows| entry.check_rows(param.0, rows))
    }

    /// Binds what has been checked: data that moved, gradients column by column, rows.
    fn lend_tensors(&mut self, params: &[Param], tensors: &[Tensor<'_>]) -> Result<()> {
        let moved = |opt: &Self, i: usize| -> bool {
            opt.ledger.entries[params[i].0 as usize].data.data != tensors[i].data.data
        };
        let moved: Vec<_> = (0..params.len()).filter(|&i| moved(self, i)).collect();
        if !moved.is_empty() {
            self.unchecked(|opt| {
                moved.iter().try_for_each(|&i| opt.lend_data(params[i], &tensors[i].data))
            })?;
        }
        self.lend_grads(params, tensors)?;
        for (&param, tensor) in params.iter().zip(tensors) {
            if let Some(rows) = &tensor.rows {
                // SAFETY: borrowed until the visit ends, which unbinds them.
                unsafe { self.bind_row_memory(param, rows) }?;
            }
        }
        Ok(())
    }

    fn lend_data(&mut self, param: Param, data: &Memory) -> Result<()> {
        // SAFETY: borrowed until the visit ends, and away after it.
        unsafe { self.bind_memory(param, data.data) }?;
        self.ledger.get_mut(param)?.data = *data;
        Ok(())
    }

    /// One call for parameters that follow each other.
    fn lend_grads(&mut self, params: &[Param], tensors: &[Tensor<'_>]) -> Result<()> {
        let pointer = |tensor: &Tensor<'_>| tensor.grad.map_or(ptr::null_mut(), |grad| grad.data);
        let column: Vec<*mut c_void> = tensors.iter().map(pointer).collect();
        let mut start = 0;
        for end in 1..=params.len() {
            if end < params.len() && params[end].0 == params[end - 1].0 + 1 {
                continue;
            }
            let (first, count) = (params[start].0, (end - start) as i64);
            // SAFETY: borrowed until the visit ends, and away after it.
            check(unsafe {
                sys::talus_bind_grads(self.as_ptr(), first, count, column[start..end].as_ptr())
            })?;
            start = end;
        }
        for (&param, tensor) in params.iter().zip(tensors) {
            self.ledger.get_mut(param)?.grad = tensor.grad;
        }
        Ok(())
    }
}

/// The time that tensors are lent for. When it ends, by a panic as well, they are away.
struct Visit<'o, 't> {
    opt: &'o mut Optimizer<'t>,
}

impl<'o, 't> Visit<'o, 't> {
    fn begin(opt: &'o mut Optimizer<'t>, tensors: &[Tensor<'_>]) -> Result<Self> {
        let params = opt.scoped_params();
        if params.len() != tensors.len() {
            let (got, expected) = (tensors.len(), params.len());
            let text = format!("got {got} tensors, expected {expected}, those of add_scoped");
            return Err(Error::argument(text));
        }
        if params.iter().any(|&param| !opt.ledger.entries[param.0 as usize].is_away) {
            let text = "the tensors are lent already, expected no Optimizer::with inside another";
            return Err(Error::new(sys::TALUS_E_STATE, text));
        }
        for (&param, tensor) in params.iter().zip(tensors) {
            opt.check_lent(param, tensor)?;
        }
        let visit = Self { opt };
        visit.opt.lend_tensors(&params, tensors)?;
        for &param in &params {
            visit.opt.ledger.get_mut(param)?.is_away = false;
        }
        Ok(visit)
    }
}

impl Drop for Visit<'_, '_> {
    fn drop(&mut self) {
        // Whatever optimizer is here now: one that the function has put in its place has none. Rows that
        // no step has used up go when gradients are bound anew, before anything is read again.
        for param in self.opt.scoped_params() {
            self.opt.ledger.entries[param.0 as usize].is_away = true;
        }
    }
}
