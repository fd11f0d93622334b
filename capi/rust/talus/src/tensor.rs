//! What an optimizer is told of one tensor.

use std::ffi::{c_void, CString};
use std::marker::PhantomData;
use std::{mem, ptr};

use crate::names::c_text;
use crate::{sys, DType, Element, Error, Result, RowIndex};

/// What is optimised behind a 16-bit parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Master {
    /// An `f32` master for `F16` and `Bf16` parameters, none for others.
    #[default]
    Auto,
    /// The parameter itself: updates below half its ulp are lost.
    None,
    /// An `f32` master; the parameter receives its rounded copy.
    F32,
}

impl Master {
    fn code(self) -> i32 {
        match self {
            Self::Auto => sys::TALUS_MASTER_AUTO,
            Self::None => sys::TALUS_MASTER_NONE,
            Self::F32 => sys::TALUS_MASTER_F32,
        }
    }
}

/// Memory of elements, as the library knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub data: *mut c_void,
    pub dtype: DType,
    pub count: usize,
    pub access: Access,
}

/// What safe code may do with it between calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The caller's affair: a raw pointer.
    Raw,
    /// From `&[T]`.
    Read,
    /// From `&mut [T]`.
    Write,
}

impl Memory {
    fn of<T: Element>(data: *mut T, count: usize, access: Access) -> Self {
        Self { data: data.cast(), dtype: T::DTYPE, count, access }
    }
}

/// A gradient of some rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub indices: *const c_void,
    pub index_code: i32,
    pub count: usize,
    pub values: Memory,
}

impl Rows {
    pub fn new<I: RowIndex, G: Element>(indices: &[I], values: &[G]) -> Self {
        let memory = Memory::of(values.as_ptr() as *mut G, values.len(), Access::Read);
        let count = indices.len();
        Self { indices: indices.as_ptr().cast(), index_code: I::CODE, count, values: memory }
    }
}

/// A parameter's memory, borrowed for `'a`, and how it is to be optimised.
///
/// ```
/// # use talus::{Bf16, Master, Tensor};
/// let (mut data, gradient) = (vec![Bf16(0); 12], vec![0.0f32; 12]);
/// let tensor = Tensor::new(&mut data).grad(&gradient).name("h.0.weight").shape(&[3, 4]);
/// # drop(tensor.master(Master::F32));
/// ```
#[derive(Debug)]
pub struct Tensor<'a> {
    pub(crate) data: Memory,
    pub(crate) grad: Option<Memory>,
    pub(crate) rows: Option<Rows>,
    grad_dtype: Option<DType>,
    state_dtype: Option<DType>,
    master: Master,
    name: Option<String>,
    shape: Vec<i64>,
    _borrowed: PhantomData<&'a mut [u8]>,
}

impl<'a> Tensor<'a> {
    /// A tensor of one dimension.
    pub fn new<T: Element>(data: &'a mut [T]) -> Self {
        let shape = vec![data.len() as i64];
        Self::of_memory(Memory::of(data.as_mut_ptr(), data.len(), Access::Write), shape)
    }

    /// Memory that no slice can name: of a device, or of an engine that goes on using it.
    ///
    /// # Safety
    /// `data` is memory of the optimizer's device for all elements of the shape, aligned, row-major,
    /// until the optimizer is dropped or gets other memory for it (on a device: and its stream has
    /// passed that). No one else uses it during a call of the optimizer.
    pub unsafe fn from_raw(data: *mut c_void, dtype: DType, shape: &[i64]) -> Self {
        let count = element_count(shape).unwrap_or(0);
        Self::of_memory(Memory { data, dtype, count, access: Access::Raw }, shape.to_vec())
    }

    fn of_memory(data: Memory, shape: Vec<i64>) -> Self {
        Self {
            data,
            grad: None,
            rows: None,
            grad_dtype: None,
            state_dtype: None,
            master: Master::Auto,
            name: None,
            shape,
            _borrowed: PhantomData,
        }
    }

    /// With a gradient that a step reads.
    pub fn grad<G: Element>(self, grad: &'a [G]) -> Self {
        self.with_grad(Memory::of(grad.as_ptr() as *mut G, grad.len(), Access::Read))
    }

    /// With a gradient that the optimizer lends back, and that `zero_grad` may fill.
    pub fn grad_mut<G: Element>(self, grad: &'a mut [G]) -> Self {
        self.with_grad(Memory::of(grad.as_mut_ptr(), grad.len(), Access::Write))
    }

    /// With a gradient as [`from_raw`](Self::from_raw) has data.
    ///
    /// # Safety
    /// As there; it is read, and written by `zero_grad` alone.
    pub unsafe fn grad_raw(self, grad: *mut c_void, dtype: DType) -> Self {
        let count = self.data.count;
        self.with_grad(Memory { data: grad, dtype, count, access: Access::Raw })
    }

    fn with_grad(mut self, grad: Memory) -> Self {
        self.grad = Some(grad);
        self
    }

    /// With a gradient of some rows, for [`Optimizer::with`](crate::Optimizer::with) alone.
    pub fn rows<I: RowIndex, G: Element>(mut self, indices: &'a [I], values: &'a [G]) -> Self {
        self.rows = Some(Rows::new(indices, values));
        self
    }

    /// Unique in the optimizer; "param.<index>" without.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_string());
        self
    }

    /// Extents, row-major; none at all is a scalar.
    pub fn shape(mut self, shape: &[i64]) -> Self {
        self.shape = shape.to_vec();
        self
    }

    /// The type of gradients, where there is none yet; without, that of the data.
    pub fn grad_dtype(mut self, dtype: DType) -> Self {
        self.grad_dtype = Some(dtype);
        self
    }

    /// The type of its state; without, `f32`, or `f64` for an `f64` parameter.
    pub fn state_dtype(mut self, dtype: DType) -> Self {
        self.state_dtype = Some(dtype);
        self
    }

    /// What is optimised behind a 16-bit parameter.
    pub fn master(mut self, master: Master) -> Self {
        self.master = master;
        self
    }

    /// Whether any of its memory is a slice of the host.
    pub(crate) fn is_of_host(&self) -> bool {
        let is_slice = |memory: &Memory| memory.access != Access::Raw;
        is_slice(&self.data) || self.grad.as_ref().map_or(false, is_slice)
    }

    pub(crate) fn gradient_dtype(&self) -> DType {
        self.grad.map(|grad| grad.dtype).or(self.grad_dtype).unwrap_or(self.data.dtype)
    }

    /// Elements of a row: of all that one index of the first extent names.
    pub(crate) fn row_length(&self) -> usize {
        element_count(self.shape.get(1..).unwrap_or(&[])).unwrap_or(0)
    }

    /// Refuses what the library cannot see: slices of another length than the shape.
    pub(crate) fn check(&self) -> Result<()> {
        let at = self.name.as_deref().unwrap_or("without a name");
        let extents = |what: &str, got: usize| {
            let shape = &self.shape;
            let text = format!("tensor {at:?}: {what} of {got} elements, expected shape {shape:?}");
            Err(Error::argument(text))
        };
        // A shape that is none is the library's to refuse.
        let count = element_count(&self.shape).unwrap_or(self.data.count);
        match self.grad {
            _ if self.data.count != count => extents("data", self.data.count),
            Some(grad) if grad.count != count => extents("a gradient", grad.count),
            _ => Ok(()),
        }
    }

    pub(crate) fn describe(&self) -> Result<Description<'_>> {
        let name = self.name.as_deref().map(c_text).transpose()?;
        let raw = sys::talus_param {
            struct_size: mem::size_of::<sys::talus_param>() as u32,
            dtype: self.data.dtype.code(),
            data: self.data.data,
            grad: self.grad.map_or(ptr::null_mut(), |grad| grad.data),
            name: name.as_deref().map_or(ptr::null(), |name| name.as_ptr()),
            shape: self.shape.as_ptr(),
            ndim: self.shape.len() as i32,
            grad_dtype: self.gradient_dtype().code(),
            state_dtype: self.state_dtype.map_or(0, DType::code),
            master: self.master.code(),
            flags: 0,
        };
        Ok(Description { raw, _name: name, _tensor: PhantomData })
    }
}

/// A tensor in the words of the ABI, and the text that these point to.
pub(crate) struct Description<'a> {
    pub raw: sys::talus_param,
    _name: Option<CString>,
    _tensor: PhantomData<&'a Tensor<'a>>,
}

/// None for extents that count nothing: below 0, or more than there is.
fn element_count(shape: &[i64]) -> Option<usize> {
    shape.iter().try_fold(1usize, |count, &extent| count.checked_mul(usize::try_from(extent).ok()?))
}
