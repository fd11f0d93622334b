//! Trains a digit classifier with talus: a whole training program, which can stop and go on.
//!
//!     cargo run --release --example digits -- --epochs 80
//!
//! The network (digits/network.rs) is the program's own affair; talus sees slices, shapes and names,
//! and only for the time of a call. The split, the initialisation and the figures are those of
//! capi/examples/train_digits.c.

#[path = "digits/network.rs"]
mod network;

use std::error::Error;

use network::{load_images, Image, Network, Random, Score};
use talus::{Clock, Group, LoadOptions, Optimizer, SaveOptions, Schedule, Tensor};

const NOISE: f32 = 0.3; // standard deviation, added to pixels in training
const BATCH: usize = 32;
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/digits.csv");
const USAGE: &str = "\
Trains a small network on 8 x 8 digits and prints its accuracy on images it never saw.

  --epochs N       passes over the training images (80)
  --stop-after N   ends when so many are done
  --save FILE      a checkpoint at the end, NAME.safetensors
  --resume FILE    goes on where one was made, with the same --epochs
  --data FILE      lines of 64 pixels of 0 to 16 and the digit
  --quiet          no progress bar, which a terminal gets
";

#[derive(Clone)]
pub struct Options {
    pub epochs: usize,
    pub stop_after: usize,
    pub save: Option<String>,
    pub resume: Option<String>,
    pub data: String,
    pub quiet: bool,
}

impl Default for Options {
    fn default() -> Self {
        let data = DATA.to_string();
        Self { epochs: 80, stop_after: usize::MAX, save: None, resume: None, data, quiet: false }
    }
}

pub struct Run {
    options: Options,
    pub net: Network,
    opt: Optimizer<'static>,
    training: Vec<Image>,
    validation: Vec<Image>,
    test: Vec<Image>,
    random: Random,
    pub epoch: usize,
}

type Done<T = ()> = Result<T, Box<dyn Error>>;

/// Weights are group 0; biases have a group of their own, since they do not decay.
fn create_optimizer(net: &mut Network, epochs: usize) -> talus::Result<Optimizer<'static>> {
    let mut opt = Optimizer::builder("adamw").set("lr", 0.01).build()?;
    let biases = opt.add_group(None, &[("weight_decay", 0.0)])?;
    for tensor in &mut net.tensors {
        let group = if tensor.shape.len() == 1 { biases } else { Group(0) };
        opt.add_scoped(group, lend(tensor))?;
    }
    // In a straight line to lr / epochs; the time is the epoch.
    let values = [("start_factor", 1.0), ("end_factor", 0.0), ("total_iters", epochs as f64)];
    opt.attach(Group::ALL, "lr", Schedule::new("linear", &values)?, Clock::Manual)?;
    Ok(opt)
}

fn lend(tensor: &mut network::Tensor) -> Tensor<'_> {
    Tensor::new(&mut tensor.data).grad(&tensor.gradient).name(tensor.name).shape(&tensor.shape)
}

impl Run {
    pub fn new(options: Options) -> Done<Self> {
        let [training, validation, test] = load_images(&options.data)?;
        let mut random = Random(1);
        let mut net = Network::new(&mut random);
        let opt = create_optimizer(&mut net, options.epochs)?;
        let mut run = Self { options, net, opt, training, validation, test, random, epoch: 0 };
        if let Some(path) = run.options.resume.clone() {
            run.resume(&path)?;
        }
        Ok(run)
    }

    pub fn train(&mut self) -> Done {
        let end = self.options.epochs.min(self.options.stop_after);
        let progress = !self.options.quiet && is_terminal();
        while self.epoch < end {
            self.opt.set_clock(self.epoch as i64)?;
            self.random.shuffle(&mut self.training);
            self.train_epoch()?;
            self.epoch += 1;
            if progress {
                show_progress(self.epoch, self.options.epochs, &self.net.score(&self.validation));
            }
        }
        match self.options.save.clone() {
            Some(path) => self.save(&path),
            None => Ok(()),
        }
    }

    /// Takes a step for each batch.
    fn train_epoch(&mut self) -> Done {
        for batch in self.training.chunks(BATCH) {
            self.net.compute_gradients(batch, NOISE, &mut self.random);
            let tensors = self.net.tensors.iter_mut();
            let mut lent: Vec<_> = tensors.map(|t| (&mut t.data[..], &t.gradient[..])).collect();
            self.opt.step_with(&mut lent)?;
        }
        Ok(())
    }

    /// talus keeps optimizer and parameters, and as notes what the program must know besides.
    fn save(&mut self, path: &str) -> Done {
        let order: Vec<_> = self.training.iter().map(|image| image.number.to_string()).collect();
        self.opt.set_note("digits.epoch", Some(&self.epoch.to_string()))?;
        self.opt.set_note("digits.random", Some(&self.random.0.to_string()))?;
        self.opt.set_note("digits.order", Some(&order.join(" ")))?;
        let tensors = self.net.tensors.iter_mut().map(lend);
        Ok(self.opt.with(tensors, |opt| opt.save(path, SaveOptions::new().params()))??)
    }

    fn resume(&mut self, path: &str) -> Done {
        let tensors = self.net.tensors.iter_mut().map(lend);
        self.opt.with(tensors, |opt| opt.load(path, LoadOptions::new().params()))??;
        let note = |key: &str| -> Done<String> {
            let none = || format!("{path}: is no checkpoint of this program");
            Ok(self.opt.note(key)?.ok_or_else(none)?)
        };
        self.epoch = note("digits.epoch")?.parse()?;
        self.random = Random(note("digits.random")?.parse()?);
        for (i, number) in note("digits.order")?.split(' ').enumerate() {
            let number: usize = number.parse()?;
            let found = (i..self.training.len()).find(|&j| self.training[j].number == number);
            self.training.swap(i, found.ok_or("an order of other images")?);
        }
        Ok(())
    }

    /// Of images that no training has seen.
    pub fn test_score(&self) -> Score {
        self.net.score(&self.test)
    }

    /// A run that was stopped does not look at the test images.
    fn report(&self) -> Done {
        let steps = self.opt.stats(true)?.steps;
        let validation = self.net.score(&self.validation);
        println!("{steps} steps, validation accuracy {:.4}", validation.accuracy());
        if self.epoch < self.options.epochs {
            println!("stopped after epoch {} of {}", self.epoch, self.options.epochs);
            return Ok(());
        }
        let score = self.test_score();
        println!("test accuracy {:.4} ({} of {})", score.accuracy(), score.right, score.count);
        Ok(())
    }
}

fn show_progress(epoch: usize, epochs: usize, validation: &Score) {
    let bar: String = (0..30).map(|i| if i < epoch * 30 / epochs { '#' } else { '.' }).collect();
    let (accuracy, end) = (validation.accuracy(), if epoch == epochs { "\n" } else { "" });
    eprint!("\r[{bar}] epoch {epoch} of {epochs}, validation accuracy {accuracy:.4}{end}");
}

/// Of standard error.
fn is_terminal() -> bool {
    extern "C" {
        fn isatty(file: i32) -> i32;
    }
    // SAFETY: any number is allowed.
    unsafe { isatty(2) != 0 }
}

fn parse_options(arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options::default();
    let mut arguments = arguments;
    while let Some(option) = arguments.next() {
        if option == "--quiet" {
            options.quiet = true;
            continue;
        }
        let value =
            arguments.next().ok_or(format!("unknown option, or nothing after it: {option}"))?;
        let number = || value.parse().map_err(|_| format!("{option} takes a number, got {value}"));
        match option.as_str() {
            "--epochs" => options.epochs = number()?,
            "--stop-after" => options.stop_after = number()?,
            "--save" => options.save = Some(value),
            "--resume" => options.resume = Some(value),
            "--data" => options.data = value,
            _ => return Err(format!("unknown option {option}")),
        }
    }
    Ok(options)
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help") {
        print!("{USAGE}");
        return;
    }
    let options = parse_options(arguments.into_iter()).unwrap_or_else(|text| {
        eprintln!("digits: {text}; see --help");
        std::process::exit(2)
    });
    let done = Run::new(options).and_then(|mut run| run.train().and_then(|()| run.report()));
    if let Err(error) = done {
        eprintln!("digits: {error}");
        std::process::exit(1);
    }
}
