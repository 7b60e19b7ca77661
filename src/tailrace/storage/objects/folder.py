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

import os
import re
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tailrace.constants import FILE_FLAGS_AT, MAGIC
from tailrace.errors import KeyMissing, StorageError
from tailrace.events.format_description import with_in_use
from tailrace.log_name import base_and_number, file_number, plain_name
from tailrace.storage.index import INDEX_SUFFIX, entries
from tailrace.storage.local import DRAFT_SUFFIX, LocalFolder
from tailrace.storage.objects.bucket import PART, bucket_of
from tailrace.storage.objects.segments import contents, file_size, read_file, remove_file
from tailrace.storage.objects.url import ObjectUrl
from tailrace.storage.reader import EventReader
from tailrace.storage.whole import WholeOutput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.storage.streams.base import SpillOutput
    from tailrace.storage.streams.file import FileOutput


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
        return sorted({*contents(self._store, self.url.key).sizes, *kept})

    def marked(self) -> list[str]:
        """The names of files that are marked as complete."""
        return [name.removesuffix(_WHOLE) for name in self.spool.names() if name.endswith(_WHOLE)]

    def size(self, name: str) -> int:
        """A file's bytes. A request, if it is in the store."""
        if name in self.spooled():
            return self.spool.size(name)
        size = file_size(self._store, self._key(name))
        if size is None:
            raise StorageError(f"{self.path(name)}: no such object")
        return size

    def read(self, name: str, offset: int, count: int) -> bytes:
        """A piece of a file. A request, if it is in the store."""
        if name in self.spooled():
            return self.spool.read(name, offset, count)
        return bytes(read_file(self._store, self._key(name), offset, count)[0])

    def create(self, name: str, head: bytes) -> WholeOutput:
        """Create a file in the spool. A few requests check that the store has none of that name."""
        if file_size(self._store, self._key(name)) is not None:
            raise StorageError(f"{self.path(name)}: File exists")
        return WholeOutput(self, name, self.spool.create(name, head))

    def reopen(self, name: str) -> WholeOutput:
        """A file in the spool. Raises StorageError for an object: nothing can be added to one."""
        if plain_name(name) in self.spooled():
            output = self.spool.reopen(name)
            self.mark(name, whole=False)
            return WholeOutput(self, name, output)
        raise StorageError(
            f"{self.path(name)}: it is in the store already, and nothing can be appended to an"
            " object; copy the log to a local folder and append to it there"
        )

    def remove(self, name: str) -> None:
        """Remove a file from the spool and from the store."""
        if name in self.spool.names():
            self.spool.remove(name)
        remove_file(self._store, self._key(name))

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
            size = self.spool.size(name)
            if there != size:
                self._store.upload(self._key(name), size, self._pieces(name, size))
        except StorageError as error:
            raise StorageError(
                f"{error}. The file is kept as {path}; tailrace.append({str(self.url)!r}) on this"
                " machine puts it into the store"
            ) from None
        self.spool.remove(name)
        self.mark(name, whole=False)
        self.list_whole()

    def _pieces(self, name: str, size: int) -> Iterator[bytes]:
        for offset in range(0, size, PART):
            yield self.spool.read(name, offset, PART)

    def list_whole(self) -> None:
        """Update the indexes in the store to the files that it holds."""
        for index in self.spooled():
            if index.endswith(INDEX_SUFFIX):
                self.replace(index, self.spool.read(index, 0, self.spool.size(index)))


def object_place(target: str) -> tuple[ObjectFolder, str]:
    """The folder of a URL to write to, and the name in it, empty for the folder itself.

    A name ends in a number or ``.index``: ``s3://bucket/logs/binlog.000001`` is a file,
    ``s3://bucket/logs`` is a folder, and so is any URL that ends with a slash.
    Raises StorageError, UsageError.
    """
    url = ObjectUrl.parse(target)
    named = file_number(url.name) is not None or url.name.endswith(INDEX_SUFFIX)
    name = url.name if named and url.key and not target.endswith("/") else ""
    folder = ObjectFolder(url.parent if name else url)
    finish(folder)
    return folder, name


def finish(folder: ObjectFolder) -> None:
    """Put complete files in the spool into the store, if their writer could not or was killed.

    A log that is followed by another one is complete, too: the new one is created between two
    transactions, before the old one's last event, which may be torn. Files that another writer has
    open are left alone.
    """
    for name in folder.marked():
        if name not in folder.spooled():  # killed between the last two steps
            folder.mark(name, whole=False)
            continue
        output = _locked(folder, name)
        if output is not None:
            _complete(folder, name, output)
    for name in _followed(folder):
        output = _locked(folder, name)
        if output is not None:
            _end(folder, name, output)
            _complete(folder, name, output)
    folder.list_whole()


def _followed(folder: ObjectFolder) -> list[str]:
    """The logs in the spool that are not the last of their series."""
    logs = {
        name: base_and_number(name) for name in folder.spooled() if not name.endswith(INDEX_SUFFIX)
    }
    last: dict[str, int] = {}
    for base, number in logs.values():
        last[base] = max(last.get(base, 0), number or 0)
    return sorted(name for name, (base, number) in logs.items() if (number or 0) < last[base])


def _locked(folder: ObjectFolder, name: str) -> FileOutput | None:
    try:
        return folder.spool.reopen(name)
    except StorageError:  # another writer's
        return None


def _complete(folder: ObjectFolder, name: str, output: FileOutput) -> None:
    try:
        folder.complete(name, again=True)
    finally:
        output.close()


def _end(folder: ObjectFolder, name: str, output: FileOutput) -> None:
    """Cut a torn event off, and clear the IN_USE flag, unless that needs a key."""
    head = folder.spool.read(name, 0, FILE_FLAGS_AT + 2)
    if not head.startswith(MAGIC):
        return
    reader = EventReader(folder.spool.folder / name)
    try:
        for _ in reader:
            pass
    except KeyMissing:
        return
    if reader.torn_tail_offset is not None:
        output.truncate(reader.torn_tail_offset)
    output.update(FILE_FLAGS_AT, bytes([with_in_use(head[FILE_FLAGS_AT], in_use=False)]))
    output.sync()


SPOOL: Final = "TAILRACE_SPOOL"
"""The environment variable with the folder; the default is ``~/.local/state/tailrace/spool``."""

_PLACES: Final = (
    *("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    *("AZURE_STORAGE_ENDPOINT", "AZURE_STORAGE_ACCOUNT_NAME"),
)
"""The settings that distinguish buckets of the same name."""
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]+")


def spool_folder(url: ObjectUrl) -> Path:
    """The spool folder for an object store's folder: the same each time."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    root = Path(os.environ.get(SPOOL) or Path(state) / "tailrace/spool")
    place = "\n".join([str(url), *(os.environ.get(name, "") for name in _PLACES)])
    plain = _ODD.sub("-", f"{url.scheme}-{url.bucket}-{url.key}")[:60].rstrip("-")
    return root / f"{plain}-{sha256(place.encode()).hexdigest()[:12]}"
