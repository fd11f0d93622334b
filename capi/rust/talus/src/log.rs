//! The log of the whole process.

use std::ffi::{c_void, CStr};
use std::os::raw::c_char;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use crate::guard::muted;
use crate::sys;

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Level {
    Error,
    Warning,
    Info,
    Debug,
}

impl Level {
    fn code(self) -> i32 {
        match self {
            Self::Error => sys::TALUS_LOG_ERROR,
            Self::Warning => sys::TALUS_LOG_WARNING,
            Self::Info => sys::TALUS_LOG_INFO,
            Self::Debug => sys::TALUS_LOG_DEBUG,
        }
    }

    fn of_code(code: i32) -> Self {
        match code {
            sys::TALUS_LOG_ERROR => Self::Error,
            sys::TALUS_LOG_WARNING => Self::Warning,
            sys::TALUS_LOG_INFO => Self::Info,
            _ => Self::Debug,
        }
    }
}

type Line = Box<dyn FnMut(Level, &str) + Send>;

/// What the library calls now: boxed, so that its address stays.
static CURRENT: Mutex<Option<Box<Line>>> = Mutex::new(None);

/// Receives the log of the process up to a level, in place of who did before. `line` gets one line
/// without its end, one at a time, on the thread that called the library; it must not call the
/// library, which waits for it. A panic in it ends there.
pub fn set_log(level: Level, line: impl FnMut(Level, &str) + Send + 'static) {
    replace(Some(Box::new(Box::new(line))), level);
}

/// Makes the library silent again, as at first.
pub fn silence_log() {
    replace(None, Level::Error);
}

fn replace(new: Option<Box<Line>>, level: Level) {
    let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    let mut new = new;
    let user: *mut Line = new.as_deref_mut().map_or(ptr::null_mut(), |line| line);
    let function: sys::talus_log = match new {
        Some(_) => Some(receive),
        None => None,
    };
    // SAFETY: the box is kept until it has been replaced here: the library waits for a line under way.
    unsafe { sys::talus_set_log(function, level.code(), user.cast()) };
    let old = std::mem::replace(&mut *current, new);
    drop(current);
    drop(old);
}

/// # Safety
/// `user` is a Line that nobody else uses, `text` a C string.
unsafe extern "C" fn receive(user: *mut c_void, level: i32, text: *const c_char) {
    // A line may come from a call that succeeds, whose caller has yet to keep what it got.
    muted(|| {
        // SAFETY: the caller's.
        let (line, text) = unsafe { (&mut *user.cast::<Line>(), CStr::from_ptr(text)) };
        line(Level::of_code(level), &text.to_string_lossy());
    });
}
