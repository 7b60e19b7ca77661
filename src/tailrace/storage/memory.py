"""Logs in memory: ``memory:name`` is a folder of log files that the whole process shares."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, ClassVar, Final

from tailrace.constants import MAGIC
from tailrace.errors import CannotOpen, StorageError
from tailrace.log_name import plain_name
from tailrace.storage.layered import with_suffix
from tailrace.storage.streams.memory import MemoryInput, MemoryOutput

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.storage.streams.base import Data, SpillOutput

MEMORY: Final = "memory:"
_OBJECTS: Final = "memory://"


def is_memory(source: str) -> bool:
    """Whether a source is a log in memory; ``memory://`` is an object store, fsspec's own."""
    text = source.lower()
    return text.startswith(MEMORY) and not text.startswith(_OBJECTS)


class MemoryFolder:
    """The files of one ``memory:`` log. Any thread may read while another writes.

    ``files`` holds their bytes by name, and is used under ``lock``.
    """

    joined: ClassVar[bool] = False
    looks_every: ClassVar[float] = 0.02

    def __init__(self, name: str) -> None:
        self.name = name
        self.files: dict[str, bytearray] = {}
        self.lock = RLock()
        self._written: set[str] = set()

    def path(self, name: str) -> str:
        """The file's URL; of an empty name the folder's."""
        return f"{MEMORY}{self.name}/{plain_name(name) if name else name}"

    @property
    def place(self) -> str:
        """The folder's URL."""
        return f"{MEMORY}{self.name}"

    def __reduce__(self) -> tuple[Callable[[str], MemoryFolder], tuple[str]]:
        return memory_folder, (self.name,)

    def listing(self) -> dict[str, int | None]:
        """The files' names."""
        return dict.fromkeys(self.names())

    def folders(self) -> list[MemoryFolder]:
        """None: a folder in memory holds files only."""
        return []

    def within(self, _folder: str) -> None:
        """No other folder belongs to it."""

    def head(self, name: str) -> tuple[bytes, int]:
        """A file's first four bytes, and its size."""
        with self.lock:
            return self.read(name, 0, len(MAGIC)), self.size(name)

    def open(self, name: str) -> MemoryFolderInput:
        """A file for reading, also while it grows."""
        return MemoryFolderInput(self, name)

    def names(self) -> list[str]:
        """The files' names, in the order in which they were made."""
        with self.lock:
            return list(self.files)

    def size(self, name: str) -> int:
        """A file's bytes. Raises StorageError where there is none."""
        with self.lock:
            return len(self.file(name))

    def read(self, name: str, offset: int, count: int) -> bytes:
        """A copy of a piece, shorter at the end. Raises StorageError if there is no file."""
        with self.lock:
            return bytes(memoryview(self.file(name))[offset : offset + count])

    def create(self, name: str, head: bytes) -> FolderOutput:
        """A new file. Raises StorageError where there is one of that name."""
        plain_name(name)
        with self.lock:
            if name in self.files:
                raise StorageError(f"{self.path(name)}: File exists")
            self.files[name] = bytearray(head)
            return self.reopen(name)

    def reopen(self, name: str) -> FolderOutput:
        """Open a file to append to. Raises StorageError if another writer has it open."""
        with self.lock:
            self.file(name)
            if name in self._written:
                raise StorageError(f"{self.path(name)}: another writer has it open")
            self._written.add(name)
            return FolderOutput(self, name)

    def remove(self, name: str) -> None:
        """Take a file away. Raises StorageError where there is none."""
        with self.lock:
            self.file(name)
            del self.files[name]
            self._written.discard(name)  # as on disk, a new file of that name is another one

    def replace(self, name: str, content: bytes) -> None:
        """Give a file this content."""
        with self.lock:
            self.files[plain_name(name)] = bytearray(content)

    def spill(self, file: SpillOutput) -> SpillOutput:
        """The file unchanged."""
        return file

    def file(self, name: str) -> bytearray:
        """A file's own bytes. Raises CannotOpen where there is none."""
        try:
            return self.files[plain_name(name)]
        except KeyError:
            raise CannotOpen("no such file", file=self.path(name)) from None

    def release(self, name: str) -> None:
        """Allow another writer to open the file (`MemoryOutput.close`)."""
        with self.lock:
            self._written.discard(name)


class MemoryFolderInput(MemoryInput):
    """A file in a folder in memory, being read, also after it was compressed.

    Raises StorageError if it was removed.
    """

    def __init__(self, folder: MemoryFolder, name: str) -> None:
        with folder.lock:
            super().__init__(folder.file(name), folder.lock)
        self._folder = folder
        self._name = name

    def stored(self) -> Data:
        """The file's bytes; when it was compressed since, those that it had then."""
        files = self._folder.files
        if self._name in files or with_suffix(self._name, files) is None:
            self._data = self._folder.file(self._name)
        return self._data


class FolderOutput(MemoryOutput):
    """A file in a folder in memory, being written. As on disk, it outlives the file's removal."""

    def __init__(self, folder: MemoryFolder, name: str) -> None:
        super().__init__(folder.file(name), folder.lock)
        self._folder = folder
        self._name = name
        self._open = True

    def stored(self) -> bytearray:
        """The file's bytes."""
        self.data = self._folder.files.get(self._name, self.data)
        return self.data

    def close(self) -> None:
        """Allow another writer to open the file."""
        if self._open:
            self._open = False
            super().close()
            self._folder.release(self._name)


_FOLDERS: Final[dict[str, MemoryFolder]] = {}
_LOCK: Final = RLock()


def memory_folder(name: str) -> MemoryFolder:
    """The process's folder of that name, created at the first call."""
    with _LOCK:
        folder = _FOLDERS.get(name)
        if folder is None:
            folder = _FOLDERS[name] = MemoryFolder(name)
        return folder


def forget_memory(name: str) -> None:
    """Drop the folder of that name and all its files; existing references to it stay usable."""
    with _LOCK:
        _FOLDERS.pop(name, None)
