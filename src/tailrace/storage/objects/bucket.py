"""The requests that Tailrace needs of an object store, and the choice of the library for them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol, cast

from tailrace.errors import StorageError
from tailrace.extras import importing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.storage.objects.url import ObjectUrl


PART: Final = 8 << 20
"""Bytes of a part of an upload; S3 takes 10,000, so a file may have 80 GB."""
_OURS: Final = "tailrace.storage.objects."
_ENVIRONMENT: Final = ("AWS_", "AZURE_", "GOOGLE_")


class NoSuchObject(StorageError):
    """A request for an object that is not in the bucket."""


class ObjectExists(StorageError):
    """A conditional request to create an object of whose name there is one."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The contents of a folder: the sizes of its objects by name, and its folders' names."""

    objects: dict[str, int]
    folders: list[str]


class Objects(Protocol):
    """What a lake's journal needs of a bucket. Keys are complete. Every method raises StorageError.

    Each is one request, if not said otherwise.
    """

    def path(self, key: str) -> str:
        """An object's URL, for messages; no request."""

    def read(self, key: str, offset: int, count: int) -> tuple[memoryview, int]:
        """Bytes of an object, fewer only at its end, and the object's size.

        After the end, one more request gets the size. Raises NoSuchObject.
        """

    def list(self, folder: str) -> Listing:
        """The contents of a folder ("" is the bucket's own); a request for each thousand."""

    def put(self, key: str, content: bytes, *, new: bool = False) -> None:
        """Give an object this content, whatever it had. With ``new`` it is created: of several
        such calls for a key, in any processes, one succeeds, and the others raise ObjectExists.
        """

    def remove(self, *keys: str) -> None:
        """Remove objects, those that exist; a request for each thousand."""


class Bucket(Objects, Protocol):
    """A bucket. Any thread may call it."""

    def size(self, key: str) -> int | None:
        """An object's bytes; None where there is none."""

    def upload(self, key: str, size: int, pieces: Iterable[bytes | memoryview]) -> None:
        """Make an object of pieces, which have ``size`` bytes: it exists completely or not at all.

        Up to `PART` it is one request, else one for each part and three more. Raises ObjectExists.
        """


_STORES: Final[dict[tuple[str, bytes], Bucket]] = {}
_LOCK: Final = Lock()
_CLOUD: Final = "cloud"
_USED_BY: Final[list[int]] = []
"""The process in which the library for clouds was first used, or whose child this one is."""


def bucket_of(url: ObjectUrl) -> Bucket:
    """The process's shared bucket of a URL, with the environment's current settings.

    Raises UsageError if the library for it is not installed; StorageError if the environment's
    settings are invalid, and in a process forked from one that used the library: its threads do not
    exist there, and it would wait for them for ever.
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


def _connect(url: ObjectUrl) -> Bucket:
    kind, name = ("fsspecs", "FsspecStore") if url.scheme == "memory" else (_CLOUD, "CloudStore")
    if kind == _CLOUD and not _USED_BY:
        _USED_BY.append(os.getpid())
    with importing("objects", f"{url.scheme}://"):
        module = import_module(_OURS + kind)
    return cast("Bucket", getattr(module, name)(url))


_SECRET: Final = re.compile(r"(SECRET|TOKEN|KEY|PASSWORD|SIGNATURE|SAS|CREDENTIAL)", re.IGNORECASE)
_QUERY: Final = re.compile(r"(://[^\s?]*)\?\S+")
_TAG: Final = re.compile(r"<[^<>]*>")
_USER: Final = re.compile(r"//[^/\s@]+@")
_SHORTEST: Final = 4
_LONGEST: Final = 300


def without_secrets(text: str) -> str:
    """One line of a store's text, without credentials: those of the environment, and queries."""
    line = " ".join(_TAG.sub(" ", text.partition("\n\nDebug source")[0]).split())
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and _SECRET.search(name):
            line = line.replace(value, "***")
    line = _USER.sub("//***@", _QUERY.sub(r"\1?***", line))
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
