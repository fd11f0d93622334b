"""Declarations of talus.h for ctypes and the loading of the library; no comfort of Python's.

The comments of talus.h are the manual: what is here has its names, order and types.
"""
from __future__ import annotations

import ctypes as C
import os
import pathlib
from typing import Any

ABI_MAJOR = 0  # of talus_abi_version, which these declarations are of
LIBRARY = f"libtalus.so.{ABI_MAJOR}"

F16, BF16, F32, F64, I32, I64 = 0x1002, 0x1004, 0x2002, 0x4002, 0x2000, 0x4000
CPU, CUDA = 1, 2
REAL, INTEGER, FLAG = 0, 1, 2
HYPER_MIN_OPEN, HYPER_MAX_OPEN, HYPER_FIXED, HYPER_REQUIRED = 1, 2, 4, 8
ALL = -1
MASTER_AUTO, MASTER_NONE, MASTER_F32 = 0, 1, 2
ZERO_FILL, ZERO_UNBIND = 0, 1
CLOCK_APPLIED, CLOCK_CALLED, CLOCK_MANUAL = 0, 1, 2
SAVE_PARAMS, SAVE_NO_DIGEST = 1, 2
LOAD_ALLOW_MISSING, LOAD_ALLOW_EXTRA, LOAD_CONVERT = 16, 32, 64
LOAD_KEEP_HYPER, LOAD_PARAMS, LOAD_IN_PLACE, LOAD_CHECK_ONLY = 128, 256, 512, 1024
LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG = 0, 1, 2, 3
OK, E_ARGUMENT, E_NAME, E_STATE, E_UNSUPPORTED = 0, 1, 2, 4, 7

text, handle, i32, i64 = C.c_char_p, C.c_void_p, C.c_int32, C.c_int64
u32, u64, f64, pointer = C.c_uint32, C.c_uint64, C.c_double, C.c_void_p


class Sized(C.Structure):
    """A struct that begins with struct_size, which is set here."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(struct_size=C.sizeof(self), **fields)


class Hyper(Sized):
    _fields_ = [("struct_size", u32), ("kind", i32), ("name", text), ("doc", text), ("def_", f64),
                ("min", f64), ("max", f64), ("flags", u32), ("reserved", u32)]


class Param(Sized):
    _fields_ = [("struct_size", u32), ("dtype", i32), ("data", pointer), ("grad", pointer),
                ("name", text), ("shape", C.POINTER(i64)), ("ndim", i32), ("grad_dtype", i32),
                ("state_dtype", i32), ("master", i32), ("flags", u64)]


class Rows(Sized):
    _fields_ = [("struct_size", u32), ("index_dtype", i32), ("count", i64), ("indices", pointer),
                ("values", pointer), ("flags", u64)]


class State(Sized):
    _fields_ = [("struct_size", u32), ("dtype", i32), ("slot", text), ("data", pointer),
                ("param", i64), ("first", i64), ("count", i64), ("bytes", u64), ("alignment", u64)]


class Bytes(Sized):
    _fields_ = [("struct_size", u32), ("reserved", u32), ("param", f64), ("grad", f64),
                ("master", f64), ("state", f64), ("read", f64), ("written", f64)]


class Stats(Sized):
    _fields_ = [("struct_size", u32), ("found_inf", i32), ("steps", i64), ("skipped", i64),
                ("grad_norm", f64), ("clip_factor", f64), ("loss_scale", f64),
                ("state_bytes", u64), ("workspace_bytes", u64), ("nonfinite_param", i64)]


Closure = C.CFUNCTYPE(i32, pointer, C.POINTER(f64))
ScheduleFunction = C.CFUNCTYPE(f64, pointer, i64)
Destroy = C.CFUNCTYPE(None, pointer)
Progress = C.CFUNCTYPE(i32, pointer, u64, u64)
Write = C.CFUNCTYPE(i32, pointer, pointer, u64)
ReadAt = C.CFUNCTYPE(i32, pointer, u64, pointer, u64)
Task = C.CFUNCTYPE(None, pointer, i64)
ParallelFor = C.CFUNCTYPE(None, pointer, i64, Task, pointer)
Alloc = C.CFUNCTYPE(pointer, pointer, u64, u64, pointer)
Release = C.CFUNCTYPE(None, pointer, pointer, u64, pointer)
Log = C.CFUNCTYPE(None, pointer, i32, text)


class Io(Sized):
    _fields_ = [("struct_size", u32), ("reserved", u32), ("flags", u64), ("user", pointer),
                ("progress", Progress)]


class Writer(Sized):
    _fields_ = [("struct_size", u32), ("reserved", u32), ("user", pointer), ("write", Write)]


class Reader(Sized):
    _fields_ = [("struct_size", u32), ("reserved", u32), ("user", pointer), ("size", u64),
                ("read_at", ReadAt)]


class Allocator(Sized):
    _fields_ = [("struct_size", u32), ("reserved", u32), ("user", pointer), ("alloc", Alloc),
                ("release", Release), ("destroy", Destroy)]


def _at(kind: Any) -> Any:
    return C.POINTER(kind)


# What each returns and takes. The result "status" is an int32 that talus.errors.check reads.
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "version": (u32,),
    "abi_version": (u32,),
    "build_info": (text,),
    "name_count": (i32, text),
    "name_at": (text, text, i32),
    "name_doc": (text, text, text),
    "has_feature": (i32, text),
    "status_name": (text, i32),
    "last_error": (text,),
    "last_error_detail": (i64,),
    "hyper_count": (i32, text),
    "hyper_info": ("status", text, i32, _at(Hyper)),
    "create": ("status", text, i32, i32, _at(handle)),
    "destroy": (None, handle),
    "add_group": ("status", handle, text, _at(i32)),
    "group_count": (i32, handle),
    "group_algorithm": (text, handle, i32),
    "set": ("status", handle, i32, text, f64),
    "get": ("status", handle, i32, text, _at(f64)),
    "set_setting": ("status", handle, text, f64),
    "get_setting": ("status", handle, text, _at(f64)),
    "add_params": ("status", handle, i32, i64, _at(Param), _at(i64)),
    "param_count": (i64, handle),
    "param_info": ("status", handle, i64, _at(Param)),
    "param_group": (i32, handle, i64),
    "find_param": (i64, handle, text),
    "move_params": ("status", handle, i32, i64, _at(i64)),
    "remove_params": ("status", handle, i64, _at(i64)),
    "bind_data": ("status", handle, i64, pointer),
    "bind_grads": ("status", handle, i64, i64, _at(pointer)),
    "bind_rows": ("status", handle, i64, _at(Rows)),
    "zero_grad": ("status", handle, i32, pointer),
    "state_count": (i64, handle),
    "state_info": ("status", handle, i64, _at(State)),
    "bind_state": ("status", handle, i64, text, pointer, u64),
    "steps": ("status", handle, i64, _at(i64)),
    "set_steps": ("status", handle, i64, i64),
    "prepare": ("status", handle, pointer),
    "step": ("status", handle, pointer),
    "advance": ("status", handle, pointer),
    "step_closure": ("status", handle, Closure, pointer, _at(f64), pointer),
    "schedule_create": ("status", text, _at(handle)),
    "schedule_destroy": (None, handle),
    "schedule_kind": (text, handle),
    "schedule_set": ("status", handle, text, f64),
    "schedule_get": ("status", handle, text, _at(f64)),
    "schedule_set_list": ("status", handle, text, _at(i64), i64),
    "schedule_get_list": ("status", handle, text, _at(i64), i64, _at(i64)),
    "schedule_set_function": ("status", handle, ScheduleFunction, pointer, Destroy),
    "schedule_add": ("status", handle, handle),
    "schedule_piece_count": (i32, handle),
    "schedule_piece": ("status", handle, i32, _at(handle)),
    "schedule_value": ("status", handle, f64, i64, _at(f64)),
    "attach_schedule": ("status", handle, i32, text, handle, i32),
    "get_schedule": ("status", handle, i32, text, _at(handle), _at(i32)),
    "value_now": ("status", handle, i32, text, _at(f64)),
    "set_clock": ("status", handle, i64),
    "get_clock": ("status", handle, i32, _at(i64)),
    "observe": ("status", handle, f64),
    "scaler_create": ("status", i32, i32, _at(handle)),
    "scaler_destroy": (None, handle),
    "scaler_set": ("status", handle, text, f64),
    "scaler_get": ("status", handle, text, _at(f64)),
    "scaler_scale": ("status", handle, _at(f64)),
    "scaler_update": ("status", handle, pointer),
    "attach_scaler": ("status", handle, handle),
    "bind_scale": ("status", handle, pointer, pointer),
    "grad_norm": ("status", _at(handle), i32, i32, f64, _at(f64), pointer),
    "clip_grad_norm": ("status", _at(handle), i32, i32, f64, f64, _at(f64), pointer),
    "export_param": ("status", handle, text, i64, pointer, i32, pointer),
    "import_param": ("status", handle, text, i64, pointer, i32, pointer),
    "bytes_per_param": ("status", handle, i32, _at(Param), _at(Bytes)),
    "get_stats": ("status", handle, i32, _at(Stats)),
    "save": ("status", handle, text, _at(Io), pointer),
    "load": ("status", handle, text, _at(Io), pointer),
    "save_to": ("status", handle, _at(Writer), _at(Io), pointer),
    "load_from": ("status", handle, _at(Reader), _at(Io), pointer),
    "set_note": ("status", handle, text, text),
    "get_note": ("status", handle, text, text, u64, _at(u64)),
    "set_parallel_for": ("status", handle, ParallelFor, pointer),
    "set_allocator": ("status", handle, _at(Allocator)),
    "set_plugin_path": ("status", text),
    "set_log": (None, Log, i32, pointer),
}


# Integers among the arguments of a function, in order, for errors.
INTEGER_NAMES = {
    **dict.fromkeys(("talus_set", "talus_get", "talus_value_now", "talus_group_algorithm",
                     "talus_bytes_per_param"), ("group",)),
    **dict.fromkeys(("talus_param_info", "talus_param_group", "talus_bind_data", "talus_bind_rows",
                     "talus_bind_state", "talus_steps", "talus_export_param",
                     "talus_import_param"), ("index",)),
    **dict.fromkeys(("talus_attach_schedule", "talus_get_schedule"), ("group", "clock")),
    **dict.fromkeys(("talus_schedule_value", "talus_set_clock"), ("t",)),
    "talus_add_params": ("group",), "talus_move_params": ("group",),
    "talus_bind_grads": ("first",), "talus_set_steps": ("index", "steps"),
    "talus_get_clock": ("clock",), "talus_create": ("kind of device", "number of device"),
    "talus_scaler_create": ("kind of device", "number of device"),
}


def library_path() -> str:
    """TALUS_LIB, else the library in this folder (a wheel's), else a name for the loader."""
    if os.environ.get("TALUS_LIB"):
        return os.environ["TALUS_LIB"]
    beside = pathlib.Path(__file__).with_name(LIBRARY)
    return str(beside) if beside.exists() else LIBRARY


def _open(path: str) -> C.CDLL:
    try:
        return C.CDLL(path)  # which lets other threads run during a call
    except OSError as error:
        raise ImportError(f"talus: cannot load the library: {error}; looked for TALUS_LIB, for "
                          f"{LIBRARY} beside {__file__}, and where the loader does") from None


def _declare(library: C.CDLL, path: str) -> None:
    for name, (result, *arguments) in FUNCTIONS.items():
        try:
            function = getattr(library, "talus_" + name)
        except AttributeError:
            raise ImportError(f"talus: {path} has no talus_{name}: it is no libtalus, or an older "
                              "one than this package") from None
        function.restype = i32 if result == "status" else result
        function.argtypes = arguments
        if name == "abi_version" and function() >> 16 != ABI_MAJOR:
            raise ImportError(f"talus: {path} has ABI {function() >> 16}, this package is for "
                              f"{ABI_MAJOR}")
        globals()[name] = function


PATH = library_path()
_declare(_open(PATH), PATH)


def __getattr__(name: str) -> Any:
    """Only for type checkers: the functions are put here by _declare."""
    raise AttributeError(f"module {__name__!r} has no {name!r}")
