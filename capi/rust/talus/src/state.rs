//! State tensors and step counts.

use std::ffi::c_void;
use std::{mem, ptr, slice};

use crate::error::text_of;
use crate::lending::check_dtype;
use crate::names::c_text;
use crate::{sys, DType, Element, Error, Optimizer, Param, Result};

/// A state tensor of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateInfo {
    /// Whose state it is.
    pub param: Param,
    /// "exp_avg", "master_param" and so on.
    pub slot: String,
    /// Of its elements.
    pub dtype: DType,
    /// How many there are.
    pub count: usize,
    /// Live memory of the optimizer's device, null until there is some.
    pub data: *mut c_void,
}

impl StateInfo {
    /// Returns its size.
    pub fn bytes(&self) -> usize {
        self.count * self.dtype.bytes()
    }
}

impl<'t> Optimizer<'t> {
    /// Describes all state tensors there are under the present hyperparameters: parameters in order,
    /// slots in order.
    pub fn states(&self) -> Result<Vec<StateInfo>> {
        // SAFETY: a live handle.
        let count = unsafe { sys::talus_state_count(self.as_ptr()) };
        (0..count).map(|i| self.state_at(i)).collect()
    }

    fn state_at(&self, i: i64) -> Result<StateInfo> {
        let mut raw = sys::talus_state {
            struct_size: mem::size_of::<sys::talus_state>() as u32,
            dtype: 0,
            slot: ptr::null(),
            data: ptr::null_mut(),
            param: 0,
            first: 0,
            count: 0,
            bytes: 0,
            alignment: 0,
        };
        // SAFETY: a struct of the size that it says.
        self.call(|opt| unsafe { sys::talus_state_info(opt, i, &mut raw) })?;
        Ok(StateInfo {
            param: Param(raw.param),
            // SAFETY: static text.
            slot: unsafe { text_of(raw.slot) },
            dtype: DType::of_code(raw.dtype)?,
            count: raw.count as usize,
            data: raw.data,
        })
    }

    fn find_state(&self, param: Param, slot: &str) -> Result<StateInfo> {
        let states = self.states()?;
        let mut of_param = states.iter().filter(|state| state.param == param);
        let found = of_param.clone().find(|state| state.slot == slot).cloned();
        found.ok_or_else(|| {
            let known: Vec<_> = of_param.by_ref().map(|state| state.slot.as_str()).collect();
            let (i, known) = (param.0, known.join(", "));
            let text = format!("parameter {i} has no slot {slot:?}, expected one of: {known}");
            Error::new(sys::TALUS_E_NAME, text)
        })
    }

    /// Reads a state tensor in place, once the parameter has taken a step or where it was bound.
    pub fn state<T: Element>(&self, param: Param, slot: &str) -> Result<&[T]> {
        let found = self.lendable_state::<T>(param, slot)?;
        // SAFETY: memory of T that is filled; &self keeps the library from writing.
        Ok(unsafe { slice::from_raw_parts(found.data as *const T, found.count) })
    }

    /// Lends a state tensor, once the parameter has taken a step or where it was bound.
    pub fn state_mut<T: Element>(&mut self, param: Param, slot: &str) -> Result<&mut [T]> {
        let found = self.lendable_state::<T>(param, slot)?;
        // SAFETY: memory of T that is filled; &mut self keeps all others away.
        Ok(unsafe { slice::from_raw_parts_mut(found.data.cast(), found.count) })
    }

    fn lendable_state<T: Element>(&self, param: Param, slot: &str) -> Result<StateInfo> {
        self.check_host()?;
        let mut found = self.find_state(param, slot)?;
        check_dtype(param.0, slot, T::DTYPE, found.dtype)?;
        if found.count == 0 {
            found.data = ptr::NonNull::<T>::dangling().as_ptr().cast();
        } else if found.data.is_null() || (self.steps(param)? == 0 && !self.is_bound(&found)) {
            // What the library has allocated holds nothing before the first step.
            let text = format!("parameter {}: slot {slot:?} is not filled before a step", param.0);
            return Err(Error::new(sys::TALUS_E_STATE, text));
        }
        Ok(found)
    }

    fn is_bound(&self, state: &StateInfo) -> bool {
        let entry = self.ledger.get(state.param);
        entry.map_or(false, |entry| {
            entry.bound.iter().any(|(slot, data)| *slot == state.slot && *data == state.data)
        })
    }

    /// Puts a state tensor into memory of the host, whose contents are the state if the step count is
    /// above 0, see [`set_steps`](Self::set_steps); "master_param" is taken as it is in any case.
    pub fn bind_state<T: Element>(
        &mut self,
        param: Param,
        slot: &str,
        data: &'t mut [T],
    ) -> Result<()> {
        self.check_host()?;
        self.park()?;
        let found = self.find_state(param, slot)?;
        check_dtype(param.0, slot, T::DTYPE, found.dtype)?;
        let (name, pointer) = (c_text(slot)?, data.as_mut_ptr().cast());
        let bytes = mem::size_of_val(data) as u64;
        self.call(|opt| {
            // SAFETY: a C string, and memory of so many bytes, borrowed for 't.
            unsafe { sys::talus_bind_state(opt, param.0, name.as_ptr(), pointer, bytes) }
        })?;
        if let Ok(entry) = self.ledger.get_mut(param) {
            entry.bound.retain(|(bound, _)| bound != slot);
            entry.bound.push((slot.to_string(), pointer));
        }
        Ok(())
    }

    /// Returns the count of steps that a parameter has taken.
    pub fn steps(&self, param: Param) -> Result<i64> {
        let mut steps = 0;
        // SAFETY: a place for the count.
        self.call(|opt| unsafe { sys::talus_steps(opt, param.0, &mut steps) })?;
        Ok(steps)
    }

    /// Sets it; 0 starts the parameter afresh. A parameter that has taken none needs all its state
    /// bound: else there is nothing that could be its state.
    pub fn set_steps(&mut self, param: Param, steps: i64) -> Result<()> {
        if steps > 0 && self.steps(param)? == 0 {
            let states = self.states()?;
            let mut own = states.iter().filter(|state| state.param == param && state.count > 0);
            if let Some(unfilled) = own.find(|state| !self.is_bound(state)) {
                let (i, slot) = (param.0, &unfilled.slot);
                let text =
                    format!("parameter {i}: slot {slot:?} is not filled, expected bind_state");
                return Err(Error::new(sys::TALUS_E_STATE, text));
            }
        }
        // SAFETY: all state is filled.
        self.call(|opt| unsafe { sys::talus_set_steps(opt, param.0, steps) })
    }
}
