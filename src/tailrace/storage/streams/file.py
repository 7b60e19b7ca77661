"""Files on disk, and temporary ones: those have no name, and are gone when they are closed or their
process ends.
"""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Final

from tailrace.errors import CannotOpen, ReadFailed, StorageError
from tailrace.storage.streams.base import check_cut, check_within, end_output, told
from tailrace.storage.streams.input import OffsetInput

if TYPE_CHECKING:
    from tailrace.storage.streams.base import Data

_FARTHEST: Final = 1 << 62
"""After the end of any file; systems reject much larger offsets, and do not read nothing there."""


class FileInput(OffsetInput):
    """A local file, unbuffered, also while it grows. Raises CannotOpen, and then ReadFailed.

    With ``handle`` it is the file that is open there, under the name ``path``; it stays open.
    """

    def __init__(self, path: str | Path, handle: int | None = None) -> None:
        self.path = str(path)
        try:
            self._file = FileIO(path) if handle is None else FileIO(handle, closefd=False)
        except OSError as error:
            raise CannotOpen(error.strerror or str(error), file=self.path) from error

    def _read_at(self, offset: int, count: int) -> bytes:
        try:
            return os.pread(self._file.fileno(), count, min(_FARTHEST, offset))
        except OSError as error:
            raise self._failed(error, offset) from error

    def _readinto_at(self, offset: int, view: bytearray | memoryview) -> int:
        try:
            return os.preadv(self._file.fileno(), (view,), min(_FARTHEST, offset))
        except OSError as error:
            raise self._failed(error, offset) from error

    def size(self) -> int:
        """The file's current size in bytes."""
        try:
            return os.fstat(self._file.fileno()).st_size
        except OSError as error:
            raise self._failed(error, self._at) from error

    def close(self) -> None:
        """Close the file."""
        super().close()
        self._file.close()

    def _failed(self, error: OSError, offset: int) -> ReadFailed:
        return ReadFailed(error.strerror or str(error), file=self.path, offset=offset)


class FileOutput:
    """A file on disk, written unbuffered through a handle that is its own."""

    def __init__(self, path: str | Path, handle: int) -> None:
        self.path = path
        self._handle = handle
        self.size = os.fstat(handle).st_size

    def write(self, data: Data, /) -> None:
        """Append to the file."""
        try:
            count = os.pwrite(self._handle, data, self.size)
        except OSError as error:
            raise StorageError(f"{self.path}: {error.strerror or error}") from error
        except BaseException:  # an interrupt, perhaps after it was written
            self.size = os.fstat(self._handle).st_size
            raise
        self.size += count
        if count != len(data):
            self.write(memoryview(data)[count:])

    def update(self, offset: int, data: Data, /) -> None:
        """Overwrite existing bytes."""
        check_within(offset, len(data), self.size)
        with told(self.path):
            left = memoryview(data)
            while left:
                count = os.pwrite(self._handle, left, offset)
                offset, left = offset + count, left[count:]

    def truncate(self, size: int, /) -> None:
        """Cut the file back."""
        check_cut(size, self.size)
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
            end_output(self)
            with told(self.path):
                handle, self._handle = self._handle, -1
                os.close(handle)


class TemporaryOutput(FileOutput):
    """A file of our own, in the folder given or the one that `tempfile` chooses.

    ``name`` is what errors call it. Raises StorageError where none can be made.
    """

    def __init__(self, name: str = "temporary file", folder: str | Path | None = None) -> None:
        with told(name):
            self._file = TemporaryFile(buffering=0, dir=folder)  # noqa: SIM115 - see close()
        super().__init__(name, self._file.fileno())
        self._inputs: list[FileInput] = []

    @property
    def shown_as(self) -> str | None:
        """Its path among the files that the process has open; None if the system shows none."""
        path = Path(f"/proc/{os.getpid()}/fd/{self._handle}")
        return str(path) if path.exists() else None

    def sync(self) -> None:
        """Nothing: it outlives nothing."""

    def input(self) -> FileInput:
        """What was written, from its beginning on."""
        self._inputs.append(FileInput(self.path, self._handle))
        return self._inputs[-1]

    def close(self) -> None:
        """Close the file and the inputs on it: it is gone."""
        for each in self._inputs:
            each.close()
        self._handle = -1
        end_output(self)
        with told(self.path):
            self._file.close()
