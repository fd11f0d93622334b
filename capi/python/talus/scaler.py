"""The loss scaler of mixed precision, see talus.h."""
from __future__ import annotations

from typing import Optional

from . import _c
from .errors import encode
from .handle import Handle, create
from .names import require_known


class Scaler(Handle):
    """Keywords are hypers("scaler"). Several optimizers may share one; it serves on where it is
    attached when this reference is closed."""

    _what = "scaler"

    def __init__(self, *, device: tuple[int, int] = (_c.CPU, 0), **values: float) -> None:
        require_known("scaler", values)
        super().__init__(create(_c.scaler_create, *device), _c.scaler_destroy)
        self.set(**values)

    def set(self, **values: float) -> None:
        """Sets one after the other; on failure those before the refused one are set."""
        for name, value in values.items():
            self._call(_c.scaler_set, encode(name), value)

    def get(self, name: str) -> float:
        """Reads a parameter, "scale", "growth_tracker", "hysteresis_tracker", "consecutive_skips"
        or "total_skips"."""
        return self._read(_c.scaler_get, encode(name))

    @property
    def scale(self) -> float:
        """What the loss is to be multiplied by."""
        return self._read(_c.scaler_scale)

    def update(self, stream: Optional[int] = None) -> None:
        """Closes a round, once all optimizers have stepped."""
        self._call(_c.scaler_update, stream)
