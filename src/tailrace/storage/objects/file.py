"""A log that is an object in a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from tailrace.constants import ENCRYPTED_MAGIC, MAGIC
from tailrace.errors import StorageError
from tailrace.storage.file import LogFile, plain_size
from tailrace.storage.objects.input import ObjectInput
from tailrace.storage.objects.store import store_of
from tailrace.storage.objects.url import ObjectUrl
from tailrace.storage.streams.read_ahead import ReadAhead

if TYPE_CHECKING:
    from tailrace.storage.keyring.base import Keyring


@dataclass(frozen=True, slots=True)
class ObjectFile(LogFile):
    """A log in an object store; ``path`` is its URL. It pickles as the URL: the process that opens
    it needs credentials in its own environment.
    """

    looks_every: ClassVar[float] = 1.0
    """Seconds between checks for growth if it is followed: each check costs requests."""

    def stored(self) -> ReadAhead:
        """Open it for reading, in large pieces and ahead. Raises StorageError."""
        return ReadAhead(ObjectInput(ObjectUrl.parse(self.path)))

    @property
    def place(self) -> str:
        """The URL of its folder."""
        return str(ObjectUrl.parse(self.path).parent)

    def names_beside(self) -> list[str]:
        """The names of all objects in its folder."""
        folder = ObjectUrl.parse(self.path).parent
        return list(store_of(folder).list(folder.key).objects)

    def beside(self, name: str) -> Self | None:
        """The log of that name in its folder; None where it is none."""
        url = ObjectUrl.parse(self.path).parent / name
        size = _plain_size(url)
        return None if size is None else type(self)(str(url), name, size, keyring=self.keyring)


def _plain_size(url: ObjectUrl) -> int | None:
    """Bytes of the plain log in an object; None if it is no log. One request."""
    data, size = store_of(url).read(url.key, 0, len(MAGIC))
    magic = bytes(data)
    return plain_size(magic, size) if magic in {MAGIC, ENCRYPTED_MAGIC} else None


def object_file(url: ObjectUrl, keyring: Keyring | None = None) -> ObjectFile:
    """The log at a URL, whatever its name is. One request. Raises StorageError."""
    size = _plain_size(url)
    if size is None:
        raise StorageError(f"{url}: not a binary log (one begins with the bytes FE 62 69 6E)")
    return ObjectFile(str(url), url.name, size, keyring=keyring)
