//! The optimizer: its life, groups, hyperparameters, settings, schedules.

use std::ffi::CString;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use crate::builder::Builder;
use crate::error::check;
use crate::hooks::ParallelFor;
use crate::lending::Ledger;
use crate::names::{c_text, check_abi, text_or_none};
use crate::schedule::{Attached, AttachedMut};
use crate::{guard, sys, Clock, Device, Error, Result, Scaler, Schedule};

/// A group of parameters, by its index: group 0 is there from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Group(
    /// The index over the whole optimizer.
    pub i32,
);

impl Group {
    /// Every group, and the default of groups added later.
    pub const ALL: Self = Self(sys::TALUS_ALL);
}

/// A parameter, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Param(
    /// The index over the whole optimizer.
    pub i64,
);

/// An optimizer, and the tensors that it borrows for `'t`.
///
/// A tensor cannot go before it:
///
/// ```compile_fail,E0597
/// use talus::{Group, Optimizer, Tensor};
/// let mut opt = Optimizer::new("sgd").unwrap();
/// {
///     let mut weights = [1.0f32];
///     opt.add(Group(0), Tensor::new(&mut weights)).unwrap(); // `weights` does not live long enough
/// }
/// opt.step().unwrap();
/// ```
///
/// nor be touched past it, but by [`tensor_mut`](Self::tensor_mut):
///
/// ```compile_fail,E0506
/// use talus::{Group, Optimizer, Tensor};
/// let mut weights = [1.0f32];
/// let mut opt = Optimizer::new("sgd").unwrap();
/// opt.add(Group(0), Tensor::new(&mut weights)).unwrap();
/// weights[0] = 2.0; // cannot assign: it is borrowed
/// opt.step().unwrap();
/// ```
///
/// It moves to other threads, and no two may use it at once:
///
/// ```compile_fail,E0277
/// let opt = talus::Optimizer::new("sgd").unwrap();
/// std::thread::scope(|scope| {
///     scope.spawn(|| opt.get(talus::Group(0), "lr")); // cannot be shared between threads
/// });
/// ```
pub struct Optimizer<'t> {
    handle: NonNull<sys::talus_optimizer>,
    pub(crate) device: Device,
    /// The algorithm that groups run unless they say otherwise.
    algorithm: String,
    pub(crate) ledger: Ledger,
    pub(crate) scaler: Option<Scaler>,
    /// Called by the library until the handle is gone.
    pub(crate) parallel_for: Option<Box<ParallelFor>>,
    _tensors: PhantomData<&'t mut [u8]>,
}

// SAFETY: the library takes calls from any thread, one at a time. What is kept here may be sent as
// well: tensors are slices of elements or raw by an unsafe call, callbacks are Send, a schedule is the
// optimizer's alone, and a scaler has a lock.
unsafe impl Send for Optimizer<'_> {}

impl<'t> Optimizer<'t> {
    /// Creates an optimizer on the CPU with the algorithm's defaults.
    pub fn new(algorithm: &str) -> Result<Self> {
        Self::builder(algorithm).build()
    }

    /// Begins one with hyperparameters, settings or a device.
    pub fn builder(algorithm: &str) -> Builder {
        Builder::new(algorithm)
    }

    pub(crate) fn create(algorithm: &str, device: Device) -> Result<Self> {
        check_abi(crate::abi_version())?;
        let (name, mut handle) = (c_text(algorithm)?, ptr::null_mut());
        let (kind, id) = device.codes();
        // SAFETY: a C string and a place for the handle.
        check(unsafe { sys::talus_create(name.as_ptr(), kind, id, &mut handle) })?;
        let handle = NonNull::new(handle).expect("TALUS_OK with a null handle");
        Ok(Self {
            handle,
            device,
            algorithm: algorithm.to_string(),
            ledger: Ledger::default(),
            scaler: None,
            parallel_for: None,
            _tensors: PhantomData,
        })
    }

    /// Lends the raw handle. Parameters added with it are unknown to the functions here that lend or
    /// bind memory.
    pub fn as_ptr(&self) -> *mut sys::talus_optimizer {
        self.handle.as_ptr()
    }

    /// Calls the library, in turn with other users of the scaler.
    pub(crate) fn call(
        &self,
        function: impl FnOnce(*mut sys::talus_optimizer) -> sys::talus_status,
    ) -> Result<()> {
        let _turn = self.scaler.as_ref().map(Scaler::turn).transpose()?;
        check(function(self.handle.as_ptr()))
    }

    /// The same, for what reads or writes tensors.
    pub(crate) fn touch(
        &self,
        function: impl FnOnce(*mut sys::talus_optimizer) -> sys::talus_status,
    ) -> Result<()> {
        self.ledger.check_present()?;
        self.call(function)
    }

    /// Adds a group and returns it. `algorithm` None: that of the optimizer. Values are set in this
    /// group alone, on top of those set for [`Group::ALL`].
    pub fn add_group(&mut self, algorithm: Option<&str>, values: &[(&str, f64)]) -> Result<Group> {
        // Tried elsewhere first, so that a value that is refused leaves no group behind.
        let mut trial = Optimizer::new(algorithm.unwrap_or(&self.algorithm))?;
        trial.set_all(Group::ALL, values)?;
        let (name, mut group) = (algorithm.map(c_text).transpose()?, 0);
        let name = name.as_deref().map_or(ptr::null(), |name| name.as_ptr());
        // SAFETY: a C string or null, and a place for the index.
        self.call(|opt| unsafe { sys::talus_add_group(opt, name, &mut group) })?;
        self.set_all(Group(group), values)?;
        Ok(Group(group))
    }

    /// Returns the count of groups.
    pub fn group_count(&self) -> i32 {
        // SAFETY: a live handle.
        unsafe { sys::talus_group_count(self.as_ptr()) }
    }

    /// Returns the algorithm's own name, never an alias.
    pub fn group_algorithm(&self, group: Group) -> Result<String> {
        // SAFETY: a live handle; null is looked for.
        let name = unsafe { text_or_none(sys::talus_group_algorithm(self.as_ptr(), group.0)) };
        name.ok_or_else(|| Error::argument(format!("no group {}", group.0)))
    }

    /// Sets a hyperparameter of a group, or of all that have it; it acts on the next step.
    pub fn set(&mut self, group: Group, name: &str, value: f64) -> Result<()> {
        let name = c_text(name)?;
        // SAFETY: a C string.
        self.call(|opt| unsafe { sys::talus_set(opt, group.0, name.as_ptr(), value) })
    }

    pub(crate) fn set_all(&mut self, group: Group, values: &[(&str, f64)]) -> Result<()> {
        values.iter().try_for_each(|&(name, value)| self.set(group, name, value))
    }

    /// Reads a hyperparameter as it was set.
    pub fn get(&self, group: Group, name: &str) -> Result<f64> {
        self.read(name, |opt, name, out| {
            // SAFETY: a C string and a place for the value.
            unsafe { sys::talus_get(opt, group.0, name.as_ptr(), out) }
        })
    }

    /// Reads what the next step will use, scheduled or not.
    pub fn value_now(&self, group: Group, name: &str) -> Result<f64> {
        self.read(name, |opt, name, out| {
            // SAFETY: a C string and a place for the value.
            unsafe { sys::talus_value_now(opt, group.0, name.as_ptr(), out) }
        })
    }

    /// Sets a setting of the whole optimizer, see `hypers("settings")`.
    pub fn set_setting(&mut self, name: &str, value: f64) -> Result<()> {
        let name = c_text(name)?;
        // SAFETY: a C string.
        self.call(|opt| unsafe { sys::talus_set_setting(opt, name.as_ptr(), value) })
    }

    /// Reads a setting.
    pub fn setting(&self, name: &str) -> Result<f64> {
        self.read(name, |opt, name, out| {
            // SAFETY: a C string and a place for the value.
            unsafe { sys::talus_get_setting(opt, name.as_ptr(), out) }
        })
    }

    fn read(
        &self,
        name: &str,
        function: impl FnOnce(*mut sys::talus_optimizer, &CString, &mut f64) -> sys::talus_status,
    ) -> Result<f64> {
        let (name, mut value) = (c_text(name)?, 0.0);
        self.call(|opt| function(opt, &name, &mut value))?;
        Ok(value)
    }

    /// Attaches a schedule to a real hyperparameter of a group, or of all that have it. The optimizer
    /// has it from here on, see [`schedule_mut`](Self::schedule_mut).
    pub fn attach(
        &mut self,
        group: Group,
        hyper: &str,
        schedule: Schedule,
        clock: Clock,
    ) -> Result<()> {
        let (hyper, schedule) = (c_text(hyper)?, schedule.as_ptr());
        self.call(|opt| {
            // SAFETY: a C string, and a schedule that lives until the call ends.
            unsafe {
                sys::talus_attach_schedule(opt, group.0, hyper.as_ptr(), schedule, clock.code())
            }
        })
    }

    /// Takes a schedule away: what [`set`](Self::set) has set is used again.
    pub fn detach(&mut self, group: Group, hyper: &str) -> Result<()> {
        let (hyper, clock) = (c_text(hyper)?, Clock::Applied.code());
        self.call(|opt| {
            // SAFETY: a C string; null takes it away.
            unsafe {
                let none = ptr::null_mut();
                sys::talus_attach_schedule(opt, group.0, hyper.as_ptr(), none, clock)
            }
        })
    }

    /// Looks at the schedule that is attached.
    pub fn schedule(&self, group: Group, hyper: &str) -> Result<Option<Attached<'_>>> {
        Ok(self.find_schedule(group, hyper)?.map(|(found, clock)| Attached::new(found, clock)))
    }

    /// The same, to change it; also one that a load has made.
    pub fn schedule_mut(&mut self, group: Group, hyper: &str) -> Result<Option<AttachedMut<'_>>> {
        Ok(self.find_schedule(group, hyper)?.map(|(found, clock)| AttachedMut::new(found, clock)))
    }

    fn find_schedule(&self, group: Group, hyper: &str) -> Result<Option<(Schedule, Clock)>> {
        let (hyper, mut found, mut clock) = (c_text(hyper)?, ptr::null_mut(), 0);
        self.call(|opt| {
            // SAFETY: a C string, and places for a reference and a number.
            unsafe { sys::talus_get_schedule(opt, group.0, hyper.as_ptr(), &mut found, &mut clock) }
        })?;
        // SAFETY: a reference of our own.
        let found = NonNull::new(found).map(|found| unsafe { Schedule::from_owned(found) });
        Ok(found.map(|found| (found, Clock::of_code(clock))))
    }

    /// Sets the manual clock, 0 at first.
    pub fn set_clock(&mut self, t: i64) -> Result<()> {
        // SAFETY: a live handle.
        self.call(|opt| unsafe { sys::talus_set_clock(opt, t) })
    }

    /// Reads a clock.
    pub fn clock(&self, clock: Clock) -> Result<i64> {
        let mut t = 0;
        // SAFETY: a place for the value.
        self.call(|opt| unsafe { sys::talus_get_clock(opt, clock.code(), &mut t) })?;
        Ok(t)
    }

    /// Reports a metric to every plateau schedule attached.
    pub fn observe(&mut self, metric: f64) -> Result<()> {
        // SAFETY: a live handle.
        self.call(|opt| unsafe { sys::talus_observe(opt, metric) })
    }

    /// Attaches a scaler, which other optimizers may share; None: none, as at first.
    pub fn attach_scaler(&mut self, scaler: Option<&Scaler>) -> Result<()> {
        let raw = scaler.map_or(ptr::null_mut(), Scaler::as_ptr);
        let turns = Scaler::turns(self.scaler.iter().chain(scaler))?;
        // SAFETY: null, or a scaler that lives until the call ends; attached, the library keeps it.
        check(unsafe { sys::talus_attach_scaler(self.as_ptr(), raw) })?;
        drop(turns);
        self.scaler = scaler.cloned();
        Ok(())
    }
}

impl fmt::Debug for Optimizer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Optimizer")
            .field("algorithm", &self.algorithm)
            .field("device", &self.device)
            .field("groups", &self.group_count())
            .field("params", &self.param_count())
            .finish()
    }
}

impl Drop for Optimizer<'_> {
    fn drop(&mut self) {
        let _turn = self.scaler.as_ref().map(Scaler::turn);
        // SAFETY: the handle is ours, and is not used again.
        unsafe { sys::talus_destroy(self.as_ptr()) };
        guard::discard(); // of an allocator or a function that is dropped
    }
}
