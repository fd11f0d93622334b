"""The library behind torch.optim.Optimizer: any rule, as one fused multi-tensor step with no copy.

    import talus.torch
    opt = talus.torch.AdamW(model.parameters(), lr=3e-4)              # a class for every rule
    opt = talus.torch.Optimizer(model.parameters(), "lion", lr=1e-4)  # the same by name

Schedulers, GradScaler, hooks, closures and state_dict are PyTorch's own. Where torch.optim has the
rule, names and defaults are its own too.
"""
from __future__ import annotations

import math
import threading
from typing import Any, Callable, Iterator, Mapping, Optional

import torch

from .names import doc, names
from .optimizer import Optimizer as _TalusOptimizer
from ._torch_native import Entry, Native, Options, Saved
from ._torch_spelling import Spelling

_classes: dict[str, type[Rule]] = {}  # made when asked for


class Optimizer(torch.optim.Optimizer):
    """A torch.optim.Optimizer that runs `rule`, a name in talus.names("algorithms") or "aliases".

    Keywords are the rule's hyperparameters in PyTorch's spelling (betas=(0.9, 0.999); beta1=0.9
    serves as well). Parameters are dense, contiguous, and on one device. Those of 16 bits have an
    f32 master, kept as the state "master_param"; master="none" does without. state_dtype: "f32",
    "bf16" and so on. settings: of talus.hypers("settings"), such as {"max_grad_norm": 1.0,
    "threads": 4}.

    State is made at the first step, and is tensors of PyTorch. `state` is for reading, its tensors
    may be written. A copy or a pickle of the optimizer has its own state.
    """

    def __init__(self, params: Any, rule: str, *, state_dtype: Optional[str] = None,
                 master: Optional[str] = None, settings: Optional[Mapping[str, float]] = None,
                 **hypers: Any) -> None:
        spelling = Spelling(rule)
        self._native: Optional[Native] = None
        self._step_lock = threading.RLock()
        self._options = Options(spelling, state_dtype, master)
        self._settings = dict(settings or {})
        super().__init__(params, {**spelling.defaults, **spelling.keywords(hypers)})

    @property
    def native(self) -> _TalusOptimizer:
        """Lends the talus.Optimizer, for its settings, norms, statistics and checkpoints.

        Loading a state_dict, and parameters that change device, dtype or group, make a new one, to
        which settings, scaler and hooks go over. Schedules of talus do not: use PyTorch's.
        """
        return self._require_native().opt

    # groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        super().add_param_group(self._options.spelling.fold(param_group, self.defaults))
        group = self.param_groups[-1]
        try:
            native = self._native or self._create_native(group["params"])
            native.add_group(group)
        except BaseException:
            self.param_groups.pop()
            raise
        self._native = native

    def _create_native(self, params: list[torch.Tensor]) -> Native:
        native = Native(self._options, params[0].device if params else torch.device("cpu"))
        for name, value in self._settings.items():
            native.opt.set_setting(name, value)
        return native

    def _require_native(self) -> Native:
        """The optimizer of the library, of the groups and memory that there are now."""
        native = self._native
        if native is None:
            raise RuntimeError("this optimizer was never made: __init__ has not ended")
        if native.fits(self.param_groups) and native.bind_moved():
            return native
        return self._rebuild()

    def _rebuild(self) -> Native:
        assert self._native is not None
        members = {id(param) for group in self.param_groups for param in group["params"]}
        states = {param: saved for param, saved in self._native.saved().items()
                  if id(param) in members}
        made = self._native.rebuilt(self.param_groups, states)
        self._replace(made)
        return made

    def _replace(self, native: Native) -> None:
        old, self._native = self._native, native
        if old is not None:
            old.opt.close()

    # the step

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with self._step_lock:
            native = self._require_native()
            native.push(self.param_groups)
            gradients = native.gather()
            if gradients is None:
                native = self._rebuild()
                gradients = native.gather()
            assert gradients is not None
            native.step(gradients)
        return loss

    # state

    @property  # type: ignore[override]
    def state(self) -> Mapping[torch.Tensor, dict[str, Any]]:
        """By parameter: the step, as a tensor, and each slot; for reading, though tensors may be
        written."""
        return _States(self._native)

    @state.setter
    def state(self, value: Mapping[Any, Any]) -> None:
        if value:
            raise TypeError("state is set by load_state_dict; an empty one starts afresh")
        if self._native is not None:
            self._replace(self._native.rebuilt(self.param_groups, {}))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state_dict of this class, or of torch.optim's for the same rule. Checks all of it
        first.

        State keeps its dtype, where PyTorch would cast it to the parameter's.
        """
        hook = self.register_load_state_dict_pre_hook(_shield_state)
        try:
            super().load_state_dict(state_dict)
        finally:
            hook.remove()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Of load_state_dict: the groups, and by parameter what _shield_state made."""
        native = self._require_native()
        groups = state["param_groups"]
        for group in groups:
            for key, value in self.defaults.items():
                group.setdefault(key, value)
        states = {}
        for param, shielded in state["state"].items():
            if not isinstance(param, torch.Tensor):
                raise ValueError(f"state of {param!r}, which is no parameter of the groups")
            states[param] = _read_state(shielded.content)
        self._replace(native.rebuilt(groups, states))
        super().__setstate__({"param_groups": groups})

    def __copy__(self) -> Any:
        raise TypeError("two optimizers would share their state: use copy.deepcopy")

    def __reduce_ex__(self, _protocol: Any) -> Any:
        native = self._require_native()
        native.opt._require_copyable()
        options = {"state_dtype": self._options.state_dtype, "master": self._options.master,
                   "settings": {name: native.opt.get_setting(name) for name in names("settings")}}
        states = [native.saved_of(entry) for entry in native.entries]
        return _restore, (type(self), self._options.spelling.rule, options, self.defaults,
                          self.param_groups, [saved and tuple(saved) for saved in states])


class _States(Mapping[torch.Tensor, dict[str, Any]]):
    """A view: steps are asked for when they are read."""

    def __init__(self, native: Optional[Native]) -> None:
        self._native = native

    def _entry(self, param: Any) -> Optional[Entry]:
        return None if self._native is None else self._native.by_id.get(id(param))

    def __getitem__(self, param: torch.Tensor) -> dict[str, Any]:
        entry = self._entry(param)
        if entry is None:
            raise KeyError("no parameter of this optimizer")
        assert self._native is not None
        saved = self._native.saved_of(entry)
        if saved is None:
            return {}
        exact = torch.float32 if saved.steps <= 1 << 24 else torch.float64
        return {"step": torch.tensor(float(saved.steps), dtype=exact), **saved.slots}

    def __contains__(self, param: object) -> bool:
        entry = self._entry(param)
        return entry is not None and self._native is not None and \
            self._native.saved_of(entry) is not None

    def __iter__(self) -> Iterator[torch.Tensor]:
        entries = [] if self._native is None else self._native.entries
        return iter([entry.param for entry in entries if entry.param in self])

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Shielded:
    """Keeps the state of a parameter as it is, which PyTorch's load_state_dict would cast."""

    def __init__(self, content: Any) -> None:
        self.content = content


def _shield_state(_optimizer: Any, state_dict: dict[str, Any]) -> dict[str, Any]:
    return {**state_dict, "state": {key: _Shielded(value)
                                    for key, value in state_dict["state"].items()}}


def _read_state(content: dict[str, Any]) -> Saved:
    """Without a step, as SGD has it: state means that there was one at least."""
    if not isinstance(content, Mapping):
        raise ValueError(f"state of a parameter: {content!r}, expected a dict of its slots")
    slots = {name: _read_slot(name, value) for name, value in content.items()
             if name != "step" and value is not None}
    step = content.get("step", 1 if slots else 0)
    try:
        steps = float(step)
    except (TypeError, ValueError, RuntimeError):
        steps = math.nan
    if not 0 <= steps < 2.0**63 or steps != int(steps):
        raise ValueError(f"state: step is {step!r}, expected a whole number of 0 or more")
    return Saved(int(step), slots)


def _read_slot(name: str, value: Any) -> torch.Tensor:
    try:
        tensor = value.clone() if isinstance(value, torch.Tensor) else torch.tensor(value)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"state: {name} is {value!r}, expected a tensor") from None
    if tensor.is_complex() or tensor.is_meta:
        raise ValueError(f"state: {name} is a tensor of {tensor.dtype} on {tensor.device}, "
                         "expected real numbers that are there")
    return tensor


def _restore(made_as: type[Optimizer], rule: str, options: dict[str, Any], defaults: dict[str, Any],
             groups: list[dict[str, Any]], states: list[Optional[tuple[int, Any]]]) -> Optimizer:
    """The other half of __reduce_ex__."""
    made = made_as.__new__(made_as)
    Optimizer.__init__(made, groups, rule, **options)
    made.defaults = defaults
    native = made._require_native()
    native.adopt({entry.param: Saved(*saved)
                  for entry, saved in zip(native.entries, states) if saved is not None})
    return made


# A class for every rule: PyTorch's spelling of the name where it has the class, else CamelCase.

def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _class_names() -> dict[str, str]:
    """Rules and aliases by the names of their classes."""
    theirs = {_plain(name): name for name in dir(torch.optim) if name[0].isupper()}
    return {theirs.get(_plain(rule), "".join(part.capitalize() for part in rule.split("_"))): rule
            for rule in names("algorithms") + names("aliases")}


class Rule(Optimizer):
    """What the classes of rules share: the rule is theirs, and lr may come without its name."""

    _rule = ""

    def __init__(self, params: Any, lr: Any = None, **keywords: Any) -> None:
        if lr is not None:
            keywords["lr"] = lr
        super().__init__(params, self._rule, **keywords)


def _make_class(name: str, rule: str) -> type[Rule]:
    spelling = Spelling(rule)
    lines = [f"    {key} = {value!r}" for key, value in spelling.defaults.items()]
    text = f"{name}: {doc('purposes', rule)} ({doc('papers', rule)}).\n\n" + "\n".join(lines)
    return type(name, (Rule,), {"_rule": rule, "__doc__": text, "__module__": __name__})


def __getattr__(name: str) -> type[Rule]:
    """Finds a class whatever its capitals: FusedLAMB as well as FusedLamb."""
    if name[:1].isupper():
        for class_name, rule in _class_names().items():
            if _plain(class_name) == _plain(name):
                if class_name not in _classes:
                    _classes[class_name] = _make_class(class_name, rule)
                return _classes[class_name]
    raise AttributeError(f"module {__name__!r} has no {name!r}; it has Optimizer, "
                         f"{', '.join(_class_names())}")


def __dir__() -> list[str]:
    return ["Optimizer", *_class_names()]
