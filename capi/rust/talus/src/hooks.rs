//! Threads and memory of the host.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, Ordering};
use std::{mem, ptr};

use crate::guard::guarded;
use crate::{sys, Optimizer, Result};

/// The tasks of one loop, to be taken by any threads in any order.
pub struct Tasks<'l> {
    task: unsafe extern "C" fn(*mut c_void, i64),
    context: *mut c_void,
    count: i64,
    next: AtomicI64,
    _loop: std::marker::PhantomData<&'l ()>,
}

// SAFETY: the library's tasks may run on any threads at once; each is taken once.
unsafe impl Sync for Tasks<'_> {}

impl Tasks<'_> {
    /// Returns how many there are.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Runs one that nobody has taken yet; false: there is none left.
    pub fn run_one(&self) -> bool {
        let i = self.next.fetch_add(1, Ordering::Relaxed);
        if i < self.count {
            // SAFETY: the loop has not ended, and i is taken once.
            unsafe { (self.task)(self.context, i) };
        }
        i < self.count
    }

    /// Runs what nobody has taken yet.
    pub fn run_rest(&self) {
        while self.run_one() {}
    }
}

impl std::fmt::Debug for Tasks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tasks").field("count", &self.count).finish()
    }
}

pub(crate) type ParallelFor = Box<dyn Fn(&Tasks<'_>) + Send>;

/// Where state and workspace come from.
///
/// # Safety
/// [`allocate`](Self::allocate) gives memory of the optimizer's device that nobody else uses until
/// [`release`](Self::release) gets it back.
pub unsafe trait Allocate: Send + 'static {
    /// Returns so many bytes at a multiple of `alignment`, null: there are none.
    fn allocate(&self, bytes: u64, alignment: u64, stream: *mut c_void) -> *mut c_void;
    /// Takes them back.
    fn release(&self, data: *mut c_void, bytes: u64, stream: *mut c_void);
}

impl Optimizer<'_> {
    /// Runs steps on threads of the host: the function has the tasks run, as many at a time as it likes,
    /// and what it leaves is done on the calling thread.
    ///
    /// ```
    /// # fn main() -> talus::Result<()> {
    /// let mut opt = talus::Optimizer::builder("sgd").setting("threads", 3.0).build()?;
    /// opt.set_parallel_for(|tasks| {
    ///     std::thread::scope(|scope| {
    ///         (0..tasks.count()).for_each(|_| drop(scope.spawn(|| tasks.run_one())));
    ///     });
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_parallel_for(&mut self, run: impl Fn(&Tasks<'_>) + Send + 'static) -> Result<()> {
        let mut kept: Box<ParallelFor> = Box::new(Box::new(run));
        let user: *mut ParallelFor = &mut *kept;
        // SAFETY: the box is kept until another is set or the optimizer has gone.
        self.call(|opt| unsafe { sys::talus_set_parallel_for(opt, Some(run_tasks), user.cast()) })?;
        self.parallel_for = Some(kept);
        Ok(())
    }

    /// Runs them on the library's own threads again.
    pub fn unset_parallel_for(&mut self) -> Result<()> {
        // SAFETY: null functions are the library's own.
        self.call(|opt| unsafe { sys::talus_set_parallel_for(opt, None, ptr::null_mut()) })?;
        self.parallel_for = None;
        Ok(())
    }

    /// Sets where memory comes from, before any has been allocated.
    pub fn set_allocator<A: Allocate>(&mut self, allocator: A) -> Result<()> {
        let user = Box::into_raw(Box::new(allocator));
        let raw = sys::talus_allocator {
            struct_size: mem::size_of::<sys::talus_allocator>() as u32,
            reserved: 0,
            user: user.cast(),
            alloc: Some(allocate::<A>),
            release: Some(release::<A>),
            destroy: Some(destroy::<A>),
        };
        // SAFETY: a box that the library gives back to `destroy`, once, where it takes it.
        let result = self.call(|opt| unsafe { sys::talus_set_allocator(opt, &raw) });
        if result.is_err() {
            // SAFETY: it was not taken.
            drop(unsafe { Box::from_raw(user) });
        }
        result
    }
}

/// # Safety
/// As the library calls talus_parallel_for, `user` a ParallelFor.
unsafe extern "C" fn run_tasks(
    user: *mut c_void,
    count: i64,
    task: sys::talus_task,
    context: *mut c_void,
) {
    let task = match task {
        Some(task) => task,
        None => return,
    };
    let next = AtomicI64::new(0);
    let tasks = Tasks { task, context, count, next, _loop: std::marker::PhantomData };
    // SAFETY: the caller's.
    guarded((), || unsafe { &*user.cast::<ParallelFor>() }(&tasks));
    tasks.run_rest();
}

/// # Safety
/// `user` is an A.
unsafe extern "C" fn allocate<A: Allocate>(
    user: *mut c_void,
    bytes: u64,
    alignment: u64,
    stream: *mut c_void,
) -> *mut c_void {
    // SAFETY: the caller's.
    let allocator = unsafe { &*user.cast::<A>() };
    guarded(ptr::null_mut(), || allocator.allocate(bytes, alignment, stream))
}

/// # Safety
/// `user` is an A, and `data` of it.
unsafe extern "C" fn release<A: Allocate>(
    user: *mut c_void,
    data: *mut c_void,
    bytes: u64,
    stream: *mut c_void,
) {
    // SAFETY: the caller's.
    let allocator = unsafe { &*user.cast::<A>() };
    guarded((), || allocator.release(data, bytes, stream));
}

/// # Safety
/// `user` is a box of A, given up.
unsafe extern "C" fn destroy<A>(user: *mut c_void) {
    // SAFETY: the caller's.
    guarded((), || drop(unsafe { Box::from_raw(user.cast::<A>()) }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::thread;

    unsafe extern "C" fn tally(context: *mut c_void, i: i64) {
        // SAFETY: the tallies of the loop, which outlive it.
        let tallies = unsafe { &*context.cast::<Vec<AtomicI64>>() };
        tallies[i as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often each of so many tasks was run.
    fn tallies_of(count: i64, run: impl Fn(&Tasks<'_>) + Send + 'static) -> Vec<i64> {
        let mut run: ParallelFor = Box::new(run);
        let mut tallies: Vec<_> = (0..count).map(|_| AtomicI64::new(0)).collect();
        let (user, context): (*mut ParallelFor, *mut Vec<_>) = (&mut run, &mut tallies);
        // SAFETY: as the library calls it.
        unsafe { run_tasks(user.cast(), count, Some(tally), context.cast()) };
        tallies.into_iter().map(AtomicI64::into_inner).collect()
    }

    #[test]
    fn each_task_is_run_once_whoever_takes_it() {
        let start = Barrier::new(4);
        let spread = tallies_of(100_000, move |tasks| {
            let take = || {
                start.wait();
                tasks.run_rest();
            };
            thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(take))));
            assert!(!tasks.run_one());
        });
        assert!(spread.iter().all(|&times| times == 1));
        let left = tallies_of(5, |tasks| assert!(tasks.run_one() && tasks.count() == 5));
        assert_eq!(left, [1; 5]);
        assert_eq!(tallies_of(0, |tasks| assert!(!tasks.run_one())), []);
    }
}
