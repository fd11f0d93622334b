//! Finds libtalus: in the folder TALUS_LIB_DIR, else by pkg-config, else where the linker looks.

use std::path::Path;
use std::process::Command;
use std::{env, process};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=TALUS_LIB_DIR");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    if let Some(folder) = given_folder().or_else(packaged_folder) {
        println!("cargo:rustc-link-search=native={folder}");
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}"); // for the tests of this crate
        println!("cargo:libdir={folder}");
    } else {
        println!(
            "cargo:warning=libtalus: TALUS_LIB_DIR is not set and pkg-config knows no talus >= 0.1; \
             trying the linker's own path"
        );
    }
    println!("cargo:rustc-link-lib=dylib=talus");
}

/// What is given must be right: the linker would go on to another copy without a word.
fn given_folder() -> Option<String> {
    let folder = env::var("TALUS_LIB_DIR").ok()?;
    let names = ["libtalus.so", "libtalus.dylib", "talus.dll.lib"];
    if names.iter().any(|name| Path::new(&folder).join(name).exists()) {
        return Some(folder);
    }
    eprintln!("TALUS_LIB_DIR is \"{folder}\", expected a folder with libtalus.so");
    process::exit(1);
}

fn packaged_folder() -> Option<String> {
    let answer =
        Command::new("pkg-config").args(["--variable=libdir", "talus >= 0.1"]).output().ok()?;
    let folder = String::from_utf8(answer.stdout).ok()?.trim().to_string();
    (answer.status.success() && !folder.is_empty()).then_some(folder)
}
