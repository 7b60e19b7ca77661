"""Finding logs in memory: ``memory:name``, ``memory:name/binlog.000003``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from tailrace.constants import ENCRYPTED_MAGIC, MAGIC
from tailrace.errors import StorageError, UsageError
from tailrace.storage.file import LogFile, LogSeries, ordered, plain_size
from tailrace.storage.memory import MemoryFolderInput, memory_folder

if TYPE_CHECKING:
    from tailrace.storage.keyring.base import Keyring

MEMORY: Final = "memory:"
_OBJECTS: Final = "memory://"


def is_memory(source: str) -> bool:
    """Whether a source is a log in memory; ``memory://`` is an object store, fsspec's own."""
    text = source.lower()
    return text.startswith(MEMORY) and not text.startswith(_OBJECTS)


@dataclass(frozen=True, slots=True)
class MemoryFile(LogFile):
    """A log in the folder ``folder`` in memory; ``path`` is its URL."""

    folder: str

    def stored(self) -> MemoryFolderInput:
        """Open it for reading. Raises StorageError if it was removed."""
        return MemoryFolderInput(memory_folder(self.folder), self.name)

    @property
    def place(self) -> str:
        """The folder's URL."""
        return f"{MEMORY}{self.folder}"

    def names_beside(self) -> list[str]:
        """The names of all files in the folder."""
        return memory_folder(self.folder).names()

    def beside(self, name: str) -> Self | None:
        """The log of that name in the folder; None where it is none."""
        folder = memory_folder(self.folder)
        magic = folder.read(name, 0, len(MAGIC))
        if magic not in {MAGIC, ENCRYPTED_MAGIC}:
            return None
        size = plain_size(magic, folder.size(name))
        return type(self)(folder.path(name), name, size, self.folder, keyring=self.keyring)


def memory_logs(url: str, keyring: Keyring | None = None) -> list[LogSeries]:
    """The series of a ``memory:`` URL. Raises StorageError, UsageError."""
    rest = url.partition(":")[2].strip("/")
    name, _, wanted = rest.partition("/")
    if not name:
        raise UsageError("a log in memory needs a name: memory:name or memory:name/binlog.000001")
    folder = MemoryFile("", "", 0, name, keyring=keyring)
    found = [
        log
        for each in folder.names_beside()
        if wanted in {"", each} and (log := folder.beside(each)) is not None
    ]
    if not found:
        raise StorageError(f"memory:{rest}: no log of that name in this process")
    groups: dict[str, list[LogFile]] = {}
    for log in found:
        groups.setdefault(log.base, []).append(log)
    return [
        LogSeries(name if len(groups) == 1 else f"{name}/{base}", ordered(group))
        for base, group in sorted(groups.items())
    ]
