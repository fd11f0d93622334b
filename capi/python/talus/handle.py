"""Lifetime and locking of one object of the library."""
from __future__ import annotations

import ctypes as C
import threading
import weakref
from typing import Any, Callable, TypeVar

from . import _c
from .errors import Error, check, require_integers

Self = TypeVar("Self", bound="Handle")

# What a step's closure may call of the optimizer that is calling it; other callbacks nothing.
_ALLOWED_IN_CLOSURE = (_c.bind_grads, _c.zero_grad)


def _release(destroy: Callable[[int], None], raw: int, roots: dict[Any, Any]) -> None:
    destroy(raw)
    roots.clear()


class Handle:
    """Owns an object of the library, and in _roots all that the library keeps a pointer to.

    One call at a time: another thread waits. close, the end of a `with`, or the garbage collector
    frees it; close may be called again.
    """

    _what = "object"

    def __init__(self, raw: int, destroy: Callable[[int], None]) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._in_closure = False
        self._raw = raw
        self._roots: dict[Any, Any] = {}
        self._finalizer = weakref.finalize(self, _release, destroy, raw, self._roots)
        self._finalizer.atexit = False  # the end of the process frees it as well

    @property
    def handle(self) -> C.c_void_p:
        """Lends the pointer, for calls of talus.h that this package does not wrap."""
        if self.closed:
            raise Error(_c.E_STATE, f"this {self._what} is closed")
        return C.c_void_p(self._raw)

    @property
    def closed(self) -> bool:
        """Whether it was freed: all but close fails then."""
        return not self._finalizer.alive

    def close(self) -> None:
        """Frees the object of the library, and lets go of what was kept alive for it."""
        with self._lock:
            if self._depth:
                raise Error(_c.E_STATE, f"this {self._what} is closed by its own callback")
            self._finalizer()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce_ex__(self, _protocol: Any) -> Any:
        raise TypeError(f"a {self._what} of talus is memory of this process: it is neither copied "
                        "nor pickled; save a checkpoint")

    def _call(self, function: Any, *arguments: Any) -> None:
        """Calls function(handle, ...) and raises its failure."""
        require_integers(function, arguments, 1)
        with self._lock:
            if not (self._in_closure and function in _ALLOWED_IN_CLOSURE):
                self._require_outside()
            self._depth += 1
            try:
                check(function(self.handle, *arguments))
            finally:
                self._depth -= 1

    def _require_outside(self) -> None:
        if self._depth:
            raise Error(_c.E_STATE, f"this {self._what} is called from its own callback; only a "
                        "step's closure may, to bind and zero gradients")

    def _ask(self, function: Any, *arguments: Any) -> Any:
        """Calls function(handle, ...), which returns an answer and no status."""
        require_integers(function, arguments, 1)
        with self._lock:
            return function(self.handle, *arguments)

    def _read(self, function: Any, *arguments: Any, kind: Any = C.c_double) -> Any:
        """Calls function(handle, ..., &out) and returns what it wrote."""
        out = kind()
        self._call(function, *arguments, C.byref(out))
        return out if isinstance(out, C.Structure) else out.value


def create(function: Any, *arguments: Any) -> int:
    """Calls function(..., &out) and returns the pointer."""
    require_integers(function, arguments)
    out = C.c_void_p()
    check(function(*arguments, C.byref(out)))
    assert out.value is not None
    return out.value
