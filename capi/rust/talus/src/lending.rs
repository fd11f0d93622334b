//! What is known of each parameter's memory: what may be lent back to the host, and what is away.

use std::ffi::c_void;
use std::slice;

use crate::tensor::{Access, Memory, Rows, Tensor};
use crate::{sys, DType, Element, Error, Param, Result};

/// A parameter, as far as its memory goes.
#[derive(Debug)]
pub(crate) struct Entry {
    pub data: Memory,
    pub grad: Option<Memory>,
    pub grad_dtype: DType,
    pub row_length: usize,
    /// Bound by `Optimizer::with` for its time alone.
    pub is_scoped: bool,
    /// Outside of that: what the library points to may be gone.
    pub is_away: bool,
    pub is_removed: bool,
    /// State in memory of the host: slot and place.
    pub bound: Vec<(String, *mut c_void)>,
}

/// All parameters, by index.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub entries: Vec<Entry>,
}

impl Entry {
    pub fn of(tensor: &Tensor<'_>) -> Self {
        Self {
            data: tensor.data,
            grad: tensor.grad,
            grad_dtype: tensor.gradient_dtype(),
            row_length: tensor.row_length(),
            is_scoped: false,
            is_away: false,
            is_removed: false,
            bound: Vec::new(),
        }
    }

    /// Refuses a gradient of another type or size, which the library cannot see.
    pub fn check_grad(&self, param: i64, grad: &Memory) -> Result<()> {
        check_dtype(param, "gradient", grad.dtype, self.grad_dtype)?;
        check_count(param, "gradient", grad.count, self.data.count)
    }

    pub fn check_data(&self, param: i64, data: &Memory) -> Result<()> {
        check_dtype(param, "data", data.dtype, self.data.dtype)?;
        check_count(param, "data", data.count, self.data.count)
    }

    pub fn check_rows(&self, param: i64, rows: &Rows) -> Result<()> {
        check_dtype(param, "values", rows.values.dtype, self.grad_dtype)?;
        check_count(param, "values", rows.values.count, rows.count * self.row_length)
    }
}

pub(crate) fn check_dtype(param: i64, what: &str, got: DType, expected: DType) -> Result<()> {
    if got == expected {
        return Ok(());
    }
    let text = format!("parameter {param}: {what} is {got:?}, expected {expected:?}");
    Err(Error::argument(text))
}

pub(crate) fn check_count(param: i64, what: &str, got: usize, expected: usize) -> Result<()> {
    if got == expected {
        return Ok(());
    }
    let text = format!("parameter {param}: {what} of {got} elements, expected {expected}");
    Err(Error::argument(text))
}

impl Ledger {
    pub fn get(&self, param: Param) -> Result<&Entry> {
        let found = usize::try_from(param.0).ok().and_then(|i| self.entries.get(i));
        found.filter(|entry| !entry.is_removed).ok_or_else(|| missing(param))
    }

    pub fn get_mut(&mut self, param: Param) -> Result<&mut Entry> {
        let found = usize::try_from(param.0).ok().and_then(|i| self.entries.get_mut(i));
        found.filter(|entry| !entry.is_removed).ok_or_else(|| missing(param))
    }

    /// Refuses to touch tensors while some of them may be gone.
    pub fn check_present(&self) -> Result<()> {
        match self.entries.iter().position(|entry| entry.is_away) {
            None => Ok(()),
            Some(param) => {
                let text = format!(
                    "parameter {param} has its memory in Optimizer::with alone, expected the call there"
                );
                Err(Error::new(sys::TALUS_E_STATE, text))
            }
        }
    }

    pub fn data<T: Element>(&self, param: Param) -> Result<&[T]> {
        let memory = self.lendable(param, "data", Access::Read, |entry| Some(entry.data))?;
        // SAFETY: from a slice of T; &self keeps the library and others from writing.
        Ok(unsafe { lend(&memory_of::<T>(param, "data", memory)?) })
    }

    pub fn data_mut<T: Element>(&mut self, param: Param) -> Result<&mut [T]> {
        let memory = self.lendable(param, "data", Access::Write, |entry| Some(entry.data))?;
        // SAFETY: from a `&mut` slice of T; &mut self keeps all others away.
        Ok(unsafe { lend_mut(&memory_of::<T>(param, "data", memory)?) })
    }

    pub fn grad<T: Element>(&self, param: Param) -> Result<&[T]> {
        let memory = self.lendable(param, "gradient", Access::Read, |entry| entry.grad)?;
        // SAFETY: from a slice of T; &self keeps the library from filling it.
        Ok(unsafe { lend(&memory_of::<T>(param, "gradient", memory)?) })
    }

    pub fn grad_mut<T: Element>(&mut self, param: Param) -> Result<&mut [T]> {
        let memory = self.lendable(param, "gradient", Access::Write, |entry| entry.grad)?;
        // SAFETY: from a `&mut` slice of T; &mut self keeps all others away.
        Ok(unsafe { lend_mut(&memory_of::<T>(param, "gradient", memory)?) })
    }

    /// Data and gradients of parameters that differ.
    pub fn tensors_mut<T: Element>(
        &mut self,
        params: &[Param],
    ) -> Result<Vec<(&mut [T], &mut [T])>> {
        let mut sorted = params.to_vec();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            let text = format!("parameter {} is asked for twice", twice[0].0);
            return Err(Error::argument(text));
        }
        let pair = |&param: &Param| {
            let data = self.lendable(param, "data", Access::Write, |entry| Some(entry.data))?;
            let grad = self.lendable(param, "gradient", Access::Write, |entry| entry.grad)?;
            let data = memory_of::<T>(param, "data", data)?;
            let grad = memory_of::<T>(param, "gradient", grad)?;
            // SAFETY: from `&mut` slices, so that none overlaps another; &mut self keeps others away.
            Ok(unsafe { (lend_mut(&data), lend_mut(&grad)) })
        };
        params.iter().map(pair).collect()
    }

    /// Finds memory that may be lent for `access`.
    fn lendable(
        &self,
        param: Param,
        what: &str,
        access: Access,
        of: impl Fn(&Entry) -> Option<Memory>,
    ) -> Result<Memory> {
        let entry = self.get(param)?;
        let reason = match of(entry) {
            _ if entry.is_away => "has its memory in Optimizer::with alone",
            None => "has none",
            Some(memory) if memory.access == Access::Raw => "was given raw, expected a slice",
            Some(memory) if access == Access::Write && memory.access == Access::Read => {
                "was given to be read, expected a mutable slice"
            }
            Some(memory) => return Ok(memory),
        };
        Err(Error::new(sys::TALUS_E_STATE, format!("parameter {}: {what} {reason}", param.0)))
    }
}

fn missing(param: Param) -> Error {
    Error::argument(format!("no parameter {}", param.0))
}

fn memory_of<T: Element>(param: Param, what: &str, memory: Memory) -> Result<Memory> {
    check_dtype(param.0, what, T::DTYPE, memory.dtype)?;
    Ok(memory)
}

/// # Safety
/// Memory of T, from a slice, that nobody writes for `'a`.
unsafe fn lend<'a, T>(memory: &Memory) -> &'a [T] {
    // SAFETY: the caller's.
    unsafe { slice::from_raw_parts(memory.data as *const T, memory.count) }
}

/// # Safety
/// Memory of T, from a mutable slice, that nobody else uses for `'a`.
unsafe fn lend_mut<'a, T>(memory: &Memory) -> &'a mut [T] {
    // SAFETY: the caller's.
    unsafe { slice::from_raw_parts_mut(memory.data.cast(), memory.count) }
}
