"""Checkpoints and notes of an optimizer."""
from __future__ import annotations

import ctypes as C
import io
import os
from typing import Any, BinaryIO, Callable, Optional, Union

from . import _c
from .errors import encode, guard
from .parameters import Parameters

Path = Union[str, bytes, "os.PathLike[str]"]
# Told how far a save or load is, in bytes; False cancels.
Progress = Callable[[int, int], Optional[bool]]


class Checkpoints(Parameters):
    """The part of Optimizer that saves and loads."""

    def save(self, path: Path, *, params: bool = False, digest: bool = True,
             progress: Optional[Progress] = None, stream: Optional[int] = None) -> None:
        """Saves to a file of safetensors, or, NAME.safetensors.index.json, to several. What was
        there stays whole until the new one is. params: the parameters too."""
        self._call(_c.save, _path(path), _io(_save_flags(params, digest), progress), stream)

    def save_to(self, file: BinaryIO, *, params: bool = False, digest: bool = True,
                progress: Optional[Progress] = None, stream: Optional[int] = None) -> None:
        """Writes the bytes of one file to an open one, front to back."""

        def write(_user: Optional[int], data: int, count: int) -> int:
            left = _bytes_at(data, count)
            while left:
                left = left[file.write(left):]  # an unbuffered file may take less
            return 0

        writer = _c.Writer(write=_c.Write(guard(write, 1)))
        self._call(_c.save_to, C.byref(writer), _io(_save_flags(params, digest), progress), stream)

    def load(self, path: Path, *, progress: Optional[Progress] = None,
             stream: Optional[int] = None, **flags: bool) -> None:
        """Loads what save wrote, also right after the parameters were added.

        flags: allow_missing, allow_extra, convert, keep_hyper, params, in_place, check_only; see
        TALUS_LOAD_... in talus.h. Functions of schedules are not in a file: attach them again.
        """
        self._call(_c.load, _path(path), _io(_load_flags(flags), progress), stream)

    def load_from(self, file: BinaryIO, *, progress: Optional[Progress] = None,
                  stream: Optional[int] = None, **flags: bool) -> None:
        """Loads from an open file that can seek, from where it is to its end."""
        begin = file.tell()
        size = file.seek(0, io.SEEK_END) - begin

        def read_at(_user: Optional[int], offset: int, to: int, count: int) -> int:
            left = _bytes_at(to, count)
            file.seek(begin + offset)
            while left:
                piece = file.read(len(left))
                if not piece:
                    raise EOFError(f"the file ended {len(left)} bytes before its size")
                left[:len(piece)] = piece
                left = left[len(piece):]
            return 0

        reader = _c.Reader(size=size, read_at=_c.ReadAt(guard(read_at, 1)))
        self._call(_c.load_from, C.byref(reader), _io(_load_flags(flags), progress), stream)

    def set_note(self, key: str, text: Optional[str]) -> None:
        """Sets a note that checkpoints keep; None removes it."""
        self._call(_c.set_note, encode(key), None if text is None else encode(text))

    def note(self, key: str) -> Optional[str]:
        """Reads a note; None: there is none."""
        needed = C.c_uint64()
        with self._lock:
            self._ask(_c.get_note, encode(key), None, 0, C.byref(needed))
            if needed.value == 0:
                return None
            text = C.create_string_buffer(needed.value)
            self._call(_c.get_note, encode(key), text, needed.value, None)
        return text.value.decode()


def _path(path: Path) -> bytes:
    return encode(os.fsdecode(path))


def _save_flags(params: bool, digest: bool) -> int:
    return (_c.SAVE_PARAMS if params else 0) | (0 if digest else _c.SAVE_NO_DIGEST)


_LOAD_FLAGS = {name: getattr(_c, "LOAD_" + name.upper()) for name in (
    "allow_missing", "allow_extra", "convert", "keep_hyper", "params", "in_place", "check_only")}


def _load_flags(flags: dict[str, bool]) -> int:
    unknown = [name for name in flags if name not in _LOAD_FLAGS]
    if unknown:
        raise TypeError(f"no flag {', '.join(map(repr, unknown))}, known are "
                        f"{', '.join(_LOAD_FLAGS)}")
    return sum(_LOAD_FLAGS[name] for name, on in flags.items() if on)


def _io(flags: int, progress: Optional[Progress]) -> Any:
    raw = _c.Io(flags=flags)
    if progress is not None:
        told = progress

        def tell(_user: Optional[int], done: int, total: int) -> int:
            return int(told(done, total) is False)

        raw.progress = _c.Progress(guard(tell, 1))
    return C.byref(raw)


def _bytes_at(address: int, count: int) -> memoryview:
    return memoryview((C.c_char * count).from_address(address)).cast("B") if count else \
        memoryview(b"")
