"""Versions of an index's shards, which Spark's tasks make, and the manifest that names the newest.

A version is a folder of its own, and is never changed: a task links or downloads the files of the
one before it, and works on those. It becomes the shard's when the manifest names it.

In a folder that is ``index.json``, which is replaced in one step. In an object store manifests are
numbered, ``manifests/00000000000000000012.json``: each is created on the condition that it is not
there, and the highest counts. There a version has only the files that are new in it, and
``files.json`` says which version has each of the others.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import StorageError
from tailrace.search.manifest import FILE, Manifest
from tailrace.storage.objects.bucket import PART, Bucket, NoSuchObject, ObjectExists, bucket_of
from tailrace.storage.objects.url import ObjectUrl, names_object

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHARDS: Final = "shards"
_MANIFESTS: Final = "manifests"
_FILES: Final = "files.json"
_LOCK: Final = ".lock"


def local_index(index: str | Path) -> Path:
    """The folder of an index; for one in an object store that of a copy of its newest version, in
    this user's cache. Raises StorageError if there is none.
    """
    if not names_object(index):
        return Path(index)
    from tailrace.columns.native import own_cache  # noqa: PLC0415 - it needs Numba

    name = sha256(str(index).encode()).hexdigest()[:16]
    versions = ObjectVersions(own_cache("search") / name, ObjectUrl.parse(str(index)))
    with versions.alone(wait=True):
        while True:
            manifest = versions.load()
            if manifest is None:
                raise StorageError(
                    f"{index}: there is no index: tailrace index SOURCE --into {index}"
                )
            try:
                for shard in manifest.shards:
                    versions.bring(shard)
                break
            except NoSuchObject:
                if versions.load() == manifest:  # else they were replaced meanwhile
                    raise
        keep = set(manifest.shards)
        if (versions.folder / FILE).exists():
            keep |= set(Manifest.load(versions.folder).shards)
        manifest.save(versions.folder)
        Versions.clean(versions, keep)
    return versions.folder


def new_name(number: int) -> str:
    """A folder for a version of a shard, that no other has."""
    return f"{_SHARDS}/{number}-{token_hex(8)}"


@dataclass
class Versions:
    """Those of an index in a folder, which tasks and driver share."""

    folder: Path

    @contextmanager
    def alone(self, *, wait: bool = False) -> Iterator[None]:
        """While nobody else makes versions here. Raises StorageError if one does and ``wait`` is
        False.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / _LOCK).open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                raise StorageError(f"{self.folder}: another process writes to this index") from None
            yield

    def load(self) -> Manifest | None:
        """The newest manifest; None if there is none."""
        return Manifest.load(self.folder) if (self.folder / FILE).exists() else None

    def publish(self, manifest: Manifest) -> None:
        """Let readers see the versions that a manifest names. Raises StorageError."""
        manifest.save(self.folder)

    def bring(self, shard: str) -> Path:
        """The folder of a version, with its files."""
        return self.folder / shard

    def fork(self, base: str | None, new: str) -> Path:
        """A folder for the next version, with the files of the one before it (None: empty)."""
        folder = self.folder / new
        folder.mkdir(parents=True)
        for path in self.bring(base).iterdir() if base is not None else ():
            if path.name.startswith(".tantivy") or path.name == _FILES:  # locks
                continue
            try:
                os.link(path, folder / path.name)  # none is changed: those that change are replaced
            except OSError:
                shutil.copy2(path, folder / path.name)
        return folder

    def done(self, base: str | None, new: str) -> None:
        """A version has all of its files."""

    def clean(self, keep: set[str]) -> None:
        """Remove the versions that are not to be kept."""
        kept = {Path(each).name for each in keep}
        for path in (self.folder / _SHARDS).glob("*"):
            if path.name not in kept:
                shutil.rmtree(path, ignore_errors=True)


@dataclass
class ObjectVersions(Versions):
    """Those of an index in an object store. ``folder`` has copies of them."""

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

    def load(self) -> Manifest | None:
        names = sorted(self._bucket.list(self._key(_MANIFESTS)).objects)
        if not names:
            return None
        self._number = int(names[-1].partition(".")[0])
        return Manifest.loads(self._read(self._key(_MANIFESTS, names[-1])), str(self.url))

    def publish(self, manifest: Manifest) -> None:
        self._number += 1
        name = f"{self._number:020}.json"
        content = manifest.dumps().encode()
        try:
            self._bucket.put(self._key(_MANIFESTS, name), content, new=True)
        except ObjectExists:
            if bytes(self._read(self._key(_MANIFESTS, name))) != content:  # not an answer lost
                raise StorageError(f"{self.url}: another process writes to this index") from None

    def bring(self, shard: str) -> Path:
        folder = self.folder / shard
        if (folder / _FILES).exists():
            return folder
        part = self.folder / _SHARDS / f"part-{token_hex(8)}"
        part.mkdir(parents=True)
        files = self._files(shard)
        for name, version in files.items():
            with (part / name).open("wb") as out:
                for piece in self._pieces(self._key(version, name)):
                    out.write(piece)
        (part / _FILES).write_text(json.dumps(files), encoding="utf-8")
        with suppress(OSError):  # somebody else was quicker
            part.rename(folder)
        return folder

    def done(self, base: str | None, new: str) -> None:
        before: dict[str, str] = {} if base is None else self._files(base)
        files: dict[str, str] = {}
        for path in sorted((self.folder / new).iterdir()):
            if path.name.startswith(".tantivy"):
                continue
            same = base is not None and path.name in before
            if same and path.samefile(self.folder / str(base) / path.name):
                files[path.name] = before[path.name]
                continue
            files[path.name] = new
            with path.open("rb") as content:
                size = path.stat().st_size
                pieces = iter(lambda content=content: content.read(PART), b"")  # type: ignore[misc]
                self._bucket.upload(self._key(new, path.name), size, pieces)
        text = json.dumps(files)
        self._bucket.put(self._key(new, _FILES), text.encode())
        (self.folder / new / _FILES).write_text(text, encoding="utf-8")

    def clean(self, keep: set[str]) -> None:
        """Remove versions as of a folder; and manifests but for the last two."""
        super().clean(keep)
        used = {version for each in keep for version in self._files(each).values()} | keep
        kept = {each.partition("/")[2] for each in used}
        shards = self._bucket.list(self._key(_SHARDS)).folders
        for shard in shards:
            if shard in kept:
                continue
            folder = self._key(_SHARDS, shard)
            names = self._bucket.list(folder).objects
            if names:
                self._bucket.remove(*(f"{folder}/{name}" for name in names))
        manifests = sorted(self._bucket.list(self._key(_MANIFESTS)).objects)
        if old := manifests[:-2]:
            self._bucket.remove(*(self._key(_MANIFESTS, name) for name in old))

    def _files(self, shard: str) -> dict[str, str]:
        """The version that has each file of a shard's version."""
        try:
            text: str | bytes = (self.folder / shard / _FILES).read_bytes()
        except OSError:
            text = self._read(self._key(shard, _FILES))
        found: Any = json.loads(text)
        return {str(name): str(version) for name, version in found.items()}

    def _read(self, key: str) -> bytes:
        return b"".join(self._pieces(key))

    def _pieces(self, key: str) -> Iterator[memoryview]:
        offset, size = 0, 1
        while offset < size:
            piece, size = self._bucket.read(key, offset, PART)
            yield piece
            offset += len(piece)


def versions_of(into: str | Path, work: Path) -> Versions:
    """Those of an index; ``work`` is a folder for copies of an object store's."""
    if names_object(into):
        return ObjectVersions(work, ObjectUrl.parse(str(into)))
    return Versions(Path(into))
