"""Stores by fsspec: its file system in memory, ``memory://``, which the whole process shares."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import fsspec  # type: ignore[import-untyped]

from tailrace.errors import StorageError
from tailrace.storage.objects.bucket import (
    Listing,
    NoSuchObject,
    ObjectExists,
    without_secrets,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.storage.objects.url import ObjectUrl

_LOCK: Final = Lock()
"""fsspec's file system in memory has no conditional request, and fails to list files that another
thread removes meanwhile; only this process uses it.
"""


class FsspecStore:
    """The top folder of a URL, in fsspec's file system of its scheme."""

    def __init__(self, url: ObjectUrl) -> None:
        self._url = url
        self._files: Any = fsspec.filesystem(url.scheme)

    def path(self, key: str) -> str:
        """An object's URL."""
        return f"{self._url.root}/{key}".rstrip("/")

    def size(self, key: str) -> int | None:
        """A file's bytes; None where there is none."""
        with self._told(key):
            path = self._path(key)
            return int(self._files.size(path)) if self._files.isfile(path) else None

    def read(self, key: str, offset: int, count: int) -> tuple[memoryview, int]:
        """A piece of a file."""
        with self._told(key):
            path = self._path(key)
            size = int(self._files.size(path))
            data = self._files.cat_file(path, start=offset, end=offset + count)
            return memoryview(data), size

    def list(self, folder: str) -> Listing:
        """The contents of a folder; empty if it does not exist."""
        with self._told(folder):
            try:
                entries = self._files.ls(self._path(folder), detail=True, refresh=True)
            except FileNotFoundError:
                entries = []
        objects, folders = {}, []
        for entry in entries:
            name = str(entry["name"]).rstrip("/").rpartition("/")[2]
            if entry["type"] == "directory":
                folders.append(name)
            else:
                objects[name] = int(entry["size"])
        return Listing(objects, folders)

    def put(self, key: str, content: bytes, *, new: bool = False) -> None:
        """Write a file."""
        with self._told(key):
            if new and self._files.isfile(self._path(key)):
                raise FileExistsError
            self._files.pipe_file(self._path(key), content)

    def upload(self, key: str, size: int, pieces: Iterable[bytes | memoryview]) -> None:  # noqa: ARG002 - it needs no choice
        """Write a file, when all its pieces are there: it is in memory in any case."""
        self.put(key, b"".join(pieces), new=True)

    def remove(self, *keys: str) -> None:
        """Delete files, those that exist."""
        for key in keys:
            with self._told(key):
                path = self._path(key)
                if self._files.isfile(path):
                    self._files.rm_file(path)

    def _path(self, key: str) -> str:
        return f"/{self._url.bucket}/{key}".rstrip("/")

    @contextmanager
    def _told(self, key: str) -> Iterator[None]:
        """One request at a time; raise a file system's errors as StorageError."""
        place = self.path(key)
        kind = StorageError
        try:
            with _LOCK:
                yield
        except FileExistsError:
            kind, message = ObjectExists, f"{place}: File exists"
        except FileNotFoundError:
            kind, message = NoSuchObject, f"{place}: no such object"
        except (OSError, ValueError) as error:
            message = f"{place}: {without_secrets(str(error))}"
        else:
            return
        raise kind(message) from None
