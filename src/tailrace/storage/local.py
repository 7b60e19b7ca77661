"""Folders of logs on disk."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from tailrace.constants import MAGIC
from tailrace.errors import StorageError, UsageError
from tailrace.log_name import plain_name
from tailrace.storage.streams.base import told
from tailrace.storage.streams.file import FileInput, FileOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tailrace.storage.streams.base import SpillOutput

flock: Callable[[int, int], None] | None = None
with suppress(ImportError):  # Windows has no such lock
    from fcntl import LOCK_EX, LOCK_NB, flock

_MODE: Final = 0o640
"""Permissions of a new log, as the servers give them."""
_SERVERS_OWN: Final = frozenset({"auto.cnf", "ibdata1", "aria_log_control", "mysql.ibd"})
"""Files of which a server has at least one in its data folder."""
DRAFT_SUFFIX: Final = ".new"
"""Suffix of the provisional name of an incomplete file, which nobody takes for a log."""


def missing_folders(folder: Path) -> list[Path]:
    """The missing ones of the folder and its parents, innermost first: the order of removal."""
    return [each for each in (folder, *folder.parents) if not each.exists()]


def _written_by_others(paths: Iterable[Path]) -> tuple[Path, str] | None:
    """The first of the files that another process has open for writing, and that process.

    None if there is none, or none that the system shows: Linux does, of the same user or to root.
    """
    wanted: dict[tuple[int, int], Path] = {}
    for each in paths:
        with suppress(FileNotFoundError):  # a layer gave it another name, which no server does
            found = each.stat()
            wanted[found.st_dev, found.st_ino] = each
    own = str(os.getpid())
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            for opened in os.scandir(process / "fd") if process.name != own else ():
                with suppress(OSError):  # it was closed
                    stat = opened.stat()
                    path = wanted.get((stat.st_dev, stat.st_ino))
                    if path is not None and _is_writing(process, opened.name):
                        name = (process / "comm").read_text().strip()
                        return path, f"process {process.name} ({name})"
    return None


def _is_writing(process: Path, handle: str) -> bool:
    """Whether a process's open file is open for writing."""
    for line in (process / "fdinfo" / handle).read_text().splitlines():
        if line.startswith("flags:"):
            return int(line.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
    return False


def _name(draft: Path, path: Path) -> None:
    """Give a file its final name, if no file has it."""
    try:
        os.link(draft, path)  # unlike a rename it replaces no existing file
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if path.exists():
            raise
        draft.rename(path)
    else:
        draft.unlink()


def sync(path: Path) -> None:
    """Make a file, or a folder's own entries, survive a power cut. Raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass(frozen=True)
class LocalStore:
    """The files of a folder on disk, for reading: also those whose names no log can have."""

    folder: Path
    joined: ClassVar[bool] = False
    looks_every: ClassVar[float] = 0.02

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.resolve().name

    @property
    def place(self) -> str:
        """The folder's path without links."""
        return str(self.folder.resolve())

    def path(self, name: str) -> str:
        """The file's path."""
        return str(self._file(name))

    def _file(self, name: str) -> Path:
        return self.folder / name

    def listing(self) -> dict[str, int | None]:
        """The files in the folder; a look into each is cheap, and tells more than its name."""
        with told(self.folder), os.scandir(self.folder) as entries:
            return {entry.name: None for entry in entries if entry.is_file()}

    def folders(self) -> list[LocalStore]:
        """The folders in it."""
        with told(self.folder):
            found = sorted(entry for entry in self.folder.iterdir() if entry.is_dir())
        return [LocalStore(folder) for folder in found]

    def within(self, folder: str) -> LocalStore:
        """The folder of that path."""
        return LocalStore(self.folder / folder)

    def head(self, name: str) -> tuple[bytes, int]:
        """The file's first four bytes, and its size. Raises CannotOpen, ReadFailed."""
        with closing(self.open(name)) as file:
            return file.read(len(MAGIC)), file.size()

    def read(self, name: str, offset: int, count: int) -> bytes:
        """A piece of the file."""
        path = self._file(name)
        with told(path), path.open("rb", buffering=0) as file:
            file.seek(min(offset, os.fstat(file.fileno()).st_size))
            pieces = []
            while count and (piece := file.read(count)):
                pieces.append(piece)
                count -= len(piece)
            return b"".join(pieces)

    def open(self, name: str) -> FileInput:
        """The file, unbuffered. Raises CannotOpen."""
        return FileInput(self._file(name))


class LocalFolder(LocalStore):
    """A folder on disk; it is created with its first file.

    Only files of the folder itself are opened for writing: a symbolic link is rejected.
    """

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
        """The file, locked. Raises StorageError if another process has it open for writing."""
        path = self._file(name)
        with told(path):
            handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        try:
            self._lock(path, handle)
            self.check_unused([name])
        except StorageError:
            os.close(handle)
            raise
        return FileOutput(path, handle)

    def check_no_server(self) -> None:
        """Raise UsageError if this is the data folder of a server."""
        if _SERVERS_OWN.intersection(self.names()):
            raise UsageError(f"{self.folder}: this is a server's data folder; give the log its own")

    def check_unused(self, names: Iterable[str]) -> None:
        """Raise StorageError if another process has one of the files open for writing: a server
        locks none of its logs.
        """
        with told(self.folder):
            found = _written_by_others(map(self._file, names))
        if found is not None:
            path, process = found
            raise StorageError(f"{path}: {process} writes to it; end that process first")

    def remove(self, name: str) -> None:
        """Delete the file. Raises StorageError if another process has it open for writing."""
        path = self._file(name)
        if path.exists():
            self.check_unused([name])
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
            sync(self.folder)

    @staticmethod
    def _lock(path: Path, handle: int) -> None:
        if flock is None:
            return
        try:
            flock(handle, LOCK_EX | LOCK_NB)
        except OSError:
            raise StorageError(f"{path}: another writer has it open") from None
