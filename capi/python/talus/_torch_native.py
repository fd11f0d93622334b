"""The optimizer of the library behind one of PyTorch: parameters in the order of the groups.

State lives in tensors of PyTorch that are bound to the library, so a state_dict may outlive it.
"""
from __future__ import annotations

import contextlib
import ctypes as C
import operator
import weakref
from typing import Any, Iterator, NamedTuple, Optional

import torch

from . import _c
from .errors import Error
from .handle import Handle
from .memory import locate, tensor_layout
from .names import names
from .optimizer import Optimizer
from .parameters import Param
from ._torch_spelling import Spelling

_DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}
MASTER = "master_param"

Group = dict[str, Any]


class Options(NamedTuple):
    """What all parameters share."""

    spelling: Spelling
    state_dtype: Optional[str]
    master: Optional[str]


class Saved(NamedTuple):
    """The state of a parameter."""

    steps: int
    slots: dict[str, torch.Tensor]


class Entry:
    """A parameter as it was bound last, and its state."""

    def __init__(self, param: torch.Tensor, index: int) -> None:
        self.param, self.index = param, index
        self.layout, self.shape, self.count = tensor_layout(param), param.shape, param.numel()
        self.dtype, self.device = param.dtype, param.device
        self.grad_dtype = param.dtype if param.grad is None else param.grad.dtype
        self.state: dict[str, torch.Tensor] = {}
        self.is_cold = True  # no step yet: its slots may still change
        self.version: Optional[int] = None  # of what the last step wrote

    def is_moved(self) -> bool:
        return tensor_layout(self.param) != self.layout

    def is_other(self) -> bool:
        """Memory of another kind, which cannot just be bound again."""
        param = self.param
        return (param.shape, param.dtype, param.device) != (self.shape, self.dtype, self.device)


class Gradients(NamedTuple):
    """Of a step, each with its parameter's entry."""

    dense: list[tuple[Entry, torch.Tensor]]
    rows: list[tuple[Entry, torch.Tensor]]


class Lent(Optimizer):
    """The talus.Optimizer of a Native, which goes on where it is used on its own."""

    _remedy = "state is written in place or by load_state_dict, parameters are followed by step"

    def __init__(self, owner: Native, rule: str, device: str) -> None:
        self._owner = weakref.ref(owner)
        super().__init__(rule, device=device)

    def _require_owner(self) -> Native:
        owner = self._owner()
        if owner is None:
            raise Error(_c.E_STATE, "the talus.torch optimizer that lent this one is gone")
        return owner

    def _gradients_bound(self) -> contextlib.AbstractContextManager[None]:
        return self._require_owner().gradients_bound()

    def _call(self, function: Any, *arguments: Any) -> None:
        owner = self._owner()
        if owner is None or function not in (_c.load, _c.load_from):
            super()._call(function, *arguments)
            return
        with self._lock:
            owner.before_load()
            super()._call(function, *arguments)
            owner.after_load()


class Native:
    """Owns the optimizer for a list of param_groups."""

    def __init__(self, options: Options, device: torch.device) -> None:
        self.options, self.torch_device = options, device
        self.opt = Lent(self, options.spelling.rule, str(device))
        self.takes_rows = self.opt.group_rule() in names("row_gradients")
        self.entries: list[Entry] = []
        self.by_id: dict[int, Entry] = {}
        self.groups: list[list[torch.Tensor]] = []
        self.group_index: list[int] = []
        self.pushed: list[dict[str, float]] = []
        self.dicts: list[Group] = []  # of PyTorch, for what a load has changed
        self.spare: Optional[int] = 0  # a group of the library that has no parameters yet

    def rebuilt(self, groups: list[Group], states: dict[torch.Tensor, Saved]) -> Native:
        """A new one with these groups and states, configured as this; this one stays as it is."""
        first = next((param for group in groups for param in group["params"]), None)
        made = Native(self.options, self.torch_device if first is None else first.device)
        made.opt._configure_as(self.opt)
        for group in groups:
            made.add_group(group)
        made.adopt(states)
        return made

    # groups

    def add_group(self, group: Group) -> None:
        values = self.options.spelling.values(group)
        index = self.opt.add_group() if self.spare is None else self.spare
        self.spare = index  # until all has gone well
        self.opt.set(group=index, **values)
        params = list(group["params"])
        entries = [Entry(param, i) for i, param in enumerate(params, len(self.entries))]
        named = group.get("param_names") or [None] * len(params)
        described = [self._describe(entry, name) for entry, name in zip(entries, named)]
        self.opt.add_all(described, index)
        self.spare = None
        self.entries += entries
        self.by_id.update((id(entry.param), entry) for entry in entries)
        self.groups.append(params)
        self.group_index.append(index)
        self.pushed.append(values)
        self.dicts.append(group)

    def _describe(self, entry: Entry, name: Optional[str]) -> Param:
        grad_dtype = next(key for key, value in _DTYPES.items() if value == entry.grad_dtype) \
            if entry.grad_dtype in _DTYPES.values() else None
        return Param(entry.param, name=name, grad_dtype=grad_dtype,
                     state_dtype=self.options.state_dtype, master=self.options.master)

    def fits(self, groups: list[Group]) -> bool:
        """Whether the groups hold the parameters that were added."""
        self.dicts = list(groups)
        return len(groups) == len(self.groups) and all(
            len(ours) == len(group["params"]) and all(map(operator.is_, ours, group["params"]))
            for ours, group in zip(self.groups, groups))

    def push(self, groups: list[Group]) -> None:
        """Sets what schedulers and users have written into the groups."""
        for group, index, pushed in zip(groups, self.group_index, self.pushed):
            for name, value in self.options.spelling.values(group).items():
                if pushed.get(name) != value:
                    self.opt.set(group=index, **{name: value})
                    pushed[name] = value

    # memory

    def bind_moved(self) -> bool:
        """Binds again what has moved; False where that is not enough."""
        moved = [entry for entry in self.entries if entry.is_moved()]
        if not moved:
            return True
        if any(entry.is_other() for entry in moved):
            return False
        # One after the other, some would overlap where others were.
        checks = self.opt.get_setting("check_pointers")
        self.opt.set_setting("check_pointers", 0)
        try:
            for entry in moved:
                self.opt.bind_data(entry.index, entry.param)
                entry.layout, entry.version = tensor_layout(entry.param), None
        finally:
            self.opt.set_setting("check_pointers", checks)
        return True

    def saved(self) -> dict[torch.Tensor, Saved]:
        return {entry.param: saved for entry in self.entries
                if (saved := self.saved_of(entry)) is not None}

    def saved_of(self, entry: Entry) -> Optional[Saved]:
        steps = self.opt.steps(entry.index)
        return Saved(steps, entry.state) if steps else None

    def _slots(self) -> dict[int, list[Any]]:
        found: dict[int, list[Any]] = {}
        for state in self.opt.states():
            found.setdefault(state.param, []).append(state)
        return found

    def _bind(self, entry: Entry, state: Any, tensor: torch.Tensor) -> None:
        if state.bytes:
            self.opt._call(_c.bind_state, entry.index, state.slot.encode(), tensor.data_ptr(),
                           state.bytes)
            self.opt._roots["state"].setdefault(entry.index, {})[state.slot] = \
                locate(tensor, state.slot)
        entry.state[state.slot] = tensor

    def _shape(self, entry: Entry, state: Any) -> tuple[int, ...]:
        if state.count == entry.count:
            return tuple(entry.param.shape)
        return () if state.count == 1 else (state.count,)

    def _warm_up(self, entries: list[Entry]) -> None:
        """Allocates the state of parameters before their first step."""
        slots = self._slots() if entries else {}
        for entry in entries:
            before, entry.state = entry.state, {}
            for state in slots.get(entry.index, []):
                tensor = before.get(state.slot)
                if tensor is None:
                    tensor = torch.empty(self._shape(entry, state), dtype=_DTYPES[state.dtype],
                                         device=entry.device)
                    self._bind(entry, state, tensor)
                entry.state[state.slot] = tensor
                if state.slot == MASTER:
                    tensor.copy_(entry.param.detach())

    def adopt(self, states: dict[torch.Tensor, Saved]) -> None:
        """Binds the tensors of states where they fit, else copies in our dtype and device."""
        slots = self._slots() if states else {}
        for param, saved in states.items():
            entry = self.by_id[id(param)]
            if saved.steps == 0:
                continue
            for state in slots.get(entry.index, []):
                self._bind(entry, state, self._fitted(entry, state, saved.slots))
            _refuse_rest(entry, saved.slots)
            self.opt.set_steps(entry.index, saved.steps)
            entry.is_cold = False

    def _fitted(self, entry: Entry, state: Any, given: dict[str, torch.Tensor]) -> torch.Tensor:
        what = f"state of parameter {entry.index}: {state.slot}"
        tensor = given.get(state.slot)
        if tensor is None and state.slot == MASTER:
            tensor = entry.param.detach()
        if tensor is None:
            raise ValueError(f"{what} is missing, there are {', '.join(given) or 'none'}")
        if tensor.numel() != state.count:
            raise ValueError(f"{what} has shape {tuple(tensor.shape)}, expected "
                             f"{self._shape(entry, state)}")
        tensor = tensor.detach().reshape(self._shape(entry, state))
        return tensor.to(device=entry.device, dtype=_DTYPES[state.dtype]).contiguous()

    # the step

    def gather(self) -> Optional[Gradients]:
        """The gradients that there are; None: one has not the dtype that its entry has."""
        found = Gradients([], [])
        for entry in self.entries:
            grad = entry.param.grad
            if grad is None:
                continue
            if grad.dtype != entry.grad_dtype:
                return None
            if grad.layout == torch.strided:
                if grad.shape != entry.shape or grad.device != entry.device:
                    raise ValueError(f"parameter {entry.index}: gradient has shape "
                                     f"{tuple(grad.shape)} on {grad.device}, expected "
                                     f"{tuple(entry.param.shape)} on {entry.device}")
                found.dense.append((entry, grad))
            else:
                self._require_rows(entry, grad)
                found.rows.append((entry, grad))
        return found

    def _require_rows(self, entry: Entry, grad: torch.Tensor) -> None:
        if grad.layout != torch.sparse_coo or grad.sparse_dim() != 1 or not self.takes_rows:
            rows = ", and of sparse ones those of rows" if self.takes_rows else ""
            raise TypeError(f"parameter {entry.index}: gradient of layout {grad.layout}; "
                            f"{self.options.spelling.rule} takes dense ones{rows}")

    def step(self, gradients: Gradients) -> None:
        """Takes a step with these gradients; without any nothing happens."""
        entries = [entry for entry, _ in gradients.dense + gradients.rows]
        if not entries:
            return
        self.opt._require_unmoved()
        cold = [entry for entry in entries if entry.is_cold]
        self._warm_up(cold)
        masters = [entry for entry in entries if MASTER in entry.state]
        for entry in masters:
            if not entry.is_cold:
                _take_outside_writes(entry)
        with self._bound(gradients):
            Handle._call(self.opt, _c.step, self._stream())
        torch.autograd.graph.increment_version([entry.param for entry in entries])
        for entry in masters:
            entry.version = _version(entry.param)
        for entry in cold:
            entry.is_cold = self.opt.steps(entry.index) == 0

    @contextlib.contextmanager
    def _bound(self, gradients: Gradients) -> Iterator[None]:
        keep = self._bind_gradients(gradients)
        try:
            yield
        finally:
            self.opt._call(_c.zero_grad, _c.ZERO_UNBIND, None)
            self.opt._roots["rows"].clear()
            del keep

    @contextlib.contextmanager
    def gradients_bound(self) -> Iterator[None]:
        """For what measures the gradients that there are between steps."""
        gradients = self.gather() if self.bind_moved() else None
        if gradients is None:
            raise Error(_c.E_STATE, "a parameter or gradient has another dtype, shape or device "
                        "than at the last step: take a step first")
        with self._bound(gradients):
            yield

    # a checkpoint that was loaded

    def before_load(self) -> None:
        """State that there is from now on is read into tensors of PyTorch."""
        self.push(self.dicts)
        self._warm_up([entry for entry in self.entries if entry.is_cold])

    def after_load(self) -> None:
        """Shows in the groups what the file has set."""
        for group, index, pushed in zip(self.dicts, self.group_index, self.pushed):
            now = {name: self.opt.get(name, index) for name in self.options.spelling.hypers}
            group.update(self.options.spelling.keys_of(now))
            pushed.update(now)
        for entry in self.entries:
            entry.is_cold, entry.version = self.opt.steps(entry.index) == 0, None

    def _bind_gradients(self, gradients: Gradients) -> list[torch.Tensor]:
        """Returns what must live until the step is over: copies of what is not contiguous."""
        keep = []
        column = (C.c_void_p * len(self.entries))()
        for entry, grad in gradients.dense:
            grad = grad.resolve_neg() if grad.is_neg() else grad
            grad = grad if grad.is_contiguous() else grad.contiguous()
            keep.append(grad)
            column[entry.index] = grad.data_ptr() or None
        self.opt._call(_c.bind_grads, 0, len(column), column)
        for entry, grad in gradients.rows:
            rows = grad.detach().coalesce()
            indices = rows.indices().reshape(-1).contiguous()
            values = rows.values().resolve_neg().contiguous()
            self.opt.bind_rows(entry.index, indices, values)
            keep += [indices, values]
        return keep

    def _stream(self) -> Optional[int]:
        if self.torch_device.type != "cuda":
            return None
        return torch.cuda.current_stream(self.torch_device).cuda_stream or None


def _version(param: torch.Tensor) -> Optional[int]:
    return None if param.is_inference() else param._version


def _take_outside_writes(entry: Entry) -> None:
    """The master of a 16-bit parameter follows what was written to that since the last step."""
    if entry.version is not None and entry.version == _version(entry.param):
        return
    master, param = entry.state[MASTER], entry.param.detach()
    master.copy_(torch.where(master.to(param.dtype) == param, master, param.to(master.dtype)))


def _refuse_rest(entry: Entry, given: dict[str, torch.Tensor]) -> None:
    """Scalars that the library does not keep follow from the steps: eta and mu of torch's ASGD."""
    for name, value in given.items():
        if name not in entry.state and name != MASTER and getattr(value, "ndim", 0) > 0:
            raise ValueError(f"state of parameter {entry.index}: {name!r} is not known, expected "
                             f"{', '.join(entry.state) or 'no state'}")
