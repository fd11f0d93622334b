//! The example, whole: it learns, and goes on bit for bit where it was stopped.

#[path = "../examples/digits.rs"]
#[allow(dead_code)]
mod digits;

use std::{env, fs, process};

use digits::{Options, Run};

fn trained(options: Options) -> Run {
    let mut run = Run::new(Options { quiet: true, ..options }).unwrap();
    run.train().unwrap();
    run
}

fn bits(run: &Run) -> Vec<u32> {
    run.net.tensors.iter().flat_map(|tensor| tensor.data.iter().map(|x| x.to_bits())).collect()
}

#[test]
fn digits_are_learned() {
    let run = trained(Options::default());
    let accuracy = run.test_score().accuracy();
    assert!(accuracy >= 0.96, "{accuracy}");
}

#[test]
fn a_stopped_run_goes_on_bit_for_bit() {
    let folder = env::temp_dir().join(format!("talus-digits-{}", process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| Some(folder.join(name).to_str().unwrap().to_string());
    let all = Options { epochs: 6, ..Options::default() };
    let straight = trained(Options { save: path("a.safetensors"), ..all.clone() });
    trained(Options { stop_after: 2, save: path("b.safetensors"), ..all.clone() });
    let (resume, save) = (path("b.safetensors"), path("c.safetensors"));
    let resumed = trained(Options { resume, save, ..all });
    assert_eq!(resumed.epoch, 6);
    assert!(bits(&straight) == bits(&resumed));
    let [a, c] =
        ["a.safetensors", "c.safetensors"].map(|name| fs::read(folder.join(name)).unwrap());
    assert!(a == c);
    fs::remove_dir_all(folder).unwrap();
}
