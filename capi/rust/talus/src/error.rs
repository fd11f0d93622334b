//! What fails: a status of the library, its number and its text.

use std::ffi::CStr;
use std::fmt;

use crate::names::text_or_none;
use crate::{guard, sys};

/// A status that is not `TALUS_OK`, with what the library says of it: what, where, got, expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    code: i32,
    detail: i64,
    message: String,
}

/// What most functions return.
pub type Result<T> = std::result::Result<T, Error>;

/// A status by name, to match on. `Other` is a status newer than this crate: see [`Error::code`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum ErrorKind {
    Argument,
    Name,
    Range,
    State,
    NotPrepared,
    Memory,
    Unsupported,
    Device,
    DeviceLost,
    Io,
    Format,
    Mismatch,
    Version,
    Cancelled,
    Callback,
    Comm,
    Forked,
    Nonfinite,
    Internal,
    Other,
}

const KINDS: [ErrorKind; 19] = [
    ErrorKind::Argument,
    ErrorKind::Name,
    ErrorKind::Range,
    ErrorKind::State,
    ErrorKind::NotPrepared,
    ErrorKind::Memory,
    ErrorKind::Unsupported,
    ErrorKind::Device,
    ErrorKind::DeviceLost,
    ErrorKind::Io,
    ErrorKind::Format,
    ErrorKind::Mismatch,
    ErrorKind::Version,
    ErrorKind::Cancelled,
    ErrorKind::Callback,
    ErrorKind::Comm,
    ErrorKind::Forked,
    ErrorKind::Nonfinite,
    ErrorKind::Internal,
];

impl Error {
    /// Makes an error of the host's own, to be returned from a closure of
    /// [`Optimizer::step_closure`](crate::Optimizer::step_closure).
    pub fn from_callback(detail: i32, message: impl Into<String>) -> Self {
        Self { code: sys::TALUS_E_CALLBACK, detail: detail.into(), message: message.into() }
    }

    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, detail: 0, message: message.into() }
    }

    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::new(sys::TALUS_E_ARGUMENT, message)
    }

    /// The last failure of this thread.
    pub(crate) fn last(code: i32) -> Self {
        // SAFETY: both take nothing.
        let (text, detail) = unsafe { (sys::talus_last_error(), sys::talus_last_error_detail()) };
        // SAFETY: never null, and this thread's until its next failure.
        Self { code, detail, message: unsafe { text_of(text) } }
    }

    /// With words of what a callback had to say.
    pub(crate) fn because(mut self, cause: &dyn fmt::Display) -> Self {
        self.message = format!("{}: {cause}", self.message);
        self
    }

    /// Returns which status it is.
    pub fn kind(&self) -> ErrorKind {
        let index = usize::try_from(self.code - sys::TALUS_E_ARGUMENT);
        index.ok().and_then(|i| KINDS.get(i).copied()).unwrap_or(ErrorKind::Other)
    }

    /// Returns the number, one of [`sys`]`::TALUS_E_...`.
    pub fn code(&self) -> i32 {
        self.code
    }

    /// Returns the status as the header spells it, such as "TALUS_E_RANGE".
    pub fn name(&self) -> String {
        // SAFETY: any number is allowed; the text is static. Null is of a library of another ABI.
        let name = unsafe { text_or_none(sys::talus_status_name(self.code)) };
        name.unwrap_or_else(|| format!("status {}", self.code))
    }

    /// Returns the number that goes with the code, 0 where there is none.
    pub fn detail(&self) -> i64 {
        self.detail
    }

    /// Returns the text.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.message)
    }
}

impl std::error::Error for Error {}

/// Makes a result of a status, for calls of [`sys`] that this crate does not wrap. A panic that a
/// callback had meanwhile goes on here.
pub fn check(status: sys::talus_status) -> Result<()> {
    // Read first: unwinding may run calls that fail in turn.
    let result = if status == sys::TALUS_OK { Ok(()) } else { Err(Error::last(status)) };
    guard::resume();
    result
}

/// Copies a text of the library.
///
/// # Safety
/// Not null, and valid now.
pub(crate) unsafe fn text_of(text: *const std::os::raw::c_char) -> String {
    // SAFETY: the caller's.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
