"""Versions of folders, and a head that names the current ones: on disk, or in an object store.

A version is a folder of its own, and never changed: who makes one links or downloads the files of
the version before it, and replaces files in it. It counts when the head names it. The head is a
small file, replaced in one step, whose content is the caller's.

In an object store heads are numbered, ``index.json.00000000000000000012``: each is created on the
condition that it does not exist, and the highest counts. A version has only the files that are new
in it there, and ``files.json`` says which version has each of the others.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from tailrace.cache import own_cache
from tailrace.errors import StorageError
from tailrace.storage.local import LocalFolder
from tailrace.storage.objects.bucket import PART, Bucket, NoSuchObject, ObjectExists, bucket_of
from tailrace.storage.objects.url import ObjectUrl, names_object

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

_FILES: Final = "files.json"
_LOCK: Final = ".lock"
"""A file of that suffix is no part of a version."""


@dataclass
class Versions:
    """Those of a folder on disk. Their names are paths in it, such as ``shards/0-1f2e``, and are
    used once. ``name`` is the head's.
    """

    folder: Path
    name: str

    @contextmanager
    def alone(self, *, wait: bool = False) -> Iterator[None]:
        """While nobody else makes versions here. Raises StorageError if another process does and
        ``wait`` is False.
        """
        import fcntl  # noqa: PLC0415 - Windows has none, where indexes can be read

        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = (self.folder / _LOCK).open("a")
        except OSError as error:
            raise StorageError(f"{self.folder}: {error.strerror}") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                raise StorageError(f"{self.folder}: another process writes to it") from None
            yield

    def head(self) -> bytes | None:
        """The head; None if there is none. Raises StorageError."""
        path = self.folder / self.name
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{path}: {error.strerror}") from error

    def publish(self, head: str) -> None:
        """Replace the head. Raises StorageError if another process has."""
        self.folder.mkdir(parents=True, exist_ok=True)
        LocalFolder(self.folder).replace(self.name, head.encode())

    def bring(self, version: str) -> Path:
        """The folder of a version, with its files on this machine. Raises StorageError."""
        return self.folder / version

    def fork(self, base: str | None, new: str) -> Path:
        """A folder for a new version, with the files of another one (None: empty)."""
        folder = self.folder / new
        folder.mkdir(parents=True)
        for path in self.bring(base).iterdir() if base is not None else ():
            if path.suffix == _LOCK or path.name == _FILES:
                continue
            try:
                os.link(path, folder / path.name)
            except OSError:
                shutil.copy2(path, folder / path.name)
        return folder

    def done(self, base: str | None, new: str) -> None:
        """A new version, forked of ``base``, has all of its files."""

    def clean(self, keep: Collection[str]) -> None:
        """Remove the versions that are not kept, and what was left of unfinished ones."""
        kept = {self.folder / each for each in keep}
        for folder in {path.parent for path in kept}:
            for path in folder.glob("*"):
                if path not in kept:
                    shutil.rmtree(path, ignore_errors=True)


@dataclass
class ObjectVersions(Versions):
    """Those of a folder in an object store. ``folder`` is for copies of them. It pickles without
    credentials.
    """

    url: ObjectUrl
    _number: int = field(default=0, init=False)

    @property
    def _bucket(self) -> Bucket:
        return bucket_of(self.url)

    def _key(self, *parts: str) -> str:
        place = self.url
        for part in parts:
            place /= part
        return place.key

    def _heads(self) -> list[str]:
        names = self._bucket.list(self.url.key).objects
        return sorted(each for each in names if each.startswith(f"{self.name}."))

    def head(self) -> bytes | None:
        """As of a folder."""
        names = self._heads()
        if not names:
            return None
        self._number = int(names[-1].rpartition(".")[2])
        return self._read(self._key(names[-1]))

    def publish(self, head: str) -> None:
        """As of a folder."""
        self._number += 1
        key, content = self._key(f"{self.name}.{self._number:020}"), head.encode()
        try:
            self._bucket.put(key, content, new=True)
        except ObjectExists:
            if self._read(key) != content:  # else an answer was lost
                raise StorageError(f"{self.url}: another process writes to it") from None

    def bring(self, version: str) -> Path:
        """As of a folder."""
        folder = self.folder / version
        if (folder / _FILES).exists():
            return folder
        part = folder.with_name(f"part-{token_hex(8)}")
        part.mkdir(parents=True)
        files = self._files(version)
        for name, owner in files.items():
            with (part / name).open("wb") as out:
                out.writelines(self._pieces(self._key(owner, name)))
        (part / _FILES).write_text(json.dumps(files), encoding="utf-8")
        with suppress(OSError):  # another process was quicker
            part.rename(folder)
        return folder

    def done(self, base: str | None, new: str) -> None:
        """As of a folder: it is uploaded."""
        before: dict[str, str] = {} if base is None else self._files(base)
        files: dict[str, str] = {}
        for path in sorted((self.folder / new).iterdir()):
            if path.suffix == _LOCK:
                continue
            old = before.get(path.name)
            if old is not None and path.samefile(self.folder / str(base) / path.name):
                files[path.name] = old
                continue
            files[path.name] = new
            with path.open("rb") as content:
                pieces = iter(lambda content=content: content.read(PART), b"")  # type: ignore[misc]
                self._bucket.upload(self._key(new, path.name), path.stat().st_size, pieces)
        text = json.dumps(files)
        self._bucket.put(self._key(new, _FILES), text.encode())
        (self.folder / new / _FILES).write_text(text, encoding="utf-8")

    def clean(self, keep: Collection[str]) -> None:
        """As of a folder; and heads but for the last two."""
        self.clean_copies(keep)
        kept = {*keep, *(owner for each in keep for owner in self._files(each).values())}
        for folder in {each.rpartition("/")[0] for each in keep}:
            for name in self._bucket.list(self._key(folder)).folders:
                version = f"{folder}/{name}"
                if version not in kept:
                    self._remove(self._bucket.list(self._key(version)).objects, version)
        self._remove(self._heads()[:-2])

    def _remove(self, names: Collection[str], *folder: str) -> None:
        if names:
            self._bucket.remove(*(self._key(*folder, each) for each in names))

    def clean_copies(self, keep: Collection[str]) -> None:
        """Remove the copies of versions that are not kept."""
        super().clean(keep)

    def _files(self, version: str) -> dict[str, str]:
        """The version that has each file of a version."""
        try:
            text = (self.folder / version / _FILES).read_bytes()
        except OSError:
            text = self._read(self._key(version, _FILES))
        found: Any = json.loads(text)
        return {str(name): str(owner) for name, owner in found.items()}

    def _read(self, key: str) -> bytes:
        return b"".join(self._pieces(key))

    def _pieces(self, key: str) -> Iterator[memoryview]:
        offset, size = 0, 1
        while offset < size:
            piece, size = self._bucket.read(key, offset, PART)
            yield piece
            offset += len(piece)


def versions_of(place: str | Path, name: str, copies: Path) -> Versions:
    """Those of a folder, or of an object store's URL: then ``copies`` is a folder on this machine
    for copies of versions.
    """
    if names_object(place):
        return ObjectVersions(copies, name, ObjectUrl.parse(str(place)))
    return Versions(Path(place), name)


def local_copy(
    place: str | Path, name: str, versions_in: Callable[[bytes], Collection[str]]
) -> Path:
    """The folder; of a URL that of a copy in this user's cache, brought up to date.

    ``versions_in`` gives the versions that a head names. The copy has those of the head before,
    too, which readers may have open. Raises StorageError, also where there is no head.
    """
    if not names_object(place):
        return Path(place)
    copies = own_cache("versions") / sha256(f"{place}/{name}".encode()).hexdigest()[:16]
    versions = ObjectVersions(copies, name, ObjectUrl.parse(str(place)))
    copy = Versions(copies, name)
    with copy.alone(wait=True):
        before = copy.head()
        while (head := versions.head()) != before or head is None:
            if head is None:
                raise StorageError(f"{place}: there is no {name}")
            named = versions_in(head)
            try:
                for each in named:
                    versions.bring(each)
            except NoSuchObject:
                if versions.head() == head:
                    raise
                continue  # it was replaced meanwhile
            copy.publish(head.decode())
            versions.clean_copies({*named, *(versions_in(before) if before else ())})
            break
    return copies
