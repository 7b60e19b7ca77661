"""Files of a lake that are to outlive a crash, in folders to which others may be able to write."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from tailrace.errors import StorageError
from tailrace.spark.manifest.paths import open_plain
from tailrace.storage.local import sync
from tailrace.storage.objects.bucket import Listing, NoSuchObject, ObjectExists

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import TextIO

_FEW: Final = 4
"""Fewer files are brought to disk sooner than threads are started."""


def write_file(path: Path, pieces: Iterable[str], *, new: bool = False) -> None:
    """Write a file in one step: whoever reads it meets all of it, or what was there before.

    It is on disk then; its name is when its folder is (`to_disk`). A link at its place is replaced,
    and not followed. No other process has a draft of its name. Raises OSError; with ``new`` also
    FileExistsError where there is a file of that name: the draft gets the name by a hard link,
    which unlike a rename replaces no file.
    """
    draft = path.with_name(f".{path.name[:200]}.{token_hex(8)}.tmp")
    try:
        with draft.open("x", encoding="utf-8") as file:
            _write(file, pieces)
        if new:
            path.hardlink_to(draft)
        else:
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def add_to_file(path: Path, text: str) -> None:
    """Add text to a file's end, on disk. Raises OSError, also where the file is a link."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    with open(os.open(path, flags, 0o666), "a", encoding="utf-8") as file:  # noqa: PTH123
        _write(file, [text])


def _write(file: TextIO, pieces: Iterable[str]) -> None:
    file.writelines(pieces)
    file.flush()
    os.fsync(file.fileno())


def to_disk(paths: Iterable[Path]) -> None:
    """Have the system write files and folders out; it does many at once faster than one by one."""
    wanted = list(paths)
    if len(wanted) < _FEW:
        for path in wanted:
            sync(path)
        return
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(sync, wanted))


@dataclass(frozen=True)
class LocalObjects:
    """A folder on disk, by the requests of an object store (`Objects`); keys are paths in it."""

    folder: Path

    def path(self, key: str) -> str:
        """The file's path."""
        return str(self.folder / key)

    def read(self, key: str, offset: int, count: int) -> tuple[memoryview, int]:
        """A piece of a file."""
        with self._storage_errors(key), open_plain(self.folder / key) as file:
            file.seek(offset)
            return memoryview(file.read(count)), os.fstat(file.fileno()).st_size

    def list(self, folder: str) -> Listing:
        """The files in a folder with their sizes, and its folders; empty if it does not exist."""
        found = Listing({}, [])
        with self._storage_errors(folder):
            try:
                entries = os.scandir(self.folder / folder)
            except FileNotFoundError:
                return found
            with entries as listed:
                for entry in listed:
                    if entry.is_dir():
                        found.folders.append(entry.name)
                        continue
                    with suppress(FileNotFoundError):  # a writer's draft, which is gone by now
                        found.objects[entry.name] = entry.stat(follow_symlinks=False).st_size
        return found

    def put(self, key: str, content: bytes, *, new: bool = False) -> None:
        """Write a file, with its folder; on disk, and its name too."""
        path = self.folder / key
        with self._storage_errors(key):
            if not path.parent.exists():
                path.parent.mkdir(parents=True)
                to_disk([path.parent.parent])
            write_file(path, [content.decode()], new=new)
            to_disk([path.parent])

    def remove(self, *keys: str) -> None:
        """Delete files, those that exist."""
        for key in keys:
            with self._storage_errors(key):
                (self.folder / key).unlink(missing_ok=True)

    @contextmanager
    def _storage_errors(self, key: str) -> Iterator[None]:
        try:
            yield
        except FileExistsError:
            raise ObjectExists(f"{self.path(key)}: File exists") from None
        except FileNotFoundError:
            raise NoSuchObject(f"{self.path(key)}: no such file") from None
        except OSError as error:
            raise StorageError(f"{self.path(key)}: {error.strerror or error}") from error
