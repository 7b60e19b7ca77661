"""Files on disk, and temporary ones: those have no name, and are gone when they are closed or their
process ends.
"""

from __future__ import annotations

import os
from io import FileIO
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from tailrace.errors import CannotOpen, ReadFailed, StorageError
from tailrace.storage.streams.base import check_cut, check_within, told

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.storage.streams.base import Data


class FileInput:
    """A local file, unbuffered, also while it grows. Raises CannotOpen, and then ReadFailed."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        try:
            self._file = FileIO(path)
        except OSError as error:
            raise CannotOpen(error.strerror or str(error), file=self.path) from error

    def read(self, count: int, /) -> bytes:
        """At most ``count`` bytes."""
        try:
            return self._file.read(count) or b""
        except OSError as error:
            raise self._refused(error) from error

    def readinto(self, view: bytearray | memoryview, /) -> int:
        """As `read`, into the given memory."""
        try:
            return self._file.readinto(view) or 0
        except OSError as error:
            raise self._refused(error) from error

    def seek(self, offset: int, /) -> int:
        """Go to an offset."""
        try:
            return self._file.seek(offset)
        except OSError as error:
            raise self._refused(error) from error

    def tell(self) -> int:
        """The current offset."""
        return self._file.tell()

    def size(self) -> int:
        """The file's current size in bytes."""
        try:
            return os.fstat(self._file.fileno()).st_size
        except OSError as error:
            raise self._refused(error) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _refused(self, error: OSError) -> ReadFailed:
        where = None if self._file.closed else self._file.tell()
        return ReadFailed(error.strerror or str(error), file=self.path, offset=where)


class FileOutput:
    """A file on disk, written unbuffered through a handle that is its own."""

    def __init__(self, path: str | Path, handle: int) -> None:
        self.path = path
        self._handle = handle
        self.size = os.fstat(handle).st_size
        self.astray = True

    astray: bool
    """Whether the handle may stand elsewhere than at the end."""

    def write(self, data: Data, /) -> None:
        """Append to the file."""
        left: Data = data
        handle = self._handle
        try:
            if self.astray:
                os.lseek(handle, self.size, os.SEEK_SET)
                self.astray = False
            while True:
                count = os.write(handle, left)
                self.size += count
                if count == len(left):
                    return
                left = memoryview(left)[count:]
        except OSError as error:
            raise self._refused(error) from error

    def update(self, offset: int, data: Data, /) -> None:
        """Overwrite existing bytes."""
        check_within(offset, len(data), self.size)
        self.astray = True
        with told(self.path):
            os.lseek(self._handle, offset, os.SEEK_SET)
            left = memoryview(data)
            while left:
                left = left[os.write(self._handle, left) :]

    def truncate(self, size: int, /) -> None:
        """Cut the file back."""
        check_cut(size, self.size)
        self.astray = True
        with told(self.path):
            os.ftruncate(self._handle, size)
        self.size = size

    def flush(self) -> None:
        """Nothing: the operating system has it all."""

    def sync(self) -> None:
        """`os.fsync`."""
        with told(self.path):
            os.fsync(self._handle)

    def close(self) -> None:
        """Close the file, and unlock it."""
        if self._handle >= 0:
            handle, self._handle = self._handle, -1
            with told(self.path):
                os.close(handle)

    def _refused(self, error: OSError) -> StorageError:
        return StorageError(f"{self.path}: {error.strerror or error}")


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
