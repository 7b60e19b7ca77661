"""A folder of an object store, for reading."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, ClassVar

from tailrace.constants import MAGIC
from tailrace.errors import StorageError
from tailrace.log_name import file_number
from tailrace.storage.objects.bucket import bucket_of
from tailrace.storage.objects.segments import contents, file_size, read_file
from tailrace.storage.streams.input import OffsetInput
from tailrace.storage.streams.read_ahead import ReadAhead

if TYPE_CHECKING:
    from tailrace.storage.objects.segments import Chain
    from tailrace.storage.objects.url import ObjectUrl


class ObjectInput(OffsetInput):
    """Each read is one request, for exactly those bytes; opening makes no request.

    Every answer has the object's size. `size` returns that of the last answer once; the next call
    sends a request, unless there was another read. So it costs no request in addition to reading,
    and a repeated call returns the current size.

    If the file still grows, each read is a request for each segment, and it sees what was appended.
    """

    def __init__(self, url: ObjectUrl) -> None:
        self._key = url.key
        self._store = bucket_of(url)
        self._path = str(url)
        self._size = 0
        self._told = False
        self._chain: Chain | None = None
        self._lock = Lock()

    def read_at(self, offset: int, count: int, /) -> bytes | memoryview:
        """``count`` bytes from an offset on, fewer only at the end; any thread may call it."""
        data, size, chain = read_file(self._store, self._key, offset, count, self._chain)
        with self._lock:
            self._size, self._told, self._chain = size, True, chain
        return data

    def _read_at(self, offset: int, count: int) -> bytes:
        return bytes(self.read_at(offset, count))

    def size(self) -> int:
        """The file's current size in bytes. Raises StorageError if it is gone."""
        with self._lock:
            if self._told:
                self._told = False
                return self._size
        size = file_size(self._store, self._key)
        if size is None:
            raise StorageError(f"{self._path}: no such object")
        return size


@dataclass(frozen=True)
class ObjectStore:
    """The objects of a folder, and the files in it that still grow (`segments`). It pickles as its
    URL: the process that reads them needs credentials in its own environment.
    """

    url: ObjectUrl
    joined: ClassVar[bool] = False
    looks_every: ClassVar[float] = 1.0
    """Each check costs requests."""

    @property
    def name(self) -> str:
        """The folder's name, or the bucket's."""
        return self.url.name

    @property
    def place(self) -> str:
        """The folder's URL."""
        return str(self.url)

    def path(self, name: str) -> str:
        """The object's URL."""
        return str(self.url / name)

    def listing(self) -> dict[str, int | None]:
        """The files' names and sizes. A request for each thousand, and two for a growing file."""
        return {**contents(bucket_of(self.url), self.url.key).sizes}

    def folders(self) -> list[ObjectStore]:
        """The folders in it. Requests as for `listing`."""
        return [
            ObjectStore(self.url / name)
            for name in sorted(contents(bucket_of(self.url), self.url.key).folders)
        ]

    def within(self, _folder: str) -> None:
        """None: the folders that a server's index names are on the server's disk."""

    def holds(self, name: str) -> bool:
        """Whether there is a file of that name. One request, more for a log that still grows."""
        bucket, key = bucket_of(self.url), (self.url / name).key
        found = bucket.size(key) if file_number(name) is None else file_size(bucket, key)
        return found is not None

    def head(self, name: str) -> tuple[bytes, int]:
        """The file's first four bytes, and its size. One request, more if it is not complete."""
        url = self.url / name
        data, size, _ = read_file(bucket_of(url), url.key, 0, len(MAGIC))
        return bytes(data), size

    def read(self, name: str, offset: int, count: int) -> bytes:
        """A piece of the file. One request, more if it is not complete."""
        url = self.url / name
        return bytes(read_file(bucket_of(url), url.key, offset, count)[0])

    def open(self, name: str) -> ReadAhead:
        """Read it in large pieces and ahead."""
        return ReadAhead(ObjectInput(self.url / name))
