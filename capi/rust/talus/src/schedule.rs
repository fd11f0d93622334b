//! Schedules: a hyperparameter's value over time.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use crate::error::{check, text_of};
use crate::guard::{self, guarded};
use crate::names::{c_text, check_abi};
use crate::{sys, Result};

/// What the time of an attached schedule counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Clock {
    /// Steps applied: a skipped one does not count.
    #[default]
    Applied,
    /// Every step.
    Called,
    /// What `set_clock` says.
    Manual,
}

impl Clock {
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Applied => sys::TALUS_CLOCK_APPLIED,
            Self::Called => sys::TALUS_CLOCK_CALLED,
            Self::Manual => sys::TALUS_CLOCK_MANUAL,
        }
    }

    pub(crate) fn of_code(code: i32) -> Self {
        match code {
            sys::TALUS_CLOCK_CALLED => Self::Called,
            sys::TALUS_CLOCK_MANUAL => Self::Manual,
            _ => Self::Applied,
        }
    }
}

/// A schedule of its own, to be attached to an optimizer or made a piece of another: either takes it.
///
/// ```
/// # fn main() -> talus::Result<()> {
/// use talus::{Clock, Group, Optimizer, Schedule};
/// let warmup = Schedule::new("linear", &[("start_factor", 0.1), ("total_iters", 10.0)])?;
/// let decay = Schedule::new("cosine", &[("T_max", 90.0)])?;
/// let schedule = Schedule::sequential([warmup, decay], &[10])?;
/// let mut opt = Optimizer::builder("adamw").set("lr", 1e-3).build()?;
/// opt.attach(Group::ALL, "lr", schedule, Clock::Applied)?;
/// assert_eq!(opt.value_now(Group(0), "lr")?, 1e-4);
/// let attached = opt.schedule(Group(0), "lr")?.unwrap();
/// assert_eq!((attached.kind().as_str(), attached.value(1e-3, 10)?), ("sequential", 1e-3));
/// # Ok(())
/// # }
/// ```
pub struct Schedule {
    handle: NonNull<sys::talus_schedule>,
}

// SAFETY: the library takes calls from any thread, one at a time; functions are Send, and nobody else
// reaches the schedule: what it is attached to or a piece of takes it.
unsafe impl Send for Schedule {}

/// What can be done with a schedule, whoever has it. Known by reference alone.
pub struct ScheduleRef {
    /// Of no size, so that swapping two of them does nothing.
    _opaque: [u8; 0],
    _not_shared: PhantomData<*mut u8>,
}

impl Schedule {
    /// Creates one of a kind in `names("schedules")` with parameters of `hypers("schedule/KIND")`.
    pub fn new(kind: &str, values: &[(&str, f64)]) -> Result<Self> {
        check_abi(crate::abi_version())?;
        let (kind, mut handle) = (c_text(kind)?, ptr::null_mut());
        // SAFETY: a C string and a place for the handle.
        check(unsafe { sys::talus_schedule_create(kind.as_ptr(), &mut handle) })?;
        let handle = NonNull::new(handle).expect("TALUS_OK with a null handle");
        let mut made = Self { handle };
        values.iter().try_for_each(|&(name, value)| made.set(name, value))?;
        Ok(made)
    }

    /// The base times f(t). See [`set_function`](ScheduleRef::set_function).
    pub fn lambda(f: impl Fn(i64) -> f64 + Send + 'static) -> Result<Self> {
        let mut made = Self::new("lambda", &[])?;
        made.set_function(f)?;
        Ok(made)
    }

    /// The base times f(1) ... f(t).
    pub fn multiplicative(f: impl Fn(i64) -> f64 + Send + 'static) -> Result<Self> {
        let mut made = Self::new("multiplicative", &[])?;
        made.set_function(f)?;
        Ok(made)
    }

    /// Another value from each milestone on.
    pub fn multistep(milestones: &[i64], values: &[(&str, f64)]) -> Result<Self> {
        let mut made = Self::new("multistep", values)?;
        made.set_milestones(milestones)?;
        Ok(made)
    }

    /// One piece after the other; each but the first begins at its milestone and sees its own time.
    pub fn sequential(pieces: impl IntoIterator<Item = Self>, milestones: &[i64]) -> Result<Self> {
        let mut made = Self::new("sequential", &[])?;
        pieces.into_iter().try_for_each(|piece| made.add(piece))?;
        made.set_milestones(milestones)?;
        Ok(made)
    }

    /// Each piece on the value of the one before.
    pub fn chained(pieces: impl IntoIterator<Item = Self>) -> Result<Self> {
        let mut made = Self::new("chained", &[])?;
        pieces.into_iter().try_for_each(|piece| made.add(piece))?;
        Ok(made)
    }

    /// # Safety
    /// A reference of the caller's, given to the result; nobody else uses the schedule while that or
    /// what it is wrapped in lives.
    pub(crate) unsafe fn from_owned(handle: NonNull<sys::talus_schedule>) -> Self {
        Self { handle }
    }
}

impl Deref for Schedule {
    type Target = ScheduleRef;
    fn deref(&self) -> &ScheduleRef {
        // SAFETY: of no size; the handle is live and aligned for it.
        unsafe { self.handle.cast().as_ref() }
    }
}

impl DerefMut for Schedule {
    fn deref_mut(&mut self) -> &mut ScheduleRef {
        // SAFETY: as above.
        unsafe { self.handle.cast().as_mut() }
    }
}

impl Drop for Schedule {
    fn drop(&mut self) {
        // SAFETY: our reference, not used again.
        unsafe { sys::talus_schedule_destroy(self.handle.as_ptr()) };
        guard::discard();
    }
}

impl ScheduleRef {
    /// Lends the raw handle.
    pub fn as_ptr(&self) -> *mut sys::talus_schedule {
        self as *const Self as *mut sys::talus_schedule
    }

    /// Returns its kind.
    pub fn kind(&self) -> String {
        // SAFETY: a live handle; static text.
        unsafe { text_of(sys::talus_schedule_kind(self.as_ptr())) }
    }

    /// Sets a parameter; attached, it acts on the next step.
    pub fn set(&mut self, name: &str, value: f64) -> Result<()> {
        let name = c_text(name)?;
        // SAFETY: a C string.
        check(unsafe { sys::talus_schedule_set(self.as_ptr(), name.as_ptr(), value) })
    }

    /// Reads a parameter; NaN: not set, and without a default of its own.
    pub fn get(&self, name: &str) -> Result<f64> {
        let (name, mut value) = (c_text(name)?, 0.0);
        // SAFETY: a C string and a place for the value.
        check(unsafe { sys::talus_schedule_get(self.as_ptr(), name.as_ptr(), &mut value) })?;
        Ok(value)
    }

    /// Sets the milestones of a multistep or sequential one.
    pub fn set_milestones(&mut self, values: &[i64]) -> Result<()> {
        // SAFETY: a C string, and as many numbers as it is told.
        check(unsafe {
            let count = values.len() as i64;
            sys::talus_schedule_set_list(self.as_ptr(), MILESTONES, values.as_ptr(), count)
        })
    }

    /// Reads them.
    pub fn milestones(&self) -> Result<Vec<i64>> {
        let mut count = 0;
        // SAFETY: a C string, no room for values, and a place for the count.
        check(unsafe {
            let none = ptr::null_mut();
            sys::talus_schedule_get_list(self.as_ptr(), MILESTONES, none, 0, &mut count)
        })?;
        let mut values = vec![0; count as usize];
        // SAFETY: a C string, room for so many, and a place for the count.
        check(unsafe {
            let room = values.as_mut_ptr();
            sys::talus_schedule_get_list(self.as_ptr(), MILESTONES, room, count, &mut count)
        })?;
        Ok(values)
    }

    /// Gives a lambda or multiplicative one its function of the time, which must be pure. A checkpoint
    /// cannot hold it: after a load it is to be given again. A panic in it ends the step.
    pub fn set_function<F: Fn(i64) -> f64 + Send + 'static>(&mut self, f: F) -> Result<()> {
        let user = Box::into_raw(Box::new(f));
        // SAFETY: a box that the library gives back to `release`, once, where it takes it.
        let status = unsafe {
            sys::talus_schedule_set_function(
                self.as_ptr(),
                Some(evaluate::<F>),
                user.cast(),
                Some(release::<F>),
            )
        };
        if status != sys::TALUS_OK {
            // SAFETY: it was not taken.
            drop(unsafe { Box::from_raw(user) });
        }
        check(status)
    }

    /// Adds a piece to a sequential or chained one that is not in use.
    pub fn add(&mut self, piece: Schedule) -> Result<()> {
        // SAFETY: two live handles; the library keeps the piece.
        check(unsafe { sys::talus_schedule_add(self.as_ptr(), piece.as_ptr()) })
    }

    /// Returns the count of pieces.
    pub fn piece_count(&self) -> i32 {
        // SAFETY: a live handle.
        unsafe { sys::talus_schedule_piece_count(self.as_ptr()) }
    }

    /// Looks at a piece.
    pub fn piece(&self, i: i32) -> Result<Piece<'_>> {
        let mut found = ptr::null_mut();
        // SAFETY: a place for a reference.
        check(unsafe { sys::talus_schedule_piece(self.as_ptr(), i, &mut found) })?;
        let handle = NonNull::new(found).expect("TALUS_OK with a null handle");
        Ok(Piece { piece: Schedule { handle }, _whole: PhantomData })
    }

    /// Evaluates it without an optimizer, for plans and plots.
    pub fn value(&self, base: f64, t: i64) -> Result<f64> {
        let mut value = 0.0;
        // SAFETY: a place for the value.
        check(unsafe { sys::talus_schedule_value(self.as_ptr(), base, t, &mut value) })?;
        Ok(value)
    }
}

const MILESTONES: *const std::os::raw::c_char = b"milestones\0".as_ptr().cast();

/// A piece, while its whole is borrowed.
#[derive(Debug)]
pub struct Piece<'s> {
    piece: Schedule,
    _whole: PhantomData<&'s ScheduleRef>,
}

impl Deref for Piece<'_> {
    type Target = ScheduleRef;
    fn deref(&self) -> &ScheduleRef {
        &self.piece
    }
}

/// A schedule of an optimizer, to look at.
#[derive(Debug)]
pub struct Attached<'o> {
    schedule: Schedule,
    clock: Clock,
    /// Not `Send`: the optimizer is on this thread.
    _optimizer: PhantomData<&'o ScheduleRef>,
}

impl Attached<'_> {
    pub(crate) fn new(schedule: Schedule, clock: Clock) -> Self {
        Self { schedule, clock, _optimizer: PhantomData }
    }

    /// Returns what its time counts.
    pub fn clock(&self) -> Clock {
        self.clock
    }
}

impl Deref for Attached<'_> {
    type Target = ScheduleRef;
    fn deref(&self) -> &ScheduleRef {
        &self.schedule
    }
}

/// A schedule of an optimizer, to change. It cannot be taken out:
///
/// ```compile_fail,E0277
/// fn both<T: Send>(_: T) {}
/// let mut opt = talus::Optimizer::new("sgd").unwrap();
/// both(opt.schedule_mut(talus::Group(0), "lr")); // cannot be sent between threads
/// ```
#[derive(Debug)]
pub struct AttachedMut<'o>(Attached<'o>);

impl AttachedMut<'_> {
    pub(crate) fn new(schedule: Schedule, clock: Clock) -> Self {
        Self(Attached::new(schedule, clock))
    }

    /// Returns what its time counts.
    pub fn clock(&self) -> Clock {
        self.0.clock
    }
}

impl Deref for AttachedMut<'_> {
    type Target = ScheduleRef;
    fn deref(&self) -> &ScheduleRef {
        &self.0
    }
}

impl DerefMut for AttachedMut<'_> {
    fn deref_mut(&mut self) -> &mut ScheduleRef {
        &mut self.0.schedule
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schedule").field(&self.kind()).finish()
    }
}

impl fmt::Debug for ScheduleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ScheduleRef").field(&self.kind()).finish()
    }
}

/// # Safety
/// `user` is an F that nobody changes.
unsafe extern "C" fn evaluate<F: Fn(i64) -> f64>(user: *mut c_void, t: i64) -> f64 {
    // SAFETY: the caller's.
    guarded(f64::NAN, || unsafe { &*user.cast::<F>() }(t))
}

/// # Safety
/// `user` is a box of F, given up.
unsafe extern "C" fn release<F>(user: *mut c_void) {
    // SAFETY: the caller's.
    guarded((), || drop(unsafe { Box::from_raw(user.cast::<F>()) }));
}
