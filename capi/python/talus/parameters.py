"""Parameters of an optimizer: their memory, gradients, state and masters."""
from __future__ import annotations

import array
import ctypes as C
import dataclasses
from typing import Any, Iterable, NamedTuple, Optional, Sequence, Union

from . import _c
from .errors import Error, encode, int64s
from .handle import Handle
from .memory import (ITEM_BYTES, NAMES, Dtype, Memory, count_of, dtype_code, locate, require_count,
                     require_shape)

_MASTERS = {None: _c.MASTER_AUTO, "none": _c.MASTER_NONE, "f32": _c.MASTER_F32}
_MASTER_NAMES = {code: name for name, code in _MASTERS.items()}
_TYPECODES = {_c.F32: "f", _c.F64: "d", _c.F16: "H", _c.BF16: "H"}

Master = Union[str, int, None]

# Calls that read or write the memory that is bound. Of step_closure the closure is what is over.
_TOUCHING = (_c.prepare, _c.step, _c.advance, _c.save, _c.save_to, _c.load, _c.load_from,
             _c.export_param, _c.import_param)


class Param(NamedTuple):
    """A parameter for Optimizer.add_all; the fields are the arguments of Optimizer.add."""

    data: Any
    grad: Any = None
    name: Optional[str] = None
    shape: Optional[Sequence[int]] = None
    dtype: Dtype = None
    grad_dtype: Dtype = None
    state_dtype: Dtype = None
    master: Master = None


class ParamInfo(NamedTuple):
    """A parameter as the library has it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    grad_dtype: str
    state_dtype: str
    master: Optional[str]  # "f32", "none"
    group: int
    data: Optional[int]  # addresses
    grad: Optional[int]


@dataclasses.dataclass(frozen=True)
class State:
    """One state tensor: where it is. `data` is live memory until what talus.h says of it."""

    param: int
    slot: str
    dtype: str
    first: int
    count: int
    bytes: int
    alignment: int
    data: Optional[int]


@dataclasses.dataclass(frozen=True)
class _Known:
    """What is to be compared with when memory is bound."""

    dtype: int
    grad_dtype: int
    shape: tuple[int, ...]
    count: int
    data_shape: tuple[int, ...]  # of the array, where `shape` was given


class Parameters(Handle):
    """The part of Optimizer that deals with memory of the host."""

    device: tuple[int, int]
    _remedy = "bind it again"  # of memory that has moved

    def __init__(self, raw: int) -> None:
        super().__init__(raw, _c.destroy)
        self._known: list[_Known] = []
        self._roots.update(data={}, grad={}, rows={}, state={})  # each by parameter

    # parameters

    def add(self, data: Any, grad: Any = None, *, name: Optional[str] = None,
            shape: Optional[Sequence[int]] = None, group: int = 0, dtype: Dtype = None,
            grad_dtype: Dtype = None, state_dtype: Dtype = None, master: Master = None) -> int:
        """Adds one parameter and returns its index.

        data and grad are borrowed with no copy (see talus.memory) and kept alive. dtype and
        grad_dtype name 16-bit elements in arrays of integers. grad None: none yet. name None:
        "param.<index>". shape None: that of data. state_dtype and master: see talus_param; master
        "none" or "f32".
        """
        param = Param(data, grad, name, shape, dtype, grad_dtype, state_dtype, master)
        return self.add_all([param], group)

    def add_all(self, params: Iterable[Param], group: int = 0) -> int:
        """Adds several, all or none, and returns the index of the first."""
        described = [self._describe(param) for param in params]
        raws = (_c.Param * len(described))(*(raw for raw, *_ in described))
        first = C.c_int64()
        with self._lock:
            self._call(_c.add_params, group, len(raws), raws, C.byref(first))
            for i, (_, known, data, grad) in enumerate(described, first.value):
                self._known.append(known)
                self._roots["data"][i], self._roots["grad"][i] = data, grad
        return first.value

    def _describe(self, param: Param) -> tuple[_c.Param, _Known, Memory, Optional[Memory]]:
        """The struct, what will be compared with it, and the memory of data and gradient."""
        data = self._locate(param.data, "data", param.dtype, True)
        shape = data.shape if param.shape is None else tuple(param.shape)
        require_count("data", data, shape)
        grad_dtype, grad = dtype_code(param.grad_dtype) or data.dtype, None
        if param.grad is not None:
            grad = self._locate(param.grad, "gradient", param.grad_dtype, False, data.dtype)
            require_shape("gradient", grad, shape, data.shape)
            grad_dtype = grad.dtype
        raw = _c.Param(dtype=data.dtype, data=data.address, grad=grad and grad.address,
                       name=None if param.name is None else encode(param.name),
                       shape=int64s("shape", shape), ndim=len(shape),
                       grad_dtype=grad_dtype, state_dtype=dtype_code(param.state_dtype),
                       master=master_code(param.master))
        known = _Known(data.dtype, grad_dtype, shape, count_of(shape), data.shape)
        return raw, known, data, grad

    @property
    def param_count(self) -> int:
        """The parameters that were added; indices of removed ones count."""
        return self._ask(_c.param_count)

    def param(self, index: int) -> ParamInfo:
        """Describes one parameter."""
        raw = _c.Param()
        with self._lock:
            self._call(_c.param_info, index, C.byref(raw))
            group = self._ask(_c.param_group, index)
        return ParamInfo(raw.name.decode(), NAMES[raw.dtype],
                         tuple(raw.shape[i] for i in range(raw.ndim)), NAMES[raw.grad_dtype],
                         NAMES[raw.state_dtype], _MASTER_NAMES[raw.master], group, raw.data,
                         raw.grad)

    def find(self, name: str) -> Optional[int]:
        """Returns the index of the parameter with this name."""
        index = self._ask(_c.find_param, encode(name))
        return None if index < 0 else index

    def move(self, params: Sequence[int], group: int) -> None:
        """Moves parameters to another group of the same rule; state and step counts follow."""
        self._call(_c.move_params, group, len(params), int64s("params", params))

    def remove(self, params: Sequence[int]) -> None:
        """Removes parameters; indices of others stay."""
        with self._lock:
            self._call(_c.remove_params, len(params), int64s("params", params))
            for roots in ("data", "grad", "rows", "state"):
                for index in params:
                    self._roots[roots].pop(index, None)

    def bind_data(self, index: int, data: Any) -> None:
        """Rebinds memory that has moved, of the same dtype and count."""
        known = self._of(index)
        memory = self._locate(data, f"parameter {index}: data", known.dtype, True)
        require_count(f"parameter {index}: data", memory, known.shape)
        with self._lock:
            self._call(_c.bind_data, index, memory.address)
            self._roots["data"][index] = memory

    # gradients

    def bind_grad(self, index: int, grad: Any) -> None:
        """Binds the gradient of one parameter; None: it is left out of steps."""
        self.bind_grads([grad], index)

    def bind_grads(self, grads: Sequence[Any], first: int = 0) -> None:
        """Binds the gradients of parameters first, first + 1, ... in one call, all or none."""
        column, memories = (C.c_void_p * len(grads))(), []
        for i, grad in enumerate(grads):
            memory = None
            if grad is not None:
                known = self._of(first + i)
                what = f"parameter {first + i}: gradient"
                memory = self._locate(grad, what, known.grad_dtype, False)
                require_shape(what, memory, known.shape, known.data_shape)
                column[i] = memory.address
            memories.append(memory)
        with self._lock:
            self._call(_c.bind_grads, first, len(grads), column)
            for i, memory in enumerate(memories, first):
                self._roots["grad"][i] = memory
                self._roots["rows"].pop(i, None)

    def bind_rows(self, index: int, indices: Any, values: Any) -> None:
        """Binds a gradient of some rows for the next step alone; indices None takes it back.

        indices: integers of 32 or 64 bits; values: a row of the gradient's dtype for each.
        """
        if indices is None:
            with self._lock:
                self._call(_c.bind_rows, index, None)
                self._roots["rows"].pop(index, None)
            return
        known = self._of(index)
        rows = self._locate(indices, f"parameter {index}: indices", None, False)
        if rows.dtype not in (_c.I32, _c.I64):
            raise TypeError(f"parameter {index}: indices are {NAMES[rows.dtype]}, expected i32 or "
                            "i64")
        given = self._locate(values, f"parameter {index}: values", known.grad_dtype, False)
        length = count_of(known.shape[1:])
        if given.count != rows.count * length:
            raise ValueError(f"parameter {index}: values are {given.count} elements, expected "
                             f"{rows.count} rows of {length}")
        raw = _c.Rows(index_dtype=rows.dtype, count=rows.count, indices=rows.address,
                      values=given.address)
        with self._lock:
            self._call(_c.bind_rows, index, C.byref(raw))
            self._roots["rows"][index] = rows, given

    def zero_grad(self, unbind: bool = False, stream: Optional[int] = None) -> None:
        """Writes zeros into the bound gradients, or forgets them.

        Where one is read-only, none is written.
        """
        with self._lock:
            if not unbind:
                self._require_writable_gradients()
            self._call(_c.zero_grad, _c.ZERO_UNBIND if unbind else _c.ZERO_FILL, stream)
            if unbind:
                self._roots["grad"].clear()
                self._roots["rows"].clear()

    # state

    def states(self) -> list[State]:
        """Describes all state tensors, parameters in order, slots in order."""
        with self._lock:
            return [self._state_at(i) for i in range(self._ask(_c.state_count))]

    def _state_at(self, i: int) -> State:
        raw = self._read(_c.state_info, i, kind=_c.State)
        return State(raw.param, raw.slot.decode(), NAMES[raw.dtype], raw.first, raw.count,
                     raw.bytes, raw.alignment, raw.data)

    def _state_of(self, index: int, slot: str) -> State:
        for state in self.states():
            if (state.param, state.slot) == (index, slot):
                return state
        raise Error(_c.E_NAME, f"parameter {index}: no slot {slot!r}; it has " + ", ".join(
            state.slot for state in self.states() if state.param == index))

    def state(self, index: int, slot: str) -> array.array[Any]:
        """Copies a state tensor: "f" or "d", 16-bit elements as "H"; empty until there is one."""
        with self._lock:
            self._require_unmoved()
            found = self._state_of(index, slot)
            values = array.array(_TYPECODES[dtype_code(found.dtype)])
            if found.data is not None:
                self._require_host("state")
                values.frombytes(C.string_at(found.data, found.bytes))
        return values

    def set_state(self, index: int, slot: str, values: Any) -> None:
        """Overwrites a state tensor that is there."""
        with self._lock:
            self._require_unmoved()
            found = self._state_of(index, slot)
            what = f"parameter {index}: {slot}"
            memory = self._locate(values, what, found.dtype, False)
            if found.data is None:
                raise Error(_c.E_STATE, f"{what}: has no memory yet; prepare, step or bind_state")
            self._require_host("state")
            require_count(what, memory, (found.count,))
            if memory.address:
                C.memmove(found.data, memory.address, found.bytes)

    def bind_state(self, index: int, slot: str, data: Any) -> None:
        """Puts a state tensor into an array of the caller's, which shares it from then on."""
        found = self._state_of(index, slot)
        memory = self._locate(data, f"parameter {index}: {slot}", found.dtype, True)
        size = memory.count * ITEM_BYTES[memory.dtype]
        with self._lock:
            self._call(_c.bind_state, index, encode(slot), memory.address, size)
            self._roots["state"].setdefault(index, {})[slot] = memory

    def steps(self, index: int) -> int:
        """Returns the steps that one parameter has taken, skipped ones not counted."""
        return self._read(_c.steps, index, kind=C.c_int64)

    def set_steps(self, index: int, steps: int) -> None:
        """Sets the step count of one parameter, as where state comes from elsewhere."""
        self._call(_c.set_steps, index, steps)

    # masters

    def export_master(self, index: int, view: str = "master",
                      stream: Optional[int] = None) -> array.array[float]:
        """Copies the f32 master of a 16-bit parameter."""
        self._require_host("a master")
        values = array.array("f", bytes(4 * self._of(index).count))
        address = values.buffer_info()[0] if values else None
        self._call(_c.export_param, encode(view), index, address, _c.F32, stream)
        return values

    def import_master(self, index: int, values: Any, stream: Optional[int] = None) -> None:
        """Sets a master, and the parameter with it."""
        what = f"parameter {index}: master"
        memory = self._locate(values, what, _c.F32, False)
        require_count(what, memory, self._of(index).shape)
        self._call(_c.import_param, b"master", index, memory.address, _c.F32, stream)

    def reload_master(self, index: int, stream: Optional[int] = None) -> None:
        """Tells that a 16-bit parameter was written from outside: its master follows."""
        self._call(_c.import_param, b"master", index, None, _c.F32, stream)

    def write_back(self, index: int, stream: Optional[int] = None) -> None:
        """Writes the rounded copy of a master to its parameter."""
        self._call(_c.export_param, b"master", index, None, _c.F32, stream)

    # what they share

    def _call(self, function: Any, *arguments: Any) -> None:
        with self._lock:
            if function in _TOUCHING:
                self._require_unmoved()
            super()._call(function, *arguments)

    def _require_unmoved(self) -> None:
        """Refuses to touch memory that an array was given and has no more."""
        if self.closed:
            return  # the call will say so
        for what in ("data", "grad"):
            for index, memory in self._roots[what].items():
                if memory is not None and memory.is_moved():
                    raise self._moved(index, "data" if what == "data" else "gradient", memory)
        for index, pair in self._roots["rows"].items():
            for what, memory in zip(("indices", "values"), pair):
                if memory.is_moved():
                    raise self._moved(index, what, memory)
        for index, slots in self._roots["state"].items():
            for slot, memory in slots.items():
                if memory.is_moved():
                    raise self._moved(index, slot, memory)
        for memory in self._roots.get("scale", ()):
            if memory is not None and memory.is_moved():
                raise self._moved(None, "scale", memory)

    def _moved(self, index: Optional[int], what: str, memory: Memory) -> Error:
        where = what if index is None else f"parameter {index}: {what}"
        return Error(_c.E_STATE, f"{where} has moved since it was bound: it was at "
                     f"{memory.address or 0:#x} with shape {memory.shape}, now its "
                     f"{type(memory.owner).__name__} lies elsewhere or has another shape; "
                     f"{self._remedy}")

    def _require_writable_gradients(self) -> None:
        if self.closed:
            return
        for index, memory in self._roots["grad"].items():
            if memory is not None and memory.is_moved():
                raise self._moved(index, "gradient", memory)
            if memory is not None and memory.read_only:
                raise Error(_c.E_STATE, f"parameter {index}: gradient: the memory is read-only and "
                            "cannot be filled with zeros; bind another, or unbind it")

    def _of(self, index: int) -> _Known:
        if not 0 <= index < len(self._known):
            raise Error(_c.E_ARGUMENT, f"no parameter {index}, there are {len(self._known)}")
        return self._known[index]

    def _locate(self, given: Any, what: str, dtype: Dtype = None, writable: bool = False,
                bits16: int = 0) -> Memory:
        memory = locate(given, what, dtype, writable, bits16)
        if memory.device != self.device:
            raise TypeError(f"{what}: on device {memory.device}, the optimizer is on {self.device}")
        return memory

    def _require_host(self, what: str) -> None:
        if self.device[0] != _c.CPU:
            raise Error(_c.E_UNSUPPORTED, f"{what} is memory of device {self.device}, which is not "
                        "copied here")


def master_code(master: Master) -> int:
    if isinstance(master, int) and master in _MASTER_NAMES:
        return master
    if master not in _MASTERS:
        raise TypeError(f'master {master!r}, known are None, "none" and "f32"')
    return _MASTERS[master]
