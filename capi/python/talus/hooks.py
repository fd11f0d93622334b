"""Threads and memory of the host in place of the library's own."""
from __future__ import annotations

import ctypes as C
import threading
from typing import Any, Callable, Optional

from . import _c
from .errors import Error, guard
from .parameters import Parameters

# Runs task(i) once for each 0 <= i < count, on any threads.
ParallelFor = Callable[[int, Callable[[int], None]], None]


class Hooks(Parameters):
    """The part of Optimizer that calls the host back."""

    def set_parallel_for(self, run: Optional[ParallelFor]) -> None:
        """Runs steps on the host's threads, None: the library's own again.

        A pool serves: `lambda count, task: list(pool.map(task, range(count)))`. What run leaves
        out, or what it had not done when it raised, is done on the stepping thread.
        """
        wrapped = _c.ParallelFor() if run is None else _parallel_for(run)
        with self._lock:
            self._call(_c.set_parallel_for, wrapped, None)
            self._roots["parallel_for"] = wrapped

    def set_allocator(self, alloc: Callable[[int, int, Optional[int]], Optional[int]],
                      release: Callable[[int, int, Optional[int]], None]) -> None:
        """Sets where state and workspace come from, before there is any: alloc(bytes, alignment,
        stream) -> address or None, release(address, bytes, stream)."""

        def take(_user: Optional[int], size: int, alignment: int, stream: Optional[int]) -> Any:
            return alloc(size, alignment, stream)

        def give(_user: Optional[int], data: int, size: int, stream: Optional[int]) -> None:
            release(data, size, stream)

        raw = _c.Allocator(alloc=_c.Alloc(guard(take, None)), release=_c.Release(give))
        with self._lock:
            self._call(_c.set_allocator, C.byref(raw))
            self._roots["allocator"] = raw

    def _take_hooks(self, other: Hooks) -> None:
        with self._lock:
            for name, function in (("parallel_for", _c.set_parallel_for),
                                   ("allocator", _c.set_allocator)):
                hook = other._roots.get(name)
                if hook is not None:
                    self._call(function, *((hook, None) if name == "parallel_for" else
                                           (C.byref(hook),)))
                    self._roots[name] = hook


class _Tasks:
    """Tasks 0 .. count-1, each of which runs once."""

    def __init__(self, count: int, task: Any, context: Optional[int]) -> None:
        self.count, self.task, self.context = count, task, context
        self.claimed = [False] * count
        self.running = 0
        self.idle = threading.Condition()

    def run(self, i: int) -> None:
        with self.idle:
            if not 0 <= i < self.count or self.claimed[i]:
                raise Error(_c.E_ARGUMENT, f"task {i} of {self.count}: not there, or run before")
            self.claimed[i] = True
            self.running += 1
        self.task(self.context, i)
        with self.idle:
            self.running -= 1
            self.idle.notify_all()

    def finish(self) -> None:
        """Runs what nobody has, and waits for what others are at."""
        for i in range(self.count):
            if not self.claimed[i]:
                self.run(i)
        with self.idle:
            self.idle.wait_for(lambda: self.running == 0)


def _parallel_for(run: ParallelFor) -> Any:
    def call(_user: Optional[int], count: int, task: Any, context: Optional[int]) -> None:
        tasks = _Tasks(count, task, context)
        try:
            run(count, tasks.run)
        finally:
            tasks.finish()

    return _c.ParallelFor(guard(call, None))
