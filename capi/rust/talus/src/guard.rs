//! Callbacks of the library in Rust: no panic may unwind through its frames.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

type Panic = Box<dyn Any + Send>;

thread_local! {
    static CAUGHT: RefCell<Option<Panic>> = const { RefCell::new(None) };
}

/// Runs a callback. A panic is kept for [`resume`], and the library gets `fallback`.
pub(crate) fn guarded<R>(fallback: R, callback: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(callback)).unwrap_or_else(|panic| {
        keep(panic);
        fallback
    })
}

/// Runs a callback whose panic ends here.
pub(crate) fn muted(callback: impl FnOnce()) {
    let_go(catch_unwind(AssertUnwindSafe(callback)).err());
}

/// The first one is told; others go, and so do those of a thread that is ending.
fn keep(panic: Panic) {
    let mut panic = Some(panic);
    let _ = CAUGHT.try_with(|caught| {
        let mut caught = caught.borrow_mut();
        if caught.is_none() {
            *caught = panic.take();
        }
    });
    let_go(panic);
}

/// Drops what was thrown, which may throw in turn: then it is leaked.
fn let_go(panic: Option<Panic>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
}

/// Goes on with a panic that a callback of the call just ended had.
pub(crate) fn resume() {
    let panic = CAUGHT.try_with(|caught| caught.borrow_mut().take());
    if let Ok(Some(panic)) = panic {
        resume_unwind(panic);
    }
}

/// Forgets it, where nothing may panic.
pub(crate) fn discard() {
    let_go(CAUGHT.try_with(|caught| caught.borrow_mut().take()).unwrap_or(None));
}
