//! Callbacks of the library in Rust: no panic may unwind through its frames.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

thread_local! {
    static CAUGHT: RefCell<Option<Box<dyn Any + Send>>> = const { RefCell::new(None) };
}

/// Runs a callback. A panic is kept for [`resume`], and the library gets `fallback`.
pub(crate) fn guarded<R>(fallback: R, callback: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(callback)).unwrap_or_else(|panic| {
        keep(panic);
        fallback
    })
}

/// The first one is told; others, and those of a thread that is ending, are leaked: to drop what
/// was thrown may panic in turn.
fn keep(panic: Box<dyn Any + Send>) {
    let mut panic = Some(panic);
    let _ = CAUGHT.try_with(|caught| {
        let mut caught = caught.borrow_mut();
        if caught.is_none() {
            *caught = panic.take();
        }
    });
    std::mem::forget(panic);
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
    let panic = CAUGHT.try_with(|caught| caught.borrow_mut().take());
    std::mem::forget(panic);
}
