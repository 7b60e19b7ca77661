"""What an object store is to Tailrace: a few requests. Which library makes them is chosen here."""

from __future__ import annotations

import os
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol, cast

from tailrace.errors import StorageError
from tailrace.extras import importing

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.storage.objects.url import ObjectUrl

PART: Final = 8 << 20
"""Bytes of a part of an upload; S3 takes 10,000, so a file may have 80 GB."""
_OURS: Final = "tailrace.storage.objects."
_ENVIRONMENT: Final = ("AWS_", "AZURE_", "GOOGLE_")


@dataclass(frozen=True, slots=True)
class Listing:
    """What lies in a folder: the sizes of its objects by their names, and its folders' names."""

    objects: dict[str, int]
    folders: list[str]


class ObjectStore(Protocol):
    """A bucket. Keys are whole ones. Any thread may ask. Every method raises StorageError.

    Each is one request, where not said otherwise.
    """

    def size(self, key: str) -> int | None:
        """An object's bytes; None where there is none."""

    def read(self, key: str, offset: int, count: int) -> tuple[memoryview, int]:
        """Bytes of an object, fewer only at its end, and how many it has in all.

        Behind the end one more request tells the size.
        """

    def list(self, folder: str) -> Listing:
        """What lies in a folder ("" is the bucket's own); a request for each thousand."""

    def put(self, key: str, content: bytes) -> None:
        """Give an object this content, whatever it had."""

    def upload(self, key: str, path: Path) -> None:
        """Make an object of a file, in parts: it is there with all of it or not at all.

        Takes a request for each part and three more. Raises StorageError where one is there.
        """

    def remove(self, key: str) -> None:
        """Take an object away; none needs to be there."""


_STORES: Final[dict[tuple[str, bytes], ObjectStore]] = {}
_LOCK: Final = Lock()
_CLOUD: Final = "cloud"
_USED_BY: Final[list[int]] = []
"""The process in which the library for clouds was first used, or whose child this one is."""


def store_of(url: ObjectUrl) -> ObjectStore:
    """The bucket of a URL, as the environment says by now: one in the process.

    Raises UsageError where the library for it is not installed, StorageError where the environment
    says something that makes no sense, and in a process forked from one that used it: its threads
    are gone there, and it would wait for them for ever.
    """
    settings = sorted(item for item in os.environ.items() if item[0].startswith(_ENVIRONMENT))
    key = (url.root, sha256(repr(settings).encode("utf-8", "replace")).digest())
    if url.scheme != "memory" and _USED_BY and _USED_BY[0] != os.getpid():
        raise StorageError(
            f"{url.root}: this process was forked from one that had used an object store, which"
            " does not work; start it by spawn or forkserver instead"
        )
    with _LOCK:
        store = _STORES.get(key)
        if store is None:
            store = _STORES[key] = _connect(url)
        return store


def _connect(url: ObjectUrl) -> ObjectStore:
    kind, name = ("fsspecs", "FsspecStore") if url.scheme == "memory" else (_CLOUD, "CloudStore")
    if kind == _CLOUD and not _USED_BY:
        _USED_BY.append(os.getpid())
    with importing("objects", f"{url.scheme}://"):
        module = import_module(_OURS + kind)
    return cast("ObjectStore", getattr(module, name)(url))
