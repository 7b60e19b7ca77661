"""Logs that come through a pipe: standard input, a named pipe.

They can be read once, except their beginning, which is kept: opening a log reads it first.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Final

from tailrace.errors import StorageError
from tailrace.storage.file import LogFile, LogSeries
from tailrace.storage.joined import JoinedInput
from tailrace.storage.streams.base import told
from tailrace.storage.streams.standard import StandardInput

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.streams.base import InputStream

STANDARD_INPUT: Final = "-"
_KEPT: Final = 1 << 20


class Pipe:
    """A stream that is read once; it can be read again until more than 1 MiB was taken."""

    def __init__(self, lower: InputStream, name: str) -> None:
        self._lower = lower
        self._name = name
        self._kept = bytearray()
        self.taken = 0

    def read_at(self, offset: int, count: int) -> bytes:
        """At most ``count`` bytes from an offset on. Raises StorageError if they are gone."""
        if offset < len(self._kept):
            return bytes(memoryview(self._kept)[offset : offset + count])
        if offset != self.taken:
            raise StorageError(
                f"{self._name}: this reads the log once more, and it came through a pipe: save it"
                " as a file, and give that"
            )
        data = self._lower.read(count)
        if self.taken == len(self._kept) and self.taken + len(data) <= _KEPT:
            self._kept += data
        self.taken += len(data)
        return data


class PipeInput:
    """One reading of a pipe, from its beginning."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._at = 0

    def read(self, count: int, /) -> bytes:
        """At most ``count`` bytes."""
        data = self._pipe.read_at(self._at, count)
        self._at += len(data)
        return data


@dataclass(frozen=True, slots=True)
class PipeFile(LogFile):
    """Logs that come through a pipe. It does not pickle."""

    pipe: Pipe
    joined: ClassVar[bool] = True

    def open(self) -> JoinedInput:
        """Read its plain bytes from the beginning."""
        return JoinedInput(PipeInput(self.pipe), self.keyring, path=self.path)

    def length(self) -> int:
        """Bytes that came so far."""
        return self.pipe.taken

    @property
    def place(self) -> str:
        """The pipe itself."""
        return self.path

    def names_beside(self) -> list[str]:
        """Nothing: a pipe is in no folder of logs."""
        return []

    def __reduce__(self) -> str:
        raise StorageError(f"{self.path}: what comes through a pipe is read in one process only")


def standard_input(keyring: Keyring | None = None) -> LogSeries:
    """The logs that come through this process's standard input."""
    return _series(STANDARD_INPUT, STANDARD_INPUT, _standard(), keyring)


@cache
def _standard() -> Pipe:
    return Pipe(StandardInput(), STANDARD_INPUT)


def piped(path: Path, keyring: Keyring | None = None) -> LogSeries:
    """The logs that come through a named pipe. Raises StorageError."""
    with told(path):
        handle = os.open(path, os.O_RDONLY)
    return _series(str(path), path.name, Pipe(StandardInput(handle), str(path)), keyring)


def _series(path: str, name: str, pipe: Pipe, keyring: Keyring | None) -> LogSeries:
    return LogSeries(name, (PipeFile(path, name, 0, pipe, keyring=keyring),))
