//! Runs the conformance script over this crate and compares every answer to the bit. What the calls
//! are stands at the top of tests/ffi/conformance.txt; TALUS_CONFORMANCE names another.

mod calls;
mod words;

use std::path::{Path, PathBuf};
use std::{env, fs, process};

use calls::Run;
use words::{wrong, Answer, Fault};

fn main() {
    let path = env::var_os("TALUS_CONFORMANCE").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/ffi/conformance.txt"),
        PathBuf::from,
    );
    let folder = env::temp_dir().join(format!("talus-conformance-{}", process::id()));
    fs::create_dir_all(&folder).expect("a folder for files");
    let result = run(&path, &folder);
    fs::remove_dir_all(&folder).expect("the folder for files");
    match result {
        Ok(calls) => println!("{calls} calls agree"),
        Err(text) => {
            eprintln!("{text}");
            process::exit(1);
        }
    }
}

/// Runs all lines, and says how many had a call.
fn run(path: &Path, folder: &Path) -> Result<usize, String> {
    let at = path.display();
    let script = fs::read_to_string(path).map_err(|error| format!("{at}: {error}"))?;
    let mut run = Run::new(folder.to_path_buf());
    let mut calls = 0;
    for (i, line) in script.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        run_line(&mut run, line).map_err(|fault| format!("{at}:{}: {fault}", i + 1))?;
        calls += 1;
    }
    match calls {
        0 => Err(format!("{at}: no calls")),
        _ => Ok(calls),
    }
}

fn run_line(run: &mut Run, line: &str) -> Answer {
    let (call, expected) = line.split_once(" =").unwrap_or((line, ""));
    let words: Vec<_> = call.split(' ').collect();
    if let ["!", status, word, call @ ..] = &words[..] {
        return must_fail(run, status, word, call);
    }
    let (got, expected) = (run.call(&words)?, expected.trim_start());
    if got == expected {
        return Ok(());
    }
    wrong(format!("got {got}, expected {expected}"))
}

fn must_fail(run: &mut Run, status: &str, word: &str, call: &[&str]) -> Answer {
    match run.call(call) {
        Err(Fault::Refused(error)) if error.name() == status && error.message().contains(word) => {
            Ok(())
        }
        Ok(_) => wrong(format!("nothing failed, expected {status}")),
        Err(fault) => wrong(format!("{fault}, expected {status} with {word:?}")),
    }
}
