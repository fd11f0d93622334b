"""The one kind of error of this package, and how a status becomes one."""
from __future__ import annotations

import ctypes as C
import threading
from typing import Any, Callable, Sequence

from . import _c


class Error(RuntimeError):
    """A status that is not TALUS_OK; its text is the library's: what, where, got, expected.

    code    TALUS_E_..., see talus.h
    name    "TALUS_E_RANGE" and the like
    detail  the number that goes with the code, 0 where there is none
    """

    def __init__(self, code: int, text: str, detail: int = 0) -> None:
        super().__init__(text)
        self.code, self.detail = code, detail
        self.name: str = _c.status_name(code).decode()

    def __str__(self) -> str:
        return f"{self.args[0]} ({self.name})"

    def __reduce__(self) -> tuple[type, tuple[int, str, int]]:
        return type(self), (self.code, self.args[0], self.detail)


def require_integer(what: str, value: int, bits: int = 64) -> int:
    """Refuses what ctypes would cut to its lowest bits."""
    bound = 1 << (bits - 1)
    if not -bound <= value < bound:
        raise OverflowError(f"{what} is {value}, expected an integer of {bits} bits")
    return value


def int64s(what: str, values: Sequence[int]) -> Any:
    """An array for an argument of the library."""
    return (C.c_int64 * len(values))(*(require_integer(what, value) for value in values))


def require_integers(function: Any, arguments: Sequence[Any], first: int = 0) -> None:
    """Checks the integers among arguments, the first of which is function's argument `first`."""
    known = iter(_c.INTEGER_NAMES.get(function.__name__, ()))
    for kind, value in zip(function.argtypes[first:], arguments):
        if kind in (_c.i32, _c.i64):
            name = next(known, "an argument")
            if isinstance(value, int):
                require_integer(name, value, 8 * C.sizeof(kind))


def encode(text: str) -> bytes:
    """For an argument of the library, which ends at a NUL."""
    if not isinstance(text, str):
        raise TypeError(f"expected a str, got {type(text).__name__}")
    if "\0" in text:
        raise Error(_c.E_ARGUMENT, f"{text!r}: has a NUL in it")
    return text.encode()


_raised = threading.local()  # what a callback raised under the call that this thread is in


def guard(function: Callable[..., Any], failure: Any) -> Callable[..., Any]:
    """Makes a callback that never raises through C: it returns `failure`, and check raises then."""

    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except BaseException as error:  # KeyboardInterrupt too
            _raised.error = error
            return failure

    return call


def check(status: int) -> None:
    """Raises what a callback under the call just made has raised, or the failure of the call."""
    error = _raised.__dict__.pop("error", None)
    if error is not None:
        raise error
    if status != _c.OK:
        text = _c.last_error().decode(errors="replace")
        raise Error(status, text, _c.last_error_detail())
