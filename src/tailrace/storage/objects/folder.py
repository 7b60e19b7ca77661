"""A folder of logs in an object store, to be written.

An object is there whole or not at all, and nothing can be changed in it. So a file is written to
the spool, a folder on this machine, and becomes an object when it is closed: in parts, visible when
the last has arrived. Until then all that can be done to a file on disk can be done to it.

What ``sync`` acknowledges is on this machine's disk; that a file is in the store is acknowledged by
the return of its ``close``, which `LogWriter.rotate` and ``close`` wait for. A writer that was
killed, or could not reach the store, leaves its files in the spool: `tailrace.append` of the same
URL, on this machine, goes on with them. The index in the store lists what is in the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.constants import MAGIC, EventFlag
from tailrace.errors import StorageError
from tailrace.log_name import plain_name
from tailrace.storage.index import INDEX_SUFFIX, entries
from tailrace.storage.objects.output import ObjectOutput
from tailrace.storage.objects.spool import spool_folder
from tailrace.storage.objects.store import store_of
from tailrace.storage.objects.url import ObjectUrl
from tailrace.storage.output import DRAFT_SUFFIX, LocalFolder

if TYPE_CHECKING:
    from tailrace.storage.streams.base import SpillOutput

FLAGS_AT: Final = len(MAGIC) + 17
"""Where the format description event has its flags, two bytes."""
_WHOLE: Final = ".whole"
"""Behind the name of a file in the spool: an empty file that says that it was closed."""


class ObjectFolder:
    """The objects of a folder, by name, and the files in the spool that are to become such."""

    def __init__(self, url: ObjectUrl | str) -> None:
        self.url = url if isinstance(url, ObjectUrl) else ObjectUrl.parse(url)
        self.spool = LocalFolder(spool_folder(self.url))
        self._store = store_of(self.url)

    def spill(self, file: SpillOutput) -> SpillOutput:
        """The file as it is: it lies on this machine, as the spool does."""
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
        """The names of which it was noted that they are whole."""
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
        """A new file in the spool. One request: whether there is an object of that name."""
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
            f"{self.path(name)}: it is in the store as it is, and nothing can be appended to an"
            " object; copy the log to a local folder and append to it there"
        )

    def remove(self, name: str) -> None:
        """Take a file away, from the spool and from the store."""
        if name in self.spool.names():
            self.spool.remove(name)
        self._store.remove(self._key(name))

    def replace(self, name: str, content: bytes) -> None:
        """Give an object this content. Of an index the store has the lines of what is there."""
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
        """Whether a file is whole as it stands: a log is not while its IN_USE flag is set.

        In one that MySQL's way encrypts the flag cannot be seen.
        """
        head = self.spool.read(name, 0, FLAGS_AT + 2)
        if not head.startswith(MAGIC) or len(head) < FLAGS_AT + 2:
            return True
        return not int.from_bytes(head[FLAGS_AT:], "little") & EventFlag.IN_USE

    def mark(self, name: str, *, whole: bool) -> None:
        """Note beside a file in the spool that it is whole, or that it is not."""
        marker = name + _WHOLE
        if whole:
            self.spool.replace(marker, b"")
        elif marker in self.spool.names():
            self.spool.remove(marker)

    def complete(self, name: str, *, again: bool = False) -> None:
        """Make an object of a file in the spool, then list it in the index that names it.

        ``again``: that may have been done before, as far as the file is there in its size.
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
        """Bring the indexes in the store up to what is there."""
        for index in self.spooled():
            if index.endswith(INDEX_SUFFIX):
                self.replace(index, self.spool.read(index, 0, self.spool.size(index)))
