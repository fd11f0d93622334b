//! The loss scaler, which optimizers share.

use std::cell::Cell;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::check;
use crate::names::{c_text, check_abi};
use crate::{sys, Device, Error, Result, Stream};

/// A loss scaler: multiply the loss by its scale; optimizers that it is attached to divide by it.
/// Copies are the same scaler. Its calls, and steps of those optimizers, take turns; within a step
/// (in a closure) a call of its own thread is refused.
///
/// ```
/// # fn main() -> talus::Result<()> {
/// use talus::{Group, Optimizer, Scaler, Tensor};
/// let (mut weights, mut gradient) = ([1.0f32], [f32::INFINITY]);
/// let scaler = Scaler::new(&[("init_scale", 1024.0)])?;
/// let mut opt = Optimizer::builder("sgd").set("lr", 1.0).build()?;
/// let w = opt.add(Group(0), Tensor::new(&mut weights).grad_mut(&mut gradient))?;
/// opt.attach_scaler(Some(&scaler))?;
/// opt.step()?; // skipped
/// scaler.update()?;
/// assert_eq!((scaler.scale()?, opt.data::<f32>(w)?), (512.0, &[1.0f32][..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Scaler {
    shared: Arc<Shared>,
}

struct Shared {
    handle: NonNull<sys::talus_scaler>,
    turns: Mutex<()>,
    /// The thread whose turn it is, 0: nobody's.
    thread: AtomicUsize,
}

// SAFETY: the library takes calls from any thread, one at a time, and every call of one of these and of
// its optimizers takes a turn.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// While it lives, no other thread uses the scaler.
pub(crate) struct Turn<'s> {
    shared: &'s Shared,
    _held: MutexGuard<'s, ()>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.shared.thread.store(0, Ordering::Relaxed);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: our reference, not used again.
        unsafe { sys::talus_scaler_destroy(self.handle.as_ptr()) };
    }
}

impl Scaler {
    /// Creates one on the CPU with parameters of `hypers("scaler")`.
    pub fn new(values: &[(&str, f64)]) -> Result<Self> {
        Self::on_device(Device::Cpu, values)
    }

    /// Creates one for optimizers of a device.
    pub fn on_device(device: Device, values: &[(&str, f64)]) -> Result<Self> {
        check_abi(crate::abi_version())?;
        let ((kind, id), mut handle) = (device.codes(), ptr::null_mut());
        // SAFETY: a place for the handle.
        check(unsafe { sys::talus_scaler_create(kind, id, &mut handle) })?;
        let handle = NonNull::new(handle).expect("TALUS_OK with a null handle");
        let shared = Shared { handle, turns: Mutex::new(()), thread: AtomicUsize::new(0) };
        let made = Self { shared: Arc::new(shared) };
        values.iter().try_for_each(|&(name, value)| made.set(name, value))?;
        Ok(made)
    }

    /// Lends the raw handle.
    pub fn as_ptr(&self) -> *mut sys::talus_scaler {
        self.shared.handle.as_ptr()
    }

    pub(crate) fn turn(&self) -> Result<Turn<'_>> {
        let shared = &*self.shared;
        if shared.thread.load(Ordering::Relaxed) == this_thread() {
            let text =
                "the scaler is in a step of this thread, expected the call before or after it";
            return Err(Error::new(sys::TALUS_E_STATE, text));
        }
        let held = shared.turns.lock().unwrap_or_else(PoisonError::into_inner);
        shared.thread.store(this_thread(), Ordering::Relaxed);
        Ok(Turn { shared, _held: held })
    }

    /// A turn of each scaler, always in the same order, so that no two threads wait for each other.
    pub(crate) fn turns<'s>(scalers: impl IntoIterator<Item = &'s Self>) -> Result<Vec<Turn<'s>>> {
        let mut scalers: Vec<_> = scalers.into_iter().collect();
        scalers.sort_by_key(|scaler| scaler.as_ptr());
        scalers.dedup_by_key(|scaler| scaler.as_ptr());
        scalers.into_iter().map(Self::turn).collect()
    }

    /// Sets a parameter, or "scale".
    pub fn set(&self, name: &str, value: f64) -> Result<()> {
        let (name, _turn) = (c_text(name)?, self.turn()?);
        // SAFETY: a C string.
        check(unsafe { sys::talus_scaler_set(self.as_ptr(), name.as_ptr(), value) })
    }

    /// Reads a parameter, or "scale", "growth_tracker", "hysteresis_tracker", "consecutive_skips",
    /// "total_skips".
    pub fn get(&self, name: &str) -> Result<f64> {
        let (name, mut value, _turn) = (c_text(name)?, 0.0, self.turn()?);
        // SAFETY: a C string and a place for the value.
        check(unsafe { sys::talus_scaler_get(self.as_ptr(), name.as_ptr(), &mut value) })?;
        Ok(value)
    }

    /// Reads what the loss is to be multiplied by.
    pub fn scale(&self) -> Result<f64> {
        let (mut scale, _turn) = (0.0, self.turn()?);
        // SAFETY: a place for the value.
        check(unsafe { sys::talus_scaler_scale(self.as_ptr(), &mut scale) })?;
        Ok(scale)
    }

    /// Closes a round, once all optimizers have stepped.
    pub fn update(&self) -> Result<()> {
        self.update_on(Stream::DEFAULT)
    }

    /// The same, on a stream.
    pub fn update_on(&self, stream: Stream) -> Result<()> {
        let _turn = self.turn()?;
        // SAFETY: a live handle and stream.
        check(unsafe { sys::talus_scaler_update(self.as_ptr(), stream.as_ptr()) })
    }
}

impl fmt::Debug for Scaler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scaler").field(&self.as_ptr()).finish()
    }
}

/// A number that no other living thread has: the address of something that is its own.
fn this_thread() -> usize {
    thread_local! {
        static OWN: Cell<u8> = const { Cell::new(0) };
    }
    OWN.with(|own| own as *const Cell<u8> as usize)
}
