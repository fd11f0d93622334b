"""Where the elements of a foreign array are: address, dtype and shape, with no copy.

Taken are objects with the buffer protocol (array.array, bytearray, numpy), tensors of PyTorch, what
speaks DLPack, and Raw for memory that has no object. Nothing of a framework is imported here.
"""
from __future__ import annotations

import ctypes as C
import dataclasses
import sys
from typing import Any, Callable, NamedTuple, Optional, Sequence, Union

from . import _c, dlpack

DTYPES = {"f16": _c.F16, "bf16": _c.BF16, "f32": _c.F32, "f64": _c.F64, "i32": _c.I32,
          "i64": _c.I64}
NAMES = {code: name for name, code in DTYPES.items()}
ITEM_BYTES = {code: (code >> 8) // 8 for code in NAMES}  # a code is kind | bits << 8

_FORMATS = {"f": _c.F32, "d": _c.F64, "e": _c.F16}  # of the buffer protocol
_TORCH = {"torch.float16": _c.F16, "torch.bfloat16": _c.BF16, "torch.float32": _c.F32,
          "torch.float64": _c.F64, "torch.int32": _c.I32, "torch.int64": _c.I64}
_LITTLE = sys.byteorder == "little"

Dtype = Union[str, int, None]


class Raw(NamedTuple):
    """Memory that the caller vouches for and keeps: of an engine, or of a device."""

    address: int
    dtype: str  # "f32" and so on
    shape: Sequence[int]
    device: tuple[int, int] = (_c.CPU, 0)


@dataclasses.dataclass(frozen=True)
class Memory:
    """A borrowed array: as long as `root` lives, so does the memory."""

    address: Optional[int]  # None: no elements
    dtype: int
    shape: tuple[int, ...]
    device: tuple[int, int]
    root: Any
    read_only: bool = False
    owner: Any = None  # of memory that can be given to it anew
    find: Optional[Callable[[Any], Any]] = None  # where that has its elements
    layout: Any = None  # what find said

    @property
    def count(self) -> int:
        return count_of(self.shape)

    def is_moved(self) -> bool:
        """Whether the array has its elements elsewhere by now, or in another shape."""
        return self.find is not None and self.find(self.owner) != self.layout


def count_of(shape: Sequence[int]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


def dtype_code(dtype: Dtype) -> int:
    """Takes "bf16", a TALUS_ code, or None, which is 0: the default."""
    if dtype is None:
        return 0
    if isinstance(dtype, int) and dtype in NAMES:
        return dtype
    if dtype not in DTYPES:
        raise TypeError(f"dtype {dtype!r}, known are {', '.join(DTYPES)}")
    return DTYPES[dtype]


def require_count(what: str, memory: Memory, shape: Sequence[int]) -> None:
    if memory.count != count_of(shape):
        raise ValueError(f"{what}: {memory.count} elements of shape {memory.shape}, expected shape "
                         f"{tuple(shape)}")


def require_shape(what: str, memory: Memory, shape: Sequence[int], other: Sequence[int]) -> None:
    """A flat array may stand for one of any shape, and the other way about; else it has this shape
    or the other."""
    require_count(what, memory, shape)
    if min(len(memory.shape), len(shape)) > 1 and memory.shape not in (tuple(shape), tuple(other)):
        raise ValueError(f"{what}: shape {memory.shape}, expected {tuple(shape)} or one dimension")


def locate(array: Any, what: str, dtype: Dtype = None, writable: bool = True,
           bits16: int = 0) -> Memory:
    """Finds the memory of an array; TypeError says what about it does not serve.

    dtype: what it must be of, nothing is converted. Integers of 16 bits are taken as dtype, or else
    as bits16.
    """
    if isinstance(array, Raw):
        if not 0 <= array.address < 1 << 64:
            raise OverflowError(f"{what}: address is {array.address}, expected one of 64 bits")
        return Memory(array.address or None, dtype_code(array.dtype), tuple(array.shape),
                      array.device, None)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        found = _of_tensor(array, what)
    else:
        try:
            view = memoryview(array)
        except (TypeError, ValueError, BufferError):  # numpy: of a dtype that the protocol lacks
            found = _of_dlpack(array, what, writable)
        else:
            found = _of_buffer(array, view, what, dtype_code(dtype) or bits16, writable)
    expected = dtype_code(dtype)
    if expected and found.dtype != expected:
        raise TypeError(f"{what}: dtype is {NAMES[found.dtype]}, expected {NAMES[expected]}")
    return found


def _of_tensor(tensor: Any, what: str) -> Memory:
    code = _TORCH.get(str(tensor.dtype))
    if code is None or str(tensor.layout) != "torch.strided":
        raise TypeError(f"{what}: a tensor of {tensor.dtype}, {tensor.layout}, expected a strided "
                        f"one of {', '.join(_TORCH)}")
    if not tensor.is_contiguous():
        raise TypeError(f"{what}: a tensor with strides {tensor.stride()} of shape "
                        f"{tuple(tensor.shape)}, expected a contiguous one")
    if tensor.device.type not in ("cpu", "cuda"):
        raise TypeError(f"{what}: a tensor on {tensor.device}, expected cpu or cuda")
    if tensor.is_neg() or tensor.is_conj():
        raise TypeError(f"{what}: a tensor that is negated or conjugated as it is read, expected "
                        "one after resolve_neg and resolve_conj")
    kind = _c.CPU if tensor.device.type == "cpu" else _c.CUDA
    address = tensor.data_ptr() if tensor.numel() else None
    return Memory(address, code, tuple(tensor.shape), (kind, tensor.device.index or 0),
                  tensor.untyped_storage(), owner=tensor, find=tensor_layout,
                  layout=tensor_layout(tensor))


def tensor_layout(tensor: Any) -> tuple[Any, ...]:
    """What changes when .data is set, or a tensor is resized."""
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.is_neg()


def _numpy_layout(values: Any) -> tuple[Any, ...]:
    """What changes in resize(refcheck=False)."""
    return values.__array_interface__["data"][0], values.shape, values.strides


def _of_dlpack(array: Any, what: str, writable: bool) -> Memory:
    if not hasattr(array, "__dlpack__"):
        raise TypeError(f"{what}: {type(array).__name__} has neither the buffer protocol nor "
                        "DLPack")
    tensor = dlpack.Tensor(array, what, writable)
    if tensor.dtype not in NAMES:
        raise TypeError(f"{what}: DLPack dtype {tensor.dtype:#x}, expected floats")
    address = tensor.address if count_of(tensor.shape) else None
    return Memory(address, tensor.dtype, tensor.shape, tensor.device, tensor, tensor.read_only)


def _of_buffer(array: Any, view: memoryview, what: str, bits16: int, writable: bool) -> Memory:
    code = _buffer_dtype(view, what, bits16)
    if not view.c_contiguous:
        raise TypeError(f"{what}: strides {view.strides} of shape {view.shape}, expected row-major "
                        "and without gaps")
    if view.readonly and writable:
        raise TypeError(f"{what}: the memory is read-only")
    found = Memory(_address(array, view, what), code, view.shape or (), (_c.CPU, 0), view,
                   view.readonly)
    if not hasattr(array, "__array_interface__"):
        return found
    return dataclasses.replace(found, owner=array, find=_numpy_layout, layout=_numpy_layout(array))


def _buffer_dtype(view: memoryview, what: str, bits16: int) -> int:
    letter = view.format.lstrip("@=<" if _LITTLE else "@=>!")
    code = _FORMATS.get(letter, 0)
    if letter in ("H", "h") and bits16 in (_c.F16, _c.BF16):
        code = bits16
    elif letter in ("i", "l", "q"):
        code = _c.I64 if view.itemsize == 8 else _c.I32
    if not code:
        raise TypeError(f"{what}: elements of format {view.format!r}, expected f (f32), d (f64), "
                        'e (f16), or H with dtype="bf16"')
    return code


def _address(array: Any, view: memoryview, what: str) -> Optional[int]:
    if view.nbytes == 0:
        return None
    if not view.readonly:
        return C.addressof(C.c_char.from_buffer(view.cast("B")))
    if hasattr(array, "__array_interface__"):  # numpy; from_buffer refuses read-only memory
        return array.__array_interface__["data"][0]
    raise TypeError(f"{what}: read-only memory of {type(array).__name__}, expected numpy's or what "
                    "can be written")
