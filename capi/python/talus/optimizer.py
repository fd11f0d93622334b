"""The optimizer: groups, hyperparameters, schedules and the step."""
from __future__ import annotations

import contextlib
import ctypes as C
from typing import Any, Callable, Iterable, NamedTuple, Optional, Sequence, Union

from . import _c
from .checkpoint import Checkpoints
from .errors import Error, check, encode, guard, require_integer
from .handle import create
from .hooks import Hooks
from .memory import Dtype, dtype_code, locate
from .names import hypers, require_known
from .parameters import Master, master_code
from .scaler import Scaler
from .schedule import Schedule

ALL = _c.ALL  # as a group: every group, and the default of groups added later

_CLOCKS = {"applied": _c.CLOCK_APPLIED, "called": _c.CLOCK_CALLED, "manual": _c.CLOCK_MANUAL}
_DEVICES = {"cpu": _c.CPU, "cuda": _c.CUDA}


class Stats(NamedTuple):
    """talus_stats of talus.h."""

    found_inf: int
    steps: int
    skipped: int
    grad_norm: float
    clip_factor: float
    loss_scale: float
    state_bytes: int
    workspace_bytes: int
    nonfinite_param: int


class Bytes(NamedTuple):
    """talus_bytes of talus.h."""

    param: float
    grad: float
    master: float
    state: float
    read: float
    written: float


class Optimizer(Checkpoints, Hooks):
    """An optimizer whose group 0 runs `rule`, a name in names("algorithms") or names("aliases").

        with talus.Optimizer("adamw", lr=3e-4, weight_decay=0.1) as opt:
            opt.add(weights, gradient, name="w")
            for ...:                # write the gradient
                opt.step()

    Keywords are the rule's hyperparameters, hypers(rule), and hold for every group. device: "cpu",
    "cuda" or "cuda:1". Groups and parameters are plain indices. As talus.h says of a function, so
    of the method that wraps it; a failure raises talus.Error and has changed nothing.
    """

    _what = "optimizer"

    def __init__(self, rule: str, *, device: Union[str, tuple[int, int]] = "cpu",
                 **values: float) -> None:
        self.device = _device(device) if isinstance(device, str) else device
        raw = create(_c.create, encode(rule), *self.device)
        super().__init__(raw)
        try:
            require_known(rule, values)
            self.set(**values)  # type: ignore[arg-type]
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        if self.closed:
            return "<talus.Optimizer, closed>"
        return (f"<talus.Optimizer {self.group_rule()!r}, {self.param_count} parameters in "
                f"{self.group_count} groups>")

    # groups and hyperparameters

    def add_group(self, rule: Optional[str] = None, **values: float) -> int:
        """Adds a group and returns its index. rule None: that of the constructor.

        Keywords are set in this group alone; if a value is refused the group stays.
        """
        if rule is not None and values:
            require_known(rule, values)
        with self._lock:
            group = self._read(_c.add_group, None if rule is None else encode(rule), kind=C.c_int32)
            self.set(group=group, **values)
        return group

    @property
    def group_count(self) -> int:
        """The groups, 0 among them."""
        return self._ask(_c.group_count)

    def group_rule(self, group: int = 0) -> str:
        """Returns the rule's own name, never an alias."""
        found = self._ask(_c.group_algorithm, group)
        if found is None:
            raise Error(_c.E_ARGUMENT, f"no group {group}, there are {self.group_count}")
        return found.decode()

    def set(self, *, group: int = ALL, **values: float) -> None:
        """Sets one after the other; on failure those before the refused one are set."""
        for name, value in values.items():
            self._call(_c.set, group, encode(name), _number(name, value))

    def get(self, name: str, group: int = 0) -> float:
        """Reads a hyperparameter as it was set: the base of a schedule."""
        return self._read(_c.get, group, encode(name))

    def set_setting(self, name: str, value: float) -> None:
        """Sets one of hypers("settings") for the whole optimizer."""
        self._call(_c.set_setting, encode(name), _number(name, value))

    def get_setting(self, name: str) -> float:
        """Reads one of hypers("settings")."""
        return self._read(_c.get_setting, encode(name))

    # the step

    def prepare(self, stream: Optional[int] = None) -> None:
        """Allocates state and workspace, which the first step would do."""
        self._call(_c.prepare, stream)

    def step(self, closure: Optional[Callable[[], float]] = None,
             stream: Optional[int] = None) -> Optional[float]:
        """Takes one step. closure, where given, writes or binds the gradients first and returns the
        loss, which is returned; what it raises comes out of this call, and no step was taken."""
        loss: Optional[float] = None
        with self._lock:
            if closure is None:
                self._call(_c.step, stream)
            else:
                out = C.c_double()
                self._call(_c.step_closure, self._closure(closure), None, C.byref(out), stream)
                loss = out.value
            self._roots["rows"].clear()
        return loss

    def _closure(self, closure: Callable[[], float]) -> Any:
        def evaluate(_user: Optional[int], loss: Any) -> int:
            self._in_closure = True
            try:
                value = float(closure())
            finally:
                self._in_closure = False
            self._require_unmoved()
            loss[0] = value
            return 0

        return _c.Closure(guard(evaluate, 1))

    def advance(self, stream: Optional[int] = None) -> None:
        """Before each replay of a captured step."""
        self._call(_c.advance, stream)

    def stats(self, wait: bool = False) -> Stats:
        """Of the last step; wait: also where a device is not done with it."""
        raw = self._read(_c.get_stats, int(wait), kind=_c.Stats)
        return Stats(*(getattr(raw, name) for name in Stats._fields))

    def bytes_per_param(self, dtype: Dtype, *, group: int = 0, grad_dtype: Dtype = None,
                        state_dtype: Dtype = None, master: Master = None) -> Bytes:
        """Bytes for each element of a parameter of these dtypes, stored and moved by a step."""
        described = _c.Param(dtype=dtype_code(dtype), grad_dtype=dtype_code(grad_dtype),
                             state_dtype=dtype_code(state_dtype), master=master_code(master))
        raw = self._read(_c.bytes_per_param, group, C.byref(described), kind=_c.Bytes)
        return Bytes(*(getattr(raw, name) for name in Bytes._fields))

    # schedules

    def attach(self, hyper: str, schedule: Optional[Schedule], group: int = ALL,
               clock: Union[str, int] = "applied") -> None:
        """Attaches a schedule to a hyperparameter, None: takes it away. clock: "applied", "called"
        or "manual"."""
        self._call(_c.attach_schedule, group, encode(hyper),
                   None if schedule is None else schedule.handle, _clock(clock))

    def schedule(self, hyper: str, group: int = 0) -> Optional[Schedule]:
        """A new reference to what is attached."""
        raw = C.c_void_p()
        self._call(_c.get_schedule, group, encode(hyper), C.byref(raw), None)
        return None if raw.value is None else Schedule._of(raw.value)

    def schedule_clock(self, hyper: str, group: int = 0) -> Optional[str]:
        """The clock of what is attached."""
        raw, clock = C.c_void_p(), C.c_int32()
        self._call(_c.get_schedule, group, encode(hyper), C.byref(raw), C.byref(clock))
        if raw.value is None:
            return None
        _c.schedule_destroy(raw)
        return list(_CLOCKS)[clock.value]

    def value_now(self, name: str, group: int = 0) -> float:
        """Reads what the next step will use, scheduled or not."""
        return self._read(_c.value_now, group, encode(name))

    def set_clock(self, t: int) -> None:
        """Sets the manual clock."""
        self._call(_c.set_clock, t)

    def clock(self, clock: Union[str, int] = "manual") -> int:
        """Reads a clock: "applied", "called" or "manual"."""
        return self._read(_c.get_clock, _clock(clock), kind=C.c_int64)

    def observe(self, metric: float) -> None:
        """Reports a metric to plateau schedules."""
        self._call(_c.observe, metric)

    # scale, check, clip

    def attach_scaler(self, scaler: Optional[Scaler]) -> None:
        """Has steps divide gradients by its scale, and skip where they are not finite; None: no
        more."""
        with self._lock:
            self._call(_c.attach_scaler, None if scaler is None else scaler.handle)
            self._roots["scaler"] = scaler

    def bind_scale(self, scale: Any, found: Any = None) -> None:
        """Somebody else's scale and flag: arrays of one f32, read by each step; None: none."""
        memories = [None if array is None else locate(array, what, _c.F32, False)
                    for array, what in ((scale, "scale"), (found, "found"))]
        for memory in memories:
            if memory is not None and memory.count != 1:
                raise ValueError(f"a scale or flag of {memory.count} elements, expected 1")
        with self._lock:
            self._call(_c.bind_scale, *(memory and memory.address for memory in memories))
            self._roots["scale"] = memories
            self._roots["scale_arrays"] = scale, found

    def _configure_as(self, other: Optimizer) -> None:
        """Takes over settings, scaler and hooks; not schedules, whose clocks cannot be set."""
        other._require_no_schedule()
        for name in hypers("settings"):
            if self.get_setting(name) != (value := other.get_setting(name)):
                self.set_setting(name, value)
        if other._roots.get("scaler"):
            self.attach_scaler(other._roots["scaler"])
        self.bind_scale(*other._roots.get("scale_arrays", (None, None)))
        self._take_hooks(other)

    def _require_no_schedule(self) -> None:
        attached = [f"{name} of group {group}" for group in range(self.group_count)
                    for name, hyper in hypers(self.group_rule(group)).items()
                    if hyper.kind == _c.REAL and self.schedule(name, group)]
        if attached:
            raise Error(_c.E_STATE, f"a schedule is attached to {attached[0]} and cannot be "
                        "carried over to another optimizer: take it away first")

    def _require_copyable(self) -> None:
        """Refuses what belongs to this process or is shared, and would be missing in a copy."""
        self._require_no_schedule()
        held = {"a scaler": self._roots.get("scaler"),
                "a scale": any(self._roots.get("scale", ())),
                "parallel_for": self._roots.get("parallel_for"),
                "an allocator": self._roots.get("allocator")}
        for what, there in held.items():
            if there:
                raise Error(_c.E_STATE, f"{what} is set and cannot be carried over to a copy: take "
                            "it away first, or make the copy from a state_dict")

    def _gradients_bound(self) -> contextlib.AbstractContextManager[None]:
        """While it is entered, what is to be measured is bound."""
        return contextlib.nullcontext()

    def grad_norm(self, type: float = 2, group: int = ALL, stream: Optional[int] = None) -> float:
        """Measures the bound gradients, scaled back and before clipping."""
        return grad_norm([self], type, group, stream)

    def clip_grad_norm(self, max_norm: float, type: float = 2, group: int = ALL,
                       stream: Optional[int] = None) -> float:
        """Measures, and has the next step clipped to max_norm."""
        return clip_grad_norm([self], max_norm, type, group, stream)


def grad_norm(optimizers: Iterable[Optimizer], type: float = 2, group: int = ALL,
              stream: Optional[int] = None) -> float:
    """Measures the gradients of several optimizers as if they were one."""
    return _norm(list(optimizers), _c.grad_norm, group, (type,), stream)


def clip_grad_norm(optimizers: Iterable[Optimizer], max_norm: float, type: float = 2,
                   group: int = ALL, stream: Optional[int] = None) -> float:
    """Measures, and has the next step of each clipped as if they were one."""
    return _norm(list(optimizers), _c.clip_grad_norm, group, (max_norm, type), stream)


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {value!r}, expected a number") from None


def _norm(optimizers: Sequence[Optimizer], function: Any, group: int, values: Sequence[float],
          stream: Optional[int]) -> float:
    norm = C.c_double()
    require_integer("group", group, 32)
    with contextlib.ExitStack() as locks:
        for optimizer in sorted(optimizers, key=id):  # one order, whoever asks
            locks.enter_context(optimizer._lock)
            optimizer._require_outside()
            locks.enter_context(optimizer._gradients_bound())
            optimizer._require_unmoved()
        handles = (C.c_void_p * len(optimizers))(*(each.handle.value for each in optimizers))
        check(function(handles, len(handles), group, *values, C.byref(norm), stream))
    return norm.value


def _clock(clock: Union[str, int]) -> int:
    if isinstance(clock, int):
        return clock
    if clock not in _CLOCKS:
        raise TypeError(f"clock {clock!r}, known are {', '.join(_CLOCKS)}")
    return _CLOCKS[clock]


def _device(device: str) -> tuple[int, int]:
    kind, _, number = device.partition(":")
    if kind not in _DEVICES or (number and not number.isdecimal()):
        raise TypeError(f'device {device!r}, expected "cpu", "cuda" or "cuda:1"')
    return _DEVICES[kind], int(number or 0)
