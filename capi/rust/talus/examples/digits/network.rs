//! A multilayer perceptron for images of digits, with its gradients, and the images; no talus here.
//! The same numbers as capi/examples/perceptron.h.

use std::error::Error;
use std::fs;

pub const PIXELS: usize = 64;
pub const HIDDEN: usize = 128;
pub const CLASSES: usize = 10;
const WIDTHS: [usize; LAYERS + 1] = [PIXELS, HIDDEN, CLASSES];
pub const LAYERS: usize = 2;
const SPLIT_SEED: u64 = 1797;

#[derive(Clone)]
pub struct Image {
    pixels: [f32; PIXELS], // 0 .. 1
    digit: usize,
    /// Place in the file.
    pub number: usize,
}

/// SplitMix64 (Steele, Lea & Flood 2014).
#[derive(Clone, Copy)]
pub struct Random(pub u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in -1 .. 1.
    fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / 8_388_608.0 - 1.0
    }

    pub fn shuffle(&mut self, images: &mut [Image]) {
        for i in (1..images.len()).rev() {
            let j = ((self.bits() >> 32) * (i as u64 + 1)) >> 32;
            images.swap(i, j as usize);
        }
    }
}

/// Training, validation and test: a third each, of an order that no seed of a run changes.
pub fn load_images(path: &str) -> Result<[Vec<Image>; 3], Box<dyn Error>> {
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let mut images = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let refuse = || format!("{path}:{}: expected 64 pixels of 0 to 16 and a digit", number + 1);
        images.push(parse_image(line, number).ok_or_else(refuse)?);
    }
    Random(SPLIT_SEED).shuffle(&mut images);
    let third = images.len() / 3;
    Ok([0, 1, 2].map(|i| images[i * third..(i + 1) * third].to_vec()))
}

fn parse_image(line: &str, number: usize) -> Option<Image> {
    let values: Vec<usize> =
        line.split(',').map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let (&digit, pixels) = values.split_last()?;
    let is_image = pixels.len() == PIXELS && pixels.iter().all(|&p| p <= 16) && digit < CLASSES;
    let mut image = Image { pixels: [0.0; PIXELS], digit, number };
    for (to, &from) in image.pixels.iter_mut().zip(pixels) {
        *to = from as f32 / 16.0;
    }
    is_image.then_some(image)
}

/// Weights (inputs x outputs) or biases of one layer, and their gradient.
pub struct Tensor {
    pub name: &'static str,
    pub shape: Vec<i64>,
    pub data: Vec<f32>,
    pub gradient: Vec<f32>,
}

/// Tensors by layer: weights, biases, weights, biases.
pub struct Network {
    pub tensors: Vec<Tensor>,
}

pub struct Score {
    pub right: usize,
    pub count: usize,
}

impl Score {
    pub fn accuracy(&self) -> f64 {
        self.right as f64 / self.count as f64
    }
}

impl Network {
    /// Weights uniform within sqrt(6 / inputs) (He et al. 2015), biases 0.
    pub fn new(random: &mut Random) -> Self {
        let names = [["hidden.weight", "hidden.bias"], ["output.weight", "output.bias"]];
        let mut tensors = Vec::new();
        for (layer, [weight, bias]) in names.into_iter().enumerate() {
            let (inputs, outputs) = (WIDTHS[layer], WIDTHS[layer + 1]);
            let bound = (6.0 / inputs as f32).sqrt();
            let data = (0..inputs * outputs).map(|_| random.unit() * bound).collect();
            tensors.push(Tensor::new(weight, &[inputs, outputs], data));
            tensors.push(Tensor::new(bias, &[outputs], vec![0.0; outputs]));
        }
        Self { tensors }
    }

    /// Outputs of all layers; layer 0 is the image itself.
    fn forward(&self, image: &Image) -> [Vec<f32>; LAYERS + 1] {
        let mut of = [image.pixels.to_vec(), Vec::new(), Vec::new()];
        for layer in 0..LAYERS {
            let (weight, bias) = (&self.tensors[2 * layer].data, &self.tensors[2 * layer + 1].data);
            let mut out = bias.clone();
            for (input, row) in of[layer].iter().zip(weight.chunks_exact(out.len())) {
                out.iter_mut().zip(row).for_each(|(o, w)| *o += input * w);
            }
            if layer + 1 < LAYERS {
                out.iter_mut().for_each(|o| *o = if *o < 0.0 { 0.0 } else { *o });
            }
            of[layer + 1] = out;
        }
        of
    }

    /// Adds one image's gradients; delta is the loss's derivative by the logits.
    fn backward(&mut self, of: &[Vec<f32>; LAYERS + 1], mut delta: Vec<f32>) {
        for layer in (0..LAYERS).rev() {
            let (weight, bias) = self.tensors[2 * layer..].split_at_mut(1);
            let outputs = delta.len();
            bias[0].gradient.iter_mut().zip(&delta).for_each(|(g, d)| *g += d);
            let rows = weight[0].data.chunks_exact(outputs);
            let gradients = weight[0].gradient.chunks_exact_mut(outputs);
            let below =
                of[layer].iter().zip(rows.zip(gradients)).map(|(input, (row, gradient))| {
                    gradient.iter_mut().zip(&delta).for_each(|(g, d)| *g += input * d);
                    let sum = row.iter().zip(&delta).fold(0.0, |sum, (w, d)| sum + w * d);
                    if *input > 0.0 {
                        sum
                    } else {
                        0.0
                    }
                });
            delta = below.collect();
        }
    }

    /// Computes the gradients of the mean loss of a batch, seen through noise.
    pub fn compute_gradients(&mut self, batch: &[Image], noise: f32, random: &mut Random) {
        self.tensors.iter_mut().for_each(|tensor| tensor.gradient.fill(0.0));
        for image in batch {
            let mut noisy = image.clone();
            for pixel in &mut noisy.pixels {
                (0..3).for_each(|_| *pixel += noise * random.unit());
            }
            let of = self.forward(&noisy);
            let mut delta = cross_entropy_delta(&of[LAYERS], image.digit);
            delta.iter_mut().for_each(|d| *d /= batch.len() as f32);
            self.backward(&of, delta);
        }
    }

    pub fn score(&self, images: &[Image]) -> Score {
        let is_right = |image: &&Image| {
            let logits = &self.forward(image)[LAYERS];
            let best =
                (0..CLASSES).fold(0, |best, c| if logits[c] > logits[best] { c } else { best });
            best == image.digit
        };
        Score { right: images.iter().filter(is_right).count(), count: images.len() }
    }
}

impl Tensor {
    fn new(name: &'static str, shape: &[usize], data: Vec<f32>) -> Self {
        let gradient = vec![0.0; data.len()];
        Self { name, shape: shape.iter().map(|&extent| extent as i64).collect(), data, gradient }
    }
}

/// The derivative of -log softmax(logits)[digit].
fn cross_entropy_delta(logits: &[f32], digit: usize) -> Vec<f32> {
    let largest = logits.iter().copied().fold(logits[0], f32::max);
    let powers: Vec<f32> = logits.iter().map(|logit| (logit - largest).exp()).collect();
    let sum: f32 = powers.iter().fold(0.0, |sum, power| sum + power);
    let hit = |c| if c == digit { 1.0 } else { 0.0 };
    powers.iter().enumerate().map(|(c, power)| power / sum - hit(c)).collect()
}
