//! The `f32` value behind a 16-bit parameter, and what an element takes.

use std::{mem, ptr};

use crate::lending::check_count;
use crate::{sys, Group, On, Optimizer, Param, Result, Stream, Tensor};

/// Bytes for each element of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
#[non_exhaustive]
pub struct BytesPerElement {
    pub param: f64,
    pub grad: f64,
    pub master: f64,
    /// Slots of one value for a whole tensor are not counted.
    pub state: f64,
    /// By a step that neither measures nor checks.
    pub read: f64,
    /// By such a step.
    pub written: f64,
}

const VIEW: *const std::os::raw::c_char = b"master\0".as_ptr().cast();

impl Optimizer<'_> {
    /// Copies a master out, of as many elements as the parameter has.
    pub fn export_master(&mut self, param: Param, to: &mut [f32]) -> Result<()> {
        self.on(Stream::DEFAULT).export_master(param, to)
    }

    /// Writes the master's rounded copy to the parameter.
    pub fn restore_from_master(&mut self, param: Param) -> Result<()> {
        self.on(Stream::DEFAULT).restore_from_master(param)
    }

    /// Sets a master, and the parameter with it.
    pub fn import_master(&mut self, param: Param, from: &[f32]) -> Result<()> {
        self.on(Stream::DEFAULT).import_master(param, from)
    }

    /// Tells that a parameter was written from outside: its master starts again from it. Without this
    /// the next step undoes what was written.
    pub fn reload_master(&mut self, param: Param) -> Result<()> {
        self.on(Stream::DEFAULT).reload_master(param)
    }

    /// Tells what each element of such a tensor takes in a group as it is set; its memory, name and
    /// shape do not matter.
    pub fn bytes_per_element(&self, group: Group, tensor: &Tensor<'_>) -> Result<BytesPerElement> {
        let described = tensor.describe()?;
        let mut raw = sys::talus_bytes {
            struct_size: mem::size_of::<sys::talus_bytes>() as u32,
            reserved: 0,
            param: 0.0,
            grad: 0.0,
            master: 0.0,
            state: 0.0,
            read: 0.0,
            written: 0.0,
        };
        self.call(|opt| {
            // SAFETY: a description, and a struct of the size that it says.
            unsafe { sys::talus_bytes_per_param(opt, group.0, &described.raw, &mut raw) }
        })?;
        let sys::talus_bytes { param, grad, master, state, read, written, .. } = raw;
        Ok(BytesPerElement { param, grad, master, state, read, written })
    }
}

impl On<'_, '_> {
    /// See [`Optimizer::export_master`].
    pub fn export_master(&mut self, param: Param, to: &mut [f32]) -> Result<()> {
        check_count(param.0, "master", to.len(), self.opt.ledger.get(param)?.data.count)?;
        // Not null: that has another meaning.
        let (data, stream) = (to.as_mut_ptr().cast(), self.stream.as_ptr());
        self.opt.touch(|opt| {
            // SAFETY: as many elements as the parameter has.
            unsafe { sys::talus_export_param(opt, VIEW, param.0, data, sys::TALUS_F32, stream) }
        })
    }

    /// See [`Optimizer::restore_from_master`].
    pub fn restore_from_master(&mut self, param: Param) -> Result<()> {
        let (none, stream) = (ptr::null_mut(), self.stream.as_ptr());
        self.opt.touch(|opt| {
            // SAFETY: no memory but the parameter's.
            unsafe { sys::talus_export_param(opt, VIEW, param.0, none, sys::TALUS_F32, stream) }
        })
    }

    /// See [`Optimizer::import_master`].
    pub fn import_master(&mut self, param: Param, from: &[f32]) -> Result<()> {
        check_count(param.0, "master", from.len(), self.opt.ledger.get(param)?.data.count)?;
        let (data, stream) = (from.as_ptr().cast(), self.stream.as_ptr());
        self.opt.touch(|opt| {
            // SAFETY: as many elements as the parameter has.
            unsafe { sys::talus_import_param(opt, VIEW, param.0, data, sys::TALUS_F32, stream) }
        })
    }

    /// See [`Optimizer::reload_master`].
    pub fn reload_master(&mut self, param: Param) -> Result<()> {
        let (none, stream) = (ptr::null(), self.stream.as_ptr());
        self.opt.touch(|opt| {
            // SAFETY: no memory but the parameter's.
            unsafe { sys::talus_import_param(opt, VIEW, param.0, none, sys::TALUS_F32, stream) }
        })
    }
}
