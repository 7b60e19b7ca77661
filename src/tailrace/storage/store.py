"""Where logs are: a `Store` is read, a `WritableStore` is written. Both hold files by name.

On disk they are `tailrace.storage.local.LocalStore` and ``LocalFolder``; in memory
`tailrace.storage.memory.MemoryFolder` is both; `tailrace.storage.objects` has those of object
stores. A `tailrace.storage.pipe.Pipe` is only read. Encryption is a store on another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tailrace.storage.streams.base import InputStream, RandomOutput, SpillOutput


class Store(Protocol):
    """Files that may be logs, by name, for reading. Every method raises StorageError.

    It pickles, except a pipe, and holds no secret. Equal ones hold the same files.
    """

    @property
    def joined(self) -> bool:
        """Whether it is a pipe: read once, and perhaps several files one after the other."""

    @property
    def looks_every(self) -> float:
        """Seconds between checks for growth if a file is followed."""

    @property
    def name(self) -> str:
        """The name for a series that is alone in it."""

    @property
    def place(self) -> str:
        """What identifies it: a path without links, or a URL."""

    def path(self, name: str, /) -> str:
        """The file's path or URL."""

    def listing(self) -> Mapping[str, int | None]:
        """The names of the files, in no order.

        With each its size in bytes, if a look into every file is expensive: then only files that
        are named like logs are taken for logs. Else None.
        """

    def folders(self) -> Sequence[Store]:
        """The folders in it, by name."""

    def within(self, folder: str, /) -> Store | None:
        """The store of a folder that an index names, relative to it; None if there is none."""

    def head(self, name: str, /) -> tuple[bytes, int]:
        """A file's first four bytes, and its size in bytes."""

    def read(self, name: str, offset: int, count: int, /) -> bytes:
        """Bytes of a file: fewer than ``count`` only at its end."""

    def open(self, name: str, /) -> InputStream:
        """A file's stored bytes, encrypted or not: an `InputFile`, except from a pipe."""


@runtime_checkable
class WritableStore(Protocol):
    """The files of a log and its index, by name. Every method raises StorageError.

    A name is that of a file, and never a path: each method that takes one raises
    BadLogName for another (`tailrace.log_name.plain_name`), whoever has checked it before.
    """

    def path(self, name: str) -> str:
        """The file's path or URL for messages."""

    def names(self) -> list[str]:
        """The names of the existing files, in no order."""

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


@runtime_checkable
class CompletingStore(WritableStore, Protocol):
    """A store whose files take their final form when they are complete, and then cannot grow.

    Until then they are in its spool. What `create` and `reopen` give does both: its ``close``
    completes the file, unless it is a log that is still in use. Who writes a file in several goes
    writes it in the spool, and calls `complete`.
    """

    @property
    def spool(self) -> WritableStore:
        """Where files are until they are complete."""

    def complete(self, name: str, /, *, again: bool = False) -> None:
        """Give a file in the spool its final form, and remove it from the spool.

        ``again``: an earlier call may have been interrupted.
        """
