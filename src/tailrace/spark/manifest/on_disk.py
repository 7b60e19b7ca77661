"""A lake's folder on disk, to which others may be able to write: where its paths lead, and files
that are to outlive a crash.
"""

from __future__ import annotations

import os
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from tailrace.errors import PipelineError, StorageError, UsageError
from tailrace.storage.file import local_path
from tailrace.storage.local import sync
from tailrace.storage.objects.bucket import Listing, NoSuchObject, ObjectExists

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import BinaryIO, TextIO

OWN_CATALOG: Final = "catalog.db"
"""The file of an Iceberg lake's own catalogue, in SQLite."""
_VERSION: Final = re.compile("versions/([0-9]{6,18})")
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""A URL's begin; made a path it has one slash left."""
_FEW: Final = 4
"""Fewer files are brought to disk sooner than threads are started."""


def lake_path(lake: str | Path) -> Path:
    """The folder that a caller names as a lake: a path, or a ``file:`` URL.

    Raises UsageError for a URL of anything else, which as a path would be a folder ``s3:``.
    """
    text = str(lake)
    match = _URL.match(text)
    try:
        if match is None or match[1].lower() == "file":
            return local_path(text)
    except StorageError as error:
        raise UsageError(str(error)) from error
    raise UsageError(
        f"{text}: a lake is a folder that driver and tasks share as a file system, and cannot be "
        f"in {match[1]}: yet: give a folder's path"
    )


def committed(inner: Path) -> int:
    """The committed version of a Parquet lake, to which ``now`` leads; 0 without that link.

    Raises OSError, and `PipelineError` where it leads elsewhere.
    """
    now = inner / "now"
    if not now.is_symlink():
        return 0
    target = now.readlink()
    if (found := _VERSION.fullmatch(str(target))) is None:
        raise PipelineError(f"{now} leads to {target}, which is no version of the lake")
    within(inner, inner / target)
    return int(found[1])


def within(top: Path, path: Path) -> Path:
    """The path, if it leads below ``top``, links followed; raises `PipelineError` if not.

    Whoever may write to a lake's folder could have others write or remove files elsewhere by links.
    """
    place, (head, below, rest) = str(top), str(path).partition(f"{top}/")
    if (
        below
        and not head
        and not any(
            part == ".." or os.path.islink(place := f"{place}/{part}")  # noqa: PTH114 - is quicker
            for part in rest.split("/")
        )
    ):
        return path  # to resolve both takes longer
    try:
        inside = path.resolve().is_relative_to(top.resolve())
    except (OSError, RuntimeError, ValueError) as error:
        raise PipelineError(f"{path} leads nowhere: {error}") from error
    if not inside:
        raise PipelineError(
            f"{path} leads to {path.resolve()}, outside of {top}: put the folder itself there, or "
            "create a new lake"
        )
    return path


def open_plain(path: Path) -> BinaryIO:
    """A file to read; raises OSError, and `PipelineError` for a pipe or a device: it never ends."""
    file = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")  # noqa: PTH123, SIM115 - returned
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise PipelineError(f"{path} is no file")
    return file


def read_plain(path: Path, most: int) -> bytes:
    """A file's content; raises as `open_plain`, and `PipelineError` if it is larger."""
    with open_plain(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise PipelineError(f"{path} is larger than {most >> 20} MiB, and so none of Tailrace's")
    return content


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
        found, path = Listing({}, []), self.folder / folder
        with self._storage_errors(folder), suppress(FileNotFoundError), os.scandir(path) as entries:
            for entry in entries:
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
