"""A tensor of another library through DLPack: the structs of dlpack.h, versions 0 and 1."""
from __future__ import annotations

import ctypes as C
from typing import Any, Optional

_NAMES = (b"dltensor", b"dltensor_versioned")
_USED = (b"used_dltensor", b"used_dltensor_versioned")
_READ_ONLY = 1  # a flag of the versioned form
_LEGACY_DEFAULT_STREAM = 1  # of CUDA, as DLPack counts

# A capsule keeps the pointer to its name, so names are never freed: they are these objects.
_api = C.pythonapi
_api.PyCapsule_IsValid.restype, _api.PyCapsule_IsValid.argtypes = C.c_int, (C.py_object, C.c_char_p)
_api.PyCapsule_GetPointer.restype = C.c_void_p
_api.PyCapsule_GetPointer.argtypes = C.py_object, C.c_char_p
_api.PyCapsule_SetName.restype, _api.PyCapsule_SetName.argtypes = C.c_int, (C.py_object, C.c_char_p)


class DLTensor(C.Structure):
    _fields_ = [("data", C.c_void_p), ("device_type", C.c_int32), ("device_id", C.c_int32),
                ("ndim", C.c_int32), ("type_code", C.c_uint8), ("bits", C.c_uint8),
                ("lanes", C.c_uint16), ("shape", C.POINTER(C.c_int64)),
                ("strides", C.POINTER(C.c_int64)), ("byte_offset", C.c_uint64)]


class Managed(C.Structure):
    pass


class Versioned(C.Structure):
    pass


Managed._fields_ = [("tensor", DLTensor), ("context", C.c_void_p),
                    ("deleter", C.CFUNCTYPE(None, C.POINTER(Managed)))]
Versioned._fields_ = [("major", C.c_uint32), ("minor", C.c_uint32), ("context", C.c_void_p),
                      ("deleter", C.CFUNCTYPE(None, C.POINTER(Versioned))), ("flags", C.c_uint64),
                      ("tensor", DLTensor)]


class Tensor:
    """Owns what the producer lent, and gives it back at the end of its own life."""

    def __init__(self, producer: Any, what: str, writable: bool) -> None:
        self._managed: Any = None
        capsule = _ask(producer)
        versioned = bool(_api.PyCapsule_IsValid(capsule, _NAMES[1]))
        if not versioned and not _api.PyCapsule_IsValid(capsule, _NAMES[0]):
            raise TypeError(f"{what}: __dlpack__ gave no unused DLPack capsule")
        address = _api.PyCapsule_GetPointer(capsule, _NAMES[versioned])
        kind = Versioned if versioned else Managed
        managed = C.cast(address, C.POINTER(kind))
        if versioned and managed[0].major != 1:
            raise TypeError(f"{what}: DLPack {managed[0].major}, expected 1 or older")
        if versioned and writable and managed[0].flags & _READ_ONLY:
            raise TypeError(f"{what}: the memory is read-only")
        tensor = managed[0].tensor
        _require_rows(tensor, what)
        self.dtype = tensor.type_code | tensor.bits << 8
        self.shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
        self.device = tensor.device_type, tensor.device_id
        self.read_only = versioned and bool(managed[0].flags & _READ_ONLY)
        self.address: Optional[int] = (tensor.data or 0) + tensor.byte_offset or None
        # From here on it is ours: the capsule must not free it too.
        _api.PyCapsule_SetName(capsule, _USED[versioned])
        self._managed = managed

    def __del__(self) -> None:
        managed, self._managed = self._managed, None
        if managed is not None and managed[0].deleter:
            managed[0].deleter(managed)


def _ask(producer: Any) -> Any:
    device_type, _ = producer.__dlpack_device__()
    stream = None if device_type == 1 else _LEGACY_DEFAULT_STREAM
    try:
        return producer.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:  # a producer of version 0
        return producer.__dlpack__(stream=stream)


def _require_rows(tensor: DLTensor, what: str) -> None:
    """Row-major and without gaps; extents of 1 may have any stride."""
    if tensor.lanes != 1:
        raise TypeError(f"{what}: {tensor.lanes} lanes an element, expected 1")
    if not tensor.strides:
        return
    shape = [tensor.shape[i] for i in range(tensor.ndim)]
    expected = 1
    for i in reversed(range(tensor.ndim)):
        if shape[i] != 1 and tensor.strides[i] != expected and 0 not in shape:
            raise TypeError(f"{what}: strides {[tensor.strides[k] for k in range(tensor.ndim)]} of "
                            f"shape {shape}, expected row-major and without gaps")
        expected *= shape[i]
