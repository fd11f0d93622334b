//! Compares the declarations of this crate with the header itself: names and signatures by text,
//! sizes, offsets and numbers by a C program that the system's compiler builds.

mod prototypes;

use prototypes::{header, header_prototypes, rust_prototypes};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::mem::{size_of, MaybeUninit};
use std::path::Path;
use std::process::Command;
use std::{env, fs, ptr};

use talus_sys::*;

#[test]
fn functions_are_those_of_the_header() {
    let (ours, theirs) = (rust_prototypes(), header_prototypes());
    assert!(theirs.len() > 80, "read only {} prototypes from the header", theirs.len());
    for (name, prototype) in &theirs {
        assert_eq!(ours.get(name), Some(prototype), "{name}");
    }
    assert_eq!(ours.len(), theirs.len(), "more functions than the header has");
}

/// A C program that prints "name number" lines, and the same lines as Rust sees them.
#[derive(Default)]
struct Probe {
    c: String,
    rust: String,
    names: BTreeSet<String>,
}

impl Probe {
    fn line(&mut self, name: &str, c: &str, value: i128) {
        writeln!(self.c, "  printf(\"{name} %lld\\n\", (long long)({c}));").unwrap();
        writeln!(self.rust, "{name} {value}").unwrap();
        self.names.insert(name.to_string());
    }
}

macro_rules! probe_struct {
    ($probe:ident, $Struct:ident: $($field:ident)*) => {{
        let memory = MaybeUninit::<$Struct>::uninit();
        let base = memory.as_ptr();
        let name = stringify!($Struct);
        $probe.line(name, &format!("sizeof({name})"), size_of::<$Struct>() as i128);
        $(
            // SAFETY: an address inside the struct; nothing is read.
            let offset = unsafe { ptr::addr_of!((*base).$field) } as usize - base as usize;
            let field = stringify!($field);
            let c = format!("offsetof({name}, {field})");
            $probe.line(&format!("{name}.{field}"), &c, offset as i128);
        )*
    }};
}

macro_rules! probe_constants {
    ($probe:ident: $($NAME:ident)*) => {
        $($probe.line(stringify!($NAME), stringify!($NAME), $NAME as i128);)*
    };
}

fn probe_structs(probe: &mut Probe) {
    probe_struct!(probe, talus_hyper: struct_size kind name doc def min max flags reserved);
    probe_struct!(probe, talus_param: struct_size dtype data grad name shape ndim grad_dtype
        state_dtype master flags);
    probe_struct!(probe, talus_rows: struct_size index_dtype count indices values flags);
    probe_struct!(probe, talus_state: struct_size dtype slot data param first count bytes alignment);
    probe_struct!(probe, talus_bytes: struct_size reserved param grad master state read written);
    probe_struct!(probe, talus_stats: struct_size found_inf steps skipped grad_norm clip_factor
        loss_scale state_bytes workspace_bytes nonfinite_param);
    probe_struct!(probe, talus_io: struct_size reserved flags user progress);
    probe_struct!(probe, talus_writer: struct_size reserved user write);
    probe_struct!(probe, talus_reader: struct_size reserved user size read_at);
    probe_struct!(probe, talus_allocator: struct_size reserved user alloc release destroy);
}

fn probe_numbers(probe: &mut Probe) {
    probe_constants!(probe: TALUS_OK TALUS_E_ARGUMENT TALUS_E_NAME TALUS_E_RANGE TALUS_E_STATE
        TALUS_E_NOT_PREPARED TALUS_E_MEMORY TALUS_E_UNSUPPORTED TALUS_E_DEVICE TALUS_E_DEVICE_LOST
        TALUS_E_IO TALUS_E_FORMAT TALUS_E_MISMATCH TALUS_E_VERSION TALUS_E_CANCELLED
        TALUS_E_CALLBACK TALUS_E_COMM TALUS_E_FORKED TALUS_E_NONFINITE TALUS_E_INTERNAL);
    probe_constants!(probe: TALUS_F16 TALUS_BF16 TALUS_F32 TALUS_F64 TALUS_I32 TALUS_I64 TALUS_CPU
        TALUS_CUDA TALUS_REAL TALUS_INTEGER TALUS_FLAG TALUS_ALL TALUS_MASTER_AUTO
        TALUS_MASTER_NONE TALUS_MASTER_F32 TALUS_ZERO_FILL TALUS_ZERO_UNBIND TALUS_CLOCK_APPLIED
        TALUS_CLOCK_CALLED TALUS_CLOCK_MANUAL TALUS_LOG_ERROR TALUS_LOG_WARNING TALUS_LOG_INFO
        TALUS_LOG_DEBUG);
    probe_constants!(probe: TALUS_M_MISSING_PARAM TALUS_M_EXTRA_PARAM TALUS_M_SHAPE
        TALUS_M_PARAM_DTYPE TALUS_M_STATE_DTYPE TALUS_M_SLOT TALUS_M_ALGORITHM TALUS_M_HYPER
        TALUS_M_GROUP TALUS_M_MASTER TALUS_M_SCHEDULE TALUS_M_SCALER);
    probe_constants!(probe: TALUS_VERSION TALUS_HYPER_MIN_OPEN TALUS_HYPER_MAX_OPEN
        TALUS_HYPER_FIXED TALUS_HYPER_REQUIRED TALUS_SAVE_PARAMS TALUS_SAVE_NO_DIGEST
        TALUS_LOAD_ALLOW_MISSING TALUS_LOAD_ALLOW_EXTRA TALUS_LOAD_CONVERT TALUS_LOAD_KEEP_HYPER
        TALUS_LOAD_PARAMS TALUS_LOAD_IN_PLACE TALUS_LOAD_CHECK_ONLY);
}

/// What the C compiler says of the same names.
fn ask_compiler(probe: &Probe) -> String {
    let folder = env::temp_dir().join(format!("talus-sys-probe-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (source, program) = (folder.join("probe.c"), folder.join("probe"));
    let text = format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include <talus.h>\nint main(void) {{\n{}}}\n",
        probe.c
    );
    fs::write(&source, text).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../include");
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_string());
    let mut words = compiler.split_whitespace();
    let built = Command::new(words.next().unwrap())
        .args(words)
        .arg("-I")
        .args([&include, &source])
        .arg("-o")
        .arg(&program)
        .status()
        .expect("the C compiler, which also links Rust");
    assert!(built.success(), "{compiler} refused {}", source.display());
    let output = Command::new(&program).output().unwrap();
    fs::remove_dir_all(&folder).unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn layouts_and_numbers_are_those_of_the_compiler() {
    let mut probe = Probe::default();
    probe_structs(&mut probe);
    probe_numbers(&mut probe);
    let theirs = ask_compiler(&probe);
    assert_eq!(theirs.lines().count(), probe.rust.lines().count());
    for (c, rust) in theirs.lines().zip(probe.rust.lines()) {
        assert_eq!(c, rust, "as C has it, as Rust has it");
    }

    for line in header().lines().filter(|line| line.starts_with("#define TALUS_")) {
        let name = line.split_whitespace().nth(1).unwrap();
        let is_number = !name.starts_with("TALUS_API") && name != "TALUS_H";
        assert!(!is_number || probe.names.contains(name), "{name} is in the header alone");
    }
    for (name, count) in prototypes::header_structs() {
        let prefix = format!("{name}.");
        let ours = probe.names.iter().filter(|known| known.starts_with(&prefix)).count();
        assert_eq!(ours, count, "fields of {name}");
    }
}

#[test]
fn the_library_is_of_this_abi() {
    // SAFETY: takes nothing.
    assert_eq!(unsafe { talus_abi_version() } >> 16, ABI_MAJOR);
    assert_eq!(unsafe { talus_version() }, TALUS_VERSION);
}
