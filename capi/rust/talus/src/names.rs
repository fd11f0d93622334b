//! What has a name: lists, hyperparameters, versions.

use std::ffi::CString;
use std::os::raw::c_char;
use std::ptr;

use crate::error::{check, text_of};
use crate::{sys, Error, Result};

/// Returns the version of the loaded library: major << 16 | minor << 8 | patch.
pub fn version() -> u32 {
    // SAFETY: takes nothing.
    unsafe { sys::talus_version() }
}

/// Returns the ABI of the loaded library: SONAME number << 16 | count of additions.
pub fn abi_version() -> u32 {
    // SAFETY: takes nothing.
    unsafe { sys::talus_abi_version() }
}

/// Returns one line of compiler, build type and commit, for bug reports.
pub fn build_info() -> String {
    // SAFETY: static text.
    unsafe { text_of(sys::talus_build_info()) }
}

/// A library of another ABI than the declarations is refused before anything is made with it.
pub(crate) fn check_abi(found: u32) -> Result<()> {
    let (got, expected) = (found >> 16, sys::ABI_MAJOR);
    if got == expected {
        return Ok(());
    }
    let text =
        format!("libtalus: the loaded one has ABI {got}, this crate was built for {expected}");
    Err(Error::new(sys::TALUS_E_UNSUPPORTED, text))
}

/// Makes a C string of a name.
pub(crate) fn c_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::argument(format!("{text:?} has a NUL in it")))
}

/// Returns the names of a list: "algorithms", "aliases", "settings", "schedules", "slots/adamw" and
/// so on, see `talus_name_count`; "lists" names them.
pub fn names(list: &str) -> Result<Vec<String>> {
    let c_list = c_text(list)?;
    // SAFETY: a C string.
    let count = unsafe { sys::talus_name_count(c_list.as_ptr()) };
    if count < 0 {
        return Err(Error::new(sys::TALUS_E_NAME, format!("no list named {list:?}")));
    }
    // SAFETY: a C string; null is looked for.
    let name = |i| unsafe { text_or_none(sys::talus_name_at(c_list.as_ptr(), i)) };
    Ok((0..count).filter_map(name).collect())
}

/// Returns the line about one name of a list.
pub fn doc(list: &str, name: &str) -> Result<String> {
    let (c_list, c_name) = (c_text(list)?, c_text(name)?);
    // SAFETY: C strings; null is looked for.
    let text = unsafe { text_or_none(sys::talus_name_doc(c_list.as_ptr(), c_name.as_ptr())) };
    text.ok_or_else(|| Error::new(sys::TALUS_E_NAME, format!("no {name:?} in list {list:?}")))
}

/// Tells whether a feature can be used here and now; if not, the error says why.
pub fn feature(name: &str) -> Result<()> {
    let name = c_text(name)?;
    // SAFETY: a C string.
    match unsafe { sys::talus_has_feature(name.as_ptr()) } {
        0 => Err(Error::last(sys::TALUS_E_UNSUPPORTED)),
        _ => Ok(()),
    }
}

/// Sets the folders that plugins are looked for in first, absolute, separated by ':'. For the whole
/// process, before the first question for a device.
pub fn set_plugin_path(folders: Option<&str>) -> Result<()> {
    let folders = folders.map(c_text).transpose()?;
    // SAFETY: a C string or null, copied.
    check(unsafe {
        sys::talus_set_plugin_path(folders.as_deref().map_or(ptr::null(), |f| f.as_ptr()))
    })
}

/// What values a hyperparameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum HyperKind {
    Real,
    Integer,
    Flag,
}

/// A hyperparameter, a setting or a parameter of a schedule.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Hyper {
    /// As set and get take it.
    pub name: String,
    /// One line.
    pub doc: String,
    /// What values it takes.
    pub kind: HyperKind,
    /// NaN: made of others, see `doc`.
    pub default: f64,
    /// The least value, may be infinite.
    pub min: f64,
    /// The greatest value, may be infinite.
    pub max: f64,
    /// [`sys`]`::TALUS_HYPER_...`.
    pub flags: u32,
}

/// Describes the hyperparameters of an algorithm or alias, of "settings", "scaler", or of a schedule
/// as "schedule/cosine".
pub fn hypers(owner: &str) -> Result<Vec<Hyper>> {
    let owner = c_text(owner)?;
    // SAFETY: a C string. -1 where it is unknown: then the first description fails and says so.
    let count = unsafe { sys::talus_hyper_count(owner.as_ptr()) };
    (0..if count < 0 { 1 } else { count }).map(|i| hyper(&owner, i)).collect()
}

fn hyper(owner: &CString, i: i32) -> Result<Hyper> {
    let mut found = sys::talus_hyper {
        struct_size: std::mem::size_of::<sys::talus_hyper>() as u32,
        kind: 0,
        name: ptr::null(),
        doc: ptr::null(),
        def: 0.0,
        min: 0.0,
        max: 0.0,
        flags: 0,
        reserved: 0,
    };
    // SAFETY: a C string, and a struct of the size that it says.
    check(unsafe { sys::talus_hyper_info(owner.as_ptr(), i, &mut found) })?;
    let kind = match found.kind {
        sys::TALUS_INTEGER => HyperKind::Integer,
        sys::TALUS_FLAG => HyperKind::Flag,
        _ => HyperKind::Real,
    };
    // SAFETY: static texts, filled in.
    let (name, doc) = unsafe { (text_of(found.name), text_of(found.doc)) };
    let sys::talus_hyper { def: default, min, max, flags, .. } = found;
    Ok(Hyper { name, doc, kind, default, min, max, flags })
}

/// # Safety
/// Null or a text that is valid now.
pub(crate) unsafe fn text_or_none(text: *const c_char) -> Option<String> {
    // SAFETY: the caller's.
    (!text.is_null()).then(|| unsafe { text_of(text) })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_library_of_another_abi_is_refused() {
        assert!(super::check_abi(super::abi_version()).is_ok());
        let error = super::check_abi(7 << 16 | 3).unwrap_err();
        assert!(error.message().contains("ABI 7"), "{error}");
    }
}
