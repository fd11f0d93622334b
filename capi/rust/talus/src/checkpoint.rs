//! Checkpoints: files, the host's own streams of bytes, notes.

use std::ffi::{c_void, CString};
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::{mem, ptr, slice};

use crate::guard::guarded;
use crate::names::c_text;
use crate::{sys, Error, On, Optimizer, Result, Stream};

/// Told how far a save or load is, done and all bytes; false: cancel.
type Progress<'a> = Box<dyn FnMut(u64, u64) -> bool + 'a>;

/// How to save: state, masters, groups, schedules, clocks and notes, and what is asked for here.
#[derive(Default)]
pub struct SaveOptions<'a> {
    flags: u64,
    progress: Option<Progress<'a>>,
}

/// How to load: all of it, into an optimizer of the same parameters, unless something else is asked
/// for here.
#[derive(Default)]
pub struct LoadOptions<'a> {
    flags: u64,
    progress: Option<Progress<'a>>,
}

macro_rules! options {
    ($Options:ident: $($(#[$doc:meta])* $name:ident = $FLAG:ident)*) => {
        impl<'a> $Options<'a> {
            /// Begins with none.
            pub fn new() -> Self {
                Self::default()
            }

            $($(#[$doc])*
            pub fn $name(mut self) -> Self {
                self.flags |= sys::$FLAG;
                self
            })*

            /// Tells at the start, at least every 64 MiB and at the end how many bytes of all are done;
            /// false: cancel.
            pub fn progress(mut self, told: impl FnMut(u64, u64) -> bool + 'a) -> Self {
                self.progress = Some(Box::new(told));
                self
            }
        }

        impl fmt::Debug for $Options<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($Options)).field("flags", &self.flags).finish()
            }
        }
    };
}

options!(SaveOptions:
    /// Also the parameters, under their plain names.
    params = TALUS_SAVE_PARAMS
    /// Without CRC-32C of every tensor.
    no_digest = TALUS_SAVE_NO_DIGEST
);
options!(LoadOptions:
    /// Parameters that the file lacks keep their state.
    allow_missing = TALUS_LOAD_ALLOW_MISSING
    /// Parameters that only the file has are ignored.
    allow_extra = TALUS_LOAD_ALLOW_EXTRA
    /// Other dtypes of state are converted.
    convert = TALUS_LOAD_CONVERT
    /// Groups, hyperparameters and schedules stay.
    keep_hyper = TALUS_LOAD_KEEP_HYPER
    /// Also the parameters are written.
    params = TALUS_LOAD_PARAMS
    /// No second copy of live state; a failure of the second reading leaves an optimizer that can only
    /// load.
    in_place = TALUS_LOAD_IN_PLACE
    /// All is verified, nothing changed.
    check_only = TALUS_LOAD_CHECK_ONLY
);

impl Optimizer<'_> {
    /// Saves to a file whose name ends in ".safetensors", or to shards beside an index of
    /// ".safetensors.index.json".
    pub fn save(&mut self, path: impl AsRef<Path>, options: SaveOptions<'_>) -> Result<()> {
        self.on(Stream::DEFAULT).save(path, options)
    }

    /// Loads what was saved. Schedules of functions are to be given them again.
    pub fn load(&mut self, path: impl AsRef<Path>, options: LoadOptions<'_>) -> Result<()> {
        self.on(Stream::DEFAULT).load(path, options)
    }

    /// Writes the bytes of a file, front to back.
    pub fn save_to(&mut self, writer: &mut dyn Write, options: SaveOptions<'_>) -> Result<()> {
        self.on(Stream::DEFAULT).save_to(writer, options)
    }

    /// Loads from a file's bytes, all that the reader has.
    pub fn load_from<R: Read + Seek>(
        &mut self,
        reader: &mut R,
        options: LoadOptions<'_>,
    ) -> Result<()> {
        self.on(Stream::DEFAULT).load_from(reader, options)
    }

    /// Sets a note that checkpoints keep; None removes it.
    pub fn set_note(&mut self, key: &str, text: Option<&str>) -> Result<()> {
        let (key, text) = (c_text(key)?, text.map(c_text).transpose()?);
        let text = text.as_deref().map_or(ptr::null(), |text| text.as_ptr());
        // SAFETY: C strings; null removes.
        self.call(|opt| unsafe { sys::talus_set_note(opt, key.as_ptr(), text) })
    }

    /// Reads a note.
    pub fn note(&self, key: &str) -> Result<Option<String>> {
        let (key, mut needed) = (c_text(key)?, 0);
        let asked = self.call(|opt| {
            // SAFETY: a C string, no room for text, and a place for its size.
            unsafe { sys::talus_get_note(opt, key.as_ptr(), ptr::null_mut(), 0, &mut needed) }
        });
        if needed == 0 {
            return match asked {
                Err(error) if error.code() != sys::TALUS_E_NAME => Err(error),
                _ => Ok(None),
            };
        }
        let mut text = vec![0u8; needed as usize];
        self.call(|opt| {
            // SAFETY: a C string, and room for so many bytes.
            unsafe {
                let room = text.as_mut_ptr().cast();
                sys::talus_get_note(opt, key.as_ptr(), room, needed, ptr::null_mut())
            }
        })?;
        text.pop(); // the NUL
        Ok(Some(String::from_utf8_lossy(&text).into_owned()))
    }
}

impl On<'_, '_> {
    /// See [`Optimizer::save`].
    pub fn save(&mut self, path: impl AsRef<Path>, options: SaveOptions<'_>) -> Result<()> {
        let (path, stream) = (c_path(path.as_ref())?, self.stream.as_ptr());
        with_io(options.flags, options.progress, |io| {
            // SAFETY: a C string, and callbacks that live until the call ends.
            self.opt.touch(|opt| unsafe { sys::talus_save(opt, path.as_ptr(), io, stream) })
        })
    }

    /// See [`Optimizer::load`].
    pub fn load(&mut self, path: impl AsRef<Path>, options: LoadOptions<'_>) -> Result<()> {
        let (path, stream) = (c_path(path.as_ref())?, self.stream.as_ptr());
        with_io(options.flags, options.progress, |io| {
            // SAFETY: a C string, and callbacks that live until the call ends.
            self.opt.touch(|opt| unsafe { sys::talus_load(opt, path.as_ptr(), io, stream) })
        })
    }

    /// See [`Optimizer::save_to`].
    pub fn save_to(&mut self, writer: &mut dyn Write, options: SaveOptions<'_>) -> Result<()> {
        let stream = self.stream.as_ptr();
        let mut sink = Sink { writer, failure: None };
        let user: *mut Sink<'_> = &mut sink;
        let raw = sys::talus_writer {
            struct_size: mem::size_of::<sys::talus_writer>() as u32,
            reserved: 0,
            user: user.cast(),
            write: Some(write),
        };
        let result = with_io(options.flags, options.progress, |io| {
            // SAFETY: callbacks that live until the call ends.
            self.opt.touch(|opt| unsafe { sys::talus_save_to(opt, &raw, io, stream) })
        });
        explain(result, sink.failure)
    }

    /// See [`Optimizer::load_from`].
    pub fn load_from<R: Read + Seek>(
        &mut self,
        reader: &mut R,
        options: LoadOptions<'_>,
    ) -> Result<()> {
        let stream = self.stream.as_ptr();
        let size = reader.seek(SeekFrom::End(0)).map_err(|failure| {
            Error::new(sys::TALUS_E_IO, format!("load_from: the reader cannot seek: {failure}"))
        })?;
        let mut source = Source { reader, failure: None };
        let user: *mut Source<'_, R> = &mut source;
        let raw = sys::talus_reader {
            struct_size: mem::size_of::<sys::talus_reader>() as u32,
            reserved: 0,
            user: user.cast(),
            size,
            read_at: Some(read_at::<R>),
        };
        let result = with_io(options.flags, options.progress, |io| {
            // SAFETY: callbacks that live until the call ends.
            self.opt.touch(|opt| unsafe { sys::talus_load_from(opt, &raw, io, stream) })
        });
        explain(result, source.failure)
    }
}

fn c_path(path: &Path) -> Result<CString> {
    let text = path.to_str().ok_or_else(|| Error::argument(format!("{path:?} is not UTF-8")))?;
    c_text(text)
}

/// What the host's own stream had to say of a failure.
fn explain(result: Result<()>, failure: Option<io::Error>) -> Result<()> {
    result.map_err(|error| match failure {
        Some(failure) => error.because(&failure),
        None => error,
    })
}

fn with_io(
    flags: u64,
    mut progress: Option<Progress<'_>>,
    function: impl FnOnce(*const sys::talus_io) -> Result<()>,
) -> Result<()> {
    let user: *mut Progress<'_> = progress.as_mut().map_or(ptr::null_mut(), |told| told);
    let raw = sys::talus_io {
        struct_size: mem::size_of::<sys::talus_io>() as u32,
        reserved: 0,
        flags,
        user: user.cast(),
        progress: if user.is_null() { None } else { Some(tell) },
    };
    function(&raw)
}

struct Sink<'w> {
    writer: &'w mut dyn Write,
    failure: Option<io::Error>,
}

struct Source<'r, R> {
    reader: &'r mut R,
    failure: Option<io::Error>,
}

/// # Safety
/// `user` is a Progress that nobody else uses.
unsafe extern "C" fn tell(user: *mut c_void, done: u64, total: u64) -> i32 {
    guarded(1, || {
        // SAFETY: the caller's.
        let told = unsafe { &mut *user.cast::<Progress<'_>>() };
        i32::from(!told(done, total))
    })
}

/// # Safety
/// `user` is a Sink that nobody else uses, `bytes` so many.
unsafe extern "C" fn write(user: *mut c_void, bytes: *const c_void, count: u64) -> i32 {
    guarded(1, || {
        // SAFETY: the caller's.
        let sink = unsafe { &mut *user.cast::<Sink<'_>>() };
        if count == 0 {
            return 0;
        }
        // SAFETY: the caller's.
        let bytes = unsafe { slice::from_raw_parts(bytes.cast(), count as usize) };
        code_of(sink.writer.write_all(bytes), &mut sink.failure)
    })
}

/// # Safety
/// `user` is a Source that nobody else uses, `bytes` room for so many.
unsafe extern "C" fn read_at<R: Read + Seek>(
    user: *mut c_void,
    offset: u64,
    bytes: *mut c_void,
    count: u64,
) -> i32 {
    guarded(1, || {
        // SAFETY: the caller's.
        let source = unsafe { &mut *user.cast::<Source<'_, R>>() };
        if count == 0 {
            return 0;
        }
        // SAFETY: the caller's; zeroed, for a reader may look at it.
        let room = unsafe {
            ptr::write_bytes(bytes.cast::<u8>(), 0, count as usize);
            slice::from_raw_parts_mut(bytes.cast(), count as usize)
        };
        let found = source.reader.seek(SeekFrom::Start(offset));
        code_of(found.and_then(|_| source.reader.read_exact(room)), &mut source.failure)
    })
}

fn code_of(result: io::Result<()>, failure: &mut Option<io::Error>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(error) => {
            let code = error.raw_os_error().filter(|&code| code != 0).unwrap_or(1);
            *failure = Some(error);
            code
        }
    }
}
