//! Words of the script: numbers, arrays, and what goes wrong.

use std::ffi::c_void;

use talus::{Bf16, DType, Error, Master, F16};

/// Why a line does not agree.
#[derive(Debug)]
pub enum Fault {
    /// The library refused the call.
    Refused(Error),
    /// The script or an answer is wrong.
    Wrong(String),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(error) => write!(f, "got {error}"),
            Self::Wrong(text) => f.write_str(text),
        }
    }
}

pub type Answer<T = ()> = Result<T, Fault>;

pub fn wrong<T>(text: impl Into<String>) -> Answer<T> {
    Err(Fault::Wrong(text.into()))
}

pub fn int(word: &str) -> Answer<i64> {
    word.parse().or_else(|_| wrong(format!("{word:?} is no integer")))
}

fn hex(word: &str, digits: usize) -> Answer<u64> {
    match u64::from_str_radix(word, 16) {
        Ok(bits) if word.len() == digits => Ok(bits),
        _ => wrong(format!("{word:?} is not {digits} hex digits")),
    }
}

pub fn double(word: &str) -> Answer<f64> {
    Ok(f64::from_bits(hex(word, 16)?))
}

pub fn bits(value: f64) -> String {
    format!("{:016x}", value.to_bits())
}

pub fn all_bits(values: &[f64]) -> String {
    values.iter().map(|&value| bits(value)).collect::<Vec<_>>().join(" ")
}

/// None for "-".
pub fn dtype(word: &str) -> Answer<Option<DType>> {
    match word {
        "-" => Ok(None),
        "f16" => Ok(Some(DType::F16)),
        "bf16" => Ok(Some(DType::Bf16)),
        "f32" => Ok(Some(DType::F32)),
        "f64" => Ok(Some(DType::F64)),
        _ => wrong(format!("unknown dtype {word}")),
    }
}

pub fn master(word: &str) -> Answer<Master> {
    match word {
        "-" => Ok(Master::Auto),
        "none" => Ok(Master::None),
        "f32" => Ok(Master::F32),
        _ => wrong(format!("unknown master {word}")),
    }
}

/// "2x3", or "-" for one extent.
pub fn shape(word: &str, count: usize) -> Answer<Vec<i64>> {
    match word {
        "-" => Ok(vec![count as i64]),
        _ => word.split('x').map(int).collect(),
    }
}

/// Memory that optimizers point to: its place stays as long as it lives.
#[derive(Debug, PartialEq)]
pub enum Array {
    F16(Vec<F16>),
    Bf16(Vec<Bf16>),
    F32(Vec<u32>),
    F64(Vec<u64>),
}

impl Array {
    pub fn new(dtype_word: &str, words: &[&str]) -> Answer<Self> {
        let count = words.len();
        let mut made = match dtype(dtype_word)? {
            Some(DType::F16) => Self::F16(vec![F16(0); count]),
            Some(DType::Bf16) => Self::Bf16(vec![Bf16(0); count]),
            Some(DType::F32) => Self::F32(vec![0; count]),
            Some(DType::F64) => Self::F64(vec![0; count]),
            None => return wrong("an array needs a dtype"),
        };
        made.fill(words)?;
        Ok(made)
    }

    pub fn dtype(&self) -> DType {
        match self {
            Self::F16(_) => DType::F16,
            Self::Bf16(_) => DType::Bf16,
            Self::F32(_) => DType::F32,
            Self::F64(_) => DType::F64,
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Self::F16(data) => data.len(),
            Self::Bf16(data) => data.len(),
            Self::F32(data) => data.len(),
            Self::F64(data) => data.len(),
        }
    }

    pub fn pointer(&mut self) -> *mut c_void {
        match self {
            Self::F16(data) => data.as_mut_ptr().cast(),
            Self::Bf16(data) => data.as_mut_ptr().cast(),
            Self::F32(data) => data.as_mut_ptr().cast(),
            Self::F64(data) => data.as_mut_ptr().cast(),
        }
    }

    /// Overwrites all of it, in place.
    pub fn fill(&mut self, words: &[&str]) -> Answer {
        if words.len() != self.len() {
            return wrong(format!("got {} elements, expected {}", words.len(), self.len()));
        }
        let digits = 2 * self.dtype().bytes();
        for (i, word) in words.iter().enumerate() {
            let bits = hex(word, digits)?;
            match self {
                Self::F16(data) => data[i] = F16(bits as u16),
                Self::Bf16(data) => data[i] = Bf16(bits as u16),
                Self::F32(data) => data[i] = bits as u32,
                Self::F64(data) => data[i] = bits,
            }
        }
        Ok(())
    }

    pub fn bits(&self) -> String {
        let words: Vec<_> = match self {
            Self::F16(data) => data.iter().map(|x| format!("{:04x}", x.0)).collect(),
            Self::Bf16(data) => data.iter().map(|x| format!("{:04x}", x.0)).collect(),
            Self::F32(data) => data.iter().map(|x| format!("{x:08x}")).collect(),
            Self::F64(data) => data.iter().map(|x| format!("{x:016x}")).collect(),
        };
        words.join(" ")
    }
}
