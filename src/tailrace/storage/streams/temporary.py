"""A temporary file: without a name, gone when it is closed or its process ends."""

from __future__ import annotations

import os
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from tailrace.storage.streams.base import told
from tailrace.storage.streams.file import FileOutput

if TYPE_CHECKING:
    from pathlib import Path


class TemporaryOutput(FileOutput):
    """A file of our own, in the folder given or the one that `tempfile` chooses.

    ``name`` is what errors call it. Raises StorageError where none can be made.
    """

    def __init__(self, name: str = "temporary file", folder: str | Path | None = None) -> None:
        with told(name):
            self._file = TemporaryFile(buffering=0, dir=folder)  # noqa: SIM115 - see close()
        super().__init__(name, self._file.fileno())

    def sync(self) -> None:
        """Nothing: it outlives nothing."""

    def input(self) -> TemporaryInput:
        """What was written, from its begin on."""
        return TemporaryInput(self, self._handle)

    def close(self) -> None:
        """Close the file: it is gone."""
        self._handle = -1
        with told(self.path):
            self._file.close()


class TemporaryInput:
    """A temporary file being read, through its output's handle. Its place is its own."""

    def __init__(self, output: FileOutput, handle: int) -> None:
        self._name = output.path
        self._output = output
        self._handle = handle
        self._at = 0

    def read(self, count: int, /) -> bytes:
        """At most ``count`` bytes."""
        self._output.astray = True
        with told(self._name):
            os.lseek(self._handle, self._at, os.SEEK_SET)
            data = os.read(self._handle, count)
        self._at += len(data)
        return data

    def readinto(self, view: bytearray | memoryview, /) -> int:
        """As `read`, into the given memory."""
        self._output.astray = True
        with told(self._name):
            os.lseek(self._handle, self._at, os.SEEK_SET)
            count = os.readv(self._handle, [view])
        self._at += count
        return count

    def seek(self, offset: int, /) -> int:
        """Go to an offset."""
        self._at = offset
        return offset

    def tell(self) -> int:
        """The current offset."""
        return self._at

    def size(self) -> int:
        """The file's current size in bytes."""
        with told(self._name):
            return os.fstat(self._handle).st_size

    def close(self) -> None:
        """Nothing: the output closes the file."""
