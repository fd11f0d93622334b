//! Checkpoints: files, bytes, notes; what goes wrong.

use std::cell::Cell;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::{env, fs};

use talus::{sys, ErrorKind, Group, LoadOptions, Optimizer, Result, SaveOptions, Tensor};

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("talus-rust-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn adamw<'t>(w: &'t mut [f32], g: &'t [f32]) -> Result<Optimizer<'t>> {
    let mut opt = Optimizer::builder("adamw").set("lr", 0.1).build()?;
    opt.add(Group(0), Tensor::new(w).grad(g).name("w"))?;
    Ok(opt)
}

#[test]
fn a_run_goes_on_bit_for_bit() -> Result<()> {
    let folder = Folder::new("resume");
    let (path, at_end) = (folder.0.join("middle.safetensors"), folder.0.join("end.safetensors"));
    let (mut a, mut b, g) = ([1.0f32, -2.0, 3.0], [9.0f32; 3], [0.5f32, -0.25, 0.125]);
    let mut straight = adamw(&mut a, &g)?;
    (0..3).try_for_each(|_| straight.step())?;
    straight.set_note("epoch", Some("three"))?;
    straight.save(&path, SaveOptions::new().params())?;
    (0..3).try_for_each(|_| straight.step())?;
    straight.save(&at_end, SaveOptions::new().params().no_digest())?;

    let mut resumed = adamw(&mut b, &g)?;
    resumed.set(Group::ALL, "lr", 0.5)?; // the file's comes back
    resumed.load(&path, LoadOptions::new().params().check_only())?;
    assert_eq!((resumed.get(Group(0), "lr")?, resumed.note("epoch")?), (0.5, None));
    resumed.load(&path, LoadOptions::new().params())?;
    assert_eq!(resumed.get(Group(0), "lr")?, 0.1);
    assert_eq!(resumed.note("epoch")?.as_deref(), Some("three"));
    (0..3).try_for_each(|_| resumed.step())?;
    let mut bytes = Vec::new();
    resumed.save_to(&mut bytes, SaveOptions::new().params().no_digest())?;
    assert!(bytes == fs::read(&at_end).unwrap());
    drop((straight, resumed));
    assert_eq!(a.map(f32::to_bits), b.map(f32::to_bits));
    Ok(())
}

#[test]
fn a_checkpoint_of_another_model_is_refused() -> Result<()> {
    let (mut a, mut b, mut c, g) = ([1.0f32; 3], [1.0f32; 2], [1.0f32; 3], [1.0f32; 3]);
    let (mut extra, mut bytes) = ([1.0f32], Vec::new());
    let mut opt = adamw(&mut a, &g)?;
    opt.step()?;
    opt.save_to(&mut bytes, SaveOptions::new())?;
    let mut other = adamw(&mut b, &g[..2])?;
    let error = other.load_from(&mut Cursor::new(&bytes), LoadOptions::new()).unwrap_err();
    let expected = (ErrorKind::Mismatch, sys::TALUS_M_SHAPE);
    assert_eq!((error.kind(), error.detail()), expected, "{error}");
    let mut more = adamw(&mut c, &g)?;
    more.add(Group(0), Tensor::new(&mut extra).name("extra"))?;
    let error = more.load_from(&mut Cursor::new(&bytes), LoadOptions::new()).unwrap_err();
    assert_eq!(error.detail(), sys::TALUS_M_MISSING_PARAM, "{error}");
    more.load_from(&mut Cursor::new(&bytes), LoadOptions::new().allow_missing())?;
    let cut = &bytes[..bytes.len() - 3];
    let error = opt.load_from(&mut Cursor::new(cut), LoadOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Format, "{error}");
    Ok(())
}

#[test]
fn files_that_cannot_be_are_named() -> Result<()> {
    let folder = Folder::new("failures");
    let (mut w, g) = ([1.0f32; 3], [1.0f32; 3]);
    let mut opt = adamw(&mut w, &g)?;
    let error = opt.load(folder.0.join("none.safetensors"), LoadOptions::new()).unwrap_err();
    assert_eq!((error.kind(), error.detail()), (ErrorKind::Io, 2), "{error}"); // ENOENT
    assert!(error.message().contains("none.safetensors"), "{error}");
    assert!(opt.save(folder.0.join("no/x.safetensors"), SaveOptions::new()).is_err());
    assert!(opt.save("a\0b.safetensors", SaveOptions::new()).is_err());
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let name = std::ffi::OsStr::from_bytes(b"\xff.safetensors");
        let error = opt.save(folder.0.join(name), SaveOptions::new()).unwrap_err();
        assert!(error.message().contains("UTF-8"), "{error}");
    }
    Ok(())
}

#[test]
fn progress_is_told_and_may_cancel() -> Result<()> {
    let (mut w, g, mut bytes) = ([1.0f32; 3], [1.0f32; 3], Vec::new());
    let mut opt = adamw(&mut w, &g)?;
    opt.step()?;
    let (told, last) = (Cell::new(0), Cell::new((0, 1)));
    let options = SaveOptions::new().progress(|done, all| {
        told.set(told.get() + 1);
        last.set((done, all));
        true
    });
    opt.save_to(&mut bytes, options)?;
    assert!(told.get() >= 2 && last.get() == (bytes.len() as u64, bytes.len() as u64));
    let cancelled = opt.save_to(&mut Vec::new(), SaveOptions::new().progress(|_, _| false));
    assert_eq!(cancelled.unwrap_err().kind(), ErrorKind::Cancelled);
    let load = LoadOptions::new().progress(|done, _| done == 0);
    let cancelled = opt.load_from(&mut Cursor::new(&bytes), load).unwrap_err();
    assert_eq!(cancelled.kind(), ErrorKind::Cancelled);
    Ok(())
}

/// Fails after so many bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.0 {
            return Err(io::Error::new(io::ErrorKind::Other, "the drawer is full"));
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Knows its size, and nothing else.
struct Locked(u64);

impl Read for Locked {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(13))
    }
}

impl Seek for Locked {
    fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
        Ok(self.0)
    }
}

#[test]
fn a_stream_of_the_host_says_why_it_failed() -> Result<()> {
    let (mut w, g) = ([1.0f32; 3], [1.0f32; 3]);
    let mut opt = adamw(&mut w, &g)?;
    opt.step()?;
    let error = opt.save_to(&mut Full(10), SaveOptions::new()).unwrap_err();
    assert_eq!((error.kind(), error.detail()), (ErrorKind::Callback, 1));
    assert!(error.message().contains("the drawer is full"), "{error}");
    let error = opt.load_from(&mut Locked(1000), LoadOptions::new()).unwrap_err();
    assert_eq!((error.kind(), error.detail()), (ErrorKind::Callback, 13), "{error}");
    opt.step()
}

#[test]
fn notes_are_texts_by_key() -> Result<()> {
    let mut opt = Optimizer::new("sgd")?;
    assert_eq!(opt.note("seed")?, None);
    opt.set_note("seed", Some("sieben µ"))?;
    opt.set_note("empty", Some(""))?;
    assert_eq!(opt.note("seed")?.as_deref(), Some("sieben µ"));
    assert_eq!(opt.note("empty")?.as_deref(), Some(""));
    opt.set_note("seed", None)?;
    assert_eq!(opt.note("seed")?, None);
    assert_eq!(opt.set_note("", Some("x")).unwrap_err().kind(), ErrorKind::Argument);
    assert_eq!(opt.set_note("a", Some("x\0y")).unwrap_err().kind(), ErrorKind::Argument);
    Ok(())
}
