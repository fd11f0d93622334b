"""What the library says of itself: versions, names, hyperparameters, features."""
from __future__ import annotations

import ctypes as C
from typing import Callable, NamedTuple, Optional

from . import _c
from .errors import Error, check, encode


class Hyper(NamedTuple):
    """A hyperparameter, a setting or a parameter of a schedule."""

    name: str
    kind: int  # REAL, INTEGER or FLAG
    default: float  # NaN: none, or made of others, see doc
    min: float
    max: float
    flags: int  # HYPER_...
    doc: str


def version() -> str:
    """Returns the version of the library, such as "0.1.0"."""
    number = _c.version()
    return f"{number >> 16}.{number >> 8 & 255}.{number & 255}"


def abi_version() -> tuple[int, int]:
    """Returns the number of the ABI and the count of additions since."""
    return _c.abi_version() >> 16, _c.abi_version() & 0xFFFF


def build_info() -> str:
    return _c.build_info().decode()


def names(which: str) -> list[str]:
    """Returns the names of a list: "algorithms", "aliases", "slots/adamw", "lists" and so on."""
    count = _c.name_count(encode(which))
    if count < 0:
        raise Error(_c.E_NAME, f"no list named {which!r}, known are {', '.join(names('lists'))}")
    return [_c.name_at(encode(which), i).decode() for i in range(count)]


def doc(which: str, name: str) -> str:
    """Returns the line about one name of a list."""
    found = _c.name_doc(encode(which), encode(name))
    if found is None:
        raise Error(_c.E_NAME, f"no {name!r} in the list {which!r}")
    return found.decode()


def hypers(owner: str) -> dict[str, Hyper]:
    """Describes the hyperparameters of an algorithm or alias, of "settings", "scaler" or of a
    schedule as "schedule/cosine"."""
    found = {}
    for i in range(max(_c.hyper_count(encode(owner)), 1)):  # an unknown owner fails at the first
        raw = _c.Hyper()
        check(_c.hyper_info(encode(owner), i, C.byref(raw)))
        hyper = Hyper(raw.name.decode(), raw.kind, raw.def_, raw.min, raw.max, raw.flags,
                      raw.doc.decode())
        found[hyper.name] = hyper
    return found


def require_known(owner: str, values: dict[str, float]) -> None:
    """Refuses keywords that the library does not have, before any call."""
    known = hypers(owner)
    unknown = [name for name in values if name not in known]
    if unknown:
        raise TypeError(f"{owner} has no {', '.join(map(repr, unknown))}; it has "
                        f"{', '.join(known)}")


def has_feature(name: str) -> bool:
    return _c.has_feature(encode(name)) == 1


def why_not(feature: str) -> str:
    """Returns why a feature cannot be used here and now; "" if it can."""
    return "" if has_feature(feature) else _c.last_error().decode(errors="replace")


def set_plugin_path(folders: Optional[str]) -> None:
    """Sets the folders that plugins are looked for in first, separated by ":"."""
    check(_c.set_plugin_path(None if folders is None else encode(folders)))


_log = None  # the function that the library calls, for as long as it may


def set_log(line: Optional[Callable[[int, str], None]], level: int = _c.LOG_WARNING) -> None:
    """Sets what receives (level, text) of each line of the whole process; None: silent.

    It must not call the library. An exception in it goes to sys.unraisablehook.
    """
    global _log

    def receive(_user: Optional[int], at: int, text: bytes) -> None:
        if line is not None:
            line(at, text.decode(errors="replace"))

    wrapped = _c.Log(receive) if line is not None else _c.Log()
    _c.set_log(wrapped, level, None)
    _log = wrapped
