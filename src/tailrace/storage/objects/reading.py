"""A folder of an object store, for reading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tailrace.constants import MAGIC
from tailrace.storage.objects.input import ObjectInput
from tailrace.storage.objects.store import bucket_of
from tailrace.storage.streams.read_ahead import ReadAhead

if TYPE_CHECKING:
    from tailrace.storage.objects.url import ObjectUrl


@dataclass(frozen=True)
class ObjectStore:
    """The objects of a folder. It pickles as its URL: the process that reads them needs credentials
    in its own environment.
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
        """The objects' names and sizes. A request for each thousand."""
        return {**bucket_of(self.url).list(self.url.key).objects}

    def folders(self) -> list[ObjectStore]:
        """The folders in it. Requests as for `listing`."""
        return [
            ObjectStore(self.url / name)
            for name in sorted(bucket_of(self.url).list(self.url.key).folders)
        ]

    def within(self, _folder: str) -> None:
        """None: the folders that a server's index names are on the server's disk."""

    def head(self, name: str) -> tuple[bytes, int]:
        """The object's first four bytes, and its size. One request."""
        data, size = bucket_of(self.url).read((self.url / name).key, 0, len(MAGIC))
        return bytes(data), size

    def read(self, name: str, offset: int, count: int) -> bytes:
        """A piece of the object. One request."""
        return bytes(bucket_of(self.url).read((self.url / name).key, offset, count)[0])

    def open(self, name: str) -> ReadAhead:
        """Read it in large pieces and ahead."""
        return ReadAhead(ObjectInput(self.url / name))
