"""A folder of logs in an object store, for writing.

An object exists completely or not at all, and cannot be changed. So a file is written to the spool,
a folder on this machine, and becomes an object when it is closed: it is uploaded in parts, and
visible when the last part has arrived. Until then it can be changed like any file on disk.

``sync`` acknowledges that bytes are on this machine's disk. The return of ``close`` acknowledges
that a file is in the store; `LogWriter.rotate` and ``close`` wait for it. A writer that was killed,
or could not reach the store, leaves its files in the spool: `tailrace.append` of the same URL, on
this machine, resumes them. The index in the store lists the files in the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.constants import MAGIC, EventFlag
from tailrace.errors import StorageError
from tailrace.log_name import plain_name
from tailrace.storage.index import INDEX_SUFFIX, entries
from tailrace.storage.local import DRAFT_SUFFIX, LocalFolder
from tailrace.storage.objects.output import ObjectOutput
from tailrace.storage.objects.spool import spool_folder
from tailrace.storage.objects.store import bucket_of
from tailrace.storage.objects.url import ObjectUrl

if TYPE_CHECKING:
    from tailrace.storage.streams.base import SpillOutput

FLAGS_AT: Final = len(MAGIC) + 17
"""The offset of the two bytes of flags in the format description event."""
_WHOLE: Final = ".whole"
"""Suffix of the name of a file in the spool: an empty file that marks it as closed."""


class ObjectFolder:
    """The objects of a folder, by name, and the files in the spool that will become objects."""

    def __init__(self, url: ObjectUrl | str) -> None:
        self.url = url if isinstance(url, ObjectUrl) else ObjectUrl.parse(url)
        self.spool = LocalFolder(spool_folder(self.url))
        self._store = bucket_of(self.url)

    def spill(self, file: SpillOutput) -> SpillOutput:
        """The file unchanged: it is on this machine, like the spool."""
        return file

    def path(self, name: str) -> str:
        """The object's URL; of an empty name the folder's, with a slash."""
        return str(self.url / (plain_name(name) if name else name))

    def _key(self, name: str) -> str:
        return (self.url / plain_name(name)).key

    def spooled(self) -> list[str]:
        """The names of the files in the spool."""
        return [name for name in self.spool.names() if not name.endswith((DRAFT_SUFFIX, _WHOLE))]

    def names(self) -> list[str]:
        """The names of the objects, and of files and drafts in the spool. One request."""
        kept = (name for name in self.spool.names() if not name.endswith(_WHOLE))
        return sorted({*self._store.list(self.url.key).objects, *kept})

    def marked(self) -> list[str]:
        """The names of files that are marked as complete."""
        return [name.removesuffix(_WHOLE) for name in self.spool.names() if name.endswith(_WHOLE)]

    def size(self, name: str) -> int:
        """A file's bytes. A request, if it is in the store."""
        if name in self.spooled():
            return self.spool.size(name)
        size = self._store.size(self._key(name))
        if size is None:
            raise StorageError(f"{self.path(name)}: no such object")
        return size

    def read(self, name: str, offset: int, count: int) -> bytes:
        """A piece of a file. A request, if it is in the store."""
        if name in self.spooled():
            return self.spool.read(name, offset, count)
        return bytes(self._store.read(self._key(name), offset, count)[0])

    def create(self, name: str, head: bytes) -> ObjectOutput:
        """Create a file in the spool. One request checks that there is no object of that name."""
        if self._store.size(self._key(name)) is not None:
            raise StorageError(f"{self.path(name)}: File exists")
        return ObjectOutput(self, name, self.spool.create(name, head))

    def reopen(self, name: str) -> ObjectOutput:
        """A file in the spool. Raises StorageError for an object: nothing can be added to one."""
        if plain_name(name) in self.spooled():
            output = self.spool.reopen(name)
            self.mark(name, whole=False)
            return ObjectOutput(self, name, output)
        raise StorageError(
            f"{self.path(name)}: it is in the store already, and nothing can be appended to an"
            " object; copy the log to a local folder and append to it there"
        )

    def remove(self, name: str) -> None:
        """Remove a file from the spool and from the store."""
        if name in self.spool.names():
            self.spool.remove(name)
        self._store.remove(self._key(name))

    def replace(self, name: str, content: bytes) -> None:
        """Give an object this content. An index in the store lists only files in the store."""
        if not name.endswith(INDEX_SUFFIX):
            self._store.put(self._key(name), content)
            return
        waiting = set(self.spooled()) - {name}
        listed = entries(content, self.path(name))
        there = "".join(f"{each.line}\n" for each in listed if each.name not in waiting).encode(
            "utf-8", "surrogateescape"
        )
        if there != content:
            self.spool.replace(name, content)
        if there or self._store.size(self._key(name)) is not None:
            self._store.put(self._key(name), there)
        if there == content and name in self.spooled():
            self.spool.remove(name)

    def is_whole(self, name: str) -> bool:
        """Whether a file is complete: a log is not while its IN_USE flag is set.

        The flag is not visible in a log that is encrypted in MySQL's way.
        """
        head = self.spool.read(name, 0, FLAGS_AT + 2)
        if not head.startswith(MAGIC) or len(head) < FLAGS_AT + 2:
            return True
        return not int.from_bytes(head[FLAGS_AT:], "little") & EventFlag.IN_USE

    def mark(self, name: str, *, whole: bool) -> None:
        """Mark a file in the spool as complete or incomplete, in a file next to it."""
        marker = name + _WHOLE
        if whole:
            self.spool.replace(marker, b"")
        elif marker in self.spool.names():
            self.spool.remove(marker)

    def complete(self, name: str, *, again: bool = False) -> None:
        """Make an object of a file in the spool, then list it in the index that names it.

        ``again``: it may have been done before, if an object of the file's size exists.
        """
        path = self.spool.folder / name
        self.mark(name, whole=True)
        try:
            there = self._store.size(self._key(name)) if again else None
            if there != self.spool.size(name):
                self._store.upload(self._key(name), path)
        except StorageError as error:
            raise StorageError(
                f"{error}. The file is kept as {path}; tailrace.append({str(self.url)!r}) on this"
                " machine puts it into the store"
            ) from None
        self.spool.remove(name)
        self.mark(name, whole=False)
        self.list_whole()

    def list_whole(self) -> None:
        """Update the indexes in the store to the files that it holds."""
        for index in self.spooled():
            if index.endswith(INDEX_SUFFIX):
                self.replace(index, self.spool.read(index, 0, self.spool.size(index)))
