"""Schedules: the value of a hyperparameter over time, see talus.h."""
from __future__ import annotations

import ctypes as C
import itertools
import math
from typing import Callable, Iterable, Optional, Sequence

from . import _c
from .errors import encode, guard, int64s
from .handle import Handle, create
from .names import require_known

# What schedules and their kept functions are to the library: it says when one is gone.
_functions: dict[int, object] = {}
_keys = itertools.count(1)


@_c.Destroy
def _forget(key: Optional[int]) -> None:
    _functions.pop(key or 0, None)


class Schedule(Handle):
    """One reference to a schedule of a kind in names("schedules"):

        warmup, decay = Schedule("linear", total_iters=500), Schedule("cosine", T_max=9500)
        opt.attach("lr", sequential([warmup, decay], [500]))

    Keywords are hypers("schedule/KIND"), and milestones where the kind has them. What it is
    attached to keeps the schedule alive, also when this reference is closed.
    """

    _what = "schedule"

    def __init__(self, kind: str, *, milestones: Optional[Iterable[int]] = None,
                 **values: float) -> None:
        raw = create(_c.schedule_create, encode(kind))
        super().__init__(raw, _c.schedule_destroy)
        if values:
            require_known(f"schedule/{kind}", values)
            self.set(**values)
        if milestones is not None:
            self.milestones = list(milestones)

    @classmethod
    def _of(cls, raw: int) -> Schedule:
        """Takes over a reference."""
        made = cls.__new__(cls)
        Handle.__init__(made, raw, _c.schedule_destroy)
        return made

    @property
    def kind(self) -> str:
        """Its name in names("schedules")."""
        return self._ask(_c.schedule_kind).decode()

    def set(self, **values: float) -> None:
        """Sets one after the other; on failure those before the refused one are set."""
        for name, value in values.items():
            self._call(_c.schedule_set, encode(name), value)

    def get(self, name: str) -> float:
        """Returns NaN for what is not set and has no default of its own."""
        return self._read(_c.schedule_get, encode(name))

    @property
    def milestones(self) -> list[int]:
        """The times at which something changes, ascending; see the kind."""
        count = C.c_int64()
        self._call(_c.schedule_get_list, b"milestones", None, 0, C.byref(count))
        values = (C.c_int64 * count.value)()
        self._call(_c.schedule_get_list, b"milestones", values, count.value, C.byref(count))
        return list(values)

    @milestones.setter
    def milestones(self, values: Sequence[int]) -> None:
        self._call(_c.schedule_set_list, b"milestones", int64s("milestones", values), len(values))

    def set_function(self, function: Callable[[int], float]) -> None:
        """Gives lambda or multiplicative its function of t, which must be pure.

        What it raises comes out of the call that asked.
        """
        wrapped = _c.ScheduleFunction(guard(lambda _, t: float(function(t)), math.nan))
        key = next(_keys)
        _functions[key] = wrapped
        try:
            self._call(_c.schedule_set_function, wrapped, key, _forget)
        except BaseException:
            _functions.pop(key, None)
            raise

    def add(self, piece: Schedule) -> None:
        """Adds a piece to a sequential or chained schedule, which keeps it alive."""
        self._call(_c.schedule_add, piece.handle)

    @property
    def pieces(self) -> list[Schedule]:
        """New references to the pieces of a sequential or chained schedule."""
        found = []
        for i in range(self._ask(_c.schedule_piece_count)):
            raw = C.c_void_p()
            self._call(_c.schedule_piece, i, C.byref(raw))
            found.append(Schedule._of(raw.value or 0))
        return found

    def value(self, base: float, t: int) -> float:
        """Evaluates the schedule without an optimizer."""
        return self._read(_c.schedule_value, base, t)


def sequential(pieces: Iterable[Schedule], milestones: Iterable[int]) -> Schedule:
    """One piece after the other; each but the first sees the time since its milestone."""
    made = chained(pieces, "sequential")
    made.milestones = list(milestones)
    return made


def chained(pieces: Iterable[Schedule], kind: str = "chained") -> Schedule:
    """Each piece on the value of the one before."""
    made = Schedule(kind)
    for piece in pieces:
        made.add(piece)
    return made


def of_function(function: Callable[[int], float], kind: str = "lambda") -> Schedule:
    """The base times function(t); of kind "multiplicative" times function(1) ... function(t)."""
    made = Schedule(kind)
    made.set_function(function)
    return made
