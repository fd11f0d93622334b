"""How PyTorch spells the hyperparameters of a rule: pairs are tuples, flags are bools."""
from __future__ import annotations

import math
from typing import Any

from . import _c
from .names import hypers

# beta1, beta2: betas; etaminus, etaplus: etas; step_size_min, step_size_max: step_sizes.
_PAIR_ENDINGS = (("1", "2"), ("minus", "plus"), ("_min", "_max"))
# Of torch.optim's constructors, without meaning here: a step is fused and multi-tensor in any case.
_EXECUTION = ("foreach", "fused", "capturable")


class Spelling:
    """The keys of a param_group that are hyperparameters of a rule, and their defaults."""

    def __init__(self, rule: str) -> None:
        self.rule = rule
        self.hypers = hypers(rule)
        self.keys: dict[str, tuple[str, ...]] = {}  # by key: the names here
        for name in self.hypers:
            key, pair = self._pair_of(name)
            self.keys.setdefault(key, pair)
        self.defaults = {key: self._default(names) for key, names in self.keys.items()}
        # What is made of others has no default: it is left to the library until given.
        self.defaults = {key: value for key, value in self.defaults.items() if value is not None}

    def _pair_of(self, name: str) -> tuple[str, tuple[str, ...]]:
        for endings in _PAIR_ENDINGS:
            for ending in endings:
                stem = name[:-len(ending)]
                pair = tuple(stem + each for each in endings)
                if name.endswith(ending) and stem and all(each in self.hypers for each in pair):
                    return stem + "s", pair
        return name, (name,)

    def _default(self, names: tuple[str, ...]) -> Any:
        values = tuple(self._typed(name, self.hypers[name].default) for name in names)
        if any(isinstance(value, float) and math.isnan(value) for value in values):
            return None
        return values if len(values) > 1 else values[0]

    def _typed(self, name: str, value: float) -> Any:
        kind = self.hypers[name].kind
        if math.isnan(value):
            return value
        return bool(value) if kind == _c.FLAG else int(value) if kind == _c.INTEGER else value

    def fold(self, given: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
        """Puts beta1=... into betas=..., whose other half is base's or the default."""
        result = dict(given)
        for key, names in self.keys.items():
            if len(names) > 1 and any(name in result for name in names):
                pair = result.get(key, base.get(key, self.defaults[key]))
                if not isinstance(pair, (tuple, list)) or len(pair) != len(names):
                    raise ValueError(f"{key}: {pair!r}, expected {len(names)} numbers")
                result[key] = tuple(result.pop(name, half) for name, half in zip(names, pair))
        return result

    def keywords(self, given: dict[str, Any]) -> dict[str, Any]:
        """Keywords of a constructor: all known, or TypeError with the list."""
        result = {key: value for key, value in self.fold(given, {}).items()
                  if key not in _EXECUTION and not (key == "differentiable" and not value)}
        if result.get("differentiable"):
            raise TypeError("differentiable=True: a step of talus is not differentiated")
        unknown = [key for key in result if key not in self.keys]
        if unknown:
            raise TypeError(f"{self.rule} has no {', '.join(map(repr, unknown))}; it has "
                            f"{', '.join(self.keys)}")
        return result

    def values(self, group: dict[str, Any]) -> dict[str, float]:
        """The hyperparameters that a group holds, by their names here."""
        result: dict[str, float] = {}
        for key, names in self.keys.items():
            if key not in group:
                continue
            try:
                values = group[key] if len(names) > 1 else (group[key],)
                numbers = [float(value) for value in values]
            except (TypeError, ValueError):
                numbers = []
            if len(numbers) != len(names):
                expected = f"{len(names)} numbers" if len(names) > 1 else "a number"
                raise ValueError(f"{key}: {group[key]!r}, expected {expected}")
            result.update(zip(names, numbers))
        return result

    def keys_of(self, values: dict[str, float]) -> dict[str, Any]:
        """What a group holds for these hyperparameters; NaN is left out: made of others."""
        result: dict[str, Any] = {}
        for key, names in self.keys.items():
            typed = tuple(self._typed(name, values[name]) for name in names)
            if not any(math.isnan(value) for value in typed):
                result[key] = typed if len(typed) > 1 else typed[0]
        return result
