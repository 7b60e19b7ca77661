"""Logs that come through a pipe: standard input, a named pipe.

They can be read once, except their beginning, which is kept: opening a log reads it first.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Final

from tailrace.constants import MAGIC
from tailrace.errors import StorageError
from tailrace.storage.streams.base import check_count, told
from tailrace.storage.streams.input import ForwardInput

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.storage.streams.base import InputStream


class _Pipe:
    def __init__(self, handle: int, name: str) -> None:
        self._handle = handle
        self._name = name

    def read(self, count: int, /) -> bytes:
        with told(self._name):
            return os.read(self._handle, count)


class StandardInput(ForwardInput):
    """A pipe's bytes, as they come; of a handle given, or this process's own. It is left open."""

    name = "standard input"

    def __init__(self, handle: int | None = None) -> None:
        handle = sys.stdin.fileno() if handle is None else handle
        super().__init__(_Pipe(handle, self.name))


STANDARD_INPUT: Final = "-"
_KEPT: Final = 1 << 20


class Pipe:
    """A stream that is read once; it can be read again until more than 1 MiB was taken.

    As a store it is itself, whatever name is asked for.
    """

    joined: ClassVar[bool] = True
    looks_every: ClassVar[float] = 0.02

    def __init__(self, lower: InputStream, name: str) -> None:
        self._lower = lower
        self.name = self.place = name
        self._kept = bytearray()
        self.taken = 0

    def read_at(self, offset: int, count: int) -> bytes:
        """At most ``count`` bytes from an offset on. Raises StorageError if they are gone."""
        if offset < len(self._kept):
            return bytes(memoryview(self._kept)[offset : offset + count])
        if offset != self.taken:
            raise StorageError(
                f"{self.name}: whether a prepared XA transaction was rolled back is found by"
                f" reading ahead, and of a pipe only the first {_KEPT >> 20} MiB can be read again:"
                " save it as a file, and give that"
            )
        data = self._lower.read(count)
        if self.taken == len(self._kept) and self.taken + len(data) <= _KEPT:
            self._kept += data
        self.taken += len(data)
        return data

    def path(self, _name: str) -> str:
        """The pipe's path, ``-`` for standard input."""
        return self.place

    def listing(self) -> dict[str, int | None]:
        """Nothing: a pipe is in no folder of logs."""
        return {}

    def folders(self) -> list[Pipe]:
        """Nothing, as `listing`."""
        return []

    def within(self, _folder: str) -> None:
        """Nothing, as `listing`."""

    def head(self, _name: str) -> tuple[bytes, int]:
        """The first four bytes, and the number of those that came so far."""
        return self.read_at(0, len(MAGIC)), self.taken

    def read(self, _name: str, offset: int, count: int) -> bytes:
        """Bytes from an offset on, as `read_at`."""
        return self.read_at(offset, count)

    def open(self, _name: str) -> PipeInput:
        """Read it from the beginning."""
        return PipeInput(self)

    def __reduce__(self) -> str:
        raise StorageError(f"{self.place}: what comes through a pipe is read in one process only")


class PipeInput:
    """One reading of a pipe, from its beginning."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._at = 0

    def read(self, count: int, /) -> bytes:
        """At most ``count`` bytes."""
        check_count(count)
        data = self._pipe.read_at(self._at, count)
        self._at += len(data)
        return data


@cache
def standard_input() -> Pipe:
    """Return the standard input of this process."""
    return Pipe(StandardInput(), STANDARD_INPUT)


def piped(path: Path) -> Pipe:
    """A named pipe, open for reading. Raises StorageError."""
    with told(path):
        handle = os.open(path, os.O_RDONLY)
    return Pipe(StandardInput(handle), str(path))
