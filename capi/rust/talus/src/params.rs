//! Parameters: adding, finding, moving, removing them, and lending their memory.

use std::ffi::c_void;
use std::{mem, ptr, slice};

use crate::error::check;
use crate::error::text_of;
use crate::lending::Entry;
use crate::names::c_text;
use crate::tensor::{Access, Tensor};
use crate::{sys, DType, Device, Element, Error, Group, Optimizer, Param, Result};

/// A parameter, with defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParamInfo {
    /// Unique in the optimizer.
    pub name: String,
    /// Extents, row-major.
    pub shape: Vec<i64>,
    /// Of the data.
    pub dtype: DType,
    /// Of gradients.
    pub grad_dtype: DType,
    /// Of its state.
    pub state_dtype: DType,
    /// Whether an `f32` master is optimised behind it.
    pub has_master: bool,
}

impl<'t> Optimizer<'t> {
    /// Adds a parameter, which is borrowed until the optimizer goes.
    pub fn add(&mut self, group: Group, tensor: Tensor<'t>) -> Result<Param> {
        self.add_all(group, [tensor]).map(|params| params[0])
    }

    /// Adds several, all or none.
    pub fn add_all(
        &mut self,
        group: Group,
        tensors: impl IntoIterator<Item = Tensor<'t>>,
    ) -> Result<Vec<Param>> {
        let tensors: Vec<_> = tensors.into_iter().collect();
        if self.device != Device::Cpu && tensors.iter().any(Tensor::is_of_host) {
            let text = format!(
                "a slice is memory of the host, expected Tensor::from_raw of {:?}",
                self.device
            );
            return Err(Error::argument(text));
        }
        self.add_tensors(group, &tensors)
    }

    /// Adds a parameter without borrowing it: the training loop may go on using slices that it was
    /// made of, or free what a pointer names once it is bound elsewhere.
    ///
    /// # Safety
    /// As [`Tensor::from_raw`] says, for data and gradient.
    pub unsafe fn add_raw(&mut self, group: Group, tensor: Tensor<'_>) -> Result<Param> {
        let param = self.add_tensors(group, slice::from_ref(&tensor))?[0];
        let entry = self.ledger.get_mut(param)?;
        entry.data.access = Access::Raw;
        if let Some(grad) = &mut entry.grad {
            grad.access = Access::Raw;
        }
        Ok(param)
    }

    /// As `add_raw`, but that the ledger takes the memory for lendable.
    pub(crate) fn add_tensors(
        &mut self,
        group: Group,
        tensors: &[Tensor<'_>],
    ) -> Result<Vec<Param>> {
        if tensors.iter().any(|tensor| tensor.rows.is_some()) {
            return Err(Error::argument("rows are of one step, expected them in Optimizer::with"));
        }
        tensors.iter().try_for_each(Tensor::check)?;
        let described = tensors.iter().map(Tensor::describe).collect::<Result<Vec<_>>>()?;
        let raw: Vec<_> = described.iter().map(|one| one.raw).collect();
        self.park()?;
        self.ledger.entries.reserve(tensors.len());
        let mut first = 0;
        self.call(|opt| {
            // SAFETY: descriptions with what they point to; the memory is the caller's to vouch for.
            unsafe {
                sys::talus_add_params(opt, group.0, raw.len() as i64, raw.as_ptr(), &mut first)
            }
        })?;
        self.ledger.entries.extend(tensors.iter().map(Entry::of));
        Ok((first..first + raw.len() as i64).map(Param).collect())
    }

    /// Returns the count of parameters, removed ones included.
    pub fn param_count(&self) -> i64 {
        // SAFETY: a live handle.
        unsafe { sys::talus_param_count(self.as_ptr()) }
    }

    /// Describes a parameter.
    pub fn param(&self, param: Param) -> Result<ParamInfo> {
        let mut raw = blank();
        // SAFETY: a struct of the size that it says.
        self.call(|opt| unsafe { sys::talus_param_info(opt, param.0, &mut raw) })?;
        // SAFETY: name and shape live as long as the optimizer.
        let (name, shape) = unsafe { (text_of(raw.name), extents_of(&raw)) };
        Ok(ParamInfo {
            name,
            shape,
            dtype: DType::of_code(raw.dtype)?,
            grad_dtype: DType::of_code(raw.grad_dtype)?,
            state_dtype: DType::of_code(raw.state_dtype)?,
            has_master: raw.master == sys::TALUS_MASTER_F32,
        })
    }

    /// Returns the group of a parameter.
    pub fn param_group(&self, param: Param) -> Result<Group> {
        // SAFETY: a live handle.
        match unsafe { sys::talus_param_group(self.as_ptr(), param.0) } {
            group if group >= 0 => Ok(Group(group)),
            _ => Err(Error::argument(format!("no parameter {}", param.0))),
        }
    }

    /// Finds a parameter by its name.
    pub fn find(&self, name: &str) -> Option<Param> {
        let name = c_text(name).ok()?;
        // SAFETY: a C string.
        let found = unsafe { sys::talus_find_param(self.as_ptr(), name.as_ptr()) };
        (found >= 0).then_some(Param(found))
    }

    /// Moves parameters to another group of the same rule, all or none: state follows.
    pub fn move_params(&mut self, params: &[Param], group: Group) -> Result<()> {
        let params = numbers(params);
        self.call(|opt| {
            // SAFETY: as many numbers as it is told.
            unsafe { sys::talus_move_params(opt, group.0, params.len() as i64, params.as_ptr()) }
        })
    }

    /// Removes parameters, all or none. Indices of others stay.
    pub fn remove(&mut self, params: &[Param]) -> Result<()> {
        let raw = numbers(params);
        // SAFETY: as many numbers as it is told.
        self.call(|opt| unsafe { sys::talus_remove_params(opt, raw.len() as i64, raw.as_ptr()) })?;
        for &param in params {
            if let Ok(entry) = self.ledger.get_mut(param) {
                (entry.is_removed, entry.is_away) = (true, false);
            }
        }
        Ok(())
    }

    /// Moves a parameter to other memory of its type and size, which is borrowed as `add` does. The
    /// contents are taken as they are, but for a parameter with a master that has taken a step.
    pub fn bind_data<T: Element>(&mut self, param: Param, data: &'t mut [T]) -> Result<()> {
        self.check_host()?;
        self.park()?;
        let tensor = Tensor::new(data);
        let entry = self.ledger.get_mut(param)?;
        entry.check_data(param.0, &tensor.data)?;
        if entry.is_scoped {
            let text = format!("parameter {} gets its memory by Optimizer::with", param.0);
            return Err(Error::new(sys::TALUS_E_STATE, text));
        }
        // SAFETY: memory of the parameter's type and size, borrowed for 't.
        unsafe { self.bind_memory(param, tensor.data.data) }?;
        self.ledger.get_mut(param)?.data = tensor.data;
        Ok(())
    }

    /// Moves a parameter to memory that no slice can name.
    ///
    /// # Safety
    /// As [`Tensor::from_raw`] says, for the type and size of the parameter.
    pub unsafe fn bind_data_raw(&mut self, param: Param, data: *mut c_void) -> Result<()> {
        // SAFETY: the caller's.
        unsafe { self.bind_memory(param, data) }?;
        let entry = self.ledger.get_mut(param)?;
        (entry.data.data, entry.data.access) = (data, Access::Raw);
        Ok(())
    }

    /// # Safety
    /// As `bind_data_raw`, but for the ledger.
    pub(crate) unsafe fn bind_memory(&self, param: Param, data: *mut c_void) -> Result<()> {
        // SAFETY: the caller's.
        check(unsafe { sys::talus_bind_data(self.as_ptr(), param.0, data) })
    }

    /// Refuses slices on a device.
    pub(crate) fn check_host(&self) -> Result<()> {
        if self.device == Device::Cpu {
            return Ok(());
        }
        let text = format!("a slice is memory of the host, expected memory of {:?}", self.device);
        Err(Error::argument(text))
    }

    /// Lends a parameter's elements to be read.
    pub fn data<T: Element>(&self, param: Param) -> Result<&[T]> {
        self.ledger.data(param)
    }

    /// Lends a parameter's elements. One with a master needs [`reload_master`](Self::reload_master)
    /// after they were written.
    pub fn data_mut<T: Element>(&mut self, param: Param) -> Result<&mut [T]> {
        self.ledger.data_mut(param)
    }

    /// Lends a gradient to be read.
    pub fn grad<T: Element>(&self, param: Param) -> Result<&[T]> {
        self.ledger.grad(param)
    }

    /// Lends a gradient that was given as a mutable slice.
    pub fn grad_mut<T: Element>(&mut self, param: Param) -> Result<&mut [T]> {
        self.ledger.grad_mut(param)
    }

    /// Lends data and gradient of one type.
    pub fn tensor_mut<T: Element>(&mut self, param: Param) -> Result<(&mut [T], &mut [T])> {
        let mut lent = self.tensors_mut(&[param])?;
        Ok(lent.pop().expect("one for one"))
    }

    /// Lends those of several parameters at once.
    pub fn tensors_mut<T: Element>(
        &mut self,
        params: &[Param],
    ) -> Result<Vec<(&mut [T], &mut [T])>> {
        self.ledger.tensors_mut(params)
    }
}

fn numbers(params: &[Param]) -> Vec<i64> {
    params.iter().map(|param| param.0).collect()
}

/// To be filled in.
fn blank() -> sys::talus_param {
    sys::talus_param {
        struct_size: mem::size_of::<sys::talus_param>() as u32,
        dtype: 0,
        data: ptr::null_mut(),
        grad: ptr::null_mut(),
        name: ptr::null(),
        shape: ptr::null(),
        ndim: 0,
        grad_dtype: 0,
        state_dtype: 0,
        master: 0,
        flags: 0,
    }
}

/// # Safety
/// As talus_param_info fills it in.
unsafe fn extents_of(raw: &sys::talus_param) -> Vec<i64> {
    if raw.ndim == 0 {
        return Vec::new();
    }
    // SAFETY: the caller's.
    unsafe { slice::from_raw_parts(raw.shape, raw.ndim as usize) }.to_vec()
}
