//! Types of elements and indices, devices, streams.

use std::ffi::c_void;
use std::{ptr, slice};

use crate::{sys, Error, Result};

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum DType {
    F16,
    Bf16,
    F32,
    F64,
}

impl DType {
    /// Returns the number of `talus.h`.
    pub fn code(self) -> i32 {
        match self {
            Self::F16 => sys::TALUS_F16,
            Self::Bf16 => sys::TALUS_BF16,
            Self::F32 => sys::TALUS_F32,
            Self::F64 => sys::TALUS_F64,
        }
    }

    /// Returns the size of an element.
    pub fn bytes(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    pub(crate) fn of_code(code: i32) -> Result<Self> {
        let all = [Self::F16, Self::Bf16, Self::F32, Self::F64];
        let unknown = || Error::new(sys::TALUS_E_UNSUPPORTED, format!("unknown dtype {code:#x}"));
        all.into_iter().find(|dtype| dtype.code() == code).ok_or_else(unknown)
    }
}

/// The bits of an IEEE half; the layout of `half::f16`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct F16(pub u16);

/// The upper half of an `f32`; the layout of `half::bf16`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Bf16(pub u16);

macro_rules! bits {
    ($Half:ident) => {
        impl $Half {
            /// Views bits as elements, in place.
            pub fn slice(bits: &[u16]) -> &[Self] {
                // SAFETY: the layout of u16.
                unsafe { slice::from_raw_parts(bits.as_ptr().cast(), bits.len()) }
            }

            /// Views bits as elements, in place.
            pub fn slice_mut(bits: &mut [u16]) -> &mut [Self] {
                // SAFETY: the layout of u16.
                unsafe { slice::from_raw_parts_mut(bits.as_mut_ptr().cast(), bits.len()) }
            }
        }
    };
}
bits!(F16);
bits!(Bf16);

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for crate::F16 {}
    impl Sealed for crate::Bf16 {}
    impl Sealed for i32 {}
    impl Sealed for i64 {}
}

/// What tensors are made of: [`f32`], [`f64`], [`F16`], [`Bf16`].
pub trait Element: sealed::Sealed + Copy + Send + Sync + 'static {
    /// As the library calls it.
    const DTYPE: DType;
}
impl Element for f32 {
    const DTYPE: DType = DType::F32;
}
impl Element for f64 {
    const DTYPE: DType = DType::F64;
}
impl Element for F16 {
    const DTYPE: DType = DType::F16;
}
impl Element for Bf16 {
    const DTYPE: DType = DType::Bf16;
}

/// What counts rows: [`i32`] or [`i64`].
pub trait RowIndex: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The number of `talus.h`.
    const CODE: i32;
}
impl RowIndex for i32 {
    const CODE: i32 = sys::TALUS_I32;
}
impl RowIndex for i64 {
    const CODE: i32 = sys::TALUS_I64;
}

/// Whose memory tensors are in, and who steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Device {
    /// The host.
    Cpu,
    /// The device of this ordinal. Its tensors are [`Tensor::from_raw`](crate::Tensor::from_raw).
    Cuda(i32),
}

impl Device {
    /// Type and number, as `talus_create` takes them.
    pub(crate) fn codes(self) -> (i32, i32) {
        match self {
            Self::Cpu => (sys::TALUS_CPU, 0),
            Self::Cuda(id) => (sys::TALUS_CUDA, id),
        }
    }
}

/// A `cudaStream_t` to put work on; never kept by the library or by this crate.
#[derive(Clone, Copy, Debug)]
pub struct Stream(*mut c_void);

impl Stream {
    /// The legacy default stream, and the only one on the CPU.
    pub const DEFAULT: Self = Self(ptr::null_mut());

    /// Takes a stream of the engine's.
    ///
    /// # Safety
    /// A stream of the optimizer's device, alive at each call that gets it.
    pub unsafe fn from_raw(stream: *mut c_void) -> Self {
        Self(stream)
    }

    pub(crate) fn as_ptr(self) -> *mut c_void {
        self.0
    }
}
