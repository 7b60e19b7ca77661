"""Where logs are written: a `LogFolder` holds the files of a log and its index.

`LocalFolder` is the disk's; `tailrace.storage.memory.MemoryFolder` is one in memory. Encryption
and object stores are folders, too: `tailrace.storage.binlog_file.BinlogFile` writes in any.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from tailrace.errors import StorageError
from tailrace.log_name import plain_name
from tailrace.storage.streams.base import told
from tailrace.storage.streams.file import FileOutput

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tailrace.storage.streams.base import RandomOutput, SpillOutput

flock: Callable[[int, int], None] | None = None
with suppress(ImportError):  # Windows has no such lock
    from fcntl import LOCK_EX, LOCK_NB, flock

_MODE: Final = 0o640
"""Permissions of a new log, as the servers give them."""
DRAFT_SUFFIX: Final = ".new"
"""Suffix of the provisional name of an incomplete file, which nobody takes for a log."""


def missing_folders(folder: Path) -> list[Path]:
    """The missing ones of the folder and its parents, innermost first: the order of removal."""
    return [each for each in (folder, *folder.parents) if not each.exists()]


class LogFolder(Protocol):
    """The files of a log, by name. Every method raises StorageError where the store refuses.

    A name is that of a file in the folder, and never a path: each method that takes one raises
    BadLogName for another (`tailrace.log_name.plain_name`), whoever has checked it before.
    """

    def path(self, name: str) -> str:
        """The file's path or URL for messages."""

    def names(self) -> list[str]:
        """The names of the files that are there, in no order."""

    def size(self, name: str) -> int:
        """A file's bytes."""

    def read(self, name: str, offset: int, count: int) -> bytes:
        """Bytes of a file: fewer than ``count`` only at its end."""

    def create(self, name: str, head: bytes) -> RandomOutput:
        """Create a file that begins with ``head``, completely or not at all.

        No file of that name may exist.
        """

    def reopen(self, name: str) -> RandomOutput:
        """Open an existing file to append to."""

    def remove(self, name: str) -> None:
        """Remove a file."""

    def replace(self, name: str, content: bytes) -> None:
        """Give a file this content in one step: afterwards it has the old or the new."""

    def spill(self, file: SpillOutput) -> SpillOutput:
        """A temporary file, protected as the folder's own are: encrypted where they are."""


def _name(draft: Path, path: Path) -> None:
    """Give a file its final name, if no file has it."""
    try:
        os.link(draft, path)  # unlike a rename it replaces no file that is there
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if path.exists():
            raise
        draft.rename(path)
    else:
        draft.unlink()


class LocalFolder:
    """A folder on disk; it is created with its first file.

    Only files of the folder itself are opened for writing: a symbolic link is rejected.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> str:
        """The file's path; of an empty name the folder's."""
        return str(self._file(name) if name else self.folder)

    def _file(self, name: str) -> Path:
        return self.folder / plain_name(name)

    def names(self) -> list[str]:
        """The files in the folder; none if it does not exist."""
        with told(self.folder):
            if not self.folder.exists():
                return []
            return [entry.name for entry in self.folder.iterdir() if entry.is_file()]

    def size(self, name: str) -> int:
        """The file's size."""
        path = self._file(name)
        with told(path):
            return path.stat().st_size

    def read(self, name: str, offset: int, count: int) -> bytes:
        """A piece of the file."""
        path = self._file(name)
        with told(path), path.open("rb", buffering=0) as file:
            file.seek(offset)
            pieces = []
            while count and (piece := file.read(count)):
                pieces.append(piece)
                count -= len(piece)
            return b"".join(pieces)

    def create(self, name: str, head: bytes) -> FileOutput:
        """Write the head to a draft, sync it, and give it its name."""
        path = self._file(name)
        draft = self._file(name + DRAFT_SUFFIX)
        with told(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        with told(path):
            draft.unlink(missing_ok=True)  # it may be another name of a log: do not write to it
            handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, _MODE)
        output = FileOutput(path, handle)
        try:
            self._lock(path, handle)
            output.write(head)
            output.sync()
            with told(path):
                _name(draft, path)
            self._sync()
        except BaseException:
            output.close()
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
        return output

    def reopen(self, name: str) -> FileOutput:
        """The file, locked."""
        path = self._file(name)
        with told(path):
            handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        try:
            self._lock(path, handle)
        except StorageError:
            os.close(handle)
            raise
        return FileOutput(path, handle)

    def remove(self, name: str) -> None:
        """Delete the file."""
        path = self._file(name)
        with told(path):
            path.unlink()
        self._sync()

    def replace(self, name: str, content: bytes) -> None:
        """Write a draft, sync it, and rename it over the file."""
        path = self._file(name)
        draft = self._file(name + DRAFT_SUFFIX)
        with told(path):
            draft.unlink(missing_ok=True)  # it may be a link to elsewhere
            with draft.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        self._sync()

    def spill(self, file: SpillOutput) -> SpillOutput:
        """The file unchanged."""
        return file

    def _sync(self) -> None:
        """Make the folder's own entries survive a power cut."""
        with told(self.folder):
            handle = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    @staticmethod
    def _lock(path: Path, handle: int) -> None:
        if flock is None:
            return
        try:
            flock(handle, LOCK_EX | LOCK_NB)
        except OSError:
            raise StorageError(f"{path}: another writer has it open") from None
